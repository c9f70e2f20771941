"""Compiled walks against the same answers level by level from numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chopper_jupyter.core.align import walks
from chopper_jupyter.core.align.distinct import DENSE, distinct
from chopper_jupyter.core.align.nesting import nest

pytest.importorskip("numba")

RANGES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 9), st.booleans(),
              st.booleans()),
    max_size=16,
)  # fmt: skip


def answers(ranges):
    columns = np.array(ranges, np.int64).reshape(-1, 5).T
    forest = nest(columns[0], columns[1] * 700, columns[2] * 700)
    mark, scope = (columns[k][forest.order] == 1 for k in (3, 4))
    found = (
        forest.order, forest.parent, forest.container, forest.depth, forest.nearest(mark),
        forest.enclosing(mark), forest.any_below(mark), forest.outermost_below(scope, mark),
    )  # fmt: skip
    return [values.tolist() for values in found], forest.crossing


@settings(deadline=None)  # the first example compiles
@given(RANGES)
def test_compiled_walks_find_what_numpy_finds(ranges):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "is_worth", lambda _count: False)
        plain = answers(ranges)
        patch.setattr(walks, "is_worth", lambda _count: True)
        assert answers(ranges) == plain


@given(RANGES)
def test_ranges_are_in_the_order_of_thread_start_and_falling_length(ranges):
    tid, start, dur = np.array(ranges, np.int64).reshape(-1, 5).T[:3]
    for far in (0, 2**60):  # a joint key of thread and start does not fit in the second case
        begin = start + far * (np.arange(len(start)) == 0)
        assert nest(tid, begin, dur).order.tolist() == np.lexsort((-dur, begin, tid)).tolist()


@given(st.lists(st.tuples(*[st.sampled_from([-1, 0, 1, 5, 3 * DENSE])] * 3), max_size=20))
def test_distinct_combinations_are_those_of_a_dictionary(rows):
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    found, of_row = distinct(*columns)
    assert found == sorted(set(rows))
    assert [found[i] for i in of_row.tolist()] == rows


def test_codes_that_cannot_be_combined_are_refused():
    with pytest.raises(OverflowError, match="too large to combine"):
        distinct(np.array([2**62]))
