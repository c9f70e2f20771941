import pytest

from chopper_jupyter.collect.replay.counter_sets import AMD, PER_PASS, plan_passes
from chopper_jupyter.core.errors import CollectError, SchemaError


@pytest.mark.parametrize("architecture", AMD)
@pytest.mark.parametrize("wanted", [["matrix"], ["memory"], ["matrix", "memory"]])
def test_amd_passes_fit(architecture, wanted):
    passes = plan_passes(wanted, "rocprofv3", architecture)
    assert all(1 <= len(one) <= PER_PASS for one in passes)
    assert len(set(passes)) == len(passes)
    reads = [one for one in passes if any("RDREQ" in c for c in one)]
    assert not any("WRREQ" in counter for one in reads for counter in one)  # error 38 together


def test_raw_counters_are_spread_and_added():
    passes = plan_passes(
        ["matrix", "SQ_WAVES", "SQ_A", "SQ_B", "SQ_C"], "rocprofv3", "gfx942:sramecc+"
    )
    assert passes[-2:] == (("SQ_WAVES", "SQ_A", "SQ_B"), ("SQ_C",))


def test_ncu_needs_one_run():
    (metrics,) = plan_passes(["matrix", "memory", "sm__warps_active.avg"], "ncu")
    assert len(set(metrics)) == len(metrics)
    assert "dram__bytes_read.sum" in metrics
    assert metrics[-1] == "sm__warps_active.avg"


def test_errors():
    with pytest.raises(SchemaError, match="did you mean 'matrix'"):
        plan_passes(["matrx"], "ncu")
    with pytest.raises(CollectError, match="not known for gfx1151"):
        plan_passes(["matrix"], "rocprofv3", "gfx1151")
    with pytest.raises(CollectError, match="no counters named"):
        plan_passes([" "], "ncu")
