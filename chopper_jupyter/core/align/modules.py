"""From module calls to layers and operations: which path, which layer, which name inside it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align.nesting import POSITION
from chopper_jupyter.core.annotations import ModuleRange, parse_module_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chopper_jupyter.core.align.nesting import Ints, Mask, Nesting

STACK_ROW = "nn.Module: "
REPEATED = 2
"""A container with this many numbered children of one class is a stack of layers."""


@dataclass(frozen=True)
class Modules:
    """What is known of each module call.

    Parameters
    ----------
    is_module : bool array
        Positions that are module calls.
    call : int array
        Index into ``calls`` by position, -1 where it is no module call.
    calls : list of ModuleRange
        Distinct modules: root, path, class.
    layer, op : list of str or None
        Layer and operation name of each distinct module; op is its path inside its layer.
    leaf : bool array
        Distinct modules that never called another module.
    """

    is_module: Mask
    call: Ints
    calls: list[ModuleRange]
    layer: list[str | None]
    op: list[str | None]
    leaf: Mask


def find(forest: Nesting, names: Ints, words: list[str], stack_rows: Mask) -> Modules:
    """Find the module calls among the host ranges: annotated ones, else a recorded stack's.

    Parameters
    ----------
    forest : Nesting
        Host ranges.
    names, words : int array, list of str
        Name of each position as a code into ``words``.
    stack_rows : bool array
        Positions that are ``nn.Module`` rows of a Python stack.
    """
    parsed = [parse_module_range(word) for word in words]
    annotated = np.array([p is not None for p in parsed], bool)
    is_module = annotated[names] if len(names) else np.zeros(0, bool)
    if is_module.any():
        distinct = list(dict.fromkeys(p for p in parsed if p is not None))
        index = {module: i for i, module in enumerate(distinct)}
        by_word = np.array([-1 if p is None else index[p] for p in parsed], POSITION)
        call = by_word[names]
    else:
        is_module = stack_rows
        call, distinct = _from_stack(forest, names, words, stack_rows)
    leaf = np.ones(len(distinct), bool)
    leaf[call[is_module & forest.any_below(is_module)]] = False
    named = _layers(distinct, leaf)
    return Modules(
        is_module, call, distinct, [layer for layer, _ in named], [op for _, op in named], leaf
    )


def _from_stack(
    forest: Nesting, names: Ints, words: list[str], rows: Mask
) -> tuple[Ints, list[ModuleRange]]:
    """Make paths from stack rows, which say only ``Class_<n>``: the n-th instance of a class.

    Children are numbered among the instances of their class below the same parent, so that
    the same place in every layer gets the same name: ``DecoderLayer.3.Attention.Linear.0``.
    """
    above = forest.nearest(rows)
    call = np.full(len(names), -1, POSITION)
    instances: dict[tuple[int, str], int] = {}
    children: dict[tuple[int, str], list[int]] = defaultdict(list)
    info: list[tuple[int, str, int]] = []
    for position in np.flatnonzero(rows).tolist():
        label = words[names[position]].removeprefix(STACK_ROW)
        up = forest.parent[position]
        parent = int(call[above[up]]) if up >= 0 and above[up] >= 0 else -1
        key = (parent, label)
        if key not in instances:
            cls = label.rpartition("_")[0] or label
            siblings = children[parent, cls]
            instances[key] = len(info)
            info.append((parent, cls, len(siblings)))
            siblings.append(len(info) - 1)
        call[position] = instances[key]
    calls: list[ModuleRange] = []
    for parent, cls, number in info:
        if parent < 0:
            calls.append(ModuleRange(cls, "", cls))
            continue
        part = f"{cls}.{number}" if len(children[parent, cls]) > 1 else cls
        path = f"{calls[parent].path}.{part}".removeprefix(".")
        calls.append(ModuleRange(calls[parent].root, path, cls))
    return call, calls


def _layers(calls: list[ModuleRange], leaf: Mask) -> list[tuple[str | None, str | None]]:
    """Give each distinct module its layer and its name inside that layer."""
    stacks = {root: stack_containers(c for c in calls if c.root == root) for root in
              {c.root for c in calls}}  # fmt: skip
    models = {c.root for c in calls if c.path}
    many = len(models) > 1
    result: list[tuple[str | None, str | None]] = []
    for module, is_leaf in zip(calls, leaf.tolist(), strict=True):
        layer = layer_of(module.path, stacks[module.root])
        if not module.path:
            result.append((None, _root_op(module) if is_leaf else None))
            continue
        inside = module.path[len(layer or "") :].lstrip(".") if layer else module.path
        shown = f"{module.root}.{layer}" if many and layer else layer
        result.append((shown, inside or module.path.rpartition(".")[2]))
    return result


def _root_op(module: ModuleRange) -> str:
    """Name a module that was called by itself: loss functions are ``loss``."""
    return "loss" if module.cls.endswith("Loss") else module.cls


def stack_containers(calls: Iterable[ModuleRange]) -> set[str]:
    """Return the paths of containers with at least two numbered children of one class.

    Lists are never called: numbered parts of a path that are no call themselves are lists, all
    of one class.

    Examples
    --------
    >>> from chopper_jupyter.core.annotations import ModuleRange
    >>> blocks = [ModuleRange("M", f"layers.{i}", "Block") for i in range(2)]
    >>> stack_containers([*blocks, ModuleRange("M", "head.0", "Linear")])
    {'layers'}
    >>> stack_containers([ModuleRange("M", f"stages.{i}.0", "Block") for i in range(2)])
    {'stages'}
    """
    named = {(module.path, module.cls) for module in calls}
    paths = {path for path, _ in named}
    lists = {above for path in paths for above in _above(path)} - paths
    numbers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path, cls in named | {(path, LIST) for path in lists}:
        container, _, last = path.rpartition(".")
        if last.isdecimal():
            numbers[container, cls].add(last)
    return {path for (path, _), found in numbers.items() if len(found) >= REPEATED}


LIST = ""
"""In place of the class of a container that is never called."""


def _above(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]


def layer_of(path: str, stacks: set[str]) -> str | None:
    """Return the layer of a module path: its outermost numbered block, else its top module.

    A module that only holds the stack (``model`` of ``model.layers``) is no layer itself.

    Examples
    --------
    >>> stacks = {"model.layers"}
    >>> layer_of("model.layers.3.mlp.up_proj", stacks), layer_of("model.norm", stacks)
    ('model.layers.3', 'model.norm')
    >>> layer_of("lm_head", stacks), layer_of("model", stacks)
    ('lm_head', None)
    """
    parts = path.split(".") if path else []
    for depth in range(len(parts)):
        here = ".".join(parts[: depth + 1])
        if ".".join(parts[:depth]) in stacks and parts[depth].isdecimal():
            return here
        holds = here in stacks or any(stack.startswith(here + ".") for stack in stacks)
        if not holds:
            return here
    return None
