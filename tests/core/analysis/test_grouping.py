from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.analysis import grouping
from chopper_jupyter.core.analysis.grouping import Key, group

ROWS = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.integers(-(2**60), 2**60)), max_size=30
)


def by_hand(rows):
    """Sum in a dictionary, in the order of the codes with null last."""
    sums = {}
    for a, b, value in rows:
        sums[a, b] = sums.get((a, b), 0) + value
    order = [pair for pair in product((0, 1, 2, 3, -1), (0, 1, 2, -1)) if pair in sums]
    return order, [sums[pair] for pair in order]


def grouped(rows):
    a, b, values = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    keys = [
        Key("a", tuple(range(4)), a.astype(np.int32)),
        Key("b", tuple(range(3)), b.astype(np.int32)),
    ]
    found = group(keys, len(rows))
    wrapped = found.sum_of(values).tolist()
    return list(zip(*(c.tolist() for c in found.codes), strict=True)), wrapped


def fits(sums):
    return all(-(2**63) <= s < 2**63 for s in sums)


@given(ROWS)
def test_sums_are_those_of_a_dictionary_and_exact(rows):
    order, sums = by_hand(rows)
    if fits(sums):
        assert grouped(rows) == (order, sums)


@given(ROWS)
def test_many_possible_groups_give_the_same_answer(rows):
    dense = grouped(rows)
    limit, grouping._DENSE = grouping._DENSE, 1
    try:
        assert grouped(rows) == dense
    finally:
        grouping._DENSE = limit


def test_without_keys_everything_is_one_group():
    assert group([], 3).sum_of(np.array([1, 2, 3])).tolist() == [6]
    assert group([], 0).sum_of(np.array([], np.int64)).tolist() == [0]
