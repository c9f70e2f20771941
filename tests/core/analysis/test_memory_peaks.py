"""Peaks of memory in ``summarize``: the most there was at once, against a plain count."""

import pandas as pd
import pyarrow as pa
import pytest
from builders import trace_of
from hypothesis import given, settings
from hypothesis import strategies as st

from chopper_jupyter import summarize
from chopper_jupyter.core.analysis.headline import headline
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.schema import conform
from chopper_jupyter.core.trace import altered

PEAKS = ["peak_allocated", "peak_reserved"]


def with_memory(kernels, changes, **info):
    """A trace with changes of memory: levels, bytes and what is reserved, in order of time."""
    rows, total = [], {}
    for time, (gpu, iteration, phase, layer, size, reserved) in enumerate(changes):
        total[gpu] = total.get(gpu, 0) + size
        rows.append({
            "gpu": gpu, "time_ns": time, "bytes": size, "allocated_bytes": total[gpu],
            "reserved_bytes": reserved, "iteration": iteration, "phase": phase, "layer": layer,
        })  # fmt: skip
    schema = {"phase": pa.string(), "layer": pa.string(), "iteration": pa.int32()}
    table = pa.Table.from_pylist(rows)
    for name, kind in schema.items():
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    return altered(trace_of(kernels, **info), memory=conform("memory", table))


def kernel(gpu, iteration, phase, layer):
    return {"gpu": gpu, "iteration": iteration, "phase": phase, "layer": layer, "dur_ns": 5}


KERNELS = [
    kernel(0, iteration, phase, "a") for iteration in (0, 1) for phase in ("forward", "backward")
]
CHANGES = [
    (0, 0, "forward", "a", 500, 1000),
    (0, 0, "backward", "a", -400, 1000),
    (0, 1, "forward", "a", 800, 3000),
    (0, 1, "forward", "b", 5000, 9000),  # of a layer without kernels
    (0, 1, "forward", "b", -5000, 9000),
    (0, 1, "backward", "a", 10, 3000),
]


def test_a_group_that_only_frees_knows_what_it_began_with():
    found = summarize(with_memory(KERNELS, CHANGES), ["iteration", "phase"], PEAKS)
    rows = found.set_index(["iteration", "phase"])
    assert rows["peak_allocated_bytes"].to_dict() == {
        (0, "forward"): 500, (0, "backward"): 500, (1, "forward"): 5900, (1, "backward"): 910,
    }  # fmt: skip
    assert rows["peak_reserved_bytes"].to_dict() == {
        (0, "forward"): 1000, (0, "backward"): 1000, (1, "forward"): 9000, (1, "backward"): 3000,
    }  # fmt: skip
    assert found.attrs["units"]["peak_allocated_bytes"] == "B"


def test_a_row_takes_the_most_of_the_iterations_it_joins_and_warm_up_is_left_out():
    trace = with_memory(KERNELS, [(0, 0, "forward", "a", 10**6, 10**7), *CHANGES[1:]], warmup=1)
    assert summarize(trace, metrics=["peak_reserved"])["peak_reserved_bytes"].tolist() == [9000]
    every = summarize(trace, metrics=PEAKS, include="all")
    assert every["peak_reserved_bytes"].tolist() == [10**7]


def test_where_nothing_is_allocated_the_peak_is_null():
    kernels = [*KERNELS, kernel(0, 0, "optimizer", None)]
    found = summarize(with_memory(kernels, CHANGES), "phase", ["peak_allocated"])
    assert pd.isna(found.set_index("phase")["peak_allocated_bytes"]["optimizer"])


def test_it_is_not_asked_for_by_default_and_needs_a_recording():
    trace = with_memory(KERNELS, CHANGES)
    assert not [c for c in summarize(trace).columns if "peak" in c]
    with pytest.raises(MissingDataError, match="--memory"):
        summarize(trace_of(KERNELS), metrics=["peak_allocated"])
    on_cpu = with_memory(KERNELS, [(*c[:5], None) for c in CHANGES])
    with pytest.raises(MissingDataError, match="on a GPU"):
        summarize(on_cpu, metrics=["peak_reserved"])
    with pytest.raises(MissingDataError, match="memory belongs to no kernel"):
        summarize(trace, "kernel", ["peak_allocated"])


def test_the_headline_says_how_much_and_where():
    said = dict(headline(with_memory(KERNELS, CHANGES)).facts)["Memory"]
    assert said == "at most 5.90 kB allocated (forward, b), 9.00 kB reserved"
    second = [(1, 0, None, None, 7000, None)]
    trace = with_memory([*KERNELS, kernel(1, 0, "forward", "a")], [*CHANGES[:1], *second])
    assert dict(headline(trace).facts)["Memory"].startswith("at most 7.00 kB allocated (GPU 1)")
    assert "Memory" not in dict(headline(trace_of(KERNELS)).facts)


level = st.tuples(
    st.integers(0, 1),
    st.sampled_from((0, 1, None)),
    st.sampled_from(("forward", "backward", None)),
    st.sampled_from(("a", "b", None)),
)


@given(
    st.lists(level, min_size=1, max_size=8),
    st.lists(st.tuples(level, st.integers(-99, 99), st.integers(0, 99)), min_size=1, max_size=12),
    st.lists(st.sampled_from(("gpu", "iteration", "phase", "layer")), unique=True),
)
@settings(max_examples=60, deadline=None)
def test_peaks_are_those_of_a_plain_count(kernels, changes, by):
    names = ("gpu", "iteration", "phase", "layer")
    trace = with_memory(
        [kernel(*one) for one in kernels], [(*one, size, held) for one, size, held in changes]
    )
    total, expected, ran = {0: 0, 1: 0}, {}, {one[1] for one in kernels}
    for one, size, held in changes:
        before = total[one[0]]
        total[one[0]] += size
        if ran != {None} and one[1] not in ran:
            continue  # where there are iterations, only those that have kernels are covered
        key = tuple(one[names.index(name)] for name in by)
        most = expected.setdefault(key, [-(10**9), -1])
        most[:] = [max(most[0], before, total[one[0]]), max(most[1], held)]
    found = summarize(trace, by, PEAKS, include="all").to_dict("records")
    assert {tuple(none(row[name]) for name in by) for row in found} == {
        tuple(one[names.index(name)] for name in by) for one in kernels
    }
    for row in found:
        known = expected.get(tuple(none(row[name]) for name in by))
        told = [none(row["peak_allocated_bytes"]), none(row["peak_reserved_bytes"])]
        assert told == (known or [None, None])


def none(value):
    return None if pd.isna(value) else value
