"""The progress line: bytes and ranks done, only where somebody waits and watches."""

from __future__ import annotations

import io
import os
import threading
from contextlib import redirect_stderr

import nbformat
import pytest
from builders import Rank
from nbclient import NotebookClient

from chopper_jupyter import read_trace
from chopper_jupyter.core import progress, rank_pool
from chopper_jupyter.core.importers import compiled_cache


class Watched(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> Watched:
    return Watched()


@pytest.fixture
def ranks(tmp_path):
    for number in range(3):
        rank = Rank(rank=number, world_size=3)
        rank.now += 10 * number
        with rank.op("aten::mm"):
            rank.launch("k")
        rank.write(tmp_path / f"rank_{number}.json")
    return tmp_path


def shown(stream) -> list[str]:
    """What the line said, one state after another; the last one clears it."""
    return [state.strip() for state in stream.getvalue().split("\r") if state.strip()]


@pytest.mark.parametrize("workers", [1, 2])
def test_it_counts_ranks_and_bytes(ranks, terminal, workers):
    with redirect_stderr(terminal):
        read_trace(ranks, workers=workers, progress=True)
    states = shown(terminal)
    assert states[0].startswith("0 of 3 ranks:   0%")
    assert terminal.getvalue().endswith("\r")  # and is gone
    size = sum(path.stat().st_size for path in ranks.glob("*.json"))
    assert f"/{size / 1000:.2f}k" in states[0]


def test_every_rank_moves_it(terminal):
    with redirect_stderr(terminal), progress.progress_of(300, 3, show=True) as line:
        line._bar.mininterval = 0
        for _ in range(3):
            line.rank_done(100)
        assert line._bar.n == 300
    counts = [state.partition(":")[0] for state in shown(terminal)]
    assert list(dict.fromkeys(counts)) == [f"{n} of 3 ranks" for n in range(4)]


def test_what_takes_long_is_shown_where_somebody_watches(terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with redirect_stderr(terminal), progress.progress_of(300, 3, show=None) as line:
        line._bar.mininterval = 0
        line.tick()
    assert "0 of 3 ranks" in terminal.getvalue()


def test_what_is_quick_is_not_shown(ranks, terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 1e6)
    with redirect_stderr(terminal), progress.progress_of(300, 3, show=None) as line:
        line._bar.mininterval = 0
        line.rank_done(100)
        line.tick()
    with redirect_stderr(terminal):
        read_trace(ranks)
    assert terminal.getvalue() == ""


def test_where_nobody_watches_it_is_silent(ranks, capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    read_trace(ranks)
    assert capsys.readouterr().err == ""


def test_it_can_be_turned_off(ranks, terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with redirect_stderr(terminal):
        read_trace(ranks, progress=False)
    assert terminal.getvalue() == ""


def test_without_a_standard_error_stream_it_is_silent(ranks):
    with redirect_stderr(None):
        assert len(read_trace(ranks).kernels) == 3


def test_no_thread_outlives_it(terminal):
    before = threading.active_count()
    with redirect_stderr(terminal), progress.progress_of(300, 3, show=True):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_it_ends_when_reading_fails(ranks, terminal):
    (ranks / "rank_0.json").write_text("not json")
    with redirect_stderr(terminal), pytest.raises(ValueError, match=r"rank_0\.json"):
        read_trace([ranks / "rank_0.json"], progress=True)
    assert terminal.getvalue().endswith("\r")
    assert not any("progress" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("prepared", [True, False])
def test_the_first_use_of_the_reader_is_said(ranks, terminal, monkeypatch, prepared):
    monkeypatch.setattr(rank_pool, "WORTH_COMPILING", 10)
    monkeypatch.setattr(rank_pool, "is_prepared", lambda: prepared)
    said = []
    monkeypatch.setattr(progress.Progress, "_describe", lambda _, text: said.append(text))
    read_trace(ranks, workers=1, progress=True)
    assert said == [*([] if prepared else [progress.FIRST_USE]),
                    *(f"{n} of 3 ranks" for n in (1, 2, 3))]  # fmt: skip


def test_the_reader_is_prepared_where_its_code_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled_cache.importlib.util, "find_spec", lambda _: object())
    assert not compiled_cache.is_prepared()
    index = tmp_path / "importers_1" / "event_scan.scan-214.py311.nbi"
    index.parent.mkdir()
    index.write_text("")
    assert compiled_cache.is_prepared()
    os.utime(index, (1, 1))  # older than the source: of an earlier version
    assert not compiled_cache.is_prepared()


def test_without_a_compiler_there_is_nothing_to_prepare(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled_cache.importlib.util, "find_spec", lambda _: None)
    assert compiled_cache.is_prepared()


NOTEBOOK = """
import chopper_jupyter as cj
from chopper_jupyter.core import progress
progress.PATIENCE_S = 0.0
trace = cj.read_trace({folder!r}, progress={shown})
"""


def outputs_of(folder, shown):
    code = NOTEBOOK.format(folder=str(folder), shown=shown)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name="python3").execute()
    assert "widgets" not in notebook.metadata
    return notebook.cells[0].outputs


def test_a_notebook_gets_text_and_neither_widget_nor_red_box(ranks):
    outputs = outputs_of(ranks, shown=True)
    assert {(o.output_type, o.get("name")) for o in outputs} == {("stream", "stdout")}
    assert "0 of 3 ranks" in "".join(o.text for o in outputs)


def test_a_notebook_run_by_a_program_does_not_keep_it(ranks):
    assert outputs_of(ranks, shown=None) == []
