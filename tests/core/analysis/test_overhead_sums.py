"""Sums for displays say what the table of ``overheads`` says, and why the rest is not known."""

import pytest
from overhead_runs import overhead_run

from chopper_jupyter.core.analysis.clock_of_ops import NO_SENSOR
from chopper_jupyter.core.analysis.instance_parts import NOT_COUNTED
from chopper_jupyter.core.analysis.overhead_sums import (
    KNOWN,
    NOT_APPLICABLE,
    OVERHEAD_PARTS,
    overhead_sums,
    overhead_sums_of,
)
from chopper_jupyter.core.analysis.overheads import overheads
from chopper_jupyter.core.analysis.taken_apart import take_apart
from chopper_jupyter.core.trace import Trace

PARTS = [part.name for part in OVERHEAD_PARTS]


@pytest.fixture(scope="module")
def noisy():
    return overhead_run(noise=0.02).trace


def without(trace, *left):
    tables = {name: one for name, one in trace.tables.items() if name not in left}
    return Trace.from_tables(tables, trace.info, trace.quality)


@pytest.mark.parametrize("levels", [[], ["op"], ["gpu", "iteration"], ["layer", "op"]])
def test_sums_are_those_of_the_table(noisy, levels):
    apart = take_apart(noisy, "measured")
    sums = overhead_sums(apart, levels)
    frame = overheads(noisy, levels)
    per = frame.set_index(levels) if levels else frame
    instances = 6 // (2 if "gpu" in levels else 1) // (3 if "iteration" in levels else 1)
    keyed = zip(apart.keys(levels), sums.codes, strict=True)
    names = [[key.values[code] for code in codes] for key, codes in keyed]
    for at, values in enumerate(zip(*names, strict=True) if levels else [()]):
        row = per.loc[values if len(values) > 1 else values[0]] if levels else per.iloc[0]
        assert sums.actual[at] / instances * 1e-6 == pytest.approx(row["actual_ms"])
        for part in PARTS:
            if sums.why[part][at] == KNOWN:
                assert sums.ns[part][at] / instances * 1e-6 == pytest.approx(row[f"{part}_ms"])
            if part in sums.half and sums.why[part][at] == KNOWN:
                half = (row[f"{part}_high_ms"] - row[f"{part}_low_ms"]) / 2
                assert sums.half[part][at] / instances * 1e-6 == pytest.approx(half)


def test_a_selection_is_its_row(noisy):
    apart = take_apart(noisy, "measured")
    rows = overhead_sums(apart, ["gpu", "op"])
    for at, (gpu, op) in enumerate(zip(*rows.codes, strict=True)):
        one = overhead_sums_of(apart, {"op": op, "gpu": gpu})
        assert one.actual[0] == rows.actual[at]
        for part in PARTS:
            assert one.why[part][0] == rows.why[part][at]
            if one.why[part][0] == KNOWN:
                assert one.ns[part][0] == pytest.approx(rows.ns[part][at])
    assert overhead_sums_of(apart, {"op": 99}).actual[0] == 0


def test_what_does_not_apply_is_told_from_what_is_not_known(noisy):
    apart = take_apart(without(noisy, "counters", "telemetry"), "measured")
    sums = overhead_sums(apart, ["op"])
    ops = dict(zip((apart.keys(["op"])[0].values[c] for c in sums.codes[0]), range(3), strict=True))
    said = {
        (op, part): sums.reasons[why] if why >= 0 else why
        for op, at in ops.items()
        for part in PARTS
        for why in [sums.why[part][at]]
    }
    assert said["q_proj", "theoretical"] == KNOWN
    assert said["q_proj", "utilization"] == NOT_COUNTED
    assert said["q_proj", "frequency"] == NO_SENSOR
    assert said["norm", "utilization"] == NOT_APPLICABLE
    assert said["norm", "frequency"] == NOT_APPLICABLE
    assert said["norm", "waiting"] == NOT_APPLICABLE
    assert said["norm", "unexplained"] == KNOWN
