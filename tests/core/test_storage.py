import json

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
