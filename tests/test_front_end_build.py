"""The package build makes the front end, or says in one sentence why it cannot."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SENTENCE = (
    "Building chopper-jupyter from source needs Node.js 20 or newer with npm; "
    "install it, or install the released wheel, which needs neither."
)


@pytest.fixture(scope="module")
def hatch_build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "js" / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Make a PATH with nothing on it; ``tools(npm=...)`` puts shell scripts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(**scripts):
        for name, body in scripts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            path.chmod(0o755)

    return put


@pytest.fixture
def project(tmp_path):
    source = tmp_path / "project" / "js" / "src" / "deep" / "index.ts"
    source.parent.mkdir(parents=True)
    source.write_text("export {}", encoding="utf-8")
    return tmp_path / "project"


def write_built(project: Path, *, age: int = 0) -> None:
    static = project / "chopper_jupyter" / "static"
    static.mkdir(parents=True, exist_ok=True)
    when = (project / "js" / "src" / "deep" / "index.ts").stat().st_mtime - age
    for name in ("widget.js", "static.js"):
        (static / name).write_text("built", encoding="utf-8")
        os.utime(static / name, (when, when))


def run(hatch_build, project):
    hook = hatch_build.FrontEndHook(str(project), {}, None, None, str(project), "wheel")
    hook.initialize("standard", {})


NODE = "echo v22.1.0"


def test_a_missing_front_end_is_built(hatch_build, project, tools):
    tools(node=NODE, npm='echo "$1" >> npm.log')
    run(hatch_build, project)
    assert (project / "js" / "npm.log").read_text().split() == ["ci", "run"]


def test_a_stale_front_end_is_built_again(hatch_build, project, tools):
    write_built(project, age=10)
    tools(node=NODE, npm='echo "$1" >> npm.log')
    run(hatch_build, project)
    assert (project / "js" / "npm.log").exists()


def test_a_current_front_end_is_left_alone(hatch_build, project, tools):
    write_built(project)
    tools(node=NODE, npm="exit 1")
    run(hatch_build, project)


def test_an_sdist_needs_no_node(hatch_build, project, tools):
    write_built(project, age=10)
    (project / "PKG-INFO").write_text("Name: chopper-jupyter", encoding="utf-8")
    tools()
    run(hatch_build, project)


def test_a_stale_front_end_without_node_is_used_as_is(hatch_build, project, tools, capsys):
    write_built(project, age=10)
    tools()
    run(hatch_build, project)
    assert "used as is" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "scripts",
    [{}, {"node": NODE}, {"node": "echo v18.19.0", "npm": "exit 0"}],
    ids=["nothing", "no npm", "old node"],
)
def test_without_node_one_sentence_says_so(hatch_build, project, tools, capsys, scripts):
    tools(**scripts)
    with pytest.raises(SystemExit) as stopped:
        run(hatch_build, project)
    assert stopped.value.code == 1
    assert "".join(capsys.readouterr()).strip() == SENTENCE


def test_a_failing_build_stops_the_package_build(hatch_build, project, tools, capsys):
    tools(node=NODE, npm='[ "$1" = ci ]')
    with pytest.raises(SystemExit):
        run(hatch_build, project)
    assert "could not be built" in "".join(capsys.readouterr())
