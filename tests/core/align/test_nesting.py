"""Which range lies in which, against a search through all ranges."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align.nesting import nest

RANGES = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 15)),
    min_size=1, max_size=14, unique_by=lambda r: (r[0], r[1]),
)  # fmt: skip


def forest_of(ranges):
    tid, start, dur = (np.array(c, np.int64) for c in zip(*ranges, strict=True))
    return nest(tid, start, dur)


@given(RANGES)
def test_the_parent_is_the_latest_range_open_at_the_start(ranges):
    forest = forest_of(ranges)
    for i in range(len(ranges)):
        open_ = [
            j for j in range(len(ranges))
            if forest.tid[j] == forest.tid[i] and forest.start[j] < forest.start[i] < forest.end[j]
        ]  # fmt: skip
        expected = max(open_, key=lambda j: forest.start[j], default=-1)
        assert forest.parent[i] == expected


@given(RANGES)
def test_the_container_holds_the_whole_range(ranges):
    forest = forest_of(ranges)
    for i, above in enumerate(forest.container.tolist()):
        if above >= 0:
            assert forest.start[above] <= forest.start[i]
            assert forest.end[i] <= forest.end[above]
    assert forest.crossing == int((forest.parent != forest.container).sum())


@given(RANGES, st.integers(0, 1), st.integers(0, 50))
def test_the_innermost_range_open_at_a_time(ranges, tid, at):
    forest = forest_of(ranges)
    found = int(forest.innermost_at(np.array([tid]), np.array([at]))[0])
    open_ = [
        j for j in range(len(ranges))
        if forest.tid[j] == tid and forest.start[j] <= at <= forest.end[j]
    ]  # fmt: skip
    if found >= 0:
        assert found in open_
    assert (found < 0) == (not any(at < forest.end[j] for j in open_) and not open_) or open_


def test_marks_are_found_above_below_and_outermost():
    # four ranges, each inside the one before
    forest = forest_of([(0, 0, 100), (0, 10, 80), (0, 20, 60), (0, 30, 10)])
    second = np.array([False, True, False, False])
    assert forest.nearest(second).tolist() == [-1, 1, 1, 1]
    assert forest.any_below(np.array([False, False, True, False])).tolist() == [
        True, True, False, False,
    ]  # fmt: skip
    everything = np.ones(4, bool)
    assert forest.outermost_below(second, everything).tolist() == [0, -1, 2, 2]


def test_no_ranges_at_all():
    empty = np.zeros(0, np.int64)
    forest = nest(empty, empty, empty)
    assert forest.crossing == 0
    assert forest.nearest(np.zeros(0, bool)).tolist() == []
    assert forest.innermost_at(np.array([0]), np.array([5])).tolist() == [-1]
