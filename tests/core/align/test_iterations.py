"""Where iterations begin and end."""

from __future__ import annotations

import numpy as np

from chopper_jupyter.core.align.iterations import Ranges, find
from chopper_jupyter.core.annotations import iteration_mark


def ranges(*rows):
    names = [name for name, _, _ in rows]
    return Ranges(names, *(np.array([r[i] for r in rows], np.int64) for i in (1, 2)))


NONE = np.zeros(0, np.int64)


def find_all(marks, annotations, optimizer, others=NONE):
    return find(marks, annotations, optimizer, np.asarray(others, np.int64))


def at(cuts, *times):
    return cuts.at(np.array(times, np.int64)).tolist()


MARKS = ranges((iteration_mark(0), 100, 100), (iteration_mark(1), 1_000_100, 1_000_100))
STEPS = ranges(
    ("Optimizer.step#AdamW.step", 500, 600), ("Optimizer.zero_grad#AdamW.zero_grad", 610, 650),
    ("Optimizer.step#AdamW.step", 1_000_500, 1_000_600),
)  # fmt: skip


def test_an_iteration_ends_with_its_optimizer_step_and_the_zero_grad_after_it():
    cuts = find_all(MARKS, ranges(), STEPS)
    assert at(cuts, 100, 599, 649, 651, 999_999, 1_000_599) == [0, 0, 0, 1, 1, 1]


def test_what_follows_the_last_step_belongs_to_no_iteration():
    assert at(find_all(MARKS, ranges(), STEPS), 1_000_601) == [-1]


def test_without_optimizer_the_marks_themselves_cut():
    assert at(find_all(MARKS, ranges(), ranges()), 5, 1_000_099, 1_000_100, 9_000_000) == [
        0,
        0,
        1,
        1,
    ]


def test_a_zero_grad_at_the_head_of_the_next_loop_belongs_to_the_next_iteration():
    late = ranges(("Optimizer.step#SGD.step", 500, 600),
                  ("Optimizer.zero_grad#SGD.zero_grad", 900_000, 900_010))  # fmt: skip
    loading = [700_000]
    assert at(find_all(MARKS, ranges(), late, loading), 900_005) == [1]
    assert at(find_all(MARKS, ranges(), late), 900_005) == [0]


def test_profiler_steps_cut_at_their_starts_even_where_they_overlap():
    steps = ranges(("ProfilerStep#7", 0, 130), ("ProfilerStep#8", 100, 200))
    cuts = find_all(ranges(), steps, ranges())
    assert at(cuts, -1, 0, 99, 100, 199, 200) == [-1, 7, 7, 8, 8, -1]


def test_step_numbers_that_do_not_increase_are_renumbered_and_noted():
    steps = ranges(("ProfilerStep#5", 0, 90), ("ProfilerStep#5", 100, 200))
    cuts = find_all(ranges(), steps, ranges())
    assert cuts.number.tolist() == [0, 1]
    assert "numbered from 0" in cuts.notes[0]


def test_step_numbers_beyond_all_bounds_are_renumbered_and_noted():
    steps = ranges(("ProfilerStep#5", 0, 90), (f"ProfilerStep#{10**20}", 100, 200))
    cuts = find_all(ranges(), steps, ranges())
    assert cuts.number.tolist() == [0, 1]
    assert "too large" in cuts.notes[0]


def test_numbered_user_ranges_serve_where_there_are_no_steps():
    cuts = find_all(ranges(), ranges(("iteration 3", 0, 50), ("forward", 5, 20)), ranges())
    assert at(cuts, 10, 60) == [3, -1]
    assert cuts.notes


def test_nothing_that_tells_iterations():
    assert at(find_all(ranges(), ranges(("forward", 0, 5)), ranges()), 1) == [-1]
