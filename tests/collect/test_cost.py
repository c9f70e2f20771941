"""What recording cost, on clocks that a test sets."""

from __future__ import annotations

from chopper_jupyter.collect.cost import BACKWARD, KEEP, Cost, Pace


def pace(recorded, unrecorded=(), what="adam"):
    made = Pace()
    for now in recorded:
        made.beat(what, now, recorded=True)
    for now in unrecorded:
        made.beat(what, now, recorded=False)
    return made


def test_median_without_warmup():
    times = pace([0, 100, 103, 105, 107], unrecorded=[200, 201, 202, 250])
    assert times.seconds(warmup=1) == (2, 1)


def test_all_iterations_where_there_is_nothing_but_warmup():
    assert pace([0, 4]).seconds(warmup=2) == (4, None)


def test_unknown_without_a_loop():
    assert pace([]).seconds(warmup=2) == (None, None)
    assert pace([1]).seconds(warmup=2) == (None, None)


def test_steps_tell_better_than_backwards():
    times = pace([0, 1, 2, 3, 4], what=BACKWARD)
    for now in (1, 3):
        times.beat("adam", now, recorded=True)
    assert times.seconds(warmup=0) == (2, None)


def test_a_long_run_is_not_remembered_for_ever():
    times = pace([0, 1], unrecorded=range(10_000))
    assert len(times.unrecorded["adam"]) <= KEEP + 1


def test_entry_of_run_json():
    cost = Cost(start_s=1.0, stop_s=2.0, export_s=3.0, bytes_written=4)
    assert cost.to_dict(pace([0, 6], [10, 12]), warmup=0) == {
        "start_s": 1.0, "stop_s": 2.0, "export_s": 3.0, "bytes": 4,
        "recorded_iteration_s": 6, "unrecorded_iteration_s": 2, "ratio": 3.0,
    }  # fmt: skip
    assert cost.to_dict(pace([]), warmup=0)["ratio"] is None
