"""Attribution against a truth that the reader cannot see, on small models of all kinds."""

from __future__ import annotations

import functools
from typing import NamedTuple

import pytest
import torch
from collect import worlds
from collect.judging import compare, mistakes, share

from chopper_jupyter import read_trace

# Dynamo looks at gradients of tensors that have none.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

WORLDS = list(worlds.WORLDS)
COMPILED = [world for world in WORLDS if "compiled" in world]


class Told(NamedTuple):
    judged: list  # kernels beside their truth
    inside: list  # those inside nodes and calls alone
    losses: list
    loop: worlds.Loop


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return a function: name of a world to what its recording tells."""

    @functools.cache
    def record(world):
        folder = tmp_path_factory.mktemp("truth")
        torch.set_num_threads(1)
        rows, losses, loop = worlds.record(folder, world)
        trace = read_trace(folder)
        if world in COMPILED:  # compiling runs a forward and a backward of its own
            trace = trace.filter(iteration=list(range(1, loop.iterations)))
        return Told(compare(rows, trace), compare(rows, trace, beside=False), losses, loop)

    return record


@pytest.mark.parametrize("world", WORLDS)
def test_attribution(told, world):
    rows = told(world).judged
    assert [name for _, expected, _, name in rows if expected is None] == []
    assert share(rows, "layer") >= 0.99, mistakes(rows, "layer")
    assert share(rows, "phase") >= 0.99, mistakes(rows, "phase")
    assert share(rows, "op") >= 0.98, mistakes(rows, "op")


@pytest.mark.parametrize("world", WORLDS)
def test_every_iteration_and_micro_batch_is_right(told, world):
    known = [
        (expected, found)
        for _, expected, found, _ in told(world).judged
        # Between a step and the next forward only the loop's source tells whose a zero_grad is.
        if expected.iteration is not None and expected.op != "zero_grad"
    ]
    assert len(known) > 500
    assert [pair for pair in known if pair[0].iteration != pair[1].iteration] == []
    assert [pair for pair in known if pair[0].micro_batch != pair[1].micro_batch] == []
    if world == "accumulation":
        assert {found.micro_batch for _, found in known} == {0, 1, 2, 3, None}


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_recomputed_is_marked(told, world):
    flags = [(e.recompute, f.recompute) for _, e, f, _ in told(world).inside if e is not None]
    assert [pair for pair in flags if pair[0] != pair[1]] == []
    assert any(expected for expected, _ in flags) == ("checkpoint" in world)


@pytest.mark.parametrize("world", WORLDS)
def test_training_is_the_same_to_the_bit(told, world):
    _, _, losses, loop = told(world)
    bare = worlds.Loop(**worlds.WORLDS[world])
    assert bare.run() == losses
    assert bare.compilations == loop.compilations
    assert (loop.compilations > 0) == (world in COMPILED)
