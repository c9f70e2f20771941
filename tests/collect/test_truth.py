"""Attribution against a truth that the reader cannot see, on the small Llama."""

from __future__ import annotations

import collections
import functools

import pytest
import torch
from collect import truth

from chopper_jupyter import read_trace

SMALL = {"layers": 2, "iterations": 2}
WORLDS = {
    "plain": {},
    "zero_grad first": {"zero_first": True, "keep_gradients": True, **SMALL},
    "accumulation": {"micro_batches": 2, "keep_gradients": True, **SMALL},
    "checkpoint": {"recompute": "non-reentrant", **SMALL},
    "reentrant checkpoint": {"recompute": "reentrant", **SMALL},
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Return a function: name of a world to its kernels, each beside its truth."""

    @functools.cache
    def judge(world):
        folder = tmp_path_factory.mktemp("truth")
        torch.set_num_threads(1)
        rows = truth.train(folder, **WORLDS[world])
        return compare(rows, read_trace(folder))

    return judge


def compare(rows, trace):
    """Return (duration, expected place, found place, kernel name), kernel by kernel.

    Beside a node, the engine adds gradients that meet: that is the work of the node before.
    At the beginning of a backward, before any node, it makes the first gradient: of no layer.
    """
    # Kernels are leaves, so one that begins when a range begins is inside of it.
    kernels = [(k["start_ns"] + trace.info.origin_ns, 1, k) for k in trace.kernels.to_pylist()]
    stack, last, result = [], None, []
    moments = sorted([*kernels, *((r.start, 0, r) for r in rows)], key=lambda m: m[:2])
    for at, is_kernel, thing in moments:
        while stack and stack[-1].end <= at:
            last = stack.pop()
        if not is_kernel:
            stack.append(thing)
            last = thing if thing.place is None else last
            continue
        expected = stack[-1].place if stack else None
        if stack and expected is None:
            expected = last.place or truth.Place(None, "backward", None, None)
        found = truth.Place(thing["iteration"], thing["phase"], thing["layer"], thing["op"])
        result.append((thing["dur_ns"], expected, found, thing["name"]))
    return result


def share(rows, level):
    """Return the share of kernel time that has the right value of a level."""
    total = sum(duration for duration, *_ in rows)
    right = sum(d for d, e, f, _ in rows if e and getattr(e, level) == getattr(f, level))
    return right / total


def mistakes(rows):
    wrong = collections.Counter((name, e, f) for _, e, f, name in rows if e != f)
    return wrong.most_common(10)


@pytest.mark.parametrize("world", WORLDS)
def test_attribution(judged, world):
    rows = judged(world)
    assert [name for _, expected, _, name in rows if expected is None] == []
    assert share(rows, "layer") >= 0.99, mistakes(rows)
    assert share(rows, "phase") >= 0.99, mistakes(rows)
    assert share(rows, "op") >= 0.98, mistakes(rows)


@pytest.mark.parametrize("world", WORLDS)
def test_every_iteration_is_right(judged, world):
    known = [
        (expected, found)
        for _, expected, found, _ in judged(world)
        # Between a step and the next forward only the loop's source tells whose a zero_grad is.
        if expected.iteration is not None and expected.op != "zero_grad"
    ]
    assert len(known) > 1000
    assert [pair for pair in known if pair[0].iteration != pair[1].iteration] == []
