import gc
import weakref
from unittest.mock import patch

import pytest
from overhead_runs import overhead_run

from chopper_jupyter import Explorer, Report
from chopper_jupyter.core.analysis import findings, op_instances, sharing
from chopper_jupyter.core.analysis.idle_causes import split_idle
from chopper_jupyter.core.analysis.included import included
from chopper_jupyter.core.analysis.op_instances import instances
from chopper_jupyter.core.analysis.overheads import overheads
from chopper_jupyter.core.analysis.timeline import timeline
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.trace import altered


@pytest.fixture(scope="module")
def counted():
    return overhead_run().trace


def made_by(display, trace):
    """Return how often runs of ops are put together, and findings found, for a display."""
    with (
        patch.object(op_instances, "_instances", side_effect=op_instances._instances) as ops,
        patch.object(findings, "run_of", side_effect=findings.run_of) as found,
    ):
        display(trace)
    return ops.call_count, found.call_count


@pytest.mark.parametrize(
    "display",
    [lambda trace: Explorer(trace).to_html(), lambda trace: Report(trace)._repr_html_()],
    ids=["explorer", "report"],
)
def test_one_display_works_its_parts_out_once(display, counted):
    trace = altered(counted)
    assert made_by(display, trace) == (1, 1)
    assert trace not in sharing._SHARED


def test_without_a_display_nothing_stays(counted):
    found = weakref.ref(instances(counted, "measured"))
    overheads(counted, "op")
    gc.collect()
    assert found() is None
    assert not len(sharing._SHARED)


def test_what_is_shared_is_what_would_be_made(counted):
    alone = overheads(counted, "op")
    with sharing.sharing(counted):
        for _ in range(2):
            assert overheads(counted, "op").equals(alone)


def test_an_error_is_no_answer_to_share(counted):
    bare = altered(counted, ops=counted.ops[:0], counters=counted.counters[:0])
    with sharing.sharing(bare):
        for _ in range(2):
            with pytest.raises(MissingDataError):
                overheads(bare, "op")
    assert bare not in sharing._SHARED


def test_shared_idle_time_cannot_be_changed_by_mistake(counted):
    trace = altered(counted, kernels=counted.kernels)
    line = timeline(trace, included(trace, "all"), "this")
    causes = split_idle(trace, line)
    assert sum(causes.values()).tolist() == line.ints("idle_ns").tolist()
    for values in causes.values():
        if not values.any():
            with pytest.raises(ValueError, match="read-only"):
                values[:1] = 1
