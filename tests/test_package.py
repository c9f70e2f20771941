"""What the package promises as a whole: its names, its weight, its tidy tree."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chopper_jupyter

ROOT = Path(__file__).parents[1]
PUBLIC = [
    "ChopperError",
    "Explorer",
    "Report",
    "Trace",
    "add_counters",
    "add_telemetry",
    "breakdown",
    "collectives",
    "compare",
    "cpu_utilization",
    "efficiency",
    "energy",
    "findings",
    "frequency",
    "launch_overhead",
    "overheads",
    "overlap",
    "profile",
    "read_trace",
    "summarize",
    "throughput",
    "variation",
]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [path for name in listed.split("\0") if (path := ROOT / name).is_file()]


def test_importing_is_cheap():
    heavy = {"torch", "bokeh", "anywidget", "ipywidgets", "pandas", "pyarrow", "numpy", "pynvml"}
    code = f"import sys, chopper_jupyter; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_reading_a_trace_needs_no_torch_and_no_widgets():
    heavy = {"torch", "bokeh", "anywidget", "ipywidgets", "IPython"}
    code = (
        "import sys, chopper_jupyter as cj; cj.read_trace, cj.Trace, cj.summarize, cj.breakdown; "
        f"print(*sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_root_is_the_table_of_contents():
    assert chopper_jupyter.__all__ == PUBLIC
    assert dir(chopper_jupyter) == sorted([*PUBLIC, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'profiel'"):
        chopper_jupyter.profiel  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name):
    thing = getattr(chopper_jupyter, name)
    first_line = (inspect.getdoc(thing) or "").partition("\n")[0]
    assert first_line.endswith((".", ":", "?")), f"{name} has no one-line summary"
    assert name in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["Trace", "Explorer"])
def test_every_public_method_is_documented(name):
    methods = vars(getattr(chopper_jupyter, name)).items()
    undocumented = [
        method
        for method, value in methods
        if not method.startswith("_")
        and (callable(value) or isinstance(value, (property, classmethod)))
        and not inspect.getdoc(value)
    ]
    assert undocumented == []


def test_the_version_has_one_source():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert 'path = "chopper_jupyter/_version.py"' in project
    assert importlib.metadata.version("chopper-jupyter") == chopper_jupyter.__version__


@pytest.mark.parametrize(("suffix", "limit"), [(".py", 400), (".ts", 300)])
def test_no_file_is_larger_than_its_room(suffix, limit):
    sizes = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n")
        for path in tracked()
        if path.suffix == suffix
    }
    assert {name: size for name, size in sizes.items() if size > limit} == {}


def test_no_machine_paths_in_the_tree():
    places = ("/" + "work/", "/" + "root/", "../" + "shared")
    found = [
        (str(path.relative_to(ROOT)), place)
        for path in tracked()
        if path.suffix != ".png" and path != ROOT / ".ci" / "run"
        for place in places
        if place in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_the_readme_leads_with_a_picture_and_two_commands():
    start = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    picture = re.search(r"!\[[^\]]+\]\(([^)]+)\)", start)
    assert picture, "no picture above the first heading"
    assert (ROOT / picture[1]).read_bytes().startswith(b"\x89PNG")
    assert "make demo" in start
    assert "make test" in start


def test_ci_runs_the_readme_command():
    script = ROOT / ".ci" / "run"
    assert "make test" in script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
