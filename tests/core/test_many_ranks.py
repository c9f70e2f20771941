"""Many ranks: in processes or not, in any grouping, and with some of them failing."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from builders import Rank

from chopper_jupyter import read_trace
from chopper_jupyter.core import rank_pool, rank_worker, run_folder
from chopper_jupyter.core.align.merge import PARTS, join, merge
from chopper_jupyter.core.errors import PartialTraceWarning, TraceFormatError
from chopper_jupyter.core.load_rank import LOST_SEGMENTS, hand_over, load_rank, take_over
from chopper_jupyter.core.progress import Progress
from chopper_jupyter.core.trace import TraceInfo

posix = pytest.mark.skipif(os.name != "posix", reason="named pipes and signals")


def small_rank(number: int | None, world_size: int | None = 4, *, shift: int = 0) -> Rank:
    """A rank whose kernels and operators tell it from others."""
    rank = Rank(rank=number, world_size=world_size, device=number or 0)
    rank.now += 7 * (number or shift)
    for iteration in range(2):
        rank.mark(iteration)
        with rank.module("", "Model"), rank.module("head"), rank.op("aten::mm", seq=iteration + 1):
            rank.launch(f"gemm_of_rank_{number}", dur=5 + (number or 0))
    return rank


def write_ranks(folder: Path, numbers=range(4), pattern="rank_{}.json", **options) -> Path:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        small_rank(number, **options).write(folder / pattern.format(number))
    return folder


def write_run(folder: Path, numbers=range(4)) -> Path:
    write_ranks(folder, numbers, "rank_{}.json.gz")
    run_folder.write_run(folder, {"world_size": 4, "ranks": {}, "options": {}})
    return folder


def same(one, other) -> None:
    assert one.info == other.info
    assert one.quality == other.quality
    for name, table in one.tables.items():
        assert table.equals(other.tables[name]), name


# --- In processes or not ------------------------------------------------------------------


def test_processes_give_what_one_process_gives(tmp_path):
    folder = write_ranks(tmp_path / "ranks")
    alone, together = read_trace(folder, workers=1), read_trace(folder, workers=2)
    same(alone, together)
    assert together.gpus["rank"].to_pylist() == [0, 1, 2, 3]
    assert len(together.kernels) == 8


def test_the_temporary_files_of_processes_are_removed(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    trace = read_trace(write_ranks(tmp_path / "ranks"), workers=2)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert len(set(trace.ops["tid"].to_pylist())) > 0  # columns that no join changed live on
    assert psutil.Process().children() == []


def test_the_reader_is_chosen_by_all_the_text_however_many_read_it(tmp_path, monkeypatch):
    folder = write_ranks(tmp_path / "ranks")
    seen = []
    ask, load = rank_pool._Worker.ask, rank_pool.load_rank
    monkeypatch.setattr(
        rank_pool._Worker, "ask", lambda w, t: seen.append(t["more_text"]) or ask(w, t)
    )
    monkeypatch.setattr(
        rank_pool, "load_rank", lambda p, more_text: seen.append(more_text) or load(p)
    )
    for workers in (1, 2):
        read_trace(folder, workers=workers)
    assert seen == [sum(path.stat().st_size for path in folder.iterdir())] * 8


SCRIPT = """
import sys, chopper_jupyter as cj
trace = cj.read_trace(sys.argv[1], workers=2)
print("kernels", trace.kernels.num_rows)
"""


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_a_script_needs_no_guard_and_need_not_even_be_a_file(tmp_path, way):
    folder = write_ranks(tmp_path / "ranks")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    named = str(script) if way == "file" else "-"
    text = None if way == "file" else SCRIPT
    done = subprocess.run(
        [sys.executable, named, str(folder)],
        input=text, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["kernels", "8"], "")


def test_a_worker_starts_without_pandas_which_takes_longer_than_a_small_rank():
    code = "import sys, chopper_jupyter.core.rank_worker; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_modules_in_the_current_folder_do_not_disturb_processes(tmp_path, monkeypatch):
    folder = write_ranks(tmp_path / "ranks")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    same(read_trace("ranks", workers=2), read_trace(folder, workers=1))


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false", "", None])
def test_where_no_process_can_start_one_reads_all(tmp_path, monkeypatch, python):
    folder = write_ranks(tmp_path / "ranks")
    expected = read_trace(folder, workers=1)
    monkeypatch.setattr(sys, "executable", python)
    same(read_trace(folder, workers=2), expected)


@contextmanager
def no_room_for_files():
    """No file may grow beyond 2 kB, here and in new processes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@posix
def test_where_tables_have_no_room_on_disk_one_process_reads_all(tmp_path):
    folder = write_ranks(tmp_path / "ranks")
    with no_room_for_files():
        together = read_trace(folder, workers=2)
    same(together, read_trace(folder, workers=1))


def test_a_worker_says_whether_there_was_no_room(tmp_path):
    path = small_rank(0).write(tmp_path / "rank_0.json")
    (tmp_path / "taken").write_text("")
    task = {"paths": [str(path)], "into": str(tmp_path / "taken" / "rank")}
    assert list(rank_worker.answer(task)) == ["no_room"]
    assert rank_worker.answer({**task, "into": str(tmp_path / "free")}) == {"done": True}


def test_a_loaded_rank_travels_unchanged(tmp_path):
    path = small_rank(2).write(tmp_path / "rank_2.json")
    loaded = load_rank([path])
    hand_over(loaded, tmp_path / "parcel")
    again = take_over(tmp_path / "parcel")
    assert again == loaded


@pytest.mark.parametrize("workers", [0, -1])
def test_fewer_than_one_worker_is_refused(tmp_path, workers):
    with pytest.raises(ValueError, match="workers must be at least 1"):
        read_trace(write_ranks(tmp_path / "ranks"), workers=workers)


def test_processes_start_only_where_they_pay_and_fit(monkeypatch):
    memory = SimpleNamespace(available=64 << 30)
    monkeypatch.setattr(rank_pool, "_processors", lambda: 8)
    monkeypatch.setattr(rank_pool.psutil, "virtual_memory", lambda: memory)
    gigabyte = 1 << 30
    assert rank_pool.workers_worth_it([]) == 1
    assert rank_pool.workers_worth_it([1000] * 64) == 1
    assert rank_pool.workers_worth_it([gigabyte] * 64) == 8
    memory.available = 5 * gigabyte
    assert rank_pool.workers_worth_it([gigabyte] * 64) == 2
    memory.available = 1000
    assert rank_pool.workers_worth_it([gigabyte] * 64) == 1


# --- Joining ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = write_ranks(tmp_path_factory.mktemp("ranks"))
    return [load_rank([folder / f"rank_{number}.json"]).linked for number in range(4)]


@pytest.mark.parametrize(
    "grouped",
    [
        lambda a, b, c, d: [join([join([a, b]), c]), d],
        lambda a, b, c, d: [a, join([b, join([c, d])])],
        lambda a, b, c, d: [join([a, b]), join([c, d])],
        lambda a, b, c, d: [join([join([a]), b, c, d])],
        lambda a, b, c, d: [a, join([b, c]), d],
    ],
)
def test_the_grouping_of_ranks_does_not_matter(ranks, grouped):
    plain, other = merge(ranks, TraceInfo()), merge(grouped(*ranks), TraceInfo())
    for name in PARTS:
        assert plain.tables[name].to_pylist() == other.tables[name].to_pylist(), name
    assert plain.info == other.info
    shares = other.quality.linked
    assert plain.quality.linked == pytest.approx(shares)
    assert plain.quality.to_dict() | {"linked": shares} == other.quality.to_dict()


def test_the_order_in_which_ranks_finish_does_not_matter(tmp_path):
    jobs = [[p] for p in sorted(write_ranks(tmp_path / "ranks").iterdir())]
    done = rank_pool.load_all(jobs[::-1], 2, Progress(4))
    assert [o.loaded.rank for o in done] == [3, 2, 1, 0]
    assert [list(o.paths) for o in done] == jobs[::-1]


# --- Ranks that fail ----------------------------------------------------------------------


def check_missing(trace, rank: int, world_size=4) -> None:
    left = [n for n in range(world_size) if n != rank]
    assert trace.info.missing_ranks == (rank,)
    assert trace.gpus["rank"].to_pylist() == left
    names = {f"gemm_of_rank_{n}" for n in left}
    assert set(trace.kernels["name"].to_pylist()) == names
    assert any(note.startswith(f"rank {rank} could not be read") for note in trace.quality.notes)
    assert "Data partial" in trace.quality.phrase()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("write", [write_ranks, write_run])
def test_a_damaged_rank_is_missing_and_told(tmp_path, write, workers):
    folder = write(tmp_path / "ranks")
    next(folder.glob("rank_2*")).write_text("not json")
    with pytest.warns(PartialTraceWarning, match=r"1 of the recording's ranks .*rank_2\.json"):
        trace = read_trace(folder, workers=workers)
    check_missing(trace, 2)
    assert str(tmp_path) not in "".join(trace.quality.notes)


def test_the_warning_points_to_who_called(tmp_path):
    folder = write_ranks(tmp_path / "ranks")
    (folder / "rank_2.json").write_text("not json")
    with pytest.warns(PartialTraceWarning) as told:
        read_trace(folder)
    assert told[0].filename == __file__


@posix
@pytest.mark.parametrize("write", [write_ranks, write_run])
def test_a_rank_whose_process_is_killed_is_missing_and_told(tmp_path, write):
    folder = write(tmp_path / "ranks", numbers=(0, 2, 3))
    pipe = folder / f"rank_1.json{'.gz' if write is write_run else ''}"
    os.mkfifo(pipe)
    held: list[int] = []
    kill = threading.Thread(target=kill_reader_of, args=(pipe, held))
    kill.start()
    with pytest.warns(PartialTraceWarning, match=r"rank_1\.json.* was killed by signal 9"):
        trace = read_trace(folder, workers=2, cache=False)  # its key would read the pipe
    kill.join()
    for end in held:
        os.close(end)
    check_missing(trace, 1)


def kill_reader_of(pipe: Path, held: list[int]) -> None:
    """Wait until a worker has opened the pipe for reading, then kill it.

    Its end of the pipe of answers stays open, as if a process forked meanwhile had it as well.
    """
    writing = os.open(pipe, os.O_WRONLY)
    for child in psutil.Process().children():
        ends = {fd: fd.readlink() for fd in Path(f"/proc/{child.pid}/fd").iterdir()}
        if pipe in ends.values():
            held += [os.open(fd, os.O_WRONLY) for fd in ends if fd.name == "3"]
            child.kill()
    assert len(held) == 1
    os.close(writing)


@posix
def test_an_interrupt_ends_the_processes_too(tmp_path):
    folder = write_ranks(tmp_path / "ranks", numbers=(0, 2))
    os.mkfifo(folder / "rank_1.json")
    interruptible = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    reader = subprocess.Popen(  # whoever started these tests may ignore interrupts
        [sys.executable, "-c", interruptible + SCRIPT, str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    writing = os.open(folder / "rank_1.json", os.O_WRONLY)  # a worker is reading now
    reader.send_signal(signal.SIGINT)
    _, said = reader.communicate()
    assert b"KeyboardInterrupt" in said
    with pytest.raises(BrokenPipeError):
        os.write(writing, b"nobody reads this any more")
    os.close(writing)


@pytest.mark.parametrize("workers", [1, 2])
def test_if_no_rank_can_be_read_that_is_an_error(tmp_path, workers):
    folder = write_ranks(tmp_path / "ranks")
    for path in folder.iterdir():
        path.write_text("not json")
    with pytest.raises(TraceFormatError) as caught:
        read_trace(folder, workers=workers)
    assert all(f"rank_{n}.json" in str(caught.value) for n in range(4))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_was_named_must_be_read(tmp_path, workers):
    folder = write_ranks(tmp_path / "ranks")
    (folder / "rank_1.json").write_text("not json")
    with pytest.raises(TraceFormatError, match=r"rank_1\.json"):
        read_trace(sorted(folder.iterdir()), workers=workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_nobody_foresaw_costs_one_rank_too(tmp_path, workers):
    folder = write_ranks(tmp_path / "ranks")
    (folder / "rank_3.json").unlink()
    (folder / "rank_3.json").mkdir()  # reading it raises no error of the package
    with pytest.warns(PartialTraceWarning, match="IsADirectoryError|Is a directory"):
        check_missing(read_trace(folder, workers=workers), 3)


def test_files_beside_the_traces_are_no_missing_ranks(tmp_path):
    folder = write_ranks(tmp_path / "ranks")
    (folder / "settings.json").write_text('{"lr": 0.1}')
    trace = read_trace(folder)
    assert trace.info.missing_ranks == ()
    assert trace.quality.repairs == {}
    note = "1 files beside the traces are no traces and were left out"
    assert trace.quality.skipped[note] == 1


def test_a_file_chosen_by_a_pattern_is_a_rank_whatever_its_name(tmp_path):
    folder = write_ranks(tmp_path / "ranks", numbers=(0, 1), world_size=2)
    (folder / "rack.json").write_text('{"lr": 0.1}')
    with pytest.warns(PartialTraceWarning, match="one file could not be read and is missing"):
        trace = read_trace(folder, pattern="ra*.json")
    assert trace.gpus["rank"].to_pylist() == [0, 1]
    assert trace.info.missing_ranks == ()  # both that there are were read


def test_a_damaged_file_keeps_its_place_in_the_order(tmp_path):
    for number, name in enumerate(("a.trace.json", "b.trace.json", "c.trace.json")):
        small_rank(None, None, shift=number + 1).write(tmp_path / name)
    (tmp_path / "b.trace.json").write_text("not json")
    with pytest.warns(PartialTraceWarning, match="rank 1 could not be read"):
        trace = read_trace(tmp_path)
    assert trace.gpus["rank"].to_pylist() == [0, 2]
    assert trace.info.missing_ranks == (1,)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_rank_twice_is_still_an_error(tmp_path, workers):
    folder = write_ranks(tmp_path / "ranks")
    (folder / "other.json").write_text(json.dumps(small_rank(2, shift=9).document()))
    with pytest.raises(TraceFormatError, match="claim to be rank 2"):
        read_trace(folder, workers=workers)


def test_a_damaged_segment_costs_only_itself(tmp_path):
    folder = write_run(tmp_path / "run", numbers=(0,))
    (folder / "rank_0.1.json.gz").write_text("not json")
    with pytest.warns(PartialTraceWarning, match="part of the input is damaged"):
        trace = read_trace(folder)
    assert trace.quality.repairs == {LOST_SEGMENTS: 1}
    assert len(trace.kernels) == 2
