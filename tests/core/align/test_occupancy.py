"""Overlap, busy and idle time against a count of every instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align.occupancy import occupancy

KERNELS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 40), st.integers(0, 9)),
    min_size=1, max_size=14,
)  # fmt: skip


def columns(rows):
    return [np.array(c, np.int64) for c in zip(*rows, strict=True)]


def running(rows, gpu, kinds):
    return {t for g, k, s, d in rows if g == gpu and k in kinds for t in range(s, s + d)}


@given(KERNELS)
def test_busy_and_idle_tile_the_window_of_each_gpu(rows):
    gpu, kind, start, dur = columns(rows)
    _, busy, idle = occupancy(gpu, kind, start, dur)
    for one in set(gpu.tolist()):
        mask = gpu == one
        window = int((start + dur)[mask].max() - start[mask].min())
        assert int((busy + idle)[mask].sum()) == window


@given(KERNELS)
def test_every_busy_instant_belongs_to_the_kind_that_comes_first(rows):
    gpu, kind, start, dur = columns(rows)
    _, busy, _ = occupancy(gpu, kind, start, dur)
    for one in set(gpu.tolist()):
        compute, comm, copies = (running(rows, one, k) for k in ({0}, {1}, {2, 3}))
        of = [int(busy[(gpu == one) & np.isin(kind, k)].sum()) for k in ([0], [1], [2, 3])]
        assert of == [len(compute), len(comm - compute), len(copies - comm - compute)]


@given(KERNELS)
def test_overlap_is_time_under_the_union_of_the_other_kind(rows):
    gpu, kind, start, dur = columns(rows)
    overlap, _, _ = occupancy(gpu, kind, start, dur)
    other = {0: {1}, 1: {0}, 2: set(), 3: set()}
    for i, (g, k, s, d) in enumerate(rows):
        assert overlap[i] == len(set(range(s, s + d)) & running(rows, g, other[k]))
