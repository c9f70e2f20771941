"""Text of the events of one iteration, with places for the numbers that differ.

All iterations of a rank share one text; only times and numbers are filled in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.simulate.iteration.script import AUTOGRAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.simulate.iteration.script import (
        Collective,
        Launch,
        Range,
        Script,
        Stall,
        Tensor,
    )
    from chopper_jupyter.simulate.timing.durations import Mask

NUMBER = "\\u0000"
"""Place of the number of the iteration in names, as JSON writes it."""

TIME = "%d.%03d"
"""Microseconds, of whole nanoseconds."""

BACKWARD_OF_MAIN = 1
"""``Fwd thread id`` of backward nodes of the main thread's work; forwards have 0."""


@dataclass(frozen=True)
class Process:
    """How one rank's process shows up.

    Parameters
    ----------
    rank, ranks : int
        Rank, and number of ranks.
    device : int
        Device on its host.
    pid, autograd_tid : int
        Process, whose main thread has the same number; thread of the autograd engine.
    streams : tuple of int
        Numbers of the streams of computation and communication.
    amd : bool
        Whether calls are HIP's or CUDA's.
    """

    rank: int
    ranks: int
    device: int
    pid: int
    autograd_tid: int
    streams: tuple[int, int]
    amd: bool

    def tid(self, thread: int) -> int:
        """Return the number of a thread."""
        return self.autograd_tid if thread == AUTOGRAD else self.pid


@dataclass(frozen=True)
class Block:
    """Events of one kind: their text, and which columns of their numbers it has places for."""

    text: str
    used: Mask


def range_block(script: Script, process: Process) -> Block:
    """Return the host ranges; columns: start (2), duration (2), id, autograd number, Seq, index."""
    rows = [_range_text(one, process) for one in script.ranges]
    has_seq = [one.seq is not None for one in script.ranges]
    is_collective = [one.collective is not None for one in script.ranges]
    used = np.ones((len(rows), 8), bool)
    used[:, 5], used[:, 6] = has_seq, is_collective
    return Block(",\n".join(rows), used)


def _range_text(one: Range, process: Process) -> str:
    args = '"External id": %d, "Record function id": 0'
    if one.seq is not None:
        args += f', "Sequence number": %d, "Fwd thread id": {int(one.backward) * BACKWARD_OF_MAIN}'
    if one.collective is not None:
        args += f", {_collective_text(one.collective, process)}"
    args += f'{_inputs_text(one.inputs)}, "Ev Idx": %d'
    return (
        f'{{"ph": "X", "cat": "{one.category}", "name": {_quoted(one.name)}, "pid": {process.pid}, '
        f'"tid": {process.tid(one.thread)}, "ts": {TIME}, "dur": {TIME}, "args": {{{args}}}}}'
    )


def _inputs_text(inputs: Sequence[Tensor]) -> str:
    if not inputs:
        return ""
    return "".join(
        f', "{name}": {json.dumps(values)}'
        for name, values in (
            ("Concrete Inputs", [one.concrete for one in inputs]),
            ("Input type", [one.kind for one in inputs]),
            ("Input Dims", [one.dims for one in inputs]),
        )
    )


def _collective_text(moved: Collective, process: Process) -> str:
    members = json.dumps(list(range(process.ranks)))
    dtype = "Float" if moved.name == "allreduce" else "BFloat16"
    return (
        f'"Collective name": "{moved.name}", "In msg nelems": {moved.elements_in}, '
        f'"Out msg nelems": {moved.elements_out}, "Group size": {process.ranks}, '
        f'"dtype": "{dtype}", "In split size": "[]", "Out split size": "[]", '
        '"Process Group Name": "0", "Process Group Description": "default_pg", '
        f'"Process Group Ranks": "{members}", "Seq": %d'
    )


def call_block(script: Script, process: Process) -> Block:
    """Return the launch calls; columns: start (2), id, correlation."""
    rows = [
        f'{{"ph": "X", "cat": "cuda_runtime", "name": "{_call_name(one, process)}", '
        f'"pid": {process.pid}, "tid": {process.tid(one.thread)}, "ts": {TIME}, "dur": 3.000, '
        '"args": {"External id": %d, "cbid": 211, "correlation": %d}}'
        for one in script.launches
    ]
    return Block(",\n".join(rows), np.ones((len(rows), 4), bool))


def _call_name(one: Launch, process: Process) -> str:
    kind, name = one.work.kind, one.work.name
    if kind == "memcpy":
        return "hipMemcpyWithStream" if process.amd else "cudaMemcpyAsync"
    if kind == "collective":
        return "hipExtLaunchKernel" if process.amd else "cudaLaunchKernelExC"
    if name.startswith("Cijk_"):
        return "hipExtModuleLaunchKernel"
    return "hipLaunchKernel" if process.amd else "cudaLaunchKernel"


def kernel_block(script: Script, process: Process) -> Block:
    """Return the device activities; columns: start (2), duration (2), id, correlation, Seq."""
    rows = [_kernel_text(one, process) for one in script.launches]
    used = np.ones((len(rows), 7), bool)
    used[:, 6] = [one.work.kind == "collective" for one in script.launches]
    return Block(",\n".join(rows), used)


def _kernel_text(one: Launch, process: Process) -> str:
    work, stream = one.work, process.streams[one.stream]
    args = f'"External id": %d, "device": {process.device}, "stream": {stream}, "correlation": %d'
    if work.kind == "memcpy":
        category, args = "gpu_memcpy", f'{args}, "kind": "HtoD", "bytes": {work.written}'
    else:
        category = "kernel"
        args += f', "grid": {list(work.grid)}, "block": {list(work.block)}'
        args += ', "kind": "Dispatch Kernel"' if process.amd else ', "queued": 0, "context": 1'
    if work.collective is not None:
        args += f", {_collective_text(work.collective, process)}"
    return (
        f'{{"ph": "X", "cat": "{category}", "name": {_quoted(work.name)}, "pid": {process.device}, '
        f'"tid": {stream}, "ts": {TIME}, "dur": {TIME}, "args": {{{args}}}}}'
    )


def arrow_block(script: Script, process: Process) -> Block:
    """Return the arrows from launch calls to kernels; columns: (id, start (2)) of both ends."""
    rows = [
        f'{{"ph": "s", "id": %d, "pid": {process.pid}, "tid": {process.tid(one.thread)}, '
        f'"ts": {TIME}, "cat": "ac2g", "name": "ac2g"}},\n'
        f'{{"ph": "f", "id": %d, "pid": {process.device}, "tid": {process.streams[one.stream]}, '
        f'"ts": {TIME}, "cat": "ac2g", "name": "ac2g", "bp": "e"}}'
        for one in script.launches
    ]
    return Block(",\n".join(rows), np.ones((len(rows), 6), bool))


def gradient_block(script: Script, process: Process) -> Block:
    """Return the arrows from forwards to backwards; columns: (id, start (2)) of both ends."""
    rows = [
        f'{{"ph": "s", "id": %d, "pid": {process.pid}, "tid": {process.tid(forward.thread)}, '
        f'"ts": {TIME}, "cat": "fwdbwd", "name": "fwdbwd"}},\n'
        f'{{"ph": "f", "id": %d, "pid": {process.pid}, "tid": {process.tid(backward.thread)}, '
        f'"ts": {TIME}, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}}'
        for forward, backward in script.flows
    ]
    return Block(",\n".join(rows), np.ones((len(rows), 6), bool))


def wait_block(waits: Sequence[Stall], process: Process) -> Block:
    """Return the calls that wait for the GPU; columns: start (2), duration (2), correlation."""
    what = {"host_sync": "StreamSynchronize", "sync": "DeviceSynchronize"}
    vendor = "hip" if process.amd else "cuda"
    rows = [
        f'{{"ph": "X", "cat": "cuda_runtime", "name": "{vendor}{what[one.kind]}", '
        f'"pid": {process.pid}, "tid": {process.pid}, "ts": {TIME}, "dur": {TIME}, '
        '"args": {"cbid": 165, "correlation": %d}}'
        for one in waits
    ]
    return Block(",\n".join(rows), np.ones((len(rows), 5), bool))


def frame_texts(process: Process) -> list[str]:
    """Return the names of processes, threads and streams, as Kineto writes them."""
    threads = [
        (process.pid, process.pid, f"thread {process.pid} (python)"),
        (process.pid, process.autograd_tid, f"thread {process.autograd_tid} (pt_autograd_0)"),
        *((process.device, stream, f"stream {stream}") for stream in process.streams),
    ]
    processes = [
        (process.pid, "python", "CPU"),
        (process.device, "python", f"GPU {process.device}"),
    ]
    return [
        *(_meta("process_name", pid, 0, {"name": name}) for pid, name, _ in processes),
        *(_meta("process_labels", pid, 0, {"labels": label}) for pid, _, label in processes),
        *(_meta("thread_name", pid, tid, {"name": name}) for pid, tid, name in threads),
    ]


def _meta(name: str, pid: int, tid: int, args: dict[str, str]) -> str:
    event = {"name": name, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}
    return json.dumps(event)


def _quoted(name: str) -> str:
    return json.dumps(name).replace("%", "%%")


def stream_numbers(*, amd: bool) -> tuple[int, int]:
    """Return how a vendor numbers the streams of computation and communication."""
    return (0, 3) if amd else (7, 20)
