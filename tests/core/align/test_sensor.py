"""How often sensors refresh, against a slow walk over the samples."""

from __future__ import annotations

import itertools
import statistics

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.align.sensor import refresh_intervals
from chopper_jupyter.core.schema import TELEMETRY


def telemetry(rows) -> pa.Table:
    full = [
        {"source": "s", "host": None, "gpu": g, "core": None, "time_ns": t, "metric": m, "value": v}
        for g, m, t, v in rows
    ]
    return pa.Table.from_pylist(full, schema=TELEMETRY)


def test_the_median_time_between_changes():
    times = range(0, 100, 10)
    steps = [(0, "power_w", t, float(t // 20)) for t in times]
    still = [(1, "power_w", t, 5.0) for t in times]
    once = [(2, "power_w", t, float(t > 40)) for t in times]
    found = refresh_intervals(telemetry([*steps, *still, *once])).to_pylist()
    assert [(row["gpu"], row["changes"], row["refresh_interval_ns"]) for row in found] == [
        (0, 4, 20), (1, 0, None), (2, 1, None),
    ]  # fmt: skip
    assert {row["samples"] for row in found} == {10}


def test_no_samples_no_sensors():
    assert refresh_intervals(telemetry([])).num_rows == 0


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from((None, 0, 1)), st.sampled_from(("power_w", "temperature_c")),
        st.integers(0, 40), st.sampled_from((1.0, 2.0, 3.0)),
    ),
    unique_by=lambda row: row[:3], max_size=60,
)  # fmt: skip


@given(SAMPLES)
def test_the_same_as_a_walk(rows):
    expected = {}
    for key in {row[:2] for row in rows}:
        mine = sorted(row[2:] for row in rows if row[:2] == key)
        changes = [b[0] for a, b in itertools.pairwise(mine) if a[1] != b[1]]
        gaps = [b - a for a, b in itertools.pairwise(changes)]
        median = statistics.median_low(gaps) if gaps else None
        expected[key] = (len(mine), len(changes), median)
    found = {
        (row["gpu"], row["metric"]): (row["samples"], row["changes"], row["refresh_interval_ns"])
        for row in refresh_intervals(telemetry(rows)).to_pylist()
    }
    assert found == expected
