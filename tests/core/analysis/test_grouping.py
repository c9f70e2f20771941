from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align import distinct
from chopper_jupyter.core.analysis import numbering
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


SIZES = (4, 3, 2, 5)
DEEP_ROWS = st.lists(
    st.tuples(*(st.integers(-1, size - 1) for size in SIZES), st.integers(-(2**60), 2**60)),
    max_size=30,
)


@pytest.mark.parametrize("limit", [1, 30, distinct.DENSE])
@given(
    rows=DEEP_ROWS,
    depth=st.integers(1, len(SIZES)),
    piece=st.integers(1, 31),
    narrow=st.booleans(),
    larger=st.integers(1, 4),
)
def test_many_possible_groups_give_the_same_answer(limit, rows, depth, piece, narrow, larger):
    columns = [np.array([row[i] for row in rows], np.int32) for i in range(depth)]
    keys = [Key("", tuple(range(SIZES[i])), column) for i, column in enumerate(columns)]
    with (
        patch.object(distinct, "DENSE", limit),
        patch.multiple(numbering, PIECE=piece, _LARGER=larger),
    ):
        found = group(keys, len(rows), narrow=narrow)
        member = found.member
    assert all(column.dtype == np.int32 for column in found.codes)
    null_last = [tuple((code < 0, code) for code in row[:depth]) for row in rows]
    order = sorted(set(null_last))
    codes = list(zip(*(column.tolist() for column in found.codes), strict=True))
    assert codes == [tuple(code for _, code in one) for one in order]
    assert found.of_row.tolist() == [order.index(one) for one in null_last]
    assert [null_last[row] for row in member] == order
    sums = [sum(r[-1] for r, of in zip(rows, null_last, strict=True) if of == one) for one in order]
    if fits(sums):
        assert found.sum_of(np.array([row[-1] for row in rows], np.int64)).tolist() == sums


def test_without_keys_everything_is_one_group():
    assert group([], 3).sum_of(np.array([1, 2, 3])).tolist() == [6]
    assert group([], 0).sum_of(np.array([], np.int64)).tolist() == [0]
