"""Which files of other profilers are recordings, alone and in folders, and which are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from builders import Rank
from profiler_files import (
    EPOCH,
    database,
    small_nsys,
    small_rocprof,
)

from chopper_jupyter import read_trace
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.nsys_sqlite import read_ranks

REAL = Path(os.environ.get("CHOPPER_REAL_DATA", "unset")) / "counters"

pytestmark = pytest.mark.filterwarnings(
    "ignore::chopper_jupyter.core.errors.PartialTraceWarning",
    "ignore::chopper_jupyter.core.errors.ClockWarning",
)


# --- Which files ------------------------------------------------------------------------------


def test_rank_files_stay_what_a_folder_holds(tmp_path):
    rank = Rank()
    with rank.op("aten::mm"):
        rank.launch("of_pytorch")
    rank.write(tmp_path / "rank_0.json")
    small_rocprof().csv(tmp_path / "counters" / "pass_0")
    small_nsys().write(tmp_path / "extra.sqlite")
    (tmp_path / "telemetry.csv").write_text("timestamp,index,power.draw [W]\n1700000000,0,5 W\n")
    trace = read_trace(tmp_path)
    assert trace.kernels["name"].to_pylist() == ["of_pytorch"]
    assert trace.quality.skipped["recordings of other tools beside the traces left out"] == 2


def test_a_settings_file_does_not_hide_an_export(tmp_path):
    (tmp_path / "settings.json").write_text('{"batch": 4}')
    small_nsys().write(tmp_path / "run.sqlite")
    assert read_trace(tmp_path).kernels.num_rows == 4


def test_a_pattern_chooses_among_exports(tmp_path):
    small_nsys().write(tmp_path / "one.sqlite")
    other = small_nsys()
    other.kernel("more", 900, 5)
    other.write(tmp_path / "two.sqlite")
    assert read_trace(tmp_path, pattern="two*").kernels.num_rows == 5


def test_exports_of_runs_far_apart_are_not_joined(tmp_path):
    small_nsys().write(tmp_path / "one.sqlite")
    later = small_nsys()
    later.more = {"TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(EPOCH + 10**12,)])}
    later.write(tmp_path / "two.sqlite")
    with pytest.raises(TraceFormatError, match=r"1,000 s apart"):
        read_trace(tmp_path)


# --- Refusals -----------------------------------------------------------------------------


def test_an_export_without_kernels_says_how_to_record(tmp_path):
    tables = small_nsys().tables()
    kept = {name: table for name, table in tables.items() if not name.startswith("CUPTI")}
    with pytest.raises(TraceFormatError, match=r"a\.sqlite .*holds no kernels .*--trace=cuda,nvtx"):
        read_trace(database(tmp_path / "a.sqlite", kept))


def test_another_database_is_refused(tmp_path):
    with pytest.raises(TraceFormatError, match=r"neither an export .*\(found songs\)"):
        read_trace(database(tmp_path / "a.db", {"songs": ("title", [("x",)])}))


@pytest.mark.parametrize("keep", [100, 4096, 9000, 20000])
def test_a_database_cut_short_is_refused(keep, tmp_path):
    path = small_nsys().write(tmp_path / "a.sqlite")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TraceFormatError, match=r"a\.sqlite"):
        read_trace(path)


@pytest.mark.parametrize("suffix", [".sqlite", ".db", ".csv"])
@pytest.mark.parametrize("text", ["", "nonsense", "a,b\n1,2\n", "\x00\x00"])
def test_what_is_nothing_is_refused_with_its_name(text, suffix, tmp_path):
    path = tmp_path / f"strange{suffix}"
    path.write_text(text)
    with pytest.raises(TraceFormatError, match="strange"):
        read_trace(path)


@pytest.mark.parametrize(
    "document",
    [{"rocprofiler-sdk-tool": []}, {"rocprofiler-sdk-tool": [{}]}, {"rocprofiler-sdk-tool": 3},
     {"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [3]}}]},
     {"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [{"kind": "x"}]}}]}],
)  # fmt: skip
def test_json_of_rocprofv3_without_kernels_is_refused(document, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    with pytest.raises(TraceFormatError, match=r"r\.json"):
        read_trace(path)


def test_json_cut_short_is_refused(tmp_path):
    path = small_rocprof().json(tmp_path / "r.json")
    path.write_text(path.read_text()[:-100])
    with pytest.raises(TraceFormatError, match="damaged or cut short"):
        read_trace(path)


def test_a_report_that_only_its_vendor_reads_says_what_to_do(tmp_path):
    (tmp_path / "run.nsys-rep").write_bytes(b"\x01\x02")
    with pytest.raises(TraceFormatError, match="nsys export --type sqlite"):
        read_trace(tmp_path / "run.nsys-rep")


# --- Real files ---------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "kernels", "ranges"),
    [("perlmutter-cloverleaf-cuda", 1312, 0), ("power_iteration__baseline", 3689, 786),
     ("saxpy-mpi-cuda_nsys_perlmutter0", 5, 22)],
)  # fmt: skip
def test_real_exports(name, kernels, ranges):
    path = REAL / "nvidia" / "nsys" / f"{name}.sqlite"
    (events,) = read_ranks(path)
    trace = read_trace(path)
    assert events.device["kind"].to_pylist().count("kernel") == kernels
    assert events.ranges.num_rows == ranges
    assert trace.quality.linked["launch"] == 1.0
    assert trace.quality.repairs == {}


@pytest.mark.real
def test_real_rocprofv3_files():
    folder = REAL / "rocprofv3"
    json_ = read_trace(folder / "json")
    assert json_.kernels.num_rows == 43915
    names = json_.kernels["name"].to_pylist()
    assert sum(name.startswith("ncclDevKernel") for name in names) == 1310
    kinds = json_.kernels["kind"].to_pylist()
    assert (kinds.count("memset"), kinds.count("memcpy")) == (3213, 3153)
    prefill = read_trace(folder / "gfx1151_llamacpp" / "prefill_kernel_trace.csv")
    launches = prefill.kernels["correlation_id"].to_pylist()
    assert (launches.count(57328), prefill.kernels.num_rows) == (1123, 1128)
    graph = read_trace(folder / "mi210_vllm_graph")
    assert graph.kernels["correlation_id"].to_pylist().count(3945805) == 6


@pytest.mark.real
def test_every_real_file_is_a_trace_or_refused_with_its_name():
    files = [p for p in REAL.rglob("*") if p.suffix in (".csv", ".json", ".db", ".sqlite", ".gz")]
    assert len(files) > 50
    assert sum(_kernels_or_refusal(path) > 0 for path in files) == 12


def _kernels_or_refusal(path: Path) -> int:
    try:
        return read_trace(path).kernels.num_rows
    except TraceFormatError as error:
        assert path.name in str(error)  # noqa: PT017
        return 0
