"""Gives every host range its iteration, phase, layer, op and module, once.

The rules are a table: see ``docs`` of each function. Inside a module the module names the
work; in the backward its forward does; communication names itself; the rest is placed in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.align import (
    autograd,
    handover,
    iterations,
    modules,
    outside,
    scaler,
    scopes,
)
from chopper_jupyter.core.align.distinct import renumber
from chopper_jupyter.core.align.host import Host, pick
from chopper_jupyter.core.align.nesting import POSITION
from chopper_jupyter.core.annotations import ModuleRange, parse_iteration_mark
from chopper_jupyter.core.names import collective_of

if TYPE_CHECKING:
    import pyarrow as pa

    from chopper_jupyter.core.align.nesting import Ints, Mask

FORWARD, BACKWARD, OPTIMIZER = 0, 1, 2
"""Codes into ``schema.PHASES``."""

SEED = "aten::ones_like"
"""The operator with which ``loss.backward()`` starts, before the engine does."""


class Words:
    """Numbers for names, in order of first use."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def code(self, word: str | None) -> int:
        """Return the number of a name, -1 for None."""
        return -1 if word is None else self.codes.setdefault(word, len(self.codes))

    def of(self, words: list[str | None]) -> Ints:
        """Return the numbers of several names."""
        return np.array([self.code(word) for word in words], POSITION)

    @property
    def list(self) -> list[str]:
        """All names, by number."""
        return list(self.codes)


@dataclass(frozen=True)
class Levels:
    """Levels of every host range by position; codes are -1 where unknown.

    Parameters
    ----------
    iteration, phase, layer, op, module, micro_batch : int arrays
        ``phase`` is a code into ``schema.PHASES``, the next three into the lists below.
    recompute : bool array
        True for work that activation checkpointing runs again.
    communication : bool array
        True inside communication ranges.
    layers, ops, paths : list of str
        Names by code.
    partner : int array
        For the ranges that are autograd nodes: their forward range; -1 otherwise.
    ambiguous : int
        Autograd nodes left without a forward, because several threads may have run it.
    """

    iteration: Ints
    phase: Ints
    layer: Ints
    op: Ints
    module: Ints
    micro_batch: Ints
    recompute: Mask
    communication: Mask
    layers: list[str]
    ops: list[str]
    paths: list[str]
    partner: Ints
    ambiguous: int
    found: modules.Modules
    cuts: iterations.Iterations


@dataclass
class _Work:
    """Intermediate results that several rules share."""

    host: Host
    found: modules.Modules
    grad: autograd.Autograd
    module: Ints  # nearest module call
    optimizer: Ints  # nearest optimizer call
    user: Ints  # nearest user range that may name an operation
    top: Ints  # outermost operator below the nearest scope
    unscales: Mask  # what a GradScaler runs before a step
    updates: Mask  # and after it
    layers: Words
    ops: Words


def assign(host: Host, flows: pa.Table) -> Levels:
    """Assign all levels to the host ranges of one rank.

    Parameters
    ----------
    host : Host
        The ranges.
    flows : pyarrow.Table
        Forward-backward arrows.
    """
    work = _prepare(host, flows)
    phase = _phase(work)
    layer, op, path = _as_forward(work)
    placed = _place(work)
    _outside(work, phase, op, placed)
    _carry_from_forward(work, (layer, op, path))
    _optimizer(work, phase, op)
    communication = _communication(work, layer, op)
    cuts = _iterations(work)
    iteration = cuts.at(host.forest.start)
    micro = _micro_batch(iteration, placed.micro_batch, phase)
    call = handover.calls(host)
    served = np.flatnonzero(call >= 0)
    for values in (phase, layer, op, path, iteration, micro):
        values[served] = values[call[served]]
    communication[served] = True
    paths = [call.path for call in work.found.calls]
    return Levels(
        iteration, phase, layer, op, path, micro, work.grad.recompute, communication,
        work.layers.list, work.ops.list, paths, work.grad.partner, work.grad.ambiguous,
        work.found, cuts,
    )  # fmt: skip


def _prepare(host: Host, flows: pa.Table) -> _Work:
    forest = host.forest
    found = modules.find(forest, host.names, host.words, host.is_stack)
    module = forest.nearest(found.is_module)
    numbers = autograd.Numbers(host.ints("seq"), host.ints("fwd_thread"), host.names, host.words)
    grad = autograd.match(forest, numbers, module, flows)
    is_optimizer = host.is_annotation & host.named(scopes.is_optimizer)
    names_op = host.is_annotation & host.named(scopes.names_an_operation)
    if found.is_module.any():
        names_op &= ~forest.any_below(found.is_module)
    else:
        names_op[:] = False  # without modules a user range may be anything, a whole step even
    is_engine = host.named(lambda word: word.startswith(autograd.ENGINE))
    scope = found.is_module | is_engine | is_optimizer
    top = forest.outermost_below(scope, host.is_op & ~is_engine)
    unscales, updates = (
        scaler.part(operator, forest, host.names, host.words, top, is_optimizer)
        for operator in (scaler.UNSCALE, scaler.UPDATE)
    )
    return _Work(
        host, found, grad, module, forest.nearest(is_optimizer), forest.nearest(names_op), top,
        unscales, updates, Words(), Words(),
    )  # fmt: skip


def _phase(work: _Work) -> Ints:
    """Innermost of module, engine and optimizer decides; what is in none of them stays -1."""
    grad, inside = work.grad, np.maximum(work.grad.engine, work.grad.node)
    phase = np.full(len(work.module), -1, np.int8)
    wrapped = work.host.forest.nearest(work.host.named(scopes.is_forward))
    phase[(work.module >= 0) | (wrapped >= 0)] = FORWARD
    phase[grad.backward] = BACKWARD
    phase[(work.optimizer >= 0) & (work.optimizer > np.maximum(work.module, inside))] = OPTIMIZER
    return phase


def _as_forward(work: _Work) -> tuple[Ints, Ints, Ints]:
    """Name every range as if it ran in a forward: by user range, leaf module, or operator.

    A compiled region is an operator, though its module looks like a leaf: it calls no modules.
    """
    host, found = work.host, work.found
    own = np.where(work.top >= 0, host.names[work.top], -1)
    op = work.ops.of(list(host.words))[own] if host.words else own.copy()
    op[own < 0] = -1
    layer = np.full(len(op), -1, POSITION)
    path = np.full(len(op), -1, POSITION)
    inside = np.flatnonzero(work.module >= 0)
    if len(inside):
        call = found.call[work.module[inside]]
        layer[inside] = work.layers.of(found.layer)[call]
        path[inside] = call
        by_module = work.ops.of(found.op)[call]
        compiled = np.array([w.startswith(scopes.COMPILED_REGION) for w in host.words], bool)
        itself = found.leaf[call] & ~pick(compiled, own[inside])
        op[inside] = np.where(itself | (op[inside] < 0), by_module, op[inside])
    named = np.flatnonzero((work.user >= 0) & (work.user > work.module))
    user_words = work.ops.of([w if scopes.names_an_operation(w) else None for w in host.words])
    op[named] = user_words[host.names[work.user[named]]]
    return layer, op, path


def _place(work: _Work) -> outside.Place:
    """Place every range in time, by the outermost operator or user range it belongs to."""
    host, forest, grad = work.host, work.host.forest, work.grad
    steps = host.is_annotation & host.named(lambda w: w.startswith(scopes.OPTIMIZER_STEP))
    is_engine = host.named(lambda w: w.startswith(autograd.ENGINE))
    engine = is_engine if is_engine.any() else grad.partner >= 0
    if work.found.is_module.any():
        above = np.where(forest.parent >= 0, work.module[forest.parent], -1)
        outermost = work.found.is_module & (above < 0) & ~grad.backward
    else:
        outermost = np.zeros(len(forest.start), bool)
        tops = work.top[grad.is_forward & ~grad.backward]
        outermost[tops[tops >= 0]] = True
    marks = outside.landmarks(forest.start, forest.end, outermost, engine, steps)
    head = np.where(work.user >= 0, work.user, np.where(work.top >= 0, work.top, -1))
    at = np.where(head >= 0, forest.start[head], forest.start)
    inside = (work.module >= 0) | grad.backward
    same_thread = forest.on_threads_of(outermost | steps)
    moments = np.where(inside, forest.start, at)
    return outside.place(moments, marks, same_thread, asked=same_thread & ~inside)


def _outside(work: _Work, phase: Ints, op: Ints, placed: outside.Place) -> None:
    """Name what lies outside modules, engine and optimizer: loss, clip, unscale or its own."""
    host, grad = work.host, work.grad
    on_engine_thread = host.forest.on_threads_of(grad.backward)
    phase[(phase < 0) & on_engine_thread & ~placed.same_thread] = BACKWARD
    free = (phase < 0) & placed.same_thread
    partners = work.top[grad.is_forward & free]
    has_gradient = np.zeros(len(phase), bool)
    has_gradient[partners[partners >= 0]] = True
    of_top = (work.top >= 0) & has_gradient[work.top]
    forward = free & (placed.in_forward | of_top)
    phase[forward] = FORWARD
    unnamed = work.user < 0
    if work.found.is_module.any():
        loss = forward & unnamed & placed.in_forward & (placed.before_backward | of_top)
        op[loss] = work.ops.code("loss")
        seeds = host.named(lambda w: w == SEED)
        phase[loss & ~of_top & (work.top >= 0) & seeds[work.top]] = BACKWARD
    top_name = np.where(work.top >= 0, host.names[work.top], -1)
    clips = np.array([w in outside.CLIP for w in host.words], bool)
    known = top_name >= 0
    amp = free & known & (work.unscales | work.updates)
    wrapper = host.forest.nearest(host.named(scopes.is_wrapper)) >= 0
    phase[free & placed.before_step & wrapper] = BACKWARD  # the tail of a sharded backward
    before_step = free & placed.before_step & ~wrapper
    phase[before_step | amp] = OPTIMIZER
    op[before_step & unnamed & known & pick(clips, top_name)] = work.ops.code("clip")
    op[amp] = work.ops.code("unscale")


def _carry_from_forward(work: _Work, labels: tuple[Ints, ...]) -> None:
    """Give backward work the layer, op and module of its forward; unknown forwards give null."""
    grad = work.grad
    known = np.flatnonzero(grad.backward & (grad.forward >= 0))
    unknown = np.flatnonzero(grad.backward & (grad.forward < 0) & ~grad.recompute)
    for position, values in enumerate(labels):
        values[known] = values[grad.forward[known]]
        if position != 1:  # an unlinked backward operator still names itself
            values[unknown] = -1


def _optimizer(work: _Work, phase: Ints, op: Ints) -> None:
    inside = (phase == OPTIMIZER) & (work.optimizer >= 0)
    zero = pick(
        np.array([w.startswith(scopes.ZERO_GRAD) for w in work.host.words], bool),
        work.host.names[work.optimizer],
    )
    op[inside & ~zero] = work.ops.code("optimizer_step")
    op[inside & zero] = work.ops.code("zero_grad")


def _communication(work: _Work, layer: Ints, op: Ints) -> Mask:
    """Name communication by itself; its layer is the one that its FSDP range names, else null."""
    host, forest = work.host, work.host.forest
    marked = host.named(scopes.is_communication) & ~forest.any_below(work.found.is_module)
    nearest = forest.nearest(marked)
    inside = (nearest >= 0) & (nearest > np.maximum(work.grad.engine, work.module))
    if not inside.any():
        return inside
    copies = work.ops.of([scopes.communication_op(word) for word in host.words])
    op[inside] = copies[host.names[nearest[inside]]]
    calls = work.ops.of(
        [collective_of(w) if scopes.is_collective_call(w) else None for w in host.words]
    )
    collective = forest.nearest(marked & pick(calls >= 0, host.names))
    by_call = inside & (collective >= 0)
    op[by_call] = calls[host.names[collective[by_call]]]
    paths = [scopes.fsdp_path(word) for word in host.words]
    sharded = [ModuleRange("", path, "FSDP") for path in paths if path]
    stacks = modules.stack_containers([*work.found.calls, *sharded])
    named = work.layers.of([modules.layer_of(p, stacks) if p else None for p in paths])
    with_path = forest.nearest(marked & pick(named >= 0, host.names))
    layer[inside] = np.where(with_path[inside] >= 0, named[host.names[with_path[inside]]], -1)
    return inside


def _iterations(work: _Work) -> iterations.Iterations:
    host = work.host

    def ranges(mask: Mask) -> iterations.Ranges:
        names = [host.words[i] for i in host.names[mask]]
        return iterations.Ranges(names, host.forest.start[mask], host.forest.end[mask])

    marks = host.named(lambda w: parse_iteration_mark(w) is not None)
    optimizer = host.is_annotation & host.named(scopes.is_optimizer)
    tail = optimizer | (work.updates & (work.top == np.arange(len(work.top))))
    others = host.is_op & (host.forest.nearest(tail) < 0) if marks.any() else marks
    return iterations.find(
        ranges(marks),
        ranges(host.is_annotation),
        ranges(tail),
        np.sort(host.forest.start[others]),
    )


def _micro_batch(iteration: Ints, pair: Ints, phase: Ints) -> Ints:
    """Count forward-backward pairs from 0 inside each iteration; the optimizer is in none."""
    result = np.full(len(iteration), -1, POSITION)
    ok = (iteration >= 0) & (pair >= 0) & ((phase == FORWARD) | (phase == BACKWARD))
    rows = np.flatnonzero(ok)
    if len(rows):
        iteration, pair = iteration[rows], pair[rows]
        found, iteration = renumber(iteration, int(iteration.max()) + 1)
        first = np.full(len(found), np.iinfo(pair.dtype).max, pair.dtype)
        np.minimum.at(first, iteration, pair)
        result[rows] = pair - first[iteration]
    return result
