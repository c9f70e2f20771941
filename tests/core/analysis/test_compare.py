import warnings

import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from sampled_traces import sample, with_samples
from timed_traces import by_key, covered, grouped, timed_rows, timed_trace

from chopper_jupyter import compare, read_trace
from chopper_jupyter.core.errors import PartialTraceWarning, SchemaError
from chopper_jupyter.core.trace import Trace

LEVELS = st.lists(
    st.sampled_from(("phase", "layer", "op", "kernel", "gpu")), unique=True, min_size=1, max_size=3
)


def instances(rows, by):
    gpus = {r["gpu"] for r in rows}
    iterations = {r["iteration"] for r in rows}
    return max(1, len(iterations)) * (1 if "gpu" in by else max(1, len(gpus)))


@given(timed_rows(), timed_rows(), LEVELS)
def test_compare_equals_brute_force(rows_a, rows_b, by):
    frame = compare(timed_trace(rows_a), timed_trace(rows_b), by)
    found = by_key(frame, by)
    kept = [covered(rows, "measured", 0) for rows in (rows_a, rows_b)]
    groups = [grouped(rows, by) for rows in kept]
    assert set(found) == set(groups[0]) | set(groups[1])
    for key, row in found.items():
        mine = [g.get(key, []) for g in groups]
        times = [
            sum(r["dur_ns"] for r in rows) * 1e-6 / instances(every, by)
            for rows, every in zip(mine, kept, strict=True)
        ]
        sides = {(True, True): "both", (True, False): "only a", (False, True): "only b"}
        unlinked = "op" in by and key[by.index("op")] is None
        assert row["side"] == ("unlinked" if unlinked else sides[bool(mine[0]), bool(mine[1])])
        assert (row["time_a_ms"], row["time_b_ms"]) == pytest.approx(tuple(times))
        assert row["difference_ms"] == pytest.approx(times[1] - times[0])
        assert row["count_ms"] + row["duration_ms"] == pytest.approx(row["difference_ms"])


@given(timed_rows())
def test_a_run_compared_with_itself_shows_no_difference(rows):
    trace = timed_trace(rows)
    frame = compare(trace, trace)
    assert (frame["difference_ms"].abs() == 0).all()
    assert set(frame["side"]) <= {"both", "unlinked"}
    assert frame.attrs["matched"] == {"a": 1.0, "b": 1.0}


def test_more_kernels_and_longer_kernels_are_told_apart():
    a = trace_of([{"op": "mm", "dur_ns": 100, "start_ns": 1000 * i} for i in range(4)])
    b = trace_of([{"op": "mm", "dur_ns": 150, "start_ns": 1000 * i} for i in range(6)])
    row = compare(a, b, "op").iloc[0]
    assert row["count_ms"] == pytest.approx(200e-6)
    assert row["duration_ms"] == pytest.approx(300e-6)


def clocked(mhz: float, dur: int) -> Trace:
    trace = trace_of([{"op": "mm", "dur_ns": dur, "start_ns": 10_000 * i} for i in range(4)])
    rows = [
        sample("gpu_clock_mhz", 10_000 * i + k * dur // 4, mhz + (i + k) % 2, gpu=0)
        for i in range(4)
        for k in range(1, 4)
    ]
    return with_samples(trace, rows)


def test_a_lower_clock_explains_longer_kernels():
    row = compare(clocked(2000, 1000), clocked(1000, 2000), "op").iloc[0]
    assert row["clock_ms"] == pytest.approx(row["duration_ms"], rel=0.01)


def test_a_level_is_needed():
    with pytest.raises(SchemaError, match="at least one"):
        compare(trace_of([{}]), trace_of([{}]), ())


def quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialTraceWarning)
        return read_trace(path)


@pytest.mark.real
@pytest.mark.parametrize("name", ["bert_small", "owlv2", "qwen15"])
def test_the_same_model_on_two_vendors_matches_by_op(real_data, name):
    found = {p.name: p for p in (real_data / "traces").rglob(f"*_{name}.json.gz")}
    a, b = (quietly(found[f"{gpu}_{name}.json.gz"]) for gpu in ("h100", "mi300"))
    frame = compare(a, b, "op", include="all")
    assert min(frame.attrs["matched"].values()) >= 0.95
    total = {side: frame[f"time_{side}_ms"].sum() for side in "ab"}
    for side in "ab":  # what has no partner is shown, with all its time
        alone = frame[frame["side"] == f"only {side}"]
        shown = alone[f"time_{side}_ms"].sum() if len(alone) else 0.0
        assert shown == pytest.approx(frame.attrs["unmatched_ms"][side], abs=1e-9)
    unlinked = {side: frame.attrs["unlinked_ms"][side] / total[side] for side in "ab"}
    if name == "qwen15":  # kernels of graphs and of what ran before the recording have no launch
        assert 0.25 < min(unlinked.values()) <= max(unlinked.values()) < 0.35
        shown = frame[frame["side"] == "unlinked"]
        assert shown["time_a_ms"].sum() == pytest.approx(unlinked["a"] * total["a"])
        measured = compare(a, b, "op")
        assert min(measured.attrs["outside_ms"].values()) > 0
    else:
        assert max(unlinked.values()) == 0
