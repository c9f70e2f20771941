"""Alignment of sequences: against a plain recurrence, and where the truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align import anchors, banded, sequence
from chopper_jupyter.core.align.banded import GAP, MATCH, Stretches, aligned
from chopper_jupyter.core.align.sequence import Pair, align

codes = st.lists(st.integers(0, 3), min_size=1, max_size=12)


def plain_score(a, b, free_start, free_end):
    """Return the best score of aligning a and b, cell by cell."""
    score = np.zeros((len(a) + 1, len(b) + 1))
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i == 0 or j == 0:
                score[i, j] = 0 if free_start else -GAP * (i + j)
                continue
            best = max(score[i - 1, j], score[i, j - 1]) - GAP
            if a[i - 1] == b[j - 1]:
                best = max(best, score[i - 1, j - 1] + MATCH)
            score[i, j] = best
    return max(score[-1].max(), score[:, -1].max()) if free_end else score[-1, -1]


def score_of(a, b, i, j, free_start, free_end):
    """Return the score of an alignment."""
    points = [(-1, -1), *zip(i.tolist(), j.tolist(), strict=True), (len(a), len(b))]
    total = MATCH * len(i)
    for at, (one, other) in enumerate(itertools.pairwise(points)):
        free = (at == 0 and free_start) or (at == len(points) - 2 and free_end)
        skipped = (other[0] - one[0] - 1, other[1] - one[1] - 1)
        total -= GAP * (min(skipped) if free else sum(skipped))
    return total


@given(st.lists(st.tuples(codes, codes), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_stretches_align_as_well_as_the_plain_recurrence(pairs, free_start, free_end):
    a, b = (np.concatenate([np.array(pair[side]) for pair in pairs]) for side in (0, 1))
    ends = [np.cumsum([0, *(len(pair[side]) for pair in pairs)]) for side in (0, 1)]
    stretches = Stretches(ends[0][:-1], ends[0][1:], ends[1][:-1], ends[1][1:])
    i, j = aligned(
        a, b, stretches, np.full(len(pairs), 99), free_start=free_start, free_end=free_end
    )
    assert (a[i] == b[j]).all()
    for at, (own, other) in enumerate(pairs):
        mine = (i >= ends[0][at]) & (i < ends[0][at + 1])
        order = np.argsort(i[mine])
        rows, columns = i[mine][order] - ends[0][at], j[mine][order] - ends[1][at]
        assert (np.diff(rows) > 0).all()
        assert (np.diff(columns) > 0).all()
        best = plain_score(own, other, free_start, free_end)
        found = score_of(own, other, rows, columns, free_start, free_end)
        assert found >= best - (min(len(own), len(other)) * GAP if free_start or free_end else 0)
        if not (free_start or free_end):
            assert found == best


@given(st.lists(st.integers(0, 5), min_size=5, max_size=40), st.data())
def test_what_is_left_of_a_sequence_is_found_in_it(whole, data):
    dropped = data.draw(st.sets(st.integers(0, len(whole) - 1), max_size=len(whole) // 8))
    kept = [at for at in range(len(whole)) if at not in dropped]
    a, b = np.array(whole), np.array(whole)[kept]
    for pair in (Pair(a, b), Pair(b, a)):
        ((i, j),) = align([pair])
        assert (pair.timed[i] == pair.counted[j]).all()
        assert len(i) == len(kept)


@given(st.lists(st.tuples(codes, codes), max_size=4), st.integers(1, 3))
def test_pairs_do_not_depend_on_each_other(pairs, repeats):
    made = [Pair(np.array(a), np.array(b), repeats) for a, b in pairs]
    together = align(made)
    for pair, (i, j) in zip(made, together, strict=True):
        ((alone_i, alone_j),) = align([pair])
        assert i.tolist() == alone_i.tolist()
        assert j.tolist() == alone_j.tolist()
        assert (np.diff(i) > 0).all()
        assert (np.diff(j) > 0).all()


def test_codes_below_zero_match_nothing():
    ((i, j),) = align([Pair(np.array([-1, 2, -1, 3]), np.array([-1, 2, 3, -1]))])
    assert (i.tolist(), j.tolist()) == ([1, 3], [1, 2])
    ((i, _),) = align([Pair(np.array([-1, -1]), np.array([], np.int64))])
    assert not len(i)


LAYER = np.arange(10, 30)
STEP = np.concatenate([[0, 1, 2], *[LAYER] * 30, [3, 4, 5], *[LAYER + 20] * 30, [6, 7, 8]])


def two_runs(timed, counted, missing, extra, seed):
    """Return codes and identities of two runs whose last iterations are the same."""
    random = np.random.default_rng(seed)
    sides = []
    for count in (timed, counted):
        identity = np.arange((counted - count) * len(STEP), counted * len(STEP))
        identity = identity[random.random(len(identity)) >= missing]
        at = np.sort(random.integers(0, len(identity), int(extra * len(identity))))
        identity = np.insert(identity, at, -1)
        code = np.where(
            identity >= 0, STEP[identity % len(STEP)], random.choice(STEP, len(identity))
        )
        sides.append((code, identity))
    return sides


@pytest.mark.parametrize(
    ("timed", "counted"), [(1, 1), (3, 3), (3, 6), (10, 10), (10, 14), (40, 42)]
)
@pytest.mark.parametrize("seed", range(3))
def test_iterations_and_layers_are_told_apart(timed, counted, seed):
    (a, own), (b, other) = two_runs(timed, counted, 0.02, 0.02, seed)
    ((i, j),) = align([Pair(a, b, timed)])
    assert (a[i] == b[j]).all()
    real = (own[i] >= 0) & (other[j] >= 0)
    possible = np.isin(own[own >= 0], other).sum()
    right = np.count_nonzero(own[i[real]] == other[j[real]])
    step = len(STEP)
    same_place = np.count_nonzero((own[i[real]] - other[j[real]]) % step == 0)
    assert same_place >= 0.999 * real.sum()
    assert same_place >= 0.995 * possible
    if counted == timed:
        assert right == same_place


def test_more_repetitions_than_were_timed_are_matched_with_the_last_of_them():
    (a, own), (b, other) = two_runs(4, 9, 0.0, 0.0, 0)
    ((i, j),) = align([Pair(a, b, 4)])
    assert (own[i] == other[j]).all()
    assert len(i) == len(a)


def test_fewer_repetitions_than_were_timed_are_one_stretch_of_them():
    (a, own), (b, _) = two_runs(5, 5, 0.02, 0.02, 1)
    ((i, _),) = align([Pair(a, b[len(b) - len(STEP) :], 5)])
    assert len(i) >= 0.9 * len(STEP)
    assert own[i[own[i] >= 0]].min() >= len(STEP) * 3.9


def test_a_long_stretch_that_only_one_side_has_is_left_out():
    tuning = np.random.default_rng(0).integers(100, 120, 5000)
    b = np.concatenate([STEP, STEP[:700], tuning, STEP[700:], STEP])
    a = np.concatenate([STEP, STEP, STEP])
    for one, other in ((a, b), (b, a)):
        ((i, j),) = align([Pair(one, other, 3)])
        assert (one[i] == other[j]).all()
        assert len(i) == len(a)


@pytest.mark.parametrize("size", [3000, 20_000])
def test_where_nothing_is_rare_the_ends_are_the_same(size, monkeypatch):
    monkeypatch.setattr(anchors, "EXACT", 1 << 10)
    monkeypatch.setattr(anchors, "CELLS", 1 << 12)
    cycle = np.tile(np.arange(7), size // 7)
    random = np.random.default_rng(0)
    kept = np.flatnonzero(random.random(len(cycle)) >= 0.02)
    warm_up = random.integers(0, 7, 500)
    ((i, j),) = align([Pair(cycle, np.concatenate([warm_up, cycle[kept]]))])
    assert (np.diff(i) > 0).all()
    assert (np.diff(j) > 0).all()
    assert len(i) >= 0.96 * len(cycle)
    apart = np.abs(i - np.concatenate([np.full(500, -99), kept])[j])
    assert apart[-1] == 0
    assert apart[-len(i) // 20 :].max() <= 14  # two rounds, which nothing tells from one another


def test_stretches_that_are_too_large_are_divided(monkeypatch):
    (a, own), (b, other) = two_runs(6, 6, 0.01, 0.01, 3)
    ((whole, _),) = align([Pair(a, b, 6)])
    monkeypatch.setattr(sequence, "LARGEST", 1 << 12)
    monkeypatch.setattr(sequence, "PIECE", 256)
    monkeypatch.setattr(anchors, "EXACT", 1 << 10)
    monkeypatch.setattr(banded, "CELLS", 1 << 12)
    ((i, j),) = align([Pair(a, b, 6)])
    assert (a[i] == b[j]).all()
    assert len(i) >= 0.97 * len(whole)
    real = (own[i] >= 0) & (other[j] >= 0)
    assert (own[i] == other[j])[real].mean() >= 0.98
