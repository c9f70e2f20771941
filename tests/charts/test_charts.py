"""Figures in a page: drawn without a network, readable without scripts, and never markup."""

from __future__ import annotations

import charted_runs
import pytest
from builders import trace_of

from chopper_jupyter import charts
from chopper_jupyter.charts import offline
from chopper_jupyter.charts.axes import text
from chopper_jupyter.charts.chart import table_html
from chopper_jupyter.charts.runs import apart, colour_of, dash_of, factors
from chopper_jupyter.core.errors import MissingDataError


@pytest.fixture(scope="module", name="runs")
def two_runs():
    return charted_runs.runs()


def test_each_says_what_it_shows_and_that_it_is_simulated(runs):
    made = charted_runs.every(charted_runs.simulated())
    assert len(made) == charted_runs.count() + 1  # overheads by both methods
    for chart in made:
        page = chart.to_html(with_bokeh=False)
        assert 'aria-label="' in page
        assert "<details" in page
        assert "<table" in page
        assert "2 GPUs" in chart.caption
        assert len(chart.data)
        assert "(simulated)" in chart.title
        assert "Simulated." in chart.caption
    assert "imulated" not in charts.end_to_end(runs).to_html(with_bokeh=False)


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


def test_names_are_no_formulas_and_stay_apart():
    for name in ("$$x^2$$", r"\\(a\\)", r"\\[b\\]"):
        assert not any(sign in text(name) for sign in ("$$", "\\\\(", "\\\\["))
    long = ["a" * 30 + letter + "a" * 30 for letter in "xyz"]
    assert len(set(apart(long).values())) == 3
    assert len(set(factors(long, ["run"] * 3, run_first=False))) == 3


def test_runs_of_a_variant_share_a_colour_and_those_of_a_configuration_a_line(runs):
    one, two = runs.values()
    by_both = {("b1", "v1"): one, ("b1", "v2"): two, ("b2", "v1"): one, ("b2", "v2"): two}
    colour, dash = colour_of(by_both), dash_of(by_both)
    assert list(colour) == ["b1 v1", "b1 v2", "b2 v1", "b2 v2"]
    assert colour["b1 v1"] == colour["b2 v1"] != colour["b1 v2"]
    assert dash["b1 v1"] == dash["b1 v2"] != dash["b2 v1"]
    chart = charts.gemm_time(by_both)
    assert list(dict.fromkeys(chart.data["run"])) == list(colour)
    alone = charts.gemm_time(runs).data.set_index(["op", "run"])["median"]
    for row in chart.data.itertuples():
        assert row.median == alone[row.op, row.run.split()[1]]
