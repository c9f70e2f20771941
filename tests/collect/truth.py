"""Training with the truth written into the recording, and taken out again before it is read.

Each piece of work runs inside a range ``truth::<iteration>|<phase>|<layer>|<op>``. In the
forward the test opens it around leaf modules and direct operations, from the table of what is
expected. In the backward, hooks before and after every autograd node open it, by the identity of
the node: sequence numbers and flows, which the reader goes by, play no part.
"""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import models
import torch
from json_walk import ns
from torch.autograd.profiler import record_function

from chopper_jupyter import profile
from chopper_jupyter.core.run_folder import rank_file

PREFIX = "truth::"
BACKWARD = "backward"


class Place(NamedTuple):
    iteration: int | None
    phase: str | None
    layer: str | None
    op: str | None


class Row(NamedTuple):
    """A truth range: a place, or None for the backward as a whole."""

    start: int
    end: int
    place: Place | None


class Teller:
    """Opens truth ranges while a model is trained; the loop sets ``iteration``."""

    def __init__(self, model, *, sharded=False):
        self.model = model
        self.sharded = sharded  # parameters are made anew: claim what accumulates as it is met
        self.kept = []  # Python objects of autograd nodes, whose identity is the truth
        self.known = set()
        self.iteration = None
        self._layer = None

    @contextmanager
    def installed(self):
        accumulation = nullcontext() if self.sharded else self._accumulation()
        with models.listening(self._direct), self._leaves(), accumulation:
            yield

    def forget(self):
        self.kept.clear()
        self.known.clear()

    def tell(self, place, call, inputs):
        """Run a piece of forward work, or its recomputation, and claim the nodes it makes."""
        if torch._C._current_graph_task_id() != -1:
            place = ("backward", *place[1:])
        with self.range(*place):
            out = call()
        if torch.is_grad_enabled():
            self._claim(out if isinstance(out, tuple | list) else (out,), inputs, place)
        return out

    def loss(self, logits, targets):
        """Compute the loss, run its backward, and return it."""
        loss = self.tell(
            ("forward", None, "loss"), lambda: models.cross_entropy(logits, targets), (logits,)
        )
        with record_function(PREFIX + BACKWARD):
            loss.backward()
        return loss

    def _direct(self, name, call, inputs):
        return self.tell(("forward", self._layer, name), call, inputs)

    @contextmanager
    def _leaves(self):
        """Wrap the forward of leaf modules; containers say which layer direct work is in."""
        wrapped = []
        for path, module in self.model.named_modules():
            forward = module.forward
            if path and not list(module.children()):
                module.forward = self._leaf(path, module, forward)
            elif path.startswith("layers.") and path.count(".") == 1:
                module.forward = self._block(path, forward)
            else:
                continue
            wrapped.append(module)
        try:
            yield
        finally:
            for module in wrapped:
                del module.forward

    def _leaf(self, path, module, forward):
        place = ("forward", *_expected(path))

        def run(x):
            # Where parameters are views of something sharded, the view is the sharding's work.
            views = [p for p in vars(module).values() if isinstance(p, torch.Tensor)]
            return self.tell(place, lambda: forward(x), (x, *views))

        return run

    def _block(self, path, forward):
        def run(*inputs):
            self._layer = path
            try:
                return forward(*inputs)
            finally:
                self._layer = None

        return run

    @contextmanager
    def _accumulation(self):
        """Claim the AccumulateGrad node of every parameter for its module."""
        handles = []
        for path, parameter in self.model.named_parameters():
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
            handles += self._hook(node, _expected(path.rpartition(".")[0]))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _claim(self, outputs, inputs, place):
        before = [t.grad_fn for t in inputs if isinstance(t, torch.Tensor) and t.grad_fn]
        self.kept += before
        stop = {id(node) for node in before}
        todo = [t.grad_fn for t in outputs if isinstance(t, torch.Tensor) and t.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or id(node) in stop or id(node) in self.known:
                continue
            self.known.add(id(node))
            self.kept.append(node)
            if "AccumulateGrad" in node.name() and not self.sharded:
                continue
            self._hook(node, place[1:])
            todo += [following for following, _ in node.next_functions]

    def _hook(self, node, place):
        opened = []

        def before(_gradients):
            opened.append(self.range("backward", *place))
            opened[-1].__enter__()

        def after(*_gradients):
            opened.pop().__exit__(None, None, None)

        return [node.register_prehook(before), node.register_hook(after)]

    def range(self, phase, layer, op):
        """Return a range that says where the work inside it belongs."""
        parts = (str(self.iteration), phase, layer or "", op or "")
        return record_function(PREFIX + "|".join(parts))


def _expected(path):
    """Return layer and op of a leaf module."""
    parts = path.split(".")
    if parts[0] == "layers":
        return ".".join(parts[:2]), ".".join(parts[2:])
    return path, path


def train(
    folder, *, iterations=3, layers=4, recompute=None, micro_batches=1, zero_first=False,
    keep_gradients=False,
):  # fmt: skip
    """Record a few iterations of a small Llama with its truth.

    Returns the truth rows, taken out of the rank file.
    """
    torch.manual_seed(0)
    model = models.Llama(layers=layers, length=8, recompute=recompute)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens, targets = models.batch(rows=1, length=8)
    teller = Teller(model)

    def zero_grad():
        with teller.range("optimizer", None, "zero_grad"):
            adam.zero_grad(set_to_none=not keep_gradients)

    def micro_batch():
        teller.loss(model(tokens), targets)

    with teller.installed(), profile(folder, warmup=1, iterations=iterations - 1):
        for number in range(iterations):
            teller.iteration = number
            if zero_first:
                zero_grad()
            for _ in range(micro_batches):
                micro_batch()
            with teller.range("optimizer", None, "clip"):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            with teller.range("optimizer", None, "optimizer_step"):
                adam.step()
            if not zero_first:
                zero_grad()
            teller.forget()
    return take_out(rank_file(folder, 0))


COMMUNICATION = ("FSDP::", "fsdp::", "FullyShardedDataParallel._", "c10d::", "torch.distributed.")
SHARDING = Place(None, None, None, "communication")
"""Where work belongs that sharding or its collectives do inside somebody's forward or backward."""


def take_out(path):
    """Take the truth out of a rank file; what is left knows nothing of it.

    Returns the rows, those of sharding and its collectives among them.
    """
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    rows, kept = [], []
    for event in document["traceEvents"]:
        name = str(event.get("name", ""))
        told = name.startswith(PREFIX)
        if event["ph"] == "X" and (told or name.startswith(COMMUNICATION)):
            start = document["baseTimeNanoseconds"] + ns(event["ts"])
            place = _place(name.removeprefix(PREFIX)) if told else SHARDING
            rows.append(Row(start, start + ns(event["dur"]), place))
        if not told:
            kept.append(event)
    document["traceEvents"] = kept
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return rows


def _place(name):
    if name == BACKWARD:
        return None
    iteration, *rest = name.split("|")
    return Place(int(iteration), *(part or None for part in rest))
