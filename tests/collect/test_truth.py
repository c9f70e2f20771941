"""Attribution against a truth that the reader cannot see, on the small Llama."""

from __future__ import annotations

import functools

import pytest
import torch
from collect import truth
from collect.judging import compare, mistakes, share

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
