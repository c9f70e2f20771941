from dataclasses import replace

import pytest
from builders import llama_trace, trace_of
from hypothesis import given
from hypothesis import strategies as st
from payload_rules import check_payload
from random_traces import kernel_rows

from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.trace import Trace, TraceInfo
from chopper_jupyter.widgets.packing import pack, unpack
from chopper_jupyter.widgets.payload import payload_of
from chopper_jupyter.widgets.sources import Sources


def payload(trace, *, merge=True, **more):
    return payload_of(Sources(trace), merge=merge, **more)


@pytest.mark.parametrize("merge", [True, False])
def test_payload_keeps_the_rules(merge):
    check_payload(payload(llama_trace(gpus=2, iterations=2, layers=3), merge=merge))


@pytest.mark.parametrize(
    "trace",
    [
        Trace.from_tables({}),
        trace_of([{}]),
        trace_of([{"phase": "forward", "op": "aten::mm"}], device_kind="cpu"),
        trace_of([{"iteration": 7, "gpu": 5, "flops": 10, "message_bytes": 3}]),
    ],
    ids=["nothing", "one unlinked kernel", "cpu", "all measures"],
)
def test_small_and_odd_traces_keep_the_rules(trace):
    check_payload(payload(trace))


@pytest.mark.parametrize("cost", [None, {}, {"ratio": None}, {"ratio": "1"}, {"ratio": 0}, 3])
def test_a_cost_that_was_not_noted_is_no_fact(cost):
    trace = trace_of([{}], run={"profiler_cost": cost})
    assert [f["label"] for f in payload(trace)["facts"]] == ["", "Wall time"]


@given(rows=kernel_rows(), merge=st.booleans(), budget=st.sampled_from([150_000, 4_500, 3_000]))
def test_any_trace_keeps_the_rules(rows, merge, budget):
    check_payload(payload(trace_of(rows), merge=merge, budget=budget))


def test_a_small_trace_is_embedded_whole():
    found = payload(llama_trace(gpus=2, iterations=2, layers=2))
    assert [c["levels"] for c in found["cubes"]] == [
        ["gpu", "iteration", "phase", "layer", "op", "kernel"]
    ]


def test_a_cube_rolled_up_equals_the_summary():
    trace = llama_trace(gpus=3, iterations=4, layers=20)
    found = payload(trace, budget=30_000)  # several cubes instead of one
    assert len(found["cubes"]) > 1
    assert all(cube["coarse"] is None for cube in found["cubes"])
    for cube in found["cubes"]:
        for at, level in enumerate(cube["levels"]):
            expected = summarize(trace, level, ["time"]).set_index(level)["time_ms"]
            sums = {}
            for code, ns in zip(cube["codes"][at], cube["measures"]["time_ns"], strict=True):
                sums[code] = sums.get(code, 0) + ns
            apart = {"gpu": 3, "iteration": 4}.get(level, 1)
            for code, ns in sums.items():
                if code >= 0:
                    member = found["dictionaries"][level][code]
                    name = member.get("value", member["label"])
                    assert ns * apart * 1e-6 / 12 == pytest.approx(expected[name])


def test_warm_up_is_left_out_and_said():
    trace = llama_trace(gpus=1, iterations=4, layers=1)
    trace = replace(trace, info=replace(trace.info, warmup=2))
    found = payload(trace)
    assert found["iteration_numbers"] == [2, 3]
    assert found["included"] == "iterations 2 to 3 (2 warm-up left out)"
    assert found["totals"]["count"] * 2 == trace.kernels.num_rows


def test_facts_say_devices_time_and_what_is_missing():
    trace = llama_trace(gpus=2, iterations=2, layers=1)
    trace = replace(
        trace,
        info=replace(
            trace.info,
            simulated=True,
            tokens_per_iteration=1000,
            missing_ranks=tuple(range(2, 20)),
            run={"profiler_cost": {"ratio": 1.021}},
        ),
    )
    facts = [(fact["label"], fact["value"]) for fact in payload(trace)["facts"]]
    assert facts[0] == ("", "2 \u00d7 H100")
    assert ("", "simulated") in facts
    labels = ["Iteration", "Tokens/s", "Clocks", "Recording cost", "Missing ranks"]
    assert [label for label, _ in facts if label] == labels
    assert ("Recording cost", "2.1\u202f%") in facts
    assert facts[-1][1] == "2, 3, 4, 5, 6, 7, 8, 9 and 10 more"


def test_quality_is_good_or_not_and_long_records_are_cut():
    trace = trace_of([{"op": "a"}])
    assert payload(trace)["quality"]["good"] is True
    notes = tuple(f"note {i} " + "x" * 1000 for i in range(500))
    trace = replace(trace, quality=Quality(kernels=1, linked={"op": 0.5}, notes=notes))
    quality = payload(trace)["quality"]
    assert quality["good"] is False
    assert len(quality["lines"]) == 41
    assert quality["lines"][-1] == "and 462 more lines: trace.quality.lines()"
    assert max(map(len, quality["lines"])) <= 300


def test_layers_are_shortened_and_kernels_have_short_names_and_families():
    found = payload(llama_trace(gpus=1, iterations=1, layers=2))["dictionaries"]
    assert [m["short"] for m in found["layer"]] == ["layers.0", "layers.1"]
    families = {m["label"].split("_")[0]: m["family"] for m in found["kernel"]}
    assert families["gemm"] == "gemm"
    assert families["ncclDevKernel"] == "communication"
    assert found["gpu"] == [{"label": "GPU 0", "value": 0}]


def test_a_cpu_trace_speaks_of_the_cpu():
    found = payload(trace_of([{"op": "aten::mm"}], device_kind="cpu"))
    assert found["device_kind"] == "cpu"
    assert found["facts"][0]["value"] == "CPU operators"
    assert found["dictionaries"]["gpu"] == [{"label": "CPU 0", "value": 0}]
    assert "overlap" not in [metric["name"] for metric in found["metrics"]]


def test_packing_is_deterministic_and_loses_nothing():
    trace = llama_trace(gpus=2, iterations=2, layers=2)
    first, second = payload(trace), payload(trace)
    assert pack(first) == pack(second)
    assert unpack(pack(first)) == first


def test_names_that_clip_alike_stay_distinct():
    long = "k" * 3000
    rows = [{"name": f"{long}{i}{long}", "dur_ns": 10 + i} for i in range(3)]
    labels = [m["label"] for m in payload(trace_of(rows))["dictionaries"]["kernel"]]
    assert len(set(labels)) == 3
    assert all(len(label) < 420 for label in labels)


def test_the_title_survives_lone_surrogates():
    found = payload(Trace.from_tables({}, TraceInfo(name="run \ud800")))
    assert found["title"] == "run ?"
