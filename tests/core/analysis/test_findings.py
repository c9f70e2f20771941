"""Findings are found where something stands out, and nowhere else."""

from __future__ import annotations

from builders import trace_of
from sampled_traces import sample, with_samples

from chopper_jupyter import findings
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
    rows = [
        sample("gpu_clock_mhz", 980 * i + t, clock(gpu, i) + t % 3, gpu=gpu)
        for gpu in range(4)
        for i in range(5)
        for t in range(10, 980, 97)
    ]
    return with_samples(trace, rows)


def kinds(trace):
    return findings(trace)["kind"].tolist()


def test_a_plain_run_has_none():
    assert kinds(clocked(run(), lambda _gpu, _i: 2000)) == []
    assert kinds(trace_of([{}], device_kind="cpu")) == []


def test_a_low_clock_of_one_gpu_in_one_iteration():
    frame = findings(clocked(run(), lambda gpu, i: 1500 if (gpu, i) == (2, 3) else 2000))
    assert frame["kind"].tolist() == ["clock"]
    assert frame["selection"].iloc[0] == [["gpu", 2], ["iteration", 3]]
    assert "GPU 2" in frame["title"].iloc[0]
    assert frame["value"].iloc[0].startswith("150")


def test_a_low_clock_all_along():
    frame = findings(clocked(run(), lambda gpu, _i: 1500 if gpu == 1 else 2000))
    assert frame["selection"].iloc[0] == [["gpu", 1]]
    assert "in 5 iterations" in frame["title"].iloc[0]


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
