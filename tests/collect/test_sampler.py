"""The sampling process, with drivers of our own making in place of those of GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import types

import psutil
import pyarrow.parquet as pq
import pytest

from chopper_jupyter.collect import telemetry
from chopper_jupyter.collect.sampler import host, part_writer
from chopper_jupyter.collect.sampler.__main__ import find_sources, sample
from chopper_jupyter.collect.sampler.amdsmi import amdsmi_source, readings_of
from chopper_jupyter.collect.sampler.host import host_source
from chopper_jupyter.collect.sampler.nvml import nvml_source
from chopper_jupyter.collect.sampler.part_writer import PartWriter
from chopper_jupyter.collect.sampler.source import Reading, Source
from chopper_jupyter.collect.telemetry import start_sampler
from chopper_jupyter.core.run_folder import TELEMETRY_COLUMNS, telemetry_files


class NVMLError(Exception):
    pass


def fake_nvml(gpus: int = 2, broken: tuple[str, ...] = ()) -> types.SimpleNamespace:
    """A driver with some GPUs; the calls named in ``broken`` fail."""

    def call(name, answer):
        def made(handle, *_):
            if name in broken:
                msg = "Not Supported"
                raise NVMLError(msg)
            return answer(handle)

        return made

    space = types.SimpleNamespace
    return space(
        NVMLError=NVMLError, NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0,
        NVML_SUCCESS=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: gpus,
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetUUID=lambda i: f"GPU-{i}",
        nvmlDeviceGetPciInfo=lambda i: space(busId=f"0000:0{i}:00.0".encode()),
        nvmlDeviceGetName=lambda _: "NVIDIA H100 80GB HBM3",
        nvmlDeviceGetClockInfo=lambda i, kind: (1980 - i) if kind == 1 else 2619,
        nvmlDeviceGetPowerUsage=call("power", lambda i: 700_000 + i),
        nvmlDeviceGetTotalEnergyConsumption=call("energy", lambda _: 5_000),
        nvmlDeviceGetCurrentClocksEventReasons=lambda _: 4,
        nvmlDeviceGetTemperature=lambda _handle, _kind: 61,
        nvmlDeviceGetMemoryInfo=lambda _: space(used=10),
        nvmlDeviceGetUtilizationRates=lambda _: space(gpu=50, memory=20),
    )  # fmt: skip


def found(readings, device=0):
    return {r.metric: r.value for r in readings if r.device == device}


def test_nvml_readings_are_in_our_units(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    source = nvml_source(0.01, {})
    assert found(source.read()) == {
        "gpu_clock_mhz": 1980, "memory_clock_mhz": 2619, "power_w": 700, "energy_j": 5,
        "throttle_reasons": 4, "temperature_c": 61, "memory_used_bytes": 10,
        "utilization_ratio": 0.5, "memory_utilization_ratio": 0.2,
    }  # fmt: skip
    assert "temperature_c" not in found(source.read())  # slow sensors are read seldom
    assert source.devices[1]["bus_id"] == "0000:01:00.0"


def test_power_of_the_moment_is_preferred_to_that_of_a_second(monkeypatch):
    nvml = fake_nvml()
    nvml.NVML_FI_DEV_POWER_INSTANT = 186
    value = types.SimpleNamespace(nvmlReturn=0, value=types.SimpleNamespace(uiVal=650_000))
    nvml.nvmlDeviceGetFieldValues = lambda _handle, _fields: [value]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert found(nvml_source(0.01, {}).read())["power_w"] == 650


def test_only_visible_gpus_are_sampled_in_their_order(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(4))
    source = nvml_source(0.01, {"CUDA_VISIBLE_DEVICES": "3,1"})
    assert [d["uuid"] for d in source.devices] == ["GPU-3", "GPU-1"]
    assert found(source.read(), 0)["gpu_clock_mhz"] == 1977
    assert nvml_source(0.01, {"CUDA_VISIBLE_DEVICES": ""}) == "NVML: no visible GPU"


def test_a_sensor_that_fails_is_left_out_and_said_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(broken=("energy",)))
    source = nvml_source(0.01, {})
    for _ in range(3):
        assert "energy_j" not in found(source.read())
    assert [note for note in source.notes if "energy_j" in note] == [
        "GPU 0: no more energy_j: Not Supported", "GPU 1: no more energy_j: Not Supported",
    ]  # fmt: skip


def test_no_driver_is_a_reason_not_an_error():
    assert str(nvml_source(0.01, {})).startswith("NVML:")
    assert str(amdsmi_source(0.01, {})).startswith("AMD SMI:")
    quiet, loud = (find_sources(0.01, 0.1, expect_gpu=expected) for expected in (False, True))
    assert [s.name for s in quiet] == [s.name for s in loud] == ["psutil"]
    assert quiet[0].notes == []
    assert "no clocks and power" in loud[0].notes[0]


class AmdSmiException(Exception):  # noqa: N818  as the library names it
    pass


def fake_amdsmi(tables):
    rows = iter(tables)

    def info(_handle):
        row = next(rows)
        if row is None:
            msg = "device lost"
            raise AmdSmiException(msg)
        return row

    return types.SimpleNamespace(
        AmdSmiException=AmdSmiException, amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: ["h"], amdsmi_get_gpu_device_uuid=lambda _: "u",
        amdsmi_get_gpu_device_bdf=lambda _: "0000:11:00.0", amdsmi_get_gpu_metrics_info=info,
        amdsmi_get_gpu_asic_info=lambda _: {"market_name": "AMD Instinct MI300X"},
    )  # fmt: skip


def test_amd_readings(monkeypatch):
    first = {"current_gfxclks": [2100, 2000], "current_gfxclk": 2050, "current_uclk": 1300,
             "current_socket_power": 740, "average_socket_power": 0xFFFF,
             "temperature_hotspot": 70, "average_gfx_activity": 90, "average_umc_activity": "N/A",
             "energy_accumulator": 1_000_000, "accumulation_counter": 100,
             "ppt_residency_acc": 0}  # fmt: skip
    second = first | {"accumulation_counter": 300, "ppt_residency_acc": 50}
    monkeypatch.setitem(sys.modules, "amdsmi", fake_amdsmi([first, second, None, None]))
    source = amdsmi_source(0.01, {})
    assert found(source.read()) == {
        "gpu_clock_mhz": 2050, "memory_clock_mhz": 1300, "power_w": 740, "temperature_c": 70,
        "utilization_ratio": 0.9, "energy_j": pytest.approx(15.259),
    }  # fmt: skip
    assert found(source.read())["throttle_ratio"] == 0.25
    assert source.read() == []
    assert source.read() == []
    assert source.notes == ["GPU 0: no more samples: device lost"]


def test_older_amd_tables_tell_averages():
    table = {"current_gfxclk": "N/A", "average_gfxclk_frequency": 1700, "current_uclk": 0xFFFF}
    assert found(readings_of(table, {}, 0)) == {"gpu_clock_mhz": 1700}


def test_physical_cores_are_numbered(tmp_path):
    for core, (package, number) in enumerate([("0", "0"), ("0", "1"), ("0", "0"), ("1", "0")]):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(package + "\n")
        (folder / "core_id").write_text(number + "\n")
    assert [r.value for r in host._physical_cores(tmp_path, 4)] == [0, 1, 0, 2]
    assert host._physical_cores(tmp_path, 5) == []


def test_power_of_the_processor_is_energy_over_time(tmp_path, monkeypatch):
    folder = tmp_path / "intel-rapl:0"
    folder.mkdir()
    (folder / "energy_uj").write_text("1000000")
    (tmp_path / "intel-rapl:0:0").mkdir()  # a part of the package
    now = [10.0]
    monkeypatch.setattr(host.time, "monotonic", lambda: now[0])
    power = host._package_power(tmp_path)
    now[0] = 12.0
    (folder / "energy_uj").write_text("101000000")
    assert power() == pytest.approx(50)
    (folder / "energy_uj").write_text("5")  # the counter wrapped around
    now[0] = 13.0
    assert power() is None
    assert host._package_power(tmp_path / "none") is None


def test_the_host_reads_every_core():
    source = host_source(0.1)
    readings = source.read()
    used = [r for r in readings if r.metric == "cpu_utilization_ratio"]
    assert [r.core for r in used] == list(range(psutil.cpu_count()))
    assert all(0 <= r.value <= 1 for r in used)
    assert not [r for r in source.read() if r.metric == "physical_core"]  # told once


def clock_of(steps):
    """A clock that a sleep moves, and a sampler that is done after some seconds."""
    now = [0.0]

    def sleep(seconds):
        now[0] += max(seconds, 1e-6)

    return (lambda: now[0]), sleep, (lambda: now[0] >= steps)


def counting(name, period, fail_at=None):
    reads = []

    def read():
        if len(reads) == fail_at:
            msg = "GPU is lost"
            raise RuntimeError(msg)
        reads.append(1)
        return [Reading("power_w", len(reads), device=0)]

    return Source(name, period, read), reads


def test_each_source_is_read_at_its_own_pace(tmp_path):
    fast, fast_reads = counting("fast", 0.01)
    slow, slow_reads = counting("slow", 0.1)
    clock, sleep, done = clock_of(5.0)
    sample([fast, slow], tmp_path, "h", done, clock, sleep)
    assert len(fast_reads) == pytest.approx(500, abs=5)
    assert len(slow_reads) == pytest.approx(50, abs=2)
    parts = [(source, part) for _, source, part, _ in telemetry_files(tmp_path)]
    assert parts == [("fast", 0), ("fast", 1), ("fast", 2), ("slow", 0), ("slow", 1), ("slow", 2)]


def test_a_source_that_fails_midway_keeps_what_it_said(tmp_path):
    good, _ = counting("good", 0.1)
    lost, _ = counting("lost", 0.1, fail_at=3)
    clock, sleep, done = clock_of(1.0)
    sample([good, lost], tmp_path, "h", done, clock, sleep)
    tables = {source: pq.read_table(path) for _, source, _, path in telemetry_files(tmp_path)}
    assert tables["lost"]["value"].to_pylist() == [1, 2, 3]
    assert tables["good"].num_rows >= 10
    facts = json.loads(tables["lost"].schema.metadata[b"chopper"])
    assert facts["notes"] == ["lost stopped answering: GPU is lost"]


def test_a_full_part_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(part_writer, "PART_ROWS", 10)
    source, _ = counting("x", 1)
    writer = PartWriter(tmp_path, "h", source)
    for i in range(25):
        writer.add(i, i + 1000, [Reading("power_w", i, device=1)])
    assert len(telemetry_files(tmp_path)) == 2
    writer.write()
    table = pq.read_table([path for *_, path in telemetry_files(tmp_path)])
    assert table.column_names == list(TELEMETRY_COLUMNS)
    assert table["value"].to_pylist() == list(range(25))
    assert table["core"].null_count == 25


def wait_for(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("it did not happen in time")


def test_the_process_samples_this_machine(tmp_path):
    before = time.time_ns()
    sampler = start_sampler(tmp_path, "here", expect_gpu=True)
    other = start_sampler(tmp_path, "here", expect_gpu=True)  # another rank of the same host
    assert other.process is None
    wait_for(lambda: telemetry_files(tmp_path))
    sampler.stop()
    sampler.stop()  # again does nothing
    assert sampler.failure is None
    tables = [pq.read_table(path) for *_, path in telemetry_files(tmp_path)]
    assert {"cpu_utilization_ratio", "host_memory_used_bytes"} <= set(
        tables[0]["metric"].to_pylist()
    )
    assert before <= min(tables[0]["wall_ns"].to_pylist()) <= time.time_ns()
    facts = json.loads(tables[0].schema.metadata[b"chopper"])
    assert (facts["host"], facts["source"]) == ("here", "psutil")
    assert "no clocks and power" in facts["notes"][0]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_killed_sampler_loses_only_its_last_part(tmp_path):
    sampler = start_sampler(tmp_path, "here", expect_gpu=False)
    wait_for(lambda: telemetry_files(tmp_path))
    sampler.process.send_signal(signal.SIGKILL)
    sampler.process.wait()
    sampler.stop()
    assert "status -9" in sampler.failure
    for *_, path in telemetry_files(tmp_path):
        assert pq.read_table(path).num_rows
    again = start_sampler(tmp_path, "here", expect_gpu=False)
    assert again.process is not None
    again.stop()


def test_it_ends_with_its_parent(tmp_path):
    code = (
        "import os, sys; from pathlib import Path;"
        "from chopper_jupyter.collect.telemetry import start_sampler;"
        "s = start_sampler(Path(sys.argv[1]), 'h', expect_gpu=False);"
        "print(s.process.pid, flush=True); os._exit(1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_a_sampler_that_cannot_start_is_a_failure_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry.sys, "executable", str(tmp_path / "no-python"))
    sampler = start_sampler(tmp_path, "h", expect_gpu=False)
    assert "could not start" in sampler.failure
    sampler.stop()
