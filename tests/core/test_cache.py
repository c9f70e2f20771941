"""What a run folder keeps of an earlier reading: used while it is right, else forgotten."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders import Rank

from chopper_jupyter import read_trace
from chopper_jupyter.core import cache, read, run_folder
from chopper_jupyter.core.errors import PartialTraceWarning
from chopper_jupyter.core.schema import TABLES

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and limits")
FILES = ["trace.json", *(f"{table}.parquet" for table in TABLES)]


def rank(number: int, kernel: str = "gemm") -> Rank:
    made = Rank(rank=number, world_size=2, device=number)
    made.now += 7 * number
    for iteration in range(3):
        made.mark(iteration)
        with made.module("", "Model"), made.module("head"), made.op("aten::mm", seq=iteration + 1):
            made.launch(f"{kernel}_{number}_{iteration}")
    return made


def write_run(folder: Path, ranks=(0, 1), **facts) -> Path:
    folder.mkdir(exist_ok=True)
    for number in ranks:
        rank(number).write(folder / f"rank_{number}.json.gz")
    options = {"warmup": 1, "tokens": 64}
    run_folder.write_run(folder, {"world_size": 2, "options": options, "notes": ["n"]} | facts)
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    return write_run(tmp_path / "run")


@pytest.fixture
def loads(monkeypatch) -> list:
    """Every load of ranks from their files, as it happens."""
    made = []
    load_all = read.load_all

    def counted(jobs, *rest):
        made.append(jobs)
        return load_all(jobs, *rest)

    monkeypatch.setattr(read, "load_all", counted)
    return made


def same(one, other) -> None:
    assert one.info == other.info
    assert one.quality == other.quality
    for name, table in one.tables.items():
        assert table.schema.equals(other.tables[name].schema, check_metadata=True)
        assert table.equals(other.tables[name]), name


def kept(run: Path) -> Path:
    """The one Trace in the cache; there is nothing beside it."""
    (only,) = (run / "cache").iterdir()
    return only


def plain(run: Path):
    return read_trace(run, cache=False)


# --- Used -----------------------------------------------------------------------------------


def test_the_second_reading_is_the_first_without_loading(run, loads):
    first = read_trace(run)
    second = read_trace(run)
    assert len(loads) == 1
    same(first, second)
    same(second, plain(run))
    assert second.measured_iterations == [1, 2]


def test_tables_of_the_cache_are_read_when_they_are_used(run):
    read_trace(run)
    trace = read_trace(run)
    assert "kernels" not in vars(trace)
    assert "6 kernels" in repr(trace)
    assert "ops" not in vars(trace)


def test_warnings_come_from_the_cache_too(run, loads):
    made = Rank(rank=0, world_size=2)
    with made.op("aten::mm"):
        made.launch("k", dur=10)
    made.events[-1]["args"] = {"device": 0, "stream": 7, "correlation": 999_999}
    made.write(run / "rank_0.json.gz")
    for _ in range(2):
        with pytest.warns(PartialTraceWarning, match="no launch") as told:
            read_trace(run)
        assert told[0].filename == __file__
    assert len(loads) == 1


def test_without_the_cache_nothing_is_read_or_written(run, loads):
    read_trace(run, cache=False)
    assert not (run / "cache").exists()
    read_trace(run)
    read_trace(run, cache=False)
    assert len(loads) == 3


def test_a_renamed_run_keeps_its_cache_and_has_its_new_name(run, loads):
    read_trace(run)
    moved = run.rename(run.parent / "renamed")
    trace = read_trace(moved)
    assert len(loads) == 1
    assert trace.info.name == "renamed"


def test_only_run_folders_get_a_cache(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in (0, 1):
        rank(number).write(folder / f"rank_{number}.json.gz")
    read_trace(folder)
    read_trace(folder / "rank_0.json.gz")
    read_trace(sorted(folder.iterdir()))
    run_folder.write_run(folder, {"world_size": 2})
    read_trace(folder, pattern="*.json.gz")
    assert sorted(p.name for p in folder.iterdir()) == [
        "rank_0.json.gz", "rank_1.json.gz", "run.json",
    ]  # fmt: skip


# --- Stale ----------------------------------------------------------------------------------


def touched(path: Path) -> None:
    facts = path.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))


def other_kernel(path: Path) -> None:
    rank(0, "norm").write(path)


def other_bytes(place: int):
    """Change one byte, and neither the size nor the time of the file."""

    def change(path: Path) -> None:
        facts, data = path.stat(), bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    return change


@pytest.mark.parametrize(
    "change", [touched, other_kernel, other_bytes(4), other_bytes(9)], ids=lambda f: f.__name__
)
def test_a_changed_rank_is_read_again(run, loads, change):
    read_trace(run)
    change(run / "rank_0.json.gz")
    same(read_trace(run), plain(run))
    assert len(loads) == 3


@pytest.mark.parametrize("place", [0, 3, -1, -cache.PROBE])
@pytest.mark.parametrize("size", [10, cache.PROBE + 1, 3 * cache.PROBE])
def test_the_key_covers_head_and_tail_of_each_file(tmp_path, place, size):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    key = cache.key_of([source])
    assert cache.key_of([source]) == key
    if -size <= place:
        other_bytes(place)(source)
        assert cache.key_of([source]) != key


def test_a_new_rank_is_read(run, loads):
    (run / "rank_1.json.gz").rename(run.parent / "later.json.gz")
    assert read_trace(run).info.missing_ranks == (1,)
    (run.parent / "later.json.gz").rename(run / "rank_1.json.gz")
    assert read_trace(run).info.missing_ranks == ()
    assert len(loads) == 2
    kept(run)


def test_a_changed_description_of_the_run_is_read(run):
    assert read_trace(run).info.tokens_per_iteration == 64
    write_run(run, ranks=(), options={"tokens": 128})
    assert read_trace(run).info.tokens_per_iteration == 128


@pytest.mark.parametrize("what", ["__version__", "SCHEMA_VERSION"])
def test_what_another_version_kept_is_not_used(run, loads, monkeypatch, what):
    read_trace(run)
    monkeypatch.setattr(cache, what, "9.9")
    read_trace(run)
    assert len(loads) == 2
    kept(run)


def test_what_other_code_of_this_version_kept_is_not_used(run, loads, monkeypatch):
    read_trace(run)
    monkeypatch.setattr(cache, "_code", lambda: "edited")
    read_trace(run)
    assert len(loads) == 2


def test_ranks_that_failed_are_tried_again(run, loads):
    good = (run / "rank_1.json.gz").read_bytes()
    (run / "rank_1.json.gz").write_bytes(b"not json")
    with pytest.warns(PartialTraceWarning, match="rank 1"):
        read_trace(run)
    assert not (run / "cache").exists()
    (run / "rank_1.json.gz").write_bytes(good)
    assert read_trace(run).gpus["rank"].to_pylist() == [0, 1]
    assert len(loads) == 2


# --- Damaged --------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flipped, emptied, Path.unlink])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_cache_is_made_again(run, loads, name, damage):
    read_trace(run)
    damage(kept(run) / name)
    trace = read_trace(run)
    assert len(loads) == 2
    assert trace.kernels["name"].to_pylist() == plain(run).kernels["name"].to_pylist()
    read_trace(run)
    assert len(loads) == 3  # of them one by plain()
    kept(run)


def test_no_number_in_the_manifest_can_change_unnoticed(run, loads):
    read_trace(run)
    path = kept(run) / "trace.json"
    text = path.read_text("utf-8")
    assert '"origin_ns": 17' in text
    path.write_text(text.replace('"origin_ns": 17', '"origin_ns": 18'), "utf-8")
    assert read_trace(run).info.origin_ns == plain(run).info.origin_ns
    assert len(loads) == 3


def test_the_cache_may_be_removed_at_any_time(run, loads):
    read_trace(run)
    trace = read_trace(run)
    shutil.rmtree(run / "cache")
    assert trace.ops.num_rows == 3 * 2
    same(read_trace(run), trace)
    assert len(loads) == 2


# --- Where it cannot be written ---------------------------------------------------------------


def test_something_else_in_its_place_is_left_alone(run):
    (run / "cache").write_text("mine")
    same(read_trace(run), plain(run))
    assert (run / "cache").read_text() == "mine"


@posix
def test_a_link_to_nowhere_in_its_place_is_left_alone(run):
    (run / "cache").symlink_to(run / "nowhere")
    same(read_trace(run), plain(run))
    assert (run / "cache").is_symlink()


@contextmanager
def no_room_for_files():
    """No file may grow beyond 2 kB, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@posix
def test_a_full_disk_leaves_no_cache_and_harms_nobody(run, loads):
    with no_room_for_files():
        trace = read_trace(run)
    same(trace, plain(run))
    assert list((run / "cache").iterdir()) == []


@contextmanager
def as_nobody():
    """Root may write everywhere: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@posix
def test_a_read_only_folder_is_read_without_a_cache():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        run = write_run(Path(folder) / "run")
        for path in run.iterdir():
            path.chmod(0o444)
        run.chmod(0o555)
        with as_nobody():
            with pytest.raises(PermissionError):
                (run / "cache").mkdir()
            assert len(read_trace(run).kernels) == 6
        run.chmod(0o755)
        assert not (run / "cache").exists()


# --- Several readers --------------------------------------------------------------------------


def test_readers_at_the_same_time_leave_one_whole_cache(run, loads):
    expected = plain(run)
    begin = threading.Barrier(4)
    traces = []

    def reader() -> None:
        begin.wait()
        traces.append(read_trace(run))

    readers = [threading.Thread(target=reader) for _ in range(4)]
    for one in readers:
        one.start()
    for one in readers:
        one.join()
    assert len(traces) == 4
    for trace in traces:
        same(trace, expected)
    kept(run)
    before = len(loads)
    same(read_trace(run), expected)
    assert len(loads) == before


def test_an_open_trace_survives_that_its_cache_becomes_stale(run):
    read_trace(run)
    trace = read_trace(run)
    other_kernel(run / "rank_0.json.gz")
    read_trace(run)
    assert "gemm_0_0" in trace.kernels["name"].to_pylist()
    assert trace.ops.num_rows == 6


def test_what_an_interrupted_reader_left_behind_is_removed_when_it_is_old(run):
    read_trace(run)
    left, writing = (run / "cache" / (cache.WRITING + name) for name in ("old", "now"))
    for folder in (left, writing):
        folder.mkdir()
        (folder / "ops.parquet").write_text("half")
    long_ago = time.time() - 2 * cache.ABANDONED_S
    os.utime(left, (long_ago, long_ago))
    touched(run / "run.json")
    read_trace(run)
    assert not left.exists()
    assert writing.exists()
