"""The ``telemetry`` table: samples of sensors on the clock and the GPUs of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.errors import AlignmentError
from chopper_jupyter.core.schema import conform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Ints = npt.NDArray[np.int64]

FAR_NS = 10 * 10**9
"""Samples further than this from all kernels are of another run; nearer ones are kept, for a
short recording may lie between two samples."""

STRANGE_GPU = "samples of GPUs that are not part of the trace"
STRANGE_HOST = "samples of hosts that are not part of the trace"
BY_ORDER = (
    "telemetry of host {} was taken for its GPUs in order: the trace does not number them as the "
    "sensors do"
)


@dataclass(frozen=True)
class Placed:
    """Samples by ``schema.TELEMETRY``, what was left out, and what a reader should know."""

    table: pa.Table
    skipped: Mapping[str, int]
    notes: tuple[str, ...]


def telemetry_rows(samples: pa.Table, gpus: pa.Table, origin_ns: int) -> Placed:
    """Place samples on the clock of a trace and on its GPUs.

    Parameters
    ----------
    samples : pyarrow.Table
        By ``telemetry_run.SAMPLES``.
    gpus : pyarrow.Table
        The trace's ``gpus``. Samples move with the clock of their host's ranks.
    origin_ns : int
        Unix time of the trace's time 0.

    Returns
    -------
    Placed
        Samples of the trace's GPUs and hosts.
    """
    host, names = codes(samples["host"])
    device = np.asarray(pc.fill_null(samples["device"], -1).to_numpy(), np.int64)
    rows = gpus.to_pylist()
    gpu = np.full(len(host), -1, np.int64)
    offset = np.zeros(len(host), np.int64)
    kept = np.zeros(len(host), bool)
    skipped: dict[str, int] = {}
    notes: list[str] = []
    for code in np.unique(host).tolist():
        here = host == code
        name = names[code] if code >= 0 else None
        own = _on_host(rows, name, alone=len(np.unique(host)) == 1)
        if not own:
            skipped[STRANGE_HOST] = skipped.get(STRANGE_HOST, 0) + int(here.sum())
            continue
        numbers, by_order = _devices(own, np.unique(device[here & (device >= 0)]))
        if by_order:
            notes.append(BY_ORDER.format(name or "unknown"))
        gpu[here] = numbers[device[here]]
        offset[here] = own[0]["offset_ns"]
        strange = here & (device >= 0) & (gpu < 0)
        if strange.any():
            skipped[STRANGE_GPU] = skipped.get(STRANGE_GPU, 0) + int(strange.sum())
        kept |= here & ~strange
    time = np.asarray(samples["wall_ns"].to_numpy(), np.int64) - origin_ns + offset
    table = pa.table(
        {
            **{c: samples[c] for c in ("source", "host", "core", "metric", "value")},
            "gpu": pa.array(gpu.astype(np.int32), mask=gpu < 0),
            "time_ns": time,
        }
    )
    return Placed(conform("telemetry", table.filter(pa.array(kept))), skipped, tuple(notes))


def refuse_elsewhere(table: pa.Table, first_ns: int, last_ns: int) -> None:
    """Raise if all samples lie far outside of the time of a trace.

    Raises
    ------
    AlignmentError
        With both times: the telemetry is of another run, or one of them has no wall clock.
    """
    if not table.num_rows or first_ns >= last_ns:
        return
    time = table["time_ns"].to_numpy()
    before, after = int(time.max()) < first_ns - FAR_NS, int(time.min()) > last_ns + FAR_NS
    if before or after:
        away = first_ns - int(time.max()) if before else int(time.min()) - last_ns
        msg = (
            f"the telemetry lies {away * 1e-9:.1f} s {'before' if before else 'after'} the trace: "
            "it is of another run, in another time zone, or one of them lacks the wall clock"
        )
        raise AlignmentError(msg)


def _on_host(
    gpus: Sequence[Mapping[str, Any]], host: str | None, *, alone: bool
) -> list[Mapping[str, Any]]:
    """Return the GPUs on a host, in order of rank and device."""
    hosts = {row["host"] for row in gpus}
    single = len(hosts) == 1 and (alone and (host is None or None in hosts))
    own = [row for row in gpus if single or (host is not None and row["host"] == host)]
    return sorted(own, key=lambda row: (row["rank"] or 0, row["device"], row["gpu"]))


def _devices(own: Sequence[Mapping[str, Any]], sampled: Ints) -> tuple[Ints, bool]:
    """Return the GPU of each device number, -1 for none, and whether it was told by order.

    Where every process sees only its own GPU, all of them are device 0 in the trace; AMD's
    older traces number GPUs among all nodes of the machine.
    """
    numbers = [row["device"] for row in own]
    by_order = len(set(numbers)) < len(numbers) or not set(sampled.tolist()) & set(numbers)
    by_order = by_order and len(sampled) == len(own)
    places = sorted(sampled.tolist()) if by_order else numbers
    ambiguous = len(set(places)) < len(places)
    found = np.full(max([*places, *sampled.tolist(), 0]) + 2, -1, np.int64)
    if not ambiguous:
        found[places] = [row["gpu"] for row in own]
    return found, by_order and len(own) > 1
