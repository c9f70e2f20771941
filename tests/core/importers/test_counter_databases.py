"""Counters of rocprofv3 as JSON and as a database: the same as in CSV."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from counter_files import by_kernel, rocpd_with_counters
from profiler_files import MAIN, Rocprof, database, small_nsys, small_rocprof

from chopper_jupyter.core.counter_events import COUNTED_DURATION
from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.counters import read_counters

INSTANCES = [(1, "GUI", 5.0), (1, "GUI", 7.0), (1, "HIT", 1.0), (2, "GUI", 3.0)]
"""Number of the kernel, counter, value of one die."""

EXPECTED = {
    (0, MAIN, 1): {"GUI": 12, "HIT": 1, COUNTED_DURATION: 100},
    (0, MAIN, 2): {"GUI": 3, COUNTED_DURATION: 100},
}


def two_kernels(pid: int = MAIN, gpu: int = 1) -> Rocprof:
    run = Rocprof(pid, gpu)
    run.kernel("void gemm<float>(float*)", 1000, 100)
    run.kernel("other", 2000, 100)
    return run


def as_json(run: Rocprof, values=INSTANCES) -> dict:
    """Return a process's JSON with counters of its kernels."""
    tool = run.tool()
    names = sorted({counter for _, counter, _ in values})
    found = []
    for n, record in enumerate(tool["buffer_records"]["kernel_dispatch"], 1):
        info = record["dispatch_info"] | {"dispatch_id": n}
        own = [{"counter_id": {"handle": 50 + names.index(counter)}, "value": value}
               for kernel, counter, value in values if kernel == n]  # fmt: skip
        found.append({"thread_id": run.pid, "records": own, "dispatch_data": {
            "dispatch_info": info, "start_timestamp": record["start_timestamp"],
            "end_timestamp": record["end_timestamp"]}})  # fmt: skip
    tool["counters"] = [{"id": {"handle": 50 + n}, "name": name} for n, name in enumerate(names)]
    tool["callback_records"] = {"counter_collection": found}
    return tool


def written(path, *tools):
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(tools)}))
    return path


class TestJson:
    def test_instances_add_up(self, tmp_path):
        tool = as_json(two_kernels())
        tool["agents"][3] |= {"num_xcc": 8, "cu_count": 304, "max_engine_clk_fcompute": 2100,
                              "location_id": 4352}  # fmt: skip
        (run,) = read_counters(written(tmp_path / "x_results.json", tool))
        assert by_kernel(run) == EXPECTED
        assert run.counted["name"].to_pylist() == ["void gemm<float>(float*)", "other"]
        assert run.counted["work_items"].to_pylist() == [4096, 4096]
        assert run.counted["device"].to_pylist() == [1, 1]
        assert run.agents == {1: {
            "product_name": "AMD Instinct MI300X", "num_xcc": 8, "cu_count": 304,
            "max_clock_mhz": 2100, "bus_id": "0000:11:00.0", "node_id": 3,
        }}  # fmt: skip

    def test_processes_of_one_file(self, tmp_path):
        tools = [as_json(two_kernels(pid, gpu)) for pid, gpu in ((8, 0), (9, 1))]
        for record in tools[1]["callback_records"]["counter_collection"]:
            record["dispatch_data"]["start_timestamp"] += 1
        (run,) = read_counters(written(tmp_path / "x.json", *tools))
        assert sorted(set(run.counted["process"].to_pylist())) == [8, 9]
        assert set(run.counted["pass"].to_pylist()) == {0}

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ('{"traceEvents": []}', "not the JSON of rocprofv3"),
            ('{"rocprofiler-sdk-tool": [', "damaged or cut short"),
            ('{"rocprofiler-sdk-tool": [{"buffer_records": {}}]}', "without `--pmc`"),
            ('{"rocprofiler-sdk-tool": [{"callback_records": {"counter_collection": [7]}}]}',
             "cannot be read"),
        ],
    )  # fmt: skip
    def test_others_are_refused(self, tmp_path, text, words):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(TraceFormatError, match=words):
            read_counters(tmp_path / "x.json")


class TestRocpd:
    @pytest.mark.parametrize("suffix", ["_0001", ""])
    def test_instances_add_up(self, tmp_path, suffix):
        path = rocpd_with_counters(tmp_path / "x.db", two_kernels(), INSTANCES, suffix)
        (run,) = read_counters(path)
        assert by_kernel(run) == EXPECTED
        assert run.counted["name"].to_pylist() == ["void gemm<float>(float*)", "other"]
        assert run.counted["device"].to_pylist() == [1, 1]
        assert run.agents[1]["product_name"] == "AMD Instinct MI300X"

    def test_kernels_without_a_symbol_are_counted_not_lost(self, tmp_path):
        path = rocpd_with_counters(tmp_path / "x.db", two_kernels(), INSTANCES)
        with closing(sqlite3.connect(path)) as db:
            db.execute("DELETE FROM rocpd_info_kernel_symbol_0001 WHERE display_name = 'other'")
            db.commit()
        (run,) = read_counters(path)
        assert set(by_kernel(run)) == {(0, MAIN, 1)}
        assert sum(run.skipped.values()) == 1

    def test_values_of_other_events_are_no_counters(self, tmp_path):
        """Samples of program counters lie in the same table."""
        path = rocpd_with_counters(tmp_path / "x.db", two_kernels(), INSTANCES)
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO rocpd_pmc_event_0001 VALUES (99, 1, 1, 777.0)")
            db.commit()
        assert by_kernel(read_counters(path)[0]) == EXPECTED

    def test_runs_of_one_file_keep_to_themselves(self, tmp_path):
        tables = {}
        for number, pid in ((1, 8), (2, 9)):
            other = rocpd_with_counters(
                tmp_path / f"{pid}.db", two_kernels(pid, number - 1), INSTANCES, f"_{number}"
            )
            with closing(sqlite3.connect(other)) as db:
                for name, sql in db.execute("SELECT name, sql FROM sqlite_master").fetchall():
                    rows = db.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608
                    tables[name] = (sql.partition("(")[2].rstrip(")"), rows)
            other.unlink()
        (run,) = read_counters(database(tmp_path / "both.db", tables))
        own = {key[1:]: {n: v for n, v in values.items() if n != COUNTED_DURATION}
               for key, values in by_kernel(run).items()}  # fmt: skip
        assert own == {(pid, n): values for pid in (8, 9) for n, values in
                       ((1, {"GUI": 12, "HIT": 1}), (2, {"GUI": 3}))}  # fmt: skip

    def test_further_facts_of_agents(self, tmp_path):
        path = rocpd_with_counters(tmp_path / "x.db", two_kernels(), INSTANCES)
        with closing(sqlite3.connect(path)) as db:
            db.execute("ALTER TABLE rocpd_info_agent_0001 ADD COLUMN extdata")
            db.execute("UPDATE rocpd_info_agent_0001 SET extdata = ?",
                       (json.dumps({"cu_count": 304, "num_xcc": 8}),))  # fmt: skip
            db.commit()
        (run,) = read_counters(path)
        assert run.agents[1]["num_xcc"] == 8
        assert run.agents[1]["cu_count"] == 304


class TestOtherDatabases:
    def test_each_is_named(self, tmp_path):
        with pytest.raises(TraceFormatError, match="trace of Nsight Systems"):
            read_counters(small_nsys().write(tmp_path / "a.sqlite"))
        with pytest.raises(TraceFormatError, match="without `--pmc`"):
            read_counters(small_rocprof().rocpd(tmp_path / "b.db"))
        with pytest.raises(TraceFormatError, match="no known tool"):
            read_counters(database(tmp_path / "c.db", {"t": ("a", [(1,)])}))
        analysis = database(tmp_path / "d.db", {"compute_metric_definition": ("a", [(1,)])})
        with pytest.raises(TraceFormatError, match="analysis of rocprof-compute"):
            read_counters(analysis)
        (tmp_path / "e.db").write_bytes(b"SQLite format 3\x00 but no more")
        with pytest.raises(TraceFormatError, match="damaged or cut short"):
            read_counters(tmp_path / "e.db")

    def test_a_run_that_wrote_two_formats_counts_once(self, tmp_path):
        written(tmp_path / "x_results.json", as_json(two_kernels()))
        rocpd_with_counters(tmp_path / "x_results.db", two_kernels(), INSTANCES)
        (run,) = read_counters(tmp_path)
        assert by_kernel(run) == EXPECTED
        assert list(run.skipped.values()) == [1]
