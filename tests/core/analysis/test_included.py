import gc
import weakref
from unittest.mock import patch

import pyarrow as pa
import pytest
from builders import trace_of
from hypothesis import given
from hypothesis import strategies as st
from random_traces import traces

from chopper_jupyter.core.analysis import included as which
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.levels import KEY_COLUMNS
from chopper_jupyter.core.schema import LEVEL_COLUMNS, LEVELS
from chopper_jupyter.core.trace import TraceInfo, altered


def plain(trace, by):
    """Sum time, count and idle in a dictionary, of the iterations after warm-up."""
    rows = trace.kernels.to_pylist()
    if trace.iterations:
        rows = [row for row in rows if row["iteration"] in trace.measured_iterations]
    sums = {}
    for row in rows:
        one = sums.setdefault(tuple(row[KEY_COLUMNS[name]] for name in by), [0, 0, 0])
        for i, value in enumerate((row["dur_ns"], 1, row["idle_ns"])):
            one[i] += value
    return sums


def remembered(trace, by):
    found = included(trace)
    keys, groups = [found.key(name) for name in by], found.groups(by)
    columns = [
        [key.values[code] if code >= 0 else None for code in codes.tolist()]
        for key, codes in zip(keys, groups.codes, strict=True)
    ]
    sums = [groups.sum_of(found.measures[n]).tolist() for n in ("time_ns", "count", "idle_ns")]
    rows = zip(*columns, strict=True) if columns else [()] * groups.count
    return dict(zip(rows, map(list, zip(*sums, strict=True)), strict=True))


SOME_KEYS = st.lists(st.sampled_from(sorted(KEY_COLUMNS)), unique=True, max_size=3)


@given(traces(1), st.lists(SOME_KEYS, min_size=1, max_size=12))
def test_whatever_was_asked_before_sums_are_those_of_a_dictionary(trace, questions):
    for by in questions:
        assert remembered(trace, by) == (plain(trace, by) or ({} if by else {(): [0, 0, 0]}))
    assert len(included(trace)._groups) <= which.REMEMBERED


@given(traces(1), st.sampled_from(LEVELS), st.integers(0, 11), SOME_KEYS)
def test_a_filtered_trace_remembers_its_own(trace, level, row, by):
    remembered(trace, by)
    value = trace.kernels.to_pylist()[row % trace.kernels.num_rows][LEVEL_COLUMNS[level]]
    kept = trace.filter(**{level: value})
    again = kept.filter(gpu=kept.kernels["gpu"][0].as_py())
    for one in (again, kept, trace):
        assert remembered(one, by) == (plain(one, by) or ({} if by else {(): [0, 0, 0]}))


@given(traces(1), st.integers(0, 2), st.sampled_from((0, which._MOST_RUNS)))
def test_runs_of_kernels_are_those_that_a_filter_takes(trace, warmup, most):
    trace = altered(trace, info=TraceInfo(warmup=warmup))
    with patch.object(which, "_MOST_RUNS", most):
        found = included(trace)
    rows = trace.kernels if found.mask is None else trace.kernels.filter(found.mask)
    assert found.kernels.equals(rows.select(which.COLUMNS))


def test_covered_kernels_share_the_memory_of_the_trace():
    trace = trace_of([{"gpu": g, "iteration": i} for g in range(2) for i in range(3)], warmup=1)
    before = pa.total_allocated_bytes()
    kernels = included(trace).kernels
    assert kernels.num_rows == 4
    assert pa.total_allocated_bytes() - before < kernels.nbytes


def test_what_is_remembered_goes_with_its_trace():
    trace = trace_of([{"op": "a"}])
    kept = weakref.ref(included(trace))
    assert included(trace) is kept()
    assert included(trace, "all") is not kept()
    del trace
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("by", [(), ("op",), ("op", "gpu")])
def test_no_kernels_have_no_groups_but_a_total(by):
    assert included(trace_of([])).groups(by).count == (0 if by else 1)
