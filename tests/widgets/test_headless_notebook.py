"""A notebook run without a front end keeps the page and leaves no dead widget behind."""

import json

import nbclient
import nbformat
import pytest
from builders import llama_trace

CODE = "import chopper_jupyter as cj\ntrace = cj.Trace.open('trace')\ncj.Explorer(trace)"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    llama_trace(gpus=2, iterations=2, layers=4).save(folder / "trace")

    def execute():
        notebook = nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_code_cell(CODE, id="first"),
                nbformat.v4.new_code_cell("cj.Explorer(trace)", id="second"),
            ]
        )
        place = {"metadata": {"path": str(folder)}}
        nbclient.NotebookClient(notebook, resources=place, timeout=120).execute()
        for cell in notebook.cells:
            cell.metadata.clear()  # holds the times of the run
        return notebook

    return execute


def test_headless_run_is_static_small_and_the_same_every_time(run):
    first = run()
    assert "widgets" not in first.metadata
    bundles = [output.data for cell in first.cells for output in cell.outputs]
    assert len(bundles) == 2
    for bundle in bundles:
        assert VIEW not in bundle
        assert bundle["text/plain"].startswith("Explorer of llama3-8b-fsdp2")
        assert "self_attn.q_proj" in bundle["text/html"]
        assert len(json.dumps(bundle)) < 300_000
    assert bundles[0]["text/html"] != bundles[1]["text/html"]  # ids of their own
    assert nbformat.writes(run()) == nbformat.writes(first)
