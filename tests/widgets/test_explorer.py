"""The explorer as Python users hold it, with a front end that is only pretended."""

import subprocess
import sys
from dataclasses import replace

import comm
import IPython.display
import ipywidgets
import pandas as pd
import pytest
from builders import llama_trace, trace_of

from chopper_jupyter.core.errors import MissingDataError, SchemaError
from chopper_jupyter.widgets import front_end
from chopper_jupyter.widgets.explorer import Explorer
from chopper_jupyter.widgets.headless import MODE_VARIABLE
from chopper_jupyter.widgets.packing import unpack

VIEW = "application/vnd.jupyter.widget-view+json"


class Channel(comm.base_comm.BaseComm):
    """A comm whose other end is the test."""

    opened = []  # noqa: RUF012  emptied by the fixture

    def publish_msg(self, msg_type, data=None, *_unused, **_keys):
        if msg_type == "comm_open":
            self.opened.append(self)
            self.sent = []
        else:
            self.sent.append(data)

    def receive(self, data):
        self.handle_msg({"content": {"data": data}, "buffers": []})

    def customs(self):
        return [data["content"] for data in self.sent if data["method"] == "custom"]


@pytest.fixture
def channels(monkeypatch, tmp_path):
    """Pretend that a front end is built and that a comm reaches it."""
    monkeypatch.setattr(front_end, "STATIC_FOLDER", tmp_path)
    for name in (front_end.STATIC_FILE, front_end.WIDGET_FILE):
        (tmp_path / name).write_text("/* front end */", encoding="utf-8")
    monkeypatch.setattr(comm, "create_comm", Channel)
    monkeypatch.setattr(Channel, "opened", [])
    yield Channel.opened
    ipywidgets.Widget.close_all()


@pytest.fixture
def shown(monkeypatch):
    """Collect what is displayed."""
    bundles = []

    def display(data, **_options):
        bundles.append(data)

    monkeypatch.setattr(IPython.display, "display", display)
    return bundles


@pytest.fixture
def trace():
    return llama_trace(gpus=2, iterations=3, layers=3)


def test_static_mode_shows_one_page_and_makes_no_widget(trace, channels, shown, monkeypatch):
    monkeypatch.setenv(MODE_VARIABLE, "static")
    explorer = Explorer(trace)
    explorer._ipython_display_()
    assert [sorted(bundle) for bundle in shown] == [["text/html", "text/plain"]]
    assert channels == []
    assert explorer._widget is None


def test_live_mode_shows_the_page_first_then_the_view_alone(trace, channels, shown, monkeypatch):
    monkeypatch.setenv(MODE_VARIABLE, "live")
    explorer = Explorer(trace)
    explorer._ipython_display_()
    page, view = shown
    assert sorted(page) == ["text/html", "text/plain"]
    assert list(view) == [VIEW]
    assert view[VIEW]["model_id"] == explorer.widget.model_id
    assert f'data-chopper-static="{explorer.widget.uid}"' in page["text/html"]


def test_live_mode_without_a_built_front_end_shows_the_table(trace, shown, monkeypatch, tmp_path):
    monkeypatch.setattr(front_end, "STATIC_FOLDER", tmp_path)
    monkeypatch.setenv(MODE_VARIABLE, "live")
    Explorer(trace)._ipython_display_()
    assert len(shown) == 1
    assert "make js" in shown[0]["text/html"]


def test_explorers_of_one_trace_have_pages_of_their_own(trace, channels, monkeypatch):
    for mode in ("live", "static"):
        monkeypatch.setenv(MODE_VARIABLE, mode)
        assert Explorer(trace)._uid != Explorer(trace)._uid


def test_the_widget_carries_the_state_and_goes_into_a_box(trace, channels):
    explorer = Explorer(trace, level_order=["layer"], metric="busy", theme="dark")
    explorer.selection = {"phase": "forward"}
    widget = explorer.widget
    assert widget is explorer.widget
    assert widget.selection == [["phase", "forward"]]
    assert widget.level_order[:2] == ["layer", "phase"]
    assert (widget.metric, widget.theme) == ("busy", "dark")
    assert unpack(widget.payload)["title"] == "llama3-8b-fsdp2"
    assert widget._esm == "/* front end */"
    box = ipywidgets.HBox([widget])
    assert box.children[0].layout.width == "100%"  # else a row squeezes it to nothing


def test_the_selection_of_the_browser_is_read_in_python(trace, channels):
    explorer = Explorer(trace)
    widget = explorer.widget
    state = {"selection": [["phase", "backward"], ["gpu", 1], ["layer", "model.layers.2"]]}
    widget.comm.receive({"method": "update", "state": state, "buffer_paths": []})
    assert explorer.selection == [("phase", "backward"), ("gpu", 1), ("layer", "model.layers.2")]
    kernels = explorer.selected_kernels()
    assert set(kernels["layer"]) == {"model.layers.2"}
    assert set(kernels["gpu"]) == {1}


def test_a_selection_set_in_python_reaches_the_browser(trace, channels):
    explorer = Explorer(trace)
    sent = explorer.widget.comm.sent
    explorer.selection = {"op": "all_gather"}
    explorer.level_order = ["gpu", "iteration"]
    explorer.metric = "idle"
    states = {name: v for data in sent for name, v in data.get("state", {}).items()}
    assert states["selection"] == [["op", "all_gather"]]
    assert states["level_order"][:3] == ["gpu", "iteration", "phase"]
    assert states["metric"] == "idle"


def test_queries_of_the_browser_are_answered_or_refused(trace, channels):
    channel = Explorer(trace).widget.comm

    def ask(number, **query):
        content = {"kind": "query", "id": number, **query}
        channel.receive({"method": "custom", "content": content})

    ask(1, levels=["phase"], filters=[])
    ask(2, levels=["phas"], filters=[])
    channel.receive({"method": "custom", "content": {"kind": "cancel", "id": 1}})
    answer, failure = channel.customs()
    assert (answer["kind"], answer["id"]) == ("answer", 1)
    assert sum(answer["cube"]["measures"]["count"]) == trace.kernels.num_rows
    assert (failure["kind"], failure["id"]) == ("failure", 2)
    assert "did you mean 'phase'" in failure["message"]


def test_codes_of_answers_are_positions_in_the_payload(trace, channels):
    widget = Explorer(trace).widget
    members = unpack(widget.payload)["dictionaries"]["op"]
    query = {"kind": "query", "id": 1, "levels": ["op"], "filters": []}
    widget.comm.receive({"method": "custom", "content": query})
    cube = widget.comm.customs()[0]["cube"]
    counts = dict(zip(cube["codes"][0], cube["measures"]["count"], strict=True))
    named = {members[code]["label"]: count for code, count in counts.items()}
    truth = trace.kernels.group_by("op").aggregate([("op", "count")]).to_pylist()
    assert named == {row["op"]: row["op_count"] for row in truth}


def test_selected_kernels_are_a_table_with_units(trace):
    explorer = Explorer(trace)
    explorer.selection = {"phase": "optimizer", "layer": None}
    kernels = explorer.selected_kernels()
    assert len(kernels) == 2 * 3 * 2
    assert isinstance(kernels["dur_ns"].dtype, pd.ArrowDtype)
    assert kernels["start_ns"].is_monotonic_increasing
    assert kernels.attrs["units"]["dur_ns"] == "ns"
    assert kernels["name"].str.endswith("kernel").all()


def test_warm_up_is_not_selected_unless_asked_for(trace):
    trace = replace(trace, info=replace(trace.info, warmup=1))
    explorer = Explorer(trace)
    assert set(explorer.selected_kernels()["iteration"]) == {1, 2}
    assert explorer.selected_trace().measured_iterations == [1, 2]
    with pytest.raises(SchemaError, match="no iteration named '0'"):
        explorer.selection = {"iteration": 0}


def test_a_trace_without_iterations_is_selected_whole():
    explorer = Explorer(trace_of([{"op": "a"}, {"op": "b"}]))
    assert len(explorer.selected_kernels()) == 2


def test_what_does_not_exist_is_an_error(trace):
    with pytest.raises(SchemaError, match="did you mean 'layer'"):
        Explorer(trace, level_order=["layr"])
    with pytest.raises(SchemaError, match="did you mean 'idle'"):
        Explorer(trace, metric="idel")
    with pytest.raises(SchemaError, match="did you mean 'dark'"):
        Explorer(trace, theme="drak")
    with pytest.raises(MissingDataError, match="tflops"):
        Explorer(trace, metric="tflops")
    with pytest.raises(SchemaError, match="did you mean 'forward'"):
        Explorer(trace).selection = {"phase": "forwad"}


def test_repr_names_the_run_and_the_selection(trace):
    explorer = Explorer(trace)
    explorer.selection = {"phase": "forward", "gpu": 1}
    assert repr(explorer).splitlines() == [
        "Explorer of llama3-8b-fsdp2: iterations 0 to 2", "  phase = forward", "  gpu = 1",
    ]  # fmt: skip


def test_save_writes_the_page(trace, tmp_path):
    explorer = Explorer(trace)
    path = explorer.save(tmp_path / "explorer.html")
    assert path.read_text(encoding="utf-8") == explorer.to_html()


def test_static_use_imports_no_widget_library():
    code = (
        "import sys, chopper_jupyter as cj\n"
        "page = cj.Explorer(cj.Trace.from_tables({})).to_html()\n"
        "assert page.startswith('<!DOCTYPE html>')\n"
        "heavy = {'anywidget', 'ipywidgets', 'IPython', 'bokeh', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
