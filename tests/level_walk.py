"""Layer, op and phase of every CPU kernel by a plain recursive walk: the oracle of the linker.

It follows the published rules one operator at a time: nearest module in the forward, the
number shared with the forward in the backward, the node before for gradient accumulation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from json_walk import OPS, category, computing_aten, ns

from chopper_jupyter.core.annotations import module_range, strip_wrappers

MODULE = "CHM::"
ENGINE = "autograd::engine::evaluate_function"
CLASSES = {"embed": "Embedding", "attn": "Attention", "mlp": "MLP", "norm": "RMSNorm"}


class Truth(NamedTuple):
    phase: str | None
    layer: str | None
    op: str | None
    recompute: bool


class Node:
    def __init__(self, event: dict[str, Any], parent: Node | None):
        self.event, self.parent, self.children = event, parent, []
        self.name = str(event["name"])
        self.start, self.end = ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])
        args = event.get("args") or {}
        self.seq, self.thread = args.get("Sequence number"), args.get("Fwd thread id")

    def above(self):
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def below(self):
        for child in self.children:
            yield child
            yield from child.below()


def with_our_names(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rename the module ranges of an experiment to those that a recording of ours has."""
    for row in rows:
        name = str(row.get("name", ""))
        if name.startswith(MODULE):
            path = strip_wrappers(name.removeprefix(MODULE).replace("<root>", ""))
            row["name"] = module_range("Llama", path, _class(path, name))
    return rows


def _class(path: str, name: str) -> str:
    last = path.rpartition(".")[2]
    if name.endswith(("_fsdp_wrapped_module", "CHM::module")):
        return "Inner"
    if last.isdecimal():
        return "Block"
    return CLASSES.get(last.removeprefix("attn_").removeprefix("mlp_"), "Linear")


def walk(rows: list[dict[str, Any]]) -> dict[tuple[int, int], Truth | None]:
    """(start, length) of every CPU kernel and its truth; None where communication runs."""
    threads: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        if category(row) in {*OPS, "user_annotation"} and "dur" in row:
            threads.setdefault(row["tid"], []).append(row)
    nodes = [node for events in threads.values() for node in _forest(events)]
    forward = _forward_by_number(nodes)
    engines = [node for node in nodes if node.name.startswith(ENGINE)]
    of_engine = _gradients(engines, forward)
    kernels = set(computing_aten(rows))
    found = {}
    for node in nodes:
        key = (node.start, node.end - node.start)
        if node.name.startswith("aten::") and key in kernels and key not in found:
            found[key] = _truth(node, forward, of_engine)
    return found


def _forest(events: list[dict[str, Any]]) -> list[Node]:
    nodes: list[Node] = []
    stack: list[Node] = []
    for event in sorted(events, key=lambda e: (ns(e["ts"]), -ns(e["dur"]))):
        while stack and stack[-1].end <= ns(event["ts"]):
            stack.pop()
        node = Node(event, stack[-1] if stack else None)
        if node.parent is not None:
            node.parent.children.append(node)
        nodes.append(node)
        stack.append(node)
    return nodes


def _forward_by_number(nodes: list[Node]) -> dict[int, list[Node]]:
    found: dict[int, list[Node]] = {}
    for node in sorted(nodes, key=lambda n: n.start):
        if node.seq is not None and not node.thread:
            found.setdefault(node.seq, []).append(node)
    return found


def _partner(node: Node, forward: dict[int, list[Node]]) -> Node | None:
    before = [n for n in forward.get(node.seq, []) if n.start <= node.start]
    return before[-1] if before else None


def _gradients(engines: list[Node], forward: dict[int, list[Node]]) -> dict[Node, Node | None]:
    """Forward operator of each engine call; accumulation takes that of the call before."""
    found: dict[Node, Node | None] = {}
    last: Node | None = None
    for engine in sorted(engines, key=lambda n: n.start):
        if "AccumulateGrad" in engine.name:
            found[engine] = found.get(last) if last is not None else None
            continue
        numbered = [n for n in engine.below() if n.thread]
        found[engine] = _partner(numbered[0], forward) if numbered else None
        last = engine
    return found


def _truth(leaf: Node, forward, of_engine) -> Truth | None:
    chain = list(leaf.above())
    if any(_communicates(node.name) for node in _up_to_engine(chain)):
        return None
    if any(n.name.startswith("Optimizer.") for n in chain):
        return Truth("optimizer", None, None, recompute=False)
    engine = next((n for n in chain if n.name.startswith(ENGINE)), None)
    inside = list(_up_to_engine(chain))
    if engine is None or any(n.name.startswith(MODULE) for n in inside):
        layer, op = _names(leaf)
        phase = "backward" if engine is not None else "forward" if layer or op else None
        return Truth(phase, layer, op, recompute=engine is not None)
    node = next((n for n in inside if n.thread), None)
    partner = _partner(node, forward) if node is not None else of_engine[engine]
    if partner is None:
        return Truth("backward", None, None, recompute=False)
    return Truth("backward", *_names(partner), recompute=False)


def _up_to_engine(chain: list[Node]):
    for node in chain:
        if node.name.startswith(ENGINE):
            return
        yield node


def _names(node: Node) -> tuple[str | None, str | None]:
    """Layer and op of something that ran in a forward (or in a recomputed one)."""
    top, module = None, None
    for up in node.above():
        if up.name.startswith(MODULE):
            module = up
            break
        if up.name.startswith("aten::"):
            top = up.name
    if module is None:
        return None, None
    path = strip_wrappers(module.name.removeprefix(MODULE).replace("<root>", ""))
    parts = path.split(".") if path else []
    if not parts:
        return None, top
    depth = 2 if parts[0] == "layers" else 1
    layer, inside = ".".join(parts[:depth]), ".".join(parts[depth:])
    leaf = not any(n.name.startswith(MODULE) for n in module.below())
    if leaf:
        return layer, inside or path
    return layer, top


def _communicates(name: str) -> bool:
    starts = ("FSDP::", "fsdp::", "FullyShardedDataParallel._", "c10d::", "torch.distributed.ddp")
    return name.startswith(starts)
