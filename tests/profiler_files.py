"""Builders of what other profilers write: Nsight Systems exports, rocprofv3 CSV, JSON and rocpd.

Each builds the same small run: two streams, launches, a copy, a fill, ranges. Times are ns.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

EPOCH = 1_700_000_000_000_000_000
MAIN = 100


def database(path: Path, tables: dict[str, tuple[str, list[tuple]]]) -> Path:
    """Write an SQLite file: columns as in CREATE TABLE, then rows."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db:
        for name, (columns, rows) in tables.items():
            db.execute(f'CREATE TABLE "{name}" ({columns})')
            marks = ",".join("?" * len(columns.split(",")))
            db.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)  # noqa: S608
        db.commit()
    return path


def tid(process: int, thread: int | None = None) -> int:
    """Pack a globalTid as Nsight Systems does."""
    return 7 << 48 | process << 24 | (process if thread is None else thread)


KERNEL_COLUMNS = (
    "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName, "
    "gridX, gridY, gridZ, blockX, blockY, blockZ, graphNodeId"
)
RUNTIME_COLUMNS = "start, end, globalTid, correlationId, nameId"
COPY_COLUMNS = (
    "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind"
)
FILL_COLUMNS = "start, end, deviceId, streamId, correlationId, globalPid, bytes, memKind"
NVTX_COLUMNS = "start, end, eventType, text, globalTid, textId, domainId"


class Nsys:
    """An export of Nsight Systems."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.kernels: list[tuple] = []
        self.calls: list[tuple] = []
        self.copies: list[tuple] = []
        self.fills: list[tuple] = []
        self.ranges: list[tuple] = []
        self.more: dict[str, tuple[str, list[tuple]]] = {}
        self.correlation = 0

    def text(self, word: str) -> int:
        return self.strings.setdefault(word, len(self.strings) + 1)

    def call(self, name: str, start: int, dur: int = 2, process: int = MAIN) -> int:
        self.correlation += 1
        self.calls.append((start, start + dur, tid(process), self.correlation, self.text(name)))
        return self.correlation

    def kernel(
        self,
        name: str,
        start: int,
        dur: int,
        *,
        call: int | None = None,
        process: int = MAIN,
        device: int = 0,
        stream: int = 7,
    ) -> None:
        call = (
            self.call("cudaLaunchKernel_v7000", start - 5, process=process)
            if call is None
            else call
        )
        self.kernels.append((
            start, start + dur, device, stream, call, process << 24 | 7 << 48, self.text(name),
            self.text(name.split("<", maxsplit=1)[0]), 8, 2, 1, 256, 1, 1, None,
        ))  # fmt: skip

    def copy(self, start: int, dur: int, size: int = 64) -> None:
        call = self.call("cudaMemcpyAsync_v3020", start - 5)
        self.copies.append((start, start + dur, 0, 7, call, tid(MAIN, 0), size, 1, 1, 2))

    def fill(self, start: int, dur: int, size: int = 32) -> None:
        call = self.call("cudaMemsetAsync_v3020", start - 5)
        self.fills.append((start, start + dur, 0, 7, call, tid(MAIN, 0), size, 2))

    def range(
        self,
        text: str,
        start: int,
        end: int | None,
        *,
        registered: bool = False,
        kind: int = 59,
        domain: int = 0,
        process: int = MAIN,
        thread: int | None = None,
    ) -> None:
        own, by_id = (None, self.text(text)) if registered else (text, None)
        self.ranges.append((start, end, kind, own, tid(process, thread), by_id, domain))

    def tables(self) -> dict[str, tuple[str, list[tuple]]]:
        made = {
            "StringIds": ("id, value", [(n, word) for word, n in self.strings.items()]),
            "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(EPOCH,)]),
            "TARGET_INFO_GPU": (
                "id, name, cuDevice",
                [(0, "NVIDIA H100", 0), (1, "NVIDIA H100", 1)],
            ),
            "TARGET_INFO_SYSTEM_ENV": ("name, value", [("Hostname", "node7")]),
            "META_DATA_EXPORT": ("name, value", []),
            "CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL_COLUMNS, self.kernels),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (RUNTIME_COLUMNS, self.calls),
            "CUPTI_ACTIVITY_KIND_MEMCPY": (COPY_COLUMNS, self.copies),
            "CUPTI_ACTIVITY_KIND_MEMSET": (FILL_COLUMNS, self.fills),
            "NVTX_EVENTS": (NVTX_COLUMNS, self.ranges),
        }
        kept = {name: table for name, table in made.items() if table[1] or not name.startswith(
            ("CUPTI", "NVTX"))}  # fmt: skip
        return kept | self.more

    def write(self, path: Path) -> Path:
        return database(path, self.tables())


CALL_HEADER = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"\n'
)
KERNEL_HEADER = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","Workgroup_Size_X","Workgroup_Size_Y",'
    '"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
COPY_HEADER = (
    '"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp"\n'
)
AGENT_HEADER = '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Product_Name"\n'


PRODUCTS = ("EPYC", "EPYC", "AMD Instinct MI300X", "AMD Instinct MI300X")
DISPATCH_COLUMNS = (
    "id, nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, end, "
    "workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, "
    "region_name_id, event_id"
)
MEMORY_COLUMNS = (
    "id, nid, pid, tid, start, end, name_id, dst_agent_id, src_agent_id, size, stream_id, event_id"
)


class Rocprof:
    """One process of rocprofv3, to be written in any of its formats."""

    def __init__(self, pid: int = MAIN, gpu: int = 0) -> None:
        self.pid, self.gpu = pid, gpu
        self.kernels: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str, int, int, int]] = []
        self.copies: list[tuple[str, int, int, int, int]] = []
        self.correlation = 0

    def call(self, name: str, start: int, dur: int = 2, domain: str = "HIP_RUNTIME_API") -> int:
        self.correlation += 1
        self.calls.append((domain, name, self.correlation, start, start + dur))
        return self.correlation

    def range(self, text: str, start: int, end: int) -> None:
        self.call(text, start, end - start, "MARKER_CORE_RANGE_API")

    def kernel(self, name: str, start: int, dur: int, *, call: int | None = None, stream: int = 3):
        call = self.call("hipLaunchKernel", start - 5) if call is None else call
        self.kernels.append({"name": name, "start": start, "end": start + dur, "call": call,
                             "stream": stream})  # fmt: skip

    def copy(self, start: int, dur: int, size: int = 64) -> None:
        call = self.call("hipMemcpyAsync", start - 5)
        self.copies.append(("MEMORY_COPY_HOST_TO_DEVICE", call, start, start + dur, size))

    def csv(self, folder: Path, *, quoted: bool = False, end: str = "\n") -> Path:
        """Write ``<pid>_*.csv``; GPUs are agents 2, 3, ... of the host. Return the kernel trace."""
        folder.mkdir(parents=True, exist_ok=True)
        agent = f"Agent {self.gpu + 2}"
        rows = {
            "kernel_trace": (KERNEL_HEADER, [
                ("KERNEL_DISPATCH", agent, 1, k["stream"], self.pid, n, 1, k["name"], k["call"],
                 k["start"], k["end"], 256, 1, 1, 2048, 2, 1) for n, k in enumerate(self.kernels)]),
            "hip_api_trace": (CALL_HEADER, [(d, f, self.pid, self.pid, c, s, e) for d, f, c, s, e in
                                            self.calls if d.startswith("HIP")]),
            "marker_api_trace": (CALL_HEADER, [
                (d, f, self.pid, self.pid, c, s, e) for d, f, c, s, e in self.calls
                if not d.startswith("HIP")]),
            "memory_copy_trace": (COPY_HEADER, [("MEMORY_COPY", d, 3, "Agent 0", agent, c, s, e)
                                                for d, c, s, e, _ in self.copies]),
            "agent_info": (AGENT_HEADER, [(0, 0, "CPU", 64, "EPYC"), (1, 1, "CPU", 64, "EPYC"), *(
                (n, n, "GPU", 304, "AMD Instinct MI300X") for n in (2, 3))]),
        }  # fmt: skip
        for kind, (header, lines) in rows.items():
            text = header + "".join(_line(line, quoted=quoted) for line in lines)
            path = folder / f"{self.pid}_{kind}.csv"
            path.write_bytes(text.replace("\n", end).encode())
        return folder / f"{self.pid}_kernel_trace.csv"

    def tool(self) -> dict[str, Any]:
        """Return one entry of the JSON's list of processes."""
        domains = ["NONE", "HIP_RUNTIME_API", "MARKER_CORE_RANGE_API", "RCCL_API", "MEMORY_COPY"]
        names = {
            domain: sorted({f for d, f, *_ in self.calls if d == domain}) for domain in domains
        }
        names["MEMORY_COPY"] = ["MEMORY_COPY_HOST_TO_DEVICE"]
        names["MARKER_CORE_RANGE_API"] = ["roctxThreadRangeA"]
        symbols = sorted({k["name"] for k in self.kernels})

        def record(domain: str, operation: int, call: int, start: int, end: int) -> dict[str, Any]:
            return {"kind": domains.index(domain), "operation": operation, "thread_id": self.pid,
                    "correlation_id": {"internal": call, "external": 0}, "start_timestamp": start,
                    "end_timestamp": end}  # fmt: skip

        def calls(of: str) -> list[dict[str, Any]]:
            return [record(d, 0 if d.startswith("MARKER") else names[d].index(f), c, s, e)
                    for d, f, c, s, e in self.calls if d.startswith(of)]  # fmt: skip

        agents = [{"id": {"handle": 90 + n}, "type": 1 if n < 2 else 2, "node_id": n,
                   "logical_node_type_id": n if n < 2 else n - 2,
                   "product_name": PRODUCTS[n]} for n in range(4)]  # fmt: skip
        here = {"handle": 92 + self.gpu}
        kernels = [record("NONE", 0, k["call"], k["start"], k["end"]) | {
            "dispatch_info": {
                "agent_id": here, "queue_id": {"handle": 1}, "kernel_id": symbols.index(k["name"]),
                "workgroup_size": {"x": 256, "y": 1, "z": 1},
                "grid_size": {"x": 2048, "y": 2, "z": 1}},
            "stream_id": {"handle": k["stream"]}} for k in self.kernels]  # fmt: skip
        copies = [record("MEMORY_COPY", 0, c, s, e) | {
            "src_agent_id": {"handle": 90}, "dst_agent_id": here, "bytes": size,
            "stream_id": {"handle": 3}} for _, c, s, e, size in self.copies]  # fmt: skip
        return {
            "metadata": {"pid": self.pid, "node": {"hostname": "node7"}}, "agents": agents,
            "strings": {
                "buffer_records": [{"kind": d, "operations": names[d]} for d in domains],
                "marker_api": [{"key": c, "value": f} for d, f, c, *_ in self.calls
                               if d.startswith("MARKER")]},
            "kernel_symbols": [{"kernel_id": n, "formatted_kernel_name": word,
                                "kernel_name": "_Z.kd"} for n, word in enumerate(symbols)],
            "buffer_records": {"kernel_dispatch": kernels, "hip_api": calls("HIP"),
                               "marker_api": calls("MARKER"), "rccl_api": calls("RCCL"),
                               "memory_copy": copies},
        }  # fmt: skip

    def json(self, path: Path) -> Path:
        path.write_text(json.dumps({"rocprofiler-sdk-tool": [self.tool()]}))
        return path

    def rocpd_tables(self, run: str = "_0001") -> dict[str, tuple[str, list[tuple]]]:
        """Return the tables of a rocpd database, names ending in the run's id."""
        strings: dict[str, int] = {}

        def text(word: str) -> int:
            return strings.setdefault(word, len(strings) + 1)

        symbols = sorted({k["name"] for k in self.kernels})
        regions, events, dispatches, copies = [], [], [], []
        for n, (domain, name, call, start, end) in enumerate(self.calls, 1):
            marker = domain.startswith("MARKER")
            extra = json.dumps({"message": name}) if marker else "{}"
            events.append((n, text(domain), call, extra))
            regions.append((n, 1, 1, self.pid, start, end,
                            text("roctxThreadRangeA" if marker else name), n))  # fmt: skip
        for n, k in enumerate(self.kernels, 1):
            events.append((1000 + n, text("KERNEL_DISPATCH"), k["call"], "{}"))
            dispatches.append((n, 1, 1, self.pid, 3 + self.gpu, symbols.index(k["name"]) + 1, n, 1,
                               k["stream"], k["start"], k["end"], 256, 1, 1, 2048, 2, 1, None,
                               1000 + n))  # fmt: skip
        for n, (direction, call, start, end, size) in enumerate(self.copies, 1):
            events.append((2000 + n, text("MEMORY_COPY"), call, "{}"))
            copies.append((n, 1, 1, self.pid, start, end, text(direction), 3 + self.gpu, 1, size, 3,
                           2000 + n))  # fmt: skip
        agents = [(n + 1, "CPU" if n < 2 else "GPU", n if n < 2 else n - 2,
                   PRODUCTS[n], "gfx942") for n in range(4)]  # fmt: skip
        return {
            f"rocpd_info_node{run}": ("id, hostname", [(1, "node7")]),
            f"rocpd_info_agent{run}": ("id, type, type_index, product_name, name", agents),
            f"rocpd_info_kernel_symbol{run}": ("id, kernel_name, display_name", [
                (n, "_Z.kd", word) for n, word in enumerate(symbols, 1)]),
            f"rocpd_kernel_dispatch{run}": (DISPATCH_COLUMNS, dispatches),
            f"rocpd_memory_copy{run}": (MEMORY_COLUMNS, copies),
            f"rocpd_region{run}": ("id, nid, pid, tid, start, end, name_id, event_id", regions),
            f"rocpd_event{run}": ("id, category_id, stack_id, extdata", events),
            f"rocpd_string{run}": ("id, string", [(n, word) for word, n in strings.items()]),
        }  # fmt: skip

    def rocpd(self, path: Path) -> Path:
        return database(path, self.rocpd_tables())


def _line(row: tuple, *, quoted: bool) -> str:
    return ",".join(f'"{v}"' if quoted or isinstance(v, str) else str(v) for v in row) + "\n"


def small_nsys() -> Nsys:
    """Two iterations of one emit_nvtx operator each, a copy before and a fill after."""
    run = Nsys()
    run.copy(50, 20)
    for step, at in enumerate((100, 300)):
        run.range(f"iteration {step}", at, at + 150)
        run.range(
            f"aten::mm, seq = {step + 5}, op_id = 9, sizes = [[2, 3], [3, 4]]", at + 5, at + 40
        )
        call = run.call("cudaLaunchKernel_v7000", at + 10)
        run.kernel("void gemm<float>(float*)", at + 20, 100, call=call)
    run.fill(500, 10)
    return run


def small_rocprof(pid: int = MAIN, gpu: int = 0) -> Rocprof:
    """The same run on AMD; the fill is a kernel there."""
    run = Rocprof(pid, gpu)
    run.copy(50, 20)
    for step, at in enumerate((100, 300)):
        run.range(f"iteration {step}", at, at + 150)
        run.range(
            f"aten::mm, seq = {step + 5}, op_id = 9, sizes = [[2, 3], [3, 4]]", at + 5, at + 40
        )
        call = run.call("hipLaunchKernel", at + 10)
        run.kernel("void gemm<float>(float*)", at + 20, 100, call=call)
    run.kernel("__amd_rocclr_fillBufferAligned", 500, 10)
    return run
