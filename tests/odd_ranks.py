"""What the tests of odd inputs share: writing a rank, reading it back, asking for columns."""

from __future__ import annotations

import json

from builders import Rank

from chopper_jupyter import read_trace


def put(path, document):
    """Write any JSON document and return its path."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def read(rank: Rank, tmp_path, name="trace.json"):
    return read_trace(rank.write(tmp_path / name))


def rows(trace, *columns):
    """Kernels as dictionaries, in order of start."""
    table = trace.kernels.sort_by("start_ns")
    return table.select(list(columns)).to_pylist() if columns else table.to_pylist()


def column(trace, name):
    return [row[name] for row in rows(trace, name, *({"start_ns"} - {name}))]


def noted(trace) -> str:
    """Everything the quality record says, as lower-case text."""
    return "\n".join(trace.quality.lines()).lower()


def forward_backward(rank: Rank, *, seq=1, flow=True):
    """One module forward, its gradient on another thread, one optimizer step."""
    with rank.module("", "Model"), rank.module("head"), rank.op("aten::mm", seq=seq) as forward:
        rank.launch("forward_kernel", dur=20)
    with rank.backward("MmBackward0", seq, tid=rank.pid + 1) as backward:
        rank.launch("backward_kernel", dur=30)
    if flow:
        rank.pair(forward, backward)
    with rank.annotation("Optimizer.step#SGD.step"), rank.op("aten::add_"):
        rank.launch("optimizer_kernel", dur=10)
    return forward, backward
