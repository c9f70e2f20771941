import copy
import json
import os
import pickle
import shutil

import pytest
from builders import trace_of

from chopper_jupyter.core import storage
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.schema import SCHEMA_VERSION, TABLES
from chopper_jupyter.core.trace import Trace


@pytest.fixture
def saved(tmp_path):
    return trace_of([{"op": "a"}, {"op": None}], name="x").save(tmp_path / "trace")


def edit(saved, **changes):
    path = saved / "trace.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def test_a_saved_trace_is_one_parquet_file_per_table_and_a_manifest(saved):
    names = {path.name for path in saved.iterdir()}
    assert names == {"trace.json", *(f"{table}.parquet" for table in TABLES)}
    assert json.loads((saved / "trace.json").read_text("utf-8"))["schema_version"] == SCHEMA_VERSION
    assert storage.is_saved_trace(saved)


def test_a_folder_without_manifest_is_no_saved_trace(tmp_path):
    assert not storage.is_saved_trace(tmp_path)
    with pytest.raises(TraceFormatError, match=r"it has no trace\.json"):
        Trace.open(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema_version": null}', "\x00"])
def test_a_damaged_manifest_is_named(saved, text):
    (saved / "trace.json").write_text(text, "utf-8")
    with pytest.raises(TraceFormatError, match=r"trace\.json is damaged"):
        Trace.open(saved)


def test_a_newer_version_is_refused_by_number(saved):
    edit(saved, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(TraceFormatError, match=f"schema_version {SCHEMA_VERSION + 1}"):
        Trace.open(saved)


def test_a_trace_of_the_version_before_memory_is_readable(saved):
    (saved / "memory.parquet").unlink()
    files = json.loads((saved / "trace.json").read_text("utf-8"))["files"]
    del files["memory.parquet"]
    edit(saved, schema_version=1, files=files)
    opened = Trace.open(saved)
    assert opened.memory.num_rows == 0
    assert opened.memory.schema == TABLES["memory"]
    assert opened.kernels.num_rows == 2
    assert copy.deepcopy(opened).memory.num_rows == 0


def test_keys_of_other_versions_are_ignored(saved):
    edit(saved, later="x", info={"name": "y", "later": 1})
    assert Trace.open(saved).info.name == "y"


def test_a_missing_table_is_named(saved):
    (saved / "ops.parquet").unlink()
    with pytest.raises(TraceFormatError, match=r"ops\.parquet is absent or damaged"):
        Trace.open(saved)


def test_a_cut_table_is_named(saved):
    path = saved / "kernels.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceFormatError, match=r"kernels\.parquet is absent or damaged"):
        Trace.open(saved)


def test_a_table_of_another_kind_is_named(saved):
    (saved / "kernels.parquet").write_bytes((saved / "gpus.parquet").read_bytes())
    with pytest.raises(TraceFormatError, match=r"kernels\.parquet is absent or damaged"):
        Trace.open(saved)


def test_an_interrupted_save_is_no_saved_trace(saved, monkeypatch):
    def fail(*_, **__):
        message = "disk full"
        raise OSError(message)

    monkeypatch.setattr(storage.pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        trace_of([{}]).save(saved)
    assert not storage.is_saved_trace(saved)


def test_saving_again_replaces(saved):
    trace_of([{"op": "b"}]).save(saved)
    assert Trace.open(saved).kernels["op"].to_pylist() == ["b"]


# --- Tables are read when they are used -----------------------------------------------------


def read_so_far(trace):
    return set(vars(trace)) & set(TABLES)


def test_a_table_is_read_when_it_is_first_used(saved):
    trace = Trace.open(saved)
    assert "2 kernels" in repr(trace)
    assert "ops" in dir(trace)
    assert trace.filter(op="a").kernels.num_rows == 1
    assert "kernels" in read_so_far(trace)
    assert "ops" not in read_so_far(trace)
    assert trace.ops.num_rows == 0
    assert trace.ops is trace.ops


def test_a_filtered_trace_reads_its_other_tables_too(saved):
    assert Trace.open(saved).filter(op="a").gpus.num_rows == 1


def test_what_is_no_table_is_no_attribute(saved):
    with pytest.raises(AttributeError, match="'Trace' object has no attribute 'opps'"):
        Trace.open(saved).opps  # noqa: B018


def test_an_open_trace_outlives_its_files(saved):
    trace = Trace.open(saved)
    shutil.rmtree(saved)
    assert trace.kernels["op"].to_pylist() == ["a", None]
    assert trace.gpus.num_rows == 1


def test_an_open_trace_is_not_changed_by_saving_another_over_it(saved):
    trace = Trace.open(saved)
    trace_of([{"op": "b", "gpu": 3}] * 3).save(saved)
    assert trace.kernels["op"].to_pylist() == ["a", None]
    assert trace.gpus["gpu"].to_pylist() == [0]


def test_a_trace_can_be_saved_over_itself(saved):
    Trace.open(saved).filter(op="a").save(saved)
    assert Trace.open(saved).kernels["op"].to_pylist() == ["a"]


@pytest.mark.parametrize("copied", [copy.copy, lambda t: pickle.loads(pickle.dumps(t))])  # noqa: S301
def test_an_open_trace_can_be_copied(saved, copied):
    again = copied(Trace.open(saved))
    assert again.kernels["op"].to_pylist() == ["a", None]
    assert again.info.name == "x"


def test_no_damaged_byte_of_a_table_goes_unnoticed(saved):
    path = saved / "kernels.parquet"
    whole = path.read_bytes()
    for at in range(4, len(whole), 131):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(TraceFormatError, match=r"kernels\.parquet is absent or damaged"):
            Trace.open(saved).kernels  # noqa: B018


def test_a_table_cut_while_it_is_open_is_an_error_not_a_crash(saved):
    trace = Trace.open(saved)
    os.truncate(saved / "kernels.parquet", 100)
    with pytest.raises(TraceFormatError, match=r"kernels\.parquet is absent or damaged"):
        trace.kernels  # noqa: B018
    assert trace.gpus.num_rows == 1


def test_folders_saved_without_checksums_are_read(saved):
    path = saved / "trace.json"
    older = json.loads(path.read_text("utf-8"))
    del older["files"], older["checksum"]
    path.write_text(json.dumps(older), "utf-8")
    assert Trace.open(saved).kernels["op"].to_pylist() == ["a", None]


@pytest.mark.parametrize("files", [3, [], {"ops.parquet": 3}, {"ops.parquet": {}}])
def test_a_manifest_with_nonsense_about_files_is_damaged(saved, files):
    edit(saved, files=files)
    with pytest.raises(TraceFormatError, match=r"trace\.json is damaged"):
        Trace.open(saved)


@pytest.mark.parametrize("nonsense", [{"info": 3}, {"info": []}, {"quality": 3}])
def test_a_manifest_with_nonsense_about_the_run_is_damaged(saved, nonsense):
    edit(saved, **nonsense)
    with pytest.raises(TraceFormatError, match=r"trace\.json is damaged"):
        Trace.open(saved)


def test_keys_of_a_later_quality_record_are_ignored(saved):
    edit(saved, quality={"events_read": 7, "later": {"a": 1}})
    assert Trace.open(saved).quality.events_read == 7
