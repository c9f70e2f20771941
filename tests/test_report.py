"""The report: complete, self-contained, and silent about the machine it was made on."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path

import papermill
import pyarrow as pa
import pytest
from builders import Rank, llama_trace, trace_of
from simulated_runs import simulated_trace

from chopper_jupyter import Report, findings
from chopper_jupyter.cli import main
from chopper_jupyter.core.trace import altered


@pytest.fixture(scope="module")
def trace():
    made = llama_trace(gpus=2, iterations=3, layers=3)
    run = {
        "host": "secret-node",
        "cell_source": "open('/home/ann/data')\nx < 1",
        "git_commit": "abc",
        "created_ns": 1_700_000_000_000_000_000,
        "versions": {"torch": "2.13.0", "hip": None},
    }
    return altered(made, info=replace(made.info, name="first", run=run))


def test_a_page_that_needs_nothing_else(trace, tmp_path):
    path = Report(trace).save(tmp_path / "r.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 2_000_000
    for words in (
        "<h2>Code</h2>",
        "x &lt; 1",
        "Iteration time by phase",
        "torch 2.13.0",
        "<h2>Method",
    ):
        assert words in text
    assert "http://" not in text.split("<script")[0]
    assert "src=" not in text.split("<script")[0]


def test_hosts_and_homes_are_left_out_unless_asked(trace):
    assert "secret-node" not in Report(trace)._repr_html_()
    assert "/home/ann" not in Report(trace)._repr_html_()
    hosts = pa.array(["secret-node"] * 2)
    at = trace.gpus.schema.get_field_index("host")
    named = altered(trace, gpus=trace.gpus.set_column(at, trace.gpus.schema.field(at), [hosts]))
    assert "secret-node" not in Report(named).to_markdown()
    assert "/home/ann" in Report(trace, private=True)._repr_html_()


def test_findings_are_ranked_and_say_what_to_do(trace):
    found = findings(trace)
    assert len(found)
    page, text = Report(trace)._repr_html_(), Report(trace).to_markdown()
    listed = page.split("<h2>Findings</h2><ol>")[1].split("</ol>")[0]
    assert listed.count("<li>") == len(found)
    assert found["title"][0] in html.unescape(listed.split("</li>")[0])
    assert f"1. {found['title'][0]} ({found['value'][0]}): {found['detail'][0]}." in text
    quiet = Report(trace_of([{"op": "mm", "iteration": 0}]))._repr_html_()
    assert "Nothing stood out" in quiet


def test_sections_are_those_that_the_recording_holds_data_for():
    page = Report(simulated_trace(), title="A <b>title</b>")._repr_html_()
    assert "<h1>A &lt;b&gt;title&lt;/b&gt; (simulated)</h1>" in page
    for heading in ("From theoretical to actual time", "Communication", "Clocks, power and"):
        assert f"<h2>{heading}" in page
    assert "Roofline (simulated)" in page
    bare = Report(trace_of([{"op": "mm", "iteration": 0}]))._repr_html_()
    assert "<h2>From theoretical" not in bare
    assert "<h2>Clocks" not in bare


def test_markdown(trace):
    text = Report(trace, trace).to_markdown()
    assert text.startswith("### first")
    assert "| phase | op |" in text
    assert "Compared with first" in text


def test_names_are_text():
    nasty = trace_of([{"op": "<img src=x onerror=alert(1)>|", "iteration": 0}])
    assert "<img src=x" not in Report(nasty)._repr_html_().split("<script")[0]
    assert "&lt;img src=x onerror=alert(1)>\\|" in Report(nasty).to_markdown()


def test_papermill_makes_the_report_of_a_run(tmp_path):
    template = Path(__file__).parents[1] / "example_notebooks" / "report_template.ipynb"
    saved = llama_trace(gpus=2, iterations=3, layers=2).save(tmp_path / "run")
    told = {"run_folder": str(saved), "compare_with": str(saved), "title": "Told <name>",
            "save_as": str(tmp_path / "r.html")}  # fmt: skip
    made = papermill.execute_notebook(
        template, tmp_path / "made.ipynb", told, cwd=tmp_path, progress_bar=False
    )
    page = made.cells[-1].outputs[0].data["text/html"]
    assert "<h1>Told &lt;name&gt;</h1>" in page
    assert "Compared with" in page
    assert "data-chopper-static=" in page
    assert "<h1>Told &lt;name&gt;</h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not [out for cell in made.cells for out in cell.get("outputs", ())
                if out.output_type == "error"]  # fmt: skip


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rank = Rank()
    with rank.step(0), rank.op("aten::mm"):
        rank.launch("gemm", dur=50)
    path = rank.write(tmp_path / "trace.json")
    assert main(["report", str(path), "-o", "out.html", "--title", "My run"]) == 0
    assert "<h1>My run</h1>" in (tmp_path / "out.html").read_text(encoding="utf-8")
    assert (tmp_path / "out.html").stat().st_size > 10_000
    assert main(["report", str(path), "--markdown"]) == 0
    assert "### trace" in capsys.readouterr().out
    assert main(["counters", str(tmp_path), "--yes"]) == 2
    assert "chopper-jupyter: hardware counters need a GPU" in capsys.readouterr().err
