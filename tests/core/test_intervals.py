"""Interval arithmetic against a count of every instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.intervals import covered, frontier, union

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def arrays(spans):
    spans = sorted(spans)
    start = np.array([s for s, _ in spans], np.int64)
    return start, start + np.array([d for _, d in spans], np.int64)


def instants(start, end):
    return {t for s, e in zip(start.tolist(), end.tolist(), strict=True) for t in range(s, e)}


@given(SPANS)
def test_frontier_adds_up_to_the_window(spans):
    start, end = arrays(spans)
    added, gap = frontier(start, end)
    assert int(added.sum()) == len(instants(start, end))
    if len(start):
        assert int(added.sum() + gap.sum()) == int(end.max() - start.min())


@given(SPANS)
def test_union_holds_the_same_instants_in_disjoint_order(spans):
    start, end = arrays(spans)
    merged = union(start[::-1], end[::-1])
    assert instants(*merged) == instants(start, end)
    assert (merged[0][1:] > merged[1][:-1]).all()


@given(SPANS, SPANS)
def test_covered_counts_shared_instants(spans, others):
    start, end = arrays(spans)
    by = union(*arrays(others))
    shared = instants(*by)
    expected = [len(set(range(s, e)) & shared) for s, e in zip(start, end, strict=True)]
    assert covered(start, end, *by).tolist() == expected
