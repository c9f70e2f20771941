"""Builders of test worlds: Kineto files event by event, and Traces kernel by kernel.

Times are in microseconds here because Kineto's are; a clock moves forward by itself.
"""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.annotations import iteration_mark, module_range
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.trace import Trace, TraceInfo

BASE_NS = 1_700_000_000_000_000_000


class Rank:
    """One rank's Kineto trace, written as a program would run.

    >>> r = Rank()
    >>> with r.module("layers.0.mlp", "MLP"), r.op("aten::mm", seq=1):
    ...     _ = r.launch("gemm_kernel", dur=50)
    >>> r.document()["traceEvents"][0]["name"]
    'chopper::module::Model::layers.0.mlp::MLP'
    """

    def __init__(
        self,
        rank: int | None = 0,
        world_size: int | None = 1,
        *,
        device: int = 0,
        gpu: str | None = "NVIDIA H100 80GB HBM3",
        amd: bool = False,
        pid: int = 100,
    ):
        self.rank, self.world_size, self.device = rank, world_size, device
        self.gpu, self.amd, self.pid, self.tid = gpu, amd, pid, pid
        self.events: list[dict[str, Any]] = []
        self.now = 1000.0
        self.device_free: dict[int, float] = {}
        self.correlation = 1000
        self.external = 1
        self.flow = 1

    def event(self, **event: Any) -> dict[str, Any]:
        self.events.append(event)
        return event

    @contextmanager
    def range(self, name: str, cat: str = "cpu_op", *, tid: int | None = None, **args: Any):
        """Open a host range; it lasts until the block ends, at least 1 us."""
        self.external += 1
        event = self.event(
            ph="X", cat=cat, name=name, pid=self.pid, tid=self.tid if tid is None else tid,
            ts=self.now, args={"External id": self.external, **args},
        )  # fmt: skip
        old, self.tid = self.tid, event["tid"]
        self.now += 1
        try:
            yield event
        finally:
            self.tid = old
            self.now += 1
            event["dur"] = round(self.now - event["ts"], 3)
            self.now += 1

    def op(self, name: str, *, seq: int | None = None, fwd: int = 0, **args: Any):
        if seq is not None:
            args |= {"Sequence number": seq, "Fwd thread id": fwd}
        return self.range(name, **args)

    def module(self, path: str, cls: str = "Linear", root: str = "Model"):
        return self.range(module_range(root, path, cls))

    def annotation(self, name: str):
        return self.range(name, "user_annotation")

    def step(self, number: int):
        return self.annotation(f"ProfilerStep#{number}")

    def mark(self, iteration: int) -> None:
        with self.range(iteration_mark(iteration)):
            pass

    def backward(self, node: str, seq: int, *, fwd: int = 1, tid: int | None = None):
        """Open an autograd node as the engine does: evaluate_function around the node."""
        return self._backward(node, seq, fwd, self.tid if tid is None else tid)

    @contextmanager
    def _backward(self, node: str, seq: int, fwd: int, tid: int):
        with (
            self.range(f"autograd::engine::evaluate_function: {node}", tid=tid),
            self.op(node, seq=seq, fwd=fwd) as event,
        ):
            yield event

    def pair(self, forward: dict[str, Any], backward: dict[str, Any]) -> None:
        """Write the fwdbwd flow from a forward op to its backward node."""
        for ph, end in (("s", forward), ("f", backward)):
            self.event(
                ph=ph, id=self.flow, pid=end["pid"], tid=end["tid"], ts=end["ts"],
                cat="fwdbwd", name="fwdbwd", **({"bp": "e"} if ph == "f" else {}),
            )  # fmt: skip
        self.flow += 1

    def launch(
        self,
        name: str,
        *,
        dur: float = 10,
        delay: float = 5,
        stream: int = 7,
        call: str | None = None,
        cat: str = "cuda_runtime",
        kernel_cat: str = "kernel",
        count: int = 1,
        **args: Any,
    ) -> list[dict[str, Any]]:
        """Launch ``count`` kernels by one call; each starts when its stream is free."""
        self.correlation += 1
        call = call or ("hipLaunchKernel" if self.amd else "cudaLaunchKernel")
        self.event(
            ph="X", cat=cat, name=call, pid=self.pid, tid=self.tid, ts=self.now, dur=2,
            args={"correlation": self.correlation, "External id": self.external},
        )  # fmt: skip
        made = [self._device(name, dur, delay, stream, kernel_cat, args) for _ in range(count)]
        self.now += 3
        return made

    def _device(self, name, dur, delay, stream, cat, args):
        start = max(self.now + delay, self.device_free.get(stream, 0.0))
        self.device_free[stream] = start + dur
        return self.event(
            ph="X", cat=cat, name=name, pid=self.device, tid=stream, ts=start, dur=dur,
            args={
                "device": self.device, "stream": stream, "correlation": self.correlation,
                "External id": self.external, "grid": [8, 1, 1], "block": [256, 1, 1], **args,
            },
        )  # fmt: skip

    def memory(
        self, size: int, allocated: int | None = None, reserved: int | None = None, **args: Any
    ) -> None:
        """Allocate, or free if negative; on the rank's GPU, unless another device is given."""
        totals = {"Total Allocated": allocated, "Total Reserved": reserved}
        self.event(
            ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=self.pid, tid=self.tid,
            ts=self.now, args={"Device Type": 6 if self.amd else 1, "Device Id": self.device,
                               "Bytes": size,
                               **{k: v for k, v in totals.items() if v is not None}, **args},
        )  # fmt: skip
        self.now += 1

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
        if self.gpu is not None:
            document["deviceProperties"] = [{"id": self.device, "name": self.gpu}]
        if self.rank is not None:
            document["distributedInfo"] = {"rank": self.rank, "world_size": self.world_size}
        return document | {"traceEvents": self.events}

    def write(self, path: Path) -> Path:
        text = json.dumps(self.document())
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode(), 1))
        else:
            path.write_text(text, encoding="utf-8")
        return path


def kernels(rows: list[dict[str, Any]]) -> pa.Table:
    """Make a ``kernels`` table; unnamed columns get plain defaults, times are nanoseconds."""
    base = {
        "gpu": 0, "stream": 7, "name": "k", "kind": "compute", "family": "gemm", "start_ns": 0,
        "dur_ns": 10, "iteration": None, "phase": None, "layer": None, "op": None,
        "recompute": False, "overlap_ns": 0, "busy_ns": None, "idle_ns": 0,
    }  # fmt: skip
    full = [{"kernel_id": i, **base, **row} for i, row in enumerate(rows)]
    for row in full:
        row["busy_ns"] = row["dur_ns"] if row["busy_ns"] is None else row["busy_ns"]
    return pa.Table.from_pylist(full) if full else pa.table({})


def trace_of(rows: list[dict[str, Any]], **info: Any) -> Trace:
    """Make a Trace of exactly these kernels, one row of ``gpus`` per GPU they name."""
    gpus = sorted({row.get("gpu", 0) for row in rows}) or [0]
    name = "cpu" if info.get("device_kind") == "cpu" else "NVIDIA H100 80GB HBM3"
    table = pa.Table.from_pylist(
        [{"gpu": g, "rank": g, "device": g, "name": name, "offset_ns": 0} for g in gpus]
    )
    quality = Quality(events_read=len(rows), kernels=len(rows), linked={"op": 1.0})
    tables = {"gpus": table} | ({"kernels": kernels(rows)} if rows else {})
    return Trace.from_tables(tables, TraceInfo(**info), quality)


FAMILY_OF_OP = {
    "self_attn.q_proj": "gemm", "aten::scaled_dot_product_attention": "attention",
    "mlp.gate_proj": "gemm", "mlp.down_proj": "gemm", "input_layernorm": "norm",
    "aten::add": "elementwise",
}  # fmt: skip


def llama_trace(gpus: int = 8, iterations: int = 5, layers: int = 32, seed: int = 0) -> Trace:
    """Make a Trace shaped like Llama training: plausible times, one slow GPU, collectives, idle."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for gpu in range(gpus):
        clock = 0
        for iteration in range(iterations):
            for phase in ("forward", "backward"):
                for layer in range(layers):
                    for op, family in FAMILY_OF_OP.items():
                        scale = {"gemm": 900, "attention": 600}.get(family, 60)
                        dur = int(
                            scale * 1000 * rng.normal(1, 0.03) * (2 if phase == "backward" else 1)
                        )
                        dur = int(dur * (1.08 if gpu == gpus - 1 and gpus > 1 else 1))
                        idle = int(rng.exponential(800))
                        clock += idle
                        rows.append({
                            "gpu": gpu, "iteration": iteration, "phase": phase,
                            "layer": f"model.layers.{layer}", "op": op, "family": family,
                            "name": f"{family}_{phase}_bf16_kernel<{op}>", "start_ns": clock,
                            "dur_ns": dur, "idle_ns": idle, "overlap_ns": dur // 8,
                            "module": f"model.layers.{layer}.{op}",
                        })  # fmt: skip
                        clock += dur
                    rows.append({
                        "gpu": gpu, "iteration": iteration, "phase": phase, "stream": 20,
                        "layer": f"model.layers.{layer}", "op": "all_gather", "kind": "collective",
                        "family": "communication", "name": "ncclDevKernel_AllGather_RING_LL",
                        "start_ns": clock - 100_000, "dur_ns": 150_000, "busy_ns": 50_000,
                        "overlap_ns": 100_000, "collective": "all_gather",
                    })  # fmt: skip
                    clock += 50_000
            for name in ("multi_tensor_apply_kernel", "lpnorm_kernel"):
                rows.append({
                    "gpu": gpu, "iteration": iteration, "phase": "optimizer",
                    "op": "optimizer_step" if "multi" in name else "clip", "family": "optimizer",
                    "name": name, "start_ns": clock, "dur_ns": 900_000,
                })  # fmt: skip
                clock += 900_000
    return trace_of(rows, name="llama3-8b-fsdp2", world_size=gpus)
