"""Findings are found where something stands out, and nowhere else."""

from __future__ import annotations

import pytest
from builders import trace_of
from sampled_traces import sample, with_samples
from waiting_traces import meeting

from chopper_jupyter import breakdown, collectives, findings, read_trace
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.trace import Trace


def run(gpus=4, iterations=5, **odd) -> Trace:
    """Iterations of 1,000 ns: compute for 880, a collective for 80 beside it, idle for 20."""
    rows = []
    for gpu in range(gpus):
        at = 0
        for i in range(iterations):
            length = odd.get("compute", lambda _gpu, _i: 880)(gpu, i)
            idle = odd.get("idle", lambda _gpu, _i: 20)(gpu, i)
            exposed = odd.get("exposed", 0)
            rows += [
                {"gpu": gpu, "iteration": i, "phase": "forward", "op": "mm", "start_ns": at + idle,
                 "dur_ns": length, "idle_ns": idle, "launch_ns": at + idle - 5 if i else None,
                 "launch_kind": "runtime" if i else None},
                {"gpu": gpu, "iteration": i, "phase": "backward", "op": "all_reduce",
                 "kind": "collective", "start_ns": at + idle + length, "dur_ns": 80,
                 "busy_ns": 40 + exposed},
            ]  # fmt: skip
            at += idle + length + 80
    return trace_of(rows)


def clocked(trace: Trace, clock) -> Trace:
    """Sample clocks, each GPU's kernels having taken longer in proportion."""
    ends = {}
    for row in trace.kernels.select(["gpu", "iteration", "start_ns", "dur_ns"]).to_pylist():
        key = row["gpu"], row["iteration"]
        ends[key] = max(ends.get(key, 0), row["start_ns"] + row["dur_ns"])
    rows = [
        sample("gpu_clock_mhz", time, clock(gpu, i) + time % 3, gpu=gpu)
        for (gpu, i), end in ends.items()
        for time in range(ends.get((gpu, i - 1), 0) + 10, end, 97)
    ]
    return with_samples(trace, rows)


def slowed(low, *, usual=2000):
    """Return the lengths of kernels that follow a clock, and the clock."""

    def clock(gpu, i):
        return low if (gpu, i) == (2, 3) else usual

    return {"compute": lambda gpu, i: 880 * usual // clock(gpu, i)}, clock


def kinds(trace):
    return findings(trace)["kind"].tolist()


def test_a_plain_run_has_none():
    assert kinds(clocked(run(), lambda _gpu, _i: 2000)) == []
    assert kinds(trace_of([{}], device_kind="cpu")) == []


def test_a_low_clock_of_one_gpu_in_one_iteration():
    lengths, clock = slowed(1500)
    frame = findings(clocked(run(**lengths), clock))
    assert frame["kind"].tolist() == ["clock"]
    assert frame["selection"].iloc[0] == [["gpu", 2], ["iteration", 3]]
    assert "GPU 2 runs 25.0 %" in frame["title"].iloc[0]
    assert frame["evidence"].iloc[0].startswith("1501 of 2001 MHz")
    assert frame["cost_ms"].iloc[0] == pytest.approx(293e-6 / 20, rel=0.01)


def test_a_low_clock_all_along():
    longer = run(compute=lambda gpu, _i: 1173 if gpu == 1 else 880)
    frame = findings(clocked(longer, lambda gpu, _i: 1500 if gpu == 1 else 2000))
    assert frame["kind"].tolist() == ["clock"]
    assert frame["selection"].iloc[0] == [["gpu", 1]]
    assert "in 5 iterations" in frame["title"].iloc[0]


def test_a_low_clock_that_costs_nothing_is_no_finding():
    assert kinds(clocked(run(), slowed(1500)[1])) == []


def test_clocks_that_spread_are_no_finding():
    lengths, clock = slowed(1890)
    assert kinds(clocked(run(**lengths), clock)) == []
    spread = clocked(run(compute=lambda gpu, i: 880 + 40 * ((gpu + i) % 5)),
                     lambda gpu, i: 2000 - 80 * ((gpu + i) % 5))  # fmt: skip
    assert kinds(spread) == []


def test_a_slow_gpu():
    frame = findings(run(compute=lambda gpu, _i: 1000 if gpu == 3 else 880))
    assert frame["kind"].tolist() == ["slow_gpu"]
    assert frame["selection"].iloc[0] == [["gpu", 3]]


def test_a_slow_iteration():
    frame = findings(run(compute=lambda _gpu, i: 1200 if i == 2 else 880))
    assert frame["kind"].tolist() == ["slow_iteration"]
    assert frame["selection"].iloc[0] == [["iteration", 2]]


def test_a_late_host_and_exposed_communication_are_ranked_by_cost():
    frame = findings(run(idle=lambda _gpu, _i: 200, exposed=100))
    assert set(frame["kind"]) == {"idle", "communication"}
    assert frame["cost_ms"].is_monotonic_decreasing
    late = frame[frame["kind"] == "idle"].iloc[0]
    assert late["selection"] == [["phase", "forward"], ["op", "mm"]]


def test_a_gpu_whose_host_is_late_is_the_reason_why_all_wait():
    frame = findings(meeting(gap=lambda gpu, _i: 200 if gpu == 1 else 0))
    assert frame["kind"].tolist() == ["straggler"]
    row = frame.iloc[0]
    assert row["selection"] == [["gpu", 1]]
    assert "host launches late" in row["title"]
    assert row["cost_ms"] == pytest.approx(200e-6)  # own idle time on one, waiting on two others
    assert "last in 4 of 4 collectives" in row["evidence"]


def test_a_late_host_everywhere_is_no_straggler():
    frame = findings(meeting(gap=lambda _gpu, _i: 200))
    assert frame["kind"].tolist() == ["idle"]
    assert frame["cost_ms"].iloc[0] == pytest.approx(200e-6)


def test_who_computes_longer_costs_what_the_others_wait():
    frame = findings(meeting(more=lambda gpu, _i: 100 if gpu == 2 else 0))
    assert frame["kind"].tolist() == ["slow_gpu"]
    assert frame["cost_ms"].iloc[0] == pytest.approx(100e-6)


def test_who_computes_longer_and_waits_for_others_costs_nothing():
    frame = findings(meeting(
        more=lambda gpu, _i: 100 if gpu == 2 else 0,
        gap=lambda gpu, _i: 300 if gpu == 1 else 0,
    ))  # fmt: skip
    assert frame["kind"].tolist() == ["straggler"]


def test_waits_for_always_another_gpu_are_nobodys_fault():
    frame = findings(meeting(iterations=6, more=lambda gpu, i: 150 if gpu == i % 3 else 0))
    assert frame["kind"].tolist() == ["waiting"]
    assert frame["cost_ms"].iloc[0] == pytest.approx(100e-6)


def test_findings_of_a_part_are_about_that_part():
    trace = meeting(gap=lambda gpu, _i: 200 if gpu == 1 else 0)
    assert findings(trace.filter(gpu=[0, 1]))["kind"].tolist() == ["straggler"]
    assert findings(trace.filter(iteration=2))["kind"].tolist() == ["straggler"]
    assert findings(trace.filter(gpu=7)).empty


def test_every_row_says_what_where_how_much_and_what_to_do():
    frame = findings(run(idle=lambda _gpu, _i: 200, exposed=100))
    assert frame.attrs["units"] == dict.fromkeys(("cost_ms", "cost_low_ms", "cost_high_ms"), "ms")
    for name in ("title", "detail", "value", "evidence", "selection"):
        assert frame[name].map(bool).all()


@pytest.mark.real
@pytest.mark.filterwarnings("ignore::chopper_jupyter.core.errors.PartialTraceWarning")
@pytest.mark.parametrize(
    ("files", "straggler"),
    [
        ("ddp_resnet18_2rank/*", 1),
        ("param_dlrm8/*", 7),
        ("torchrec_4rank_noqcomm/*", 2),
        ("hpc_ddp4_mi/derived_rank*", 3),
        ("tracelens/mi300_owlv2.json.gz", None),
    ],
)
def test_real_runs_lose_no_more_than_they_last(real_data, files, straggler):
    """Whoever arrives last at most collectives, its host late, is the straggler."""
    trace = read_trace(sorted((real_data / "traces").glob(files)))
    frame = findings(trace)
    row = breakdown(trace).iloc[0]
    assert 0 < frame["cost_ms"].sum() <= row["wall_ns"] * 1e-6 / included(trace).instances
    late = frame[frame["kind"] == "straggler"]["selection"].tolist()
    assert late == ([] if straggler is None else [[["gpu", straggler]]])
    if straggler is not None:
        calls = collectives(trace)
        assert calls["straggler_gpu"].value_counts().idxmax() == straggler
