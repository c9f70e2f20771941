import dataclasses
from dataclasses import replace

import pyarrow as pa
import pytest
from builders import kernels, llama_trace, trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import LAYERS, traces

from chopper_jupyter.core.errors import ChopperError, SchemaError
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import TABLES
from chopper_jupyter.core.trace import Trace, TraceInfo

VALUES = {
    "gpu": st.integers(0, 3),
    "iteration": st.none() | st.integers(0, 3),
    "phase": st.sampled_from((None, "forward", "optimizer", "nothing")),
    "layer": st.sampled_from((None, *LAYERS)),
    "kind": st.sampled_from(("compute", "memcpy")),
    "stream": st.sampled_from((0, 7)),
}
CHOICES = st.fixed_dictionaries(
    {}, optional={k: v | st.lists(v, max_size=2) for k, v in VALUES.items()}
)


def wanted(row, chosen):
    return all(row[k] in (v if isinstance(v, list) else [v]) for k, v in chosen.items())


def same(one, other):
    return all(
        one.tables[name].schema.equals(other.tables[name].schema, check_metadata=True)
        and one.tables[name].to_pylist() == other.tables[name].to_pylist()
        for name in TABLES
    )


@given(traces())
def test_save_and_open_are_identity(tmp_path_factory, trace):
    folder = tmp_path_factory.getbasetemp() / "saved"
    opened = Trace.open(trace.save(folder))
    assert same(trace, opened)
    assert (opened.info, opened.quality) == (trace.info, trace.quality)


def test_info_and_quality_survive_saving(tmp_path):
    info = TraceInfo(
        name="ü", origin_ns=1_700_000_000_000_000_001, world_size=8, missing_ranks=(3, 5),
        warmup=2, tokens_per_iteration=4096, simulated=True, run={"options": {"warmup": 2}},
    )  # fmt: skip
    quality = Quality(9, {"odd": 1}, {"cut": 2}, 3, {"op": 0.5}, ("one rank",))
    trace = Trace.from_tables({"kernels": kernels([{}])}, info, quality)
    opened = Trace.open(trace.save(tmp_path / "t"))
    assert (opened.info, opened.quality) == (info, quality)


@given(traces(), CHOICES)
def test_filter_keeps_exactly_the_rows_that_match_everything(trace, chosen):
    expected = [row for row in trace.kernels.to_pylist() if wanted(row, chosen)]
    assert trace.filter(**chosen).kernels.to_pylist() == expected


@given(traces(), CHOICES, CHOICES)
def test_filters_in_either_order_are_one_filter(trace, first, second):
    one = trace.filter(**first).filter(**second)
    other = trace.filter(**second).filter(**first)
    assert one.kernels.to_pylist() == other.kernels.to_pylist()
    assert one.filter(**first).kernels.equals(one.kernels)


@given(traces())
def test_no_filter_is_the_trace_itself(trace):
    assert trace.filter() is trace


def test_filter_by_kernel_name_and_family():
    trace = trace_of([{"name": "a", "family": "gemm"}, {"name": "b", "family": "norm"}])
    assert trace.filter(kernel="b").kernels["name"].to_pylist() == ["b"]
    assert trace.filter(family=("gemm", "copy")).kernels["name"].to_pylist() == ["a"]


def test_filter_takes_counters_and_telemetry_along():
    counters = pa.table(
        {"kernel_id": [0, 1], "counter": ["c", "c"], "value": [1.0, 2.0], "pass": [0, 0],
         "matched_by": ["name", "name"]}
    )  # fmt: skip
    telemetry = pa.table(
        {"source": ["s", "s"], "gpu": [0, 1], "time_ns": [0, 0], "metric": ["power_w"] * 2,
         "value": [1.0, 2.0]}
    )  # fmt: skip
    tables = {"kernels": kernels([{"gpu": 0}, {"gpu": 1}])}
    trace = Trace.from_tables({**tables, "counters": counters, "telemetry": telemetry})
    kept = trace.filter(gpu=1)
    assert kept.counters["value"].to_pylist() == [2.0]
    assert kept.telemetry["value"].to_pylist() == [2.0]
    assert trace.filter(stream=7).telemetry.num_rows == 2


def test_unknown_level_names_the_nearest():
    with pytest.raises(SchemaError, match="no level named 'layr'; did you mean 'layer'"):
        trace_of([]).filter(layr="x")
    with pytest.raises(KeyError):
        trace_of([]).filter(nothing=1)


def test_unknown_table_is_an_error_of_the_package():
    with pytest.raises(ChopperError, match="did you mean 'kernels'"):
        Trace.from_tables({"kernel": pa.table({})})


def test_measured_iterations_leave_out_warm_up():
    rows = [{"iteration": i} for i in (3, 0, 1, 2, None)]
    assert trace_of(rows).iterations == [0, 1, 2, 3]
    assert trace_of(rows, warmup=2).measured_iterations == [2, 3]
    assert trace_of(rows[:1], warmup=2).measured_iterations == [3]
    assert trace_of([{}]).measured_iterations == []


def test_chosen_iterations_are_measured():
    trace = trace_of([{"iteration": i} for i in range(4)], warmup=2)
    assert trace.filter(iteration=[1, 3]).measured_iterations == [1, 3]
    assert trace.filter(gpu=0).measured_iterations == [2, 3]
    assert trace.info.warmup == 2


def test_a_trace_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace_of([]).info = TraceInfo()


def test_repr_says_what_it_is():
    trace = llama_trace(gpus=2, iterations=3, layers=1)
    trace = replace(trace, info=replace(trace.info, warmup=1, missing_ranks=(5,), simulated=True))
    lines = repr(trace).splitlines()
    assert lines[0] == "Trace llama3-8b-fsdp2: 2 GPUs (NVIDIA H100 80GB HBM3) [simulated]"
    assert lines[1] == "  96 kernels, 0 ops, 3 iterations (0 to 2, 1 warm-up)"
    assert lines[2] == "  missing ranks: 5"
    assert "kernel time linked to: op 100.0 %" in repr(trace)


def test_repr_of_an_empty_and_of_a_cpu_trace():
    assert repr(Trace.from_tables({})).splitlines()[0] == "Trace trace: 0 GPUs"
    assert repr(trace_of([{}], device_kind="cpu")).splitlines()[0] == "Trace trace: CPU"


def test_html_repr_escapes_names():
    shown = trace_of([{}], name="<script>x</script>")._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
