"""The same small run, read from every format of Nsight Systems and rocprofv3."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from profiler_files import (
    EPOCH,
    small_nsys,
    small_rocprof,
)

from chopper_jupyter import read_trace

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)


def nsys(folder: Path):
    return read_trace(small_nsys().write(folder / "run.sqlite"))


def rocprof_csv(folder: Path):
    return read_trace(small_rocprof().csv(folder / "node7"))


def rocprof_quoted(folder: Path):
    small_rocprof().csv(folder / "node7", quoted=True, end="\r\n")
    return read_trace(folder)


def rocprof_json(folder: Path):
    return read_trace(small_rocprof().json(folder / "77_results.json"))


def rocprof_gz(folder: Path):
    plain = small_rocprof().json(folder / "x.json")
    (folder / "y.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return read_trace(folder)


def rocpd(folder: Path):
    return read_trace(small_rocprof().rocpd(folder / "77_results.db"))


FORMATS = [nsys, rocprof_csv, rocprof_quoted, rocprof_json, rocprof_gz, rocpd]


@pytest.mark.parametrize("read", FORMATS)
def test_the_run_is_the_same_in_every_format(read, tmp_path):
    trace = read(tmp_path)
    rows = trace.kernels.to_pylist()
    first = 50 if read is not nsys else 50 + EPOCH - trace.info.origin_ns
    assert [row["kind"] for row in rows] == ["memcpy", "compute", "compute", "memset"]
    assert [row["dur_ns"] for row in rows] == [20, 100, 100, 10]
    starts = [row["start_ns"] for row in rows]
    assert [start - starts[0] for start in starts] == [0, 70, 270, 450]
    assert first >= 0
    gemm = rows[1]
    assert (gemm["name"], gemm["grid"], gemm["block"]) == (
        "void gemm<float>(float*)", "8,2,1", "256,1,1",
    )  # fmt: skip
    assert [row["op"] for row in rows] == [None, "aten::mm", "aten::mm", None]
    assert [row["iteration"] for row in rows[1:3]] == [0, 1]
    assert gemm["launch_dur_ns"] == 2
    assert gemm["start_ns"] - gemm["launch_ns"] == 10
    assert len({row["correlation_id"] for row in rows}) == 4
    assert trace.quality.linked["launch"] == 1.0
    assert trace.ops["autograd_seq"].to_pylist() == [5, 6]
    assert trace.ops["input_shapes"].to_pylist() == ["[[2,3],[3,4]]"] * 2
    assert [row["device"] for row in trace.gpus.to_pylist()] == [0]
    assert trace.gpus["name"].to_pylist()[0] in ("NVIDIA H100", "AMD Instinct MI300X")
    assert trace.quality.repairs == {}


@pytest.mark.parametrize(("read", "size"), [(nsys, 64), (rocprof_json, 64), (rocpd, 64)])
def test_the_bytes_of_copies(read, size, tmp_path):
    assert read(tmp_path).kernels["bytes"].to_pylist()[0] == size


def test_words_are_those_of_pytorch(tmp_path):
    nvidia, amd = (tmp_path / name for name in ("nvidia", "amd"))
    nvidia.mkdir()
    names = nsys(nvidia).kernels["name"].to_pylist()
    assert names[0] == "Memcpy HtoD (Pinned -> Device)"
    assert names[-1] == "Memset (Device)"
    assert rocprof_csv(amd).kernels["name"].to_pylist()[0] == "CopyHostToDevice"
