"""The page without Python: readable as it is, hostile names stay text, small enough."""

import base64
import gzip
import html.parser
import json
import re
from dataclasses import replace

import pytest
from builders import llama_trace, trace_of
from wide_traces import wide_trace

from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.trace import Trace, TraceInfo
from chopper_jupyter.widgets import front_end
from chopper_jupyter.widgets.explorer import Explorer
from chopper_jupyter.widgets.front_end import FrontEndMissingError
from chopper_jupyter.widgets.packing import unpack

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "</details></div><h1>out</h1>",
    "]]>&amp;\u202e\u0000",
    "k" * 5000,
]
VOID = {"meta", "br", "img", "input", "link"}


class Reader(html.parser.HTMLParser):
    """Reads a document as a browser would: elements, their text, and whether they nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.scripts = [], [], [], []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text += data


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Stand in for the built front end, so that these tests need no Node.js."""
    monkeypatch.setattr(front_end, "STATIC_FOLDER", tmp_path)
    (tmp_path / "static.js").write_text(
        "var ChopperStatic={upgrade(){return '</script><!-- '}};", encoding="utf-8"
    )
    (tmp_path / "widget.js").write_text("export default {render() {}}", encoding="utf-8")


def hostile_trace():
    rows = [{"name": n, "op": n, "layer": n, "phase": n, "dur_ns": 9} for n in HOSTILE]
    trace = trace_of(rows)
    lone = "run \ud800 " + HOSTILE[0]
    quality = Quality(kernels=1, notes=(*HOSTILE, lone))
    return replace(trace, info=TraceInfo(name=lone), quality=quality)


def data_of(page):
    (packed,) = re.findall(r'ChopperStatic\.upgrade\("[^"]+","([^"]+)"\)', page)
    return unpack(packed)


@pytest.mark.usefixtures("built")
def test_hostile_names_stay_text():
    page = Explorer(hostile_trace()).to_html()
    page.encode("utf-8")
    read = Reader(page)
    assert read.open == []
    assert len(read.scripts) == 1
    assert "alert(1)" not in read.scripts[0]
    assert not {"img", "h1"} & set(read.tags)
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert HOSTILE[0] in read.text
    labels = [m["label"] for m in data_of(page)["dictionaries"]["op"]]
    assert set(HOSTILE[:-1]) <= set(labels)


@pytest.mark.usefixtures("built")
def test_the_page_loads_nothing_from_anywhere():
    page = Explorer(llama_trace(gpus=2, iterations=2, layers=2)).to_html()
    names = {name for name, _ in Reader(page).attributes}
    assert not names & {"src", "href", "srcset", "data", "poster", "action"}
    assert "url(" not in page
    assert "@import" not in page


@pytest.mark.parametrize(
    ("theme", "colours"),
    [(None, ["#ffffff", "#16191e"]), ("light", ["#ffffff"]), ("dark", ["#16191e"])],
)
@pytest.mark.usefixtures("built")
def test_a_page_of_its_own_has_the_colours_of_the_theme(theme, colours):
    page = Explorer(trace_of([{}]), theme=theme).to_html()
    assert re.findall(r"body { background: (#\w+)", page) == colours


@pytest.mark.usefixtures("built")
def test_the_same_trace_gives_the_same_page():
    trace = llama_trace(gpus=2, iterations=2, layers=2)
    assert Explorer(trace).to_html() == Explorer(trace).to_html()


@pytest.mark.usefixtures("built")
def test_the_plain_table_says_what_matters_without_any_style():
    trace = llama_trace(gpus=2, iterations=2, layers=3)
    text = Reader(Explorer(trace)._repr_html_()).text
    for said in (
        "llama3-8b-fsdp2", "2 \u00d7 H100", "Iterations 0 to 1; times are per iteration and GPU.",
        "Compute", "Exposed communication", "Idle", "self_attn.q_proj", "Data good: 100.0 % linked",
        "trust the notebook",
    ):  # fmt: skip
        assert said in text


@pytest.mark.usefixtures("built")
def test_the_plain_table_uses_only_what_sanitizers_keep():
    fragment = Explorer(llama_trace(gpus=2, iterations=2, layers=3))._repr_html_()
    table = Reader(re.sub(r"<script>.*</script>", "", fragment, flags=re.DOTALL))
    kept = {
        "div",
        "details",
        "summary",
        "b",
        "p",
        "br",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert set(table.tags) <= kept
    assert {name for name, _ in table.attributes} <= {
        "style",
        "open",
        "class",
        "data-chopper-static",
    }


def test_many_ops_are_cut_to_one_row_for_the_rest():
    rows = [{"op": f"op{i}", "dur_ns": 1000 - i} for i in range(30)] + [{"dur_ns": 5}]
    text = Reader(Explorer(trace_of(rows))._repr_html_()).text
    assert "op10" in text
    assert "op11" not in text
    assert "20 more ops" in text


def test_an_empty_trace_has_a_page_too():
    text = Reader(Explorer(Trace.from_tables({})).to_html()).text
    assert "No kernels recorded" in text


def test_what_python_chose_travels_with_the_page(built):
    explorer = Explorer(
        llama_trace(gpus=2, iterations=2, layers=3),
        level_order=["gpu"],
        metric="busy",
        theme="dark",
    )
    explorer.selection = {"phase": "forward", "gpu": 1}
    data = data_of(explorer.to_html())
    assert data["selection"] == [["phase", "forward"], ["gpu", 1]]
    assert data["order"][:2] == ["gpu", "phase"]
    assert (data["metric"], data["theme"]) == ("busy", "dark")


def test_without_a_built_front_end_the_table_stands_and_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(front_end, "STATIC_FOLDER", tmp_path)
    explorer = Explorer(llama_trace(gpus=1, iterations=1, layers=1))
    read = Reader(explorer.to_html())
    assert read.scripts == []
    assert "make js" in read.text
    assert "self_attn.q_proj" in read.text
    with pytest.raises(FrontEndMissingError, match=r"run `make js`"):
        explorer.widget  # noqa: B018


@pytest.mark.usefixtures("built")
def test_the_script_carries_the_front_end_and_nothing_that_ends_it():
    (script,) = Reader(Explorer(hostile_trace()).to_html()).scripts
    assert not re.search(r"</script|<!--", script, re.IGNORECASE)
    (packed,) = re.findall(r'atob\("([^"]+)"\)', script)
    text = gzip.decompress(base64.b64decode(packed)).decode()
    assert text == front_end.read(front_end.STATIC_FILE)


@pytest.mark.skipif(
    not front_end.is_built(front_end.STATIC_FILE), reason="the front end is not built: make js"
)
def test_a_huge_trace_saves_as_less_than_300_kilobytes():
    trace = wide_trace(100_000)
    notebook_text = json.dumps(Explorer(trace)._repr_html_(), ensure_ascii=False)
    assert len(notebook_text.encode()) <= 300_000
