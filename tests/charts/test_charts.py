"""Figures in a page: drawn without a network, readable without scripts, and never markup."""

from __future__ import annotations

from dataclasses import replace

import charted_runs
import pytest
from builders import trace_of

from chopper_jupyter import charts
from chopper_jupyter.charts import offline
from chopper_jupyter.charts.chart import table_html
from chopper_jupyter.core.errors import MissingDataError
from chopper_jupyter.core.trace import altered


@pytest.fixture(scope="module", name="runs")
def two_runs():
    return charted_runs.runs()


def test_each_says_what_it_shows(runs):
    for chart in charted_runs.every(runs):
        page = chart.to_html(with_bokeh=False)
        assert 'aria-label="' in page
        assert "<details" in page
        assert "<table" in page
        assert "2 GPUs" in chart.caption
        assert len(chart.data)


def test_simulated_runs_are_labelled(runs):
    made = {n: altered(t, info=replace(t.info, simulated=True)) for n, t in runs.items()}
    for chart in charted_runs.every(made):
        assert "(simulated)" in chart.title
        assert "Simulated." in chart.caption


def test_nothing_to_show_is_said():
    with pytest.raises(MissingDataError, match="nothing to show"):
        charts.communication(trace_of([{"op": "mm"}]))


def test_names_are_text():
    page = table_html(every_name_is_nasty())
    assert "<img" not in page
    assert "&lt;img" in page


def every_name_is_nasty():
    trace = trace_of([{"op": "</script><img src=x onerror=alert(1)>", "family": "gemm"}])
    chart = charts.gemm_time(trace)
    assert "</script><img" not in chart.to_html(with_bokeh=False)
    return chart.data


def test_bokeh_comes_once_and_again_with_its_own_cell(monkeypatch):
    monkeypatch.setattr(offline._Where, "shown", False)
    cells = iter(["a", "b", "a"])
    monkeypatch.setattr(offline, "_current_cell", lambda: next(cells))
    sizes = [len(offline.loader()) for _ in range(3)]
    assert sizes[0] == sizes[2] > 400_000
    assert sizes[0] < 500_000
    assert sizes[1] == 0
