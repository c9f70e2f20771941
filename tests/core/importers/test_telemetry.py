"""Telemetry files of all kinds: right metric, right unit, right time, everything counted."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.telemetry import LOST_PART, is_telemetry, read_telemetry
from chopper_jupyter.core.importers.telemetry_run import METRICS, SAMPLES
from chopper_jupyter.core.run_folder import telemetry_file

SECOND = 10**9
REAL = Path(os.environ.get("CHOPPER_REAL_DATA", "unset"))


def write(folder: Path, text: str, name: str = "telemetry.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def values(run, metric: str) -> list[tuple]:
    """(device, seconds, value) of one metric."""
    rows = [row for row in run.table.to_pylist() if row["metric"] == metric]
    return [(row["device"], row["wall_ns"] / SECOND, row["value"]) for row in rows]


def count(counts, word: str) -> int:
    return sum(number for reason, number in counts.items() if word in reason)


# --- nvidia-smi ---------------------------------------------------------------------------

NVIDIA = """timestamp, index, power.draw [W], power.draw.instant [W], clocks.current.sm [MHz], \
utilization.gpu [%], memory.used [MiB], clocks_event_reasons.active, fan.speed [%]
2026/09/11 04:19:41.982, 0, 187.80 W, 190.50 W, 1980 MHz, 98 %, 1024 MiB, 0x0000000000000004, [N/A]
2026/09/11 04:19:41.982, 1, 180.00 W, [N/A], 120 MHz, 0 %, 12 MiB, 0x0000000000000000, 30 %
"""


def test_nvidia_smi_csv_is_converted_to_base_units(tmp_path):
    run = read_telemetry(write(tmp_path, NVIDIA), timezone="Europe/Berlin")
    at = 1789093181.982
    assert run.table.schema == SAMPLES
    assert values(run, "power_w") == [(0, at, 190.5)]
    assert values(run, "gpu_clock_mhz") == [(0, at, 1980.0), (1, at, 120.0)]
    assert [v for *_, v in values(run, "utilization_ratio")] == [0.98, 0.0]
    assert [v for *_, v in values(run, "memory_used_bytes")] == [1024 * 2**20, 12 * 2**20]
    assert [v for *_, v in values(run, "throttle_reasons")] == [4.0, 0.0]
    assert count(run.skipped, "N/A") == 1
    assert count(run.skipped, "'power.draw'") == 2
    assert count(run.skipped, "'fan.speed'") == 2
    assert set(run.table["source"].to_pylist()) == {"nvidia-smi"}


def test_local_times_without_a_zone_are_utc_and_said_so(tmp_path):
    run = read_telemetry(write(tmp_path, NVIDIA))
    assert values(run, "gpu_clock_mhz")[0][1] == 1789100381.982
    assert any("timezone=" in note for note in run.notes)


def test_readings_without_units_use_those_of_the_header(tmp_path):
    text = "timestamp, index, power.draw [W], clocks.sm [MHz]\n1789093181.5, 0, 187.80, 1980\n"
    run = read_telemetry(write(tmp_path, text))
    assert values(run, "power_w") == [(0, 1789093181.5, 187.8)]


def test_an_unknown_time_zone_is_refused(tmp_path):
    with pytest.raises(TraceFormatError, match="no such time zone"):
        read_telemetry(write(tmp_path, NVIDIA), timezone="Middle/Earth")


# --- amd-smi ------------------------------------------------------------------------------


def test_amd_smi_metric_csv(tmp_path):
    text = (
        "timestamp,gpu,gfx_activity,umc_activity,socket_power,gfx_0_clk,gfx_1_clk,mem_0_clk,"
        "edge,hotspot,mem,used_vram\n"
        "1754585903,0,97,40,712,2100,2000,1300,N/A,63,51,1024\n"
        "1754585903,1,N/A,40,65535,N/A,N/A,1300,N/A,60,50,0\n"
    )
    run = read_telemetry(write(tmp_path, text))
    assert values(run, "gpu_clock_mhz") == [(0, 1754585903, 2050.0)]
    assert values(run, "power_w") == [(0, 1754585903, 712.0)]
    assert [v for *_, v in values(run, "utilization_ratio")] == [0.97]
    assert [v for *_, v in values(run, "temperature_c")] == [63.0, 60.0]
    assert [v for *_, v in values(run, "memory_temperature_c")] == [51.0, 50.0]
    assert [v for *_, v in values(run, "memory_used_bytes")] == [2.0**30, 0.0]
    assert count(run.skipped, "N/A") == 3
    assert any("whole seconds" in note for note in run.notes)


def test_amd_smi_monitor_csv(tmp_path):
    text = (
        "timestamp,gpu,xcp,power_usage,hotspot_temperature,memory_temperature,gfx_clk,gfx_util,"
        "mem_util,mem_clock\n1754585903,3,0,700 W,60 °C,50 °C,2100 MHz,100 %,3 %,1300 MHz\n"
    )
    run = read_telemetry(write(tmp_path, text))
    assert values(run, "gpu_clock_mhz") == [(3, 1754585903, 2100.0)]
    assert values(run, "memory_utilization_ratio") == [(3, 1754585903, 0.03)]
    assert values(run, "temperature_c") == [(3, 1754585903, 60.0)]
    assert count(run.skipped, "'xcp'") == 1


GPU = {
    "gpu": 0,
    "usage": {"gfx_activity": {"value": 98, "unit": "%"}, "umc_activity": "N/A"},
    "power": {"socket_power": {"value": 650, "unit": "W"}},
    "clock": {
        "gfx_0": {"clk": {"value": 2100, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}},
        "gfx_1": {"clk": {"value": 1900, "unit": "MHz"}},
        "mem_0": {"clk": {"value": 1.3, "unit": "GHz"}},
    },
    "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}},
    "energy": {"total_energy_consumption": {"value": 12.5, "unit": "J"}},
    "mem_usage": {"used_vram": {"value": 2, "unit": "MB"}},
}


@pytest.mark.parametrize("document", [{"gpu_data": [GPU]}, [GPU]])
def test_amd_smi_json_of_both_kinds(document, tmp_path):
    run = read_telemetry(write(tmp_path, json.dumps(document), "m.json"), origin_ns=7 * SECOND)
    assert {row["metric"]: row["value"] for row in run.table.to_pylist()} == {
        "utilization_ratio": pytest.approx(0.98), "power_w": 650, "gpu_clock_mhz": 2000,
        "memory_clock_mhz": 1300, "temperature_c": 61, "energy_j": 12.5,
        "memory_used_bytes": 2 * 2**20,
    }  # fmt: skip
    assert {row["wall_ns"] for row in run.table.to_pylist()} == {7 * SECOND}
    assert count(run.skipped, "N/A") == 1


def test_amd_smi_json_with_times_of_its_own_and_one_document_a_line(tmp_path):
    lines = [json.dumps({"timestamp": 1754585903 + i, "gpu_data": [GPU]}) for i in range(3)]
    run = read_telemetry(write(tmp_path, "\n".join(lines), "m.json"))
    assert [at for _, at, _ in values(run, "power_w")] == [1754585903, 1754585904, 1754585905]


def test_amd_smi_json_without_a_time_says_how_to_give_it(tmp_path):
    with pytest.raises(TraceFormatError, match="origin_ns="):
        read_telemetry(write(tmp_path, json.dumps([GPU]), "m.json"))


# --- wrappers, exporters, CPUs ------------------------------------------------------------


def test_rows_without_their_last_column_are_read_and_counted(tmp_path):
    text = "timestamp,device,power_watts,power_cap_watts\n1754585903,card0,152.0\n1754585908,\n"
    run = read_telemetry(write(tmp_path, text))
    assert values(run, "power_w") == [(0, 1754585903, 152.0)]
    assert count(run.repairs, "last fields") == 2
    assert count(run.repairs, "time or device") == 1


def test_an_activity_that_counts_up_is_no_share(tmp_path):
    text = "timestamp,device,gpu_use_percent,gfx_activity\n1754585903,card0,5,87772295\n"
    run = read_telemetry(write(tmp_path, text))
    assert values(run, "utilization_ratio") == [(0, 1754585903, 0.05)]
    alone = "timestamp,device,gfx_activity,temp_c\n1754585903,card0,87772295,50\n"
    run = read_telemetry(write(tmp_path, alone))
    assert values(run, "utilization_ratio") == []
    assert count(run.skipped, "no share") == 1


def test_dcgm_exporter_has_a_row_for_each_reading(tmp_path):
    head = "timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,value,labels_raw\n"
    rows = [
        ("DCGM_FI_DEV_POWER_USAGE", 2, "312.5"), ("DCGM_FI_DEV_BOARD_POWER_WATTS", 2, "1"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 2, "2500"), ("DCGM_FI_DEV_SM_CLOCK", 2, "1980"),
        ("DCGM_FI_PROF_SM_ACTIVE", 2, "0.5"),
    ]  # fmt: skip
    text = head + "".join(
        f"2026-09-11T04:19:41Z,{name},{gpu},nvidia{gpu},GPU-1,NVIDIA H100,node7,{value},x\n"
        for name, gpu, value in rows
    )
    run = read_telemetry(write(tmp_path, text))
    assert values(run, "power_w") == [(2, 1789100381, 312.5)]
    assert values(run, "energy_j") == [(2, 1789100381, 2.5)]
    assert set(run.table["host"].to_pylist()) == {"node7"}
    assert run.devices == ({"device": 2, "host": "node7", "name": "NVIDIA H100", "uuid": "GPU-1"},)
    assert count(run.skipped, "SM_ACTIVE") == 1


def test_a_wide_table_with_fractions_and_float_times(tmp_path):
    text = (
        "timestamp,phase,gpu,gpu_model,power_w,temp_c,sm_active,throttle_reasons,energy_mj\n"
        "1775016266.006,init,0,NVIDIA H100 80GB HBM3,71.4,34,0.5,0x1,1500\n"
    )
    run = read_telemetry(write(tmp_path, text))
    assert run.table["wall_ns"].to_pylist() == [1775016266006000000] * 4
    assert values(run, "energy_j")[0][2] == 1.5
    assert count(run.skipped, "'sm_active'") == 1


def test_cpu_by_core_wide_and_long(tmp_path):
    wide = read_telemetry(write(tmp_path, "timestamp,cpu0,cpu_1_percent\n1754585903,50,100\n"))
    long = read_telemetry(
        write(tmp_path, "timestamp,core,percent\n1754585903,0,50\n1754585903,1,100\n")
    )
    for run in (wide, long):
        rows = run.table.to_pylist()
        assert [(row["core"], row["value"], row["device"]) for row in rows] == [
            (0, 0.5, None), (1, 1.0, None),
        ]  # fmt: skip


def test_cpu_of_the_whole_host_is_what_is_not_idle(tmp_path):
    text = "timestamp,cpu_user_percent,cpu_idle_percent\n1754585903,10,87.5\n"
    run = read_telemetry(write(tmp_path, text), host="node1")
    row = run.table.to_pylist()[0]
    assert (row["metric"], row["value"], row["core"], row["host"]) == (
        "cpu_utilization_ratio", 0.125, None, "node1",
    )  # fmt: skip


# --- our sampler --------------------------------------------------------------------------


def part(folder: Path, number: int, at: int, *, host="node1", source="nvml") -> Path:
    path = telemetry_file(folder, host, source, number)
    path.parent.mkdir(exist_ok=True)
    facts = {"host": host, "source": source, "period_ns": SECOND, "simulated": True,
             "devices": [{"device": 0, "uuid": "GPU-1", "bus_id": "0:1", "name": "H100"}],
             "notes": ["sampled every second"]}  # fmt: skip
    table = pa.table(
        {
            "monotonic_ns": pa.array([1, 2]),
            "wall_ns": pa.array([at, at + SECOND]),
            "device": pa.array([0, None], pa.int32()),
            "core": pa.array([None, 3], pa.int32()),
            "metric": ["power_w", "cpu_utilization_ratio"],
            "value": [700.0, 0.5],
        }
    )
    pq.write_table(table.replace_schema_metadata({b"chopper": json.dumps(facts).encode()}), path)
    return path


def test_all_parts_of_a_run_folder(tmp_path):
    part(tmp_path, 0, 5 * SECOND)
    part(tmp_path, 1, 9 * SECOND)
    run = read_telemetry(tmp_path)
    assert values(run, "power_w") == [(0, 5.0, 700.0), (0, 9.0, 700.0)]
    assert (run.simulated, run.notes) == (True, ("sampled every second",))
    assert run.devices[0]["uuid"] == "GPU-1"
    assert set(run.table["host"].to_pylist()) == {"node1"}
    assert set(run.table["source"].to_pylist()) == {"nvml"}


@pytest.mark.parametrize("keep", [0, 3, 100, 500])
def test_a_last_part_cut_short_loses_only_itself(keep, tmp_path):
    part(tmp_path, 0, 5 * SECOND)
    last = part(tmp_path, 1, 9 * SECOND)
    last.write_bytes(last.read_bytes()[:keep])
    files = [path for path in (tmp_path / "telemetry").iterdir() if path.stat().st_size]
    run = read_telemetry(sorted(files) if keep else [*files, last])
    assert values(run, "power_w") == [(0, 5.0, 700.0)]
    assert run.repairs[LOST_PART] == 1
    assert any(last.name in note for note in run.notes)


def test_a_damaged_only_part_is_an_error(tmp_path):
    only = part(tmp_path, 0, 0)
    only.write_bytes(only.read_bytes()[:200])
    with pytest.raises(TraceFormatError, match="damaged or cut short"):
        read_telemetry(only)


def test_another_parquet_file_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(TraceFormatError, match="no telemetry"):
        read_telemetry(tmp_path / "x.parquet")


# --- refusals and laws --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "a,b\n1,2\n", "timestamp,device\n1,2\n", "{}", "[1, 2", '{"traceEvents": []}',
     "timestamp,index,power.draw [W]\n", "timestamp,index,power.draw [W]\nnever,0,5 W\n",
     "2026/09/11 04:19:41.982, 0, 187.80 W\n", "\x00\x01\x02", "power.draw [W]\n5 W\n"],
)  # fmt: skip
def test_what_is_no_telemetry_is_refused_with_its_name(text, tmp_path):
    path = write(tmp_path, text, "strange.csv")
    with pytest.raises(TraceFormatError) as caught:
        read_telemetry(path)
    assert "strange.csv" in str(caught.value)


def test_in_a_folder_other_files_are_counted_and_left_out(tmp_path):
    write(tmp_path, NVIDIA)
    write(tmp_path, "a,b\n1,2\n", "other.csv")
    run = read_telemetry(tmp_path)
    assert count(run.skipped, "files beside telemetry") == 1
    assert not is_telemetry(tmp_path / "other.csv")


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_telemetry(tmp_path / "missing.csv")


@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_the_order_of_rows_means_nothing(tmp_path_factory, shuffler: random.Random, rows):
    folder = tmp_path_factory.mktemp("rows")
    lines = [f"{1754585903 + i},card{i % 3},{100 + i}" for i in range(rows)]
    head = "timestamp,device,power_watts\n"
    straight = read_telemetry(write(folder, head + "\n".join(lines) + "\n", "a.csv"))
    shuffler.shuffle(lines)
    shuffled = read_telemetry(write(folder, head + "\n".join(lines) + "\n", "b.csv"))
    assert straight.table.to_pylist() == shuffled.table.to_pylist()


@pytest.mark.real
def test_every_real_telemetry_file_is_read():
    files = sorted((REAL / "telemetry").iterdir())
    assert files
    for path in files:
        run = read_telemetry(path)
        assert run.table.num_rows > 500, path.name
        assert set(run.table["metric"].to_pylist()) <= set(METRICS)


@pytest.mark.real
def test_real_power_rows_miss_their_last_column_and_keep_their_values():
    (path,) = (REAL / "telemetry").glob("gpu_power*")
    run = read_telemetry(path)
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    told = [(int(d.removeprefix("card")), int(t), float(w)) for t, d, w in
            (line[:3] for line in lines if len(line) >= 3)]  # fmt: skip
    assert sorted(values(run, "power_w")) == sorted(told)
    assert count(run.repairs, "last fields") == len(lines)


@pytest.mark.real
def test_no_counter_or_trace_file_is_taken_for_telemetry():
    files = [path for path in (REAL / "counters").rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [path for path in files if is_telemetry(path)] == []
