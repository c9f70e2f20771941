"""Builders of what counter tools write: rocprofv3 CSV, rocprof-compute CSV, pages of ncu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler_files import Rocprof, database

from chopper_jupyter.core.counter_events import CounterRun

HEADER = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,"
    "Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,"
    "SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
)
AGENTS = (
    "Node_Id,Logical_Node_Id,Agent_Type,Cu_Count,Num_Xcc,Simd_Per_Cu,Location_Id,Name,Product_Name"
)


def counted(
    dispatch: int, counter: str, value: float, *, start: int = 1000, pid: int = 7, **more: Any
) -> str:
    """Return one row as rocprofv3 7.x writes it; the kernel runs for 500 ns."""
    agent, name = more.get("agent", "Agent 1"), more.get("name", "void gemm<float>(float*, int)")
    start, end = start + 1000 * dispatch, start + 1000 * dispatch + 500
    return (
        f'{dispatch},{dispatch},"{agent}",1,{pid},{pid},2048,9,"{name}",256,0,0,8,0,16,"{counter}",'
        f"{value:.6f},{start},{end}"
    )


def rocprof_csv(path: Path, rows: list[str], *, end: str = "\n", last: str | None = None) -> Path:
    """Write a ``counter_collection.csv``; ``last`` is what stands behind the last row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = end.join([HEADER, *rows]) + (end if last is None else last)
    path.write_bytes(text.encode())
    return path


def agent_info(path: Path, nodes: tuple[int, ...] = (2, 3)) -> Path:
    """Write an ``agent_info.csv``: two processors, then GPUs of a MI300X."""
    rows = [f'{n},{n},"CPU",64,0,0,0,"cpu","EPYC"' for n in (0, 1)]
    rows += [f'{n},{n},"GPU",304,8,4,{4352 + 256 * n},"gfx942","MI300X"' for n in nodes]
    path.write_text("\n".join([AGENTS, *rows]) + "\n")
    return path


WIDE = {
    "Dispatch_ID": 0, "GPU_ID": 0, "Queue_ID": 1, "PID": 7, "TID": 7, "Grid_Size": 2048,
    "Workgroup_Size": 256, "LDS_Per_Workgroup": 0, "Scratch_Per_Workitem": 0, "Arch_VGPR": 8,
    "Accum_VGPR": 0, "SGPR": 16, "Wave_Size": 64, "Kernel_Name": "gemm(int) [clone .kd]",
    "Start_Timestamp": 1000, "End_Timestamp": 1500, "Correlation_ID": 1, "Kernel_ID": 3,
}  # fmt: skip


def compute_csv(
    path: Path, rows: list[dict[str, Any]], *, drop: tuple[str, ...] = (), tail: str = "\n"
) -> Path:
    """Write a file of rocprof-compute: its usual columns, but for some, then the counters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    full = [{k: v for k, v in (WIDE | row).items() if k not in drop} for row in rows]
    lines = [",".join(full[0])]
    lines += [
        ",".join(f'"{v}"' if isinstance(v, str) and "(" in v else str(v) for v in row.values())
        for row in full
    ]
    path.write_text("\n".join(lines) + tail)
    return path


def sysinfo(folder: Path, **facts: Any) -> Path:
    """Write what rocprof-compute says about the machine."""
    told = {
        "gpu_model": "MI300X_A1", "gpu_arch": "gfx942", "cu_per_gpu": 304, "simd_per_cu": 4,
        "max_sclk": 2100, "num_xcd": 8, "total_l2_chan": 4, "compute_partition": "SPX",
    } | facts  # fmt: skip
    path = folder / "sysinfo.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(",".join(told) + "\n" + ",".join(str(v) for v in told.values()) + "\n")
    return path


NCU = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
       "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
NVTX = (
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
)


def ncu_line(values: tuple[Any, ...] | list[Any]) -> str:
    """Return a row as ncu writes it: everything quoted."""
    return ",".join('"' + str(v).replace('"', '""') + '"' for v in values)


def ncu_row(number: int, *values: Any, pid: int = 4711, name: str = "gemm", device: int = 0) -> str:
    """Return a kernel of 10 x 2 blocks of 384 threads with values behind."""
    return ncu_line([number, pid, "python", "h", name, 1, 20, "(384, 1, 1)", "(10, 2, 1)", device,
                     "9.0", *values])  # fmt: skip


def raw_page(metrics: dict[str, str], *kernels: str) -> str:
    """Return a raw page: metrics with their units, then rows."""
    head = ncu_line([*NCU, *metrics])
    return "\n".join([head, ncu_line([*[""] * len(NCU), *metrics.values()]), *kernels]) + "\n"


DETAILS = ("Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type",
           "Rule Description")  # fmt: skip


def details_page(*rows: str) -> str:
    """Return a details page."""
    return "\n".join([ncu_line([*NCU, *DETAILS]), *rows]) + "\n"


def rocpd_with_counters(
    path: Path, run: Rocprof, values: list[tuple[int, str, float]], suffix: str = "_0001"
) -> Path:
    """Write a database: values are (number of the kernel from 1, counter, value of an instance)."""
    names = sorted({counter for _, counter, _ in values})
    tables = run.rocpd_tables(suffix) | {
        f"rocpd_info_process{suffix}": ("id, pid", [(1, run.pid)]),
        f"rocpd_info_pmc{suffix}": ("id, name", list(enumerate(names, 1))),
        f"rocpd_pmc_event{suffix}": ("id, event_id, pmc_id, value", [
            (n, 1000 + kernel, names.index(counter) + 1, value)
            for n, (kernel, counter, value) in enumerate(values, 1)]),
    }  # fmt: skip
    return database(path, tables)


def by_kernel(run: CounterRun) -> dict[tuple[int, int | None, int], dict[str, float]]:
    """Return the counters of each kernel by (pass, process, order)."""
    columns = (run.counted[name].to_pylist() for name in ("pass", "process", "order"))
    keys = list(zip(*columns, strict=True))
    found: dict[tuple[int, int | None, int], dict[str, float]] = {key: {} for key in keys}
    for row in run.values.to_pylist():
        found[keys[row["counted_id"]]][row["counter"]] = row["value"]
    return found
