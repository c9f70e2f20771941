"""Files of one counting run: passes, processes, hosts, devices, copies of files and of times."""

from __future__ import annotations

import shutil

import pytest
from counter_files import agent_info, by_kernel, counted, ncu_row, raw_page, rocprof_csv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chopper_jupyter.core.counter_events import COUNTED, COUNTED_DURATION, VALUES
from chopper_jupyter.core.importers.counters import read_counters

FILE = "{}_counter_collection.csv"


def passes_of(run) -> list[tuple[int, int]]:
    columns = (run.counted[name].to_pylist() for name in ("pass", "process"))
    return sorted(set(zip(*columns, strict=True)))


def one(path, counter="A", *, pid=7, start=1000):
    return rocprof_csv(path / FILE.format(pid), [counted(1, counter, 5, pid=pid, start=start)])


def test_tables_follow_their_schemas(tmp_path):
    (run,) = read_counters(one(tmp_path))
    assert run.counted.schema.equals(COUNTED)
    assert run.values.schema.equals(VALUES)


def test_folders_named_by_pass_are_passes_in_order_of_their_numbers(tmp_path):
    for number in (10, 2, 0):
        for pid in (31, 30):
            one(tmp_path / f"pass_{number}" / "node1", f"C{number}", pid=pid + number)
    (run,) = read_counters(tmp_path)
    assert passes_of(run) == [(0, 30), (0, 31), (1, 32), (1, 33), (2, 40), (2, 41)]
    assert by_kernel(run)[2, 40, 1]["C10"] == 5


def test_other_folders_are_passes_by_their_counters(tmp_path):
    one(tmp_path / "hbm" / "node", "FETCH_SIZE", pid=8)
    one(tmp_path / "mfma" / "node", "GRBM_GUI_ACTIVE", pid=9)
    (run,) = read_counters(tmp_path)
    assert passes_of(run) == [(0, 8), (1, 9)]


def test_hosts_side_by_side_are_one_pass(tmp_path):
    for host, pid in (("node1", 8), ("node2", 9)):
        one(tmp_path / host, pid=pid, start=10**9 * pid)
    (run,) = read_counters(tmp_path)
    assert passes_of(run) == [(0, 8), (0, 9)]


def test_one_process_number_on_two_hosts_is_two_processes(tmp_path):
    for host, start in (("node1", 10), ("node2", 99)):
        one(tmp_path / "pass_0" / host, start=start)
    (run,) = read_counters(tmp_path)
    assert len(passes_of(run)) == 2
    assert sum(run.repairs.values()) == 1


def test_files_in_one_folder_are_one_pass_if_they_ran_at_one_time(tmp_path):
    rocprof_csv(tmp_path / FILE.format(8), [counted(n, "A", 1, pid=8) for n in (1, 2, 3)])
    rocprof_csv(tmp_path / FILE.format(9), [counted(n, "A", 1, pid=9, start=1200) for n in (1, 2)])
    one(tmp_path, pid=10, start=10**6)
    (run,) = read_counters(tmp_path)
    assert passes_of(run) == [(0, 8), (0, 9), (1, 10)]


def test_a_process_that_counted_twice_did_so_in_two_passes(tmp_path):
    one(tmp_path / "pass_0", "A")
    rocprof_csv(tmp_path / "pass_0" / "7_again.csv", [counted(1, "B", 6, start=50_000)])
    (run,) = read_counters(tmp_path)
    assert by_kernel(run) == {
        (0, 7, 1): {"A": 5, COUNTED_DURATION: 500},
        (1, 7, 1): {"B": 6, COUNTED_DURATION: 500},
    }


def test_a_copy_of_a_file_counts_once(tmp_path):
    path = one(tmp_path / "pass_0")
    shutil.copy(path, tmp_path / "pass_0" / "copy.csv")
    (run,) = read_counters(tmp_path)
    assert run.counted.num_rows == 1
    assert list(run.skipped.values()) == [1]


def test_passes_of_ncu_with_one_process_number_are_not_copies(tmp_path):
    for number, metric in enumerate(("a.sum", "b.sum")):
        folder = tmp_path / f"pass_{number}"
        folder.mkdir()
        (folder / "ncu.csv").write_text(raw_page({metric: ""}, ncu_row(0, 3, pid=1)))
    (run,) = read_counters(tmp_path)
    assert by_kernel(run) == {(0, 1, 0): {"a.sum": 3}, (1, 1, 0): {"b.sum": 3}}


def test_times_that_were_copied_from_an_earlier_pass_are_not_of_a_pass(tmp_path):
    for number, counter in enumerate("ABC"):
        one(tmp_path / f"pass_{number}", counter, pid=20 + number)
    (run,) = read_counters(tmp_path)
    timed = [COUNTED_DURATION in values for values in by_kernel(run).values()]
    assert timed == [True, False, False]
    assert list(run.repairs.values()) == [2]
    assert run.counted["dur_ns"].to_pylist() == [500, None, None]


def test_devices_are_gpus_of_the_host_where_the_agents_are_listed(tmp_path):
    agent_info(tmp_path / "7_agent_info.csv")
    rows = [counted(n, "A", 1, agent=agent) for n, agent in
            ((1, "Agent 3"), (2, "3"), (3, "GPU 1"), (4, "Agent 2"))]  # fmt: skip
    (run,) = read_counters(rocprof_csv(tmp_path / FILE.format(7), rows))
    assert run.counted["device"].to_pylist() == [1, 1, 1, 0]
    assert run.agents[0] == {
        "num_xcc": 8, "cu_count": 304, "simd_per_cu": 4, "product_name": "MI300X",
        "architecture": "gfx942", "bus_id": "0000:13:00.0", "node_id": 2,
    }  # fmt: skip


@pytest.mark.parametrize("listed", [None, (8, 9)])
def test_devices_are_numbered_in_order_of_agents_where_no_list_fits(tmp_path, listed):
    if listed:
        agent_info(tmp_path / "7_agent_info.csv", listed)
    rows = [counted(1, "A", 1, agent="Agent 10"), counted(2, "A", 1, agent="Agent 4")]
    (run,) = read_counters(rocprof_csv(tmp_path / FILE.format(7), rows))
    assert run.counted["device"].to_pylist() == [1, 0]


def test_a_list_of_agents_serves_the_same_host_in_other_passes_only(tmp_path):
    one(tmp_path / "pass_0" / "n1")
    agent_info(tmp_path / "pass_0" / "n1" / "7_agent_info.csv")
    for pid, host in ((41, "n1"), (42, "n2")):
        rows = [counted(1, "A", 1, agent="Agent 3", start=9000 + pid, pid=pid)]
        rocprof_csv(tmp_path / "pass_1" / host / FILE.format(pid), rows)
    (run,) = read_counters(tmp_path)
    columns = (run.counted[name].to_pylist() for name in ("process", "device"))
    assert dict(zip(*columns, strict=True)) == {7: 0, 41: 1, 42: 0}


@given(st.permutations(range(8)), st.permutations(["a", "b", "c"]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_neither_the_order_of_rows_nor_of_files_matters(tmp_path_factory, rows, names):
    """Processes that count at one time in one folder, whatever their files are called."""
    texts = [counted(n // 2 + 1, "AB"[n % 2], n) for n in range(8)]
    results = []
    for order, files in ((range(8), "abc"), (rows, names)):
        folder = tmp_path_factory.mktemp("run")
        for pid, name in zip((5, 6, 7), files, strict=True):
            own = [texts[n].replace(",7,7,", f",{pid},{pid},") for n in order]
            rocprof_csv(folder / f"{name}.csv", [row.replace("000,", f"00{pid},") for row in own])
        (run,) = read_counters(folder)
        results.append((run.counted, by_kernel(run)))
    assert results[0][0].equals(results[1][0])
    assert results[0][1] == results[1][1]
