"""How much of a trace a counting run could be tied to, and where it first could not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.errors import AlignmentError

if TYPE_CHECKING:
    import pyarrow as pa

    from chopper_jupyter.core.align.match import Device, Matches

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

COVERED = 0.5
"""A pass covers an iteration if at least this share of its kernel time is matched."""

PASSES_KEY = "pass "
"""How the keys of rates by pass begin."""

LONGEST_NAME = 120


@dataclass(frozen=True)
class Rates:
    """Shares of kernel time, 0 to 1, that have counters, in the iterations that were counted.

    Parameters
    ----------
    device : list of float
        Per device of the matches (one GPU in one pass).
    iterations : list of tuple of int
        Iterations that each device's pass covers; empty if the trace has none.
    op : dict of str to float
        Per op, over all passes and GPUs; kernels without an op are ``"other"``.
    """

    device: list[float]
    iterations: list[tuple[int, ...]]
    op: dict[str, float]

    def record(self, matches: Matches) -> dict[str, dict[str, float]]:
        """Return the rates by pass and gpu, and by op, as plain data."""
        by_pass: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for device, rate in zip(matches.devices, self.device, strict=True):
            by_pass[f"{PASSES_KEY}{device.number}"][f"gpu {device.gpu}"] = rate
        return {**by_pass, "op": self.op}


def rates(kernels: pa.Table, matches: Matches, counted: pa.Table) -> Rates:
    """Measure what share of the kernel time that could have counters has them.

    Where a pass was limited to some iterations, only these are asked for.
    """
    dur = np.asarray(kernels["dur_ns"].to_numpy(), np.float64)
    iteration = np.asarray(pc.fill_null(kernels["iteration"], -1).to_numpy(), np.int64)
    op, words = codes(kernels["op"])
    op = np.where(op < 0, len(words), op)
    passes = np.asarray(counted["pass"].to_numpy(), np.int64)[matches.counted]
    found, iterations = [], []
    there, wanted = np.zeros(len(words) + 1), np.zeros(len(words) + 1)
    for device in matches.devices:
        mark = np.zeros(kernels.num_rows, bool)
        mark[matches.timed[passes == device.number]] = True
        rows = device.timed
        numbers = _covered(iteration[rows], dur[rows], mark[rows])
        asked = np.isin(iteration[rows], numbers) if len(numbers) else np.ones(len(rows), bool)
        rows = rows[asked]
        weight = dur[rows] + 1  # kernels of no length count as well
        found.append(float(weight[mark[rows]].sum() / max(weight.sum(), 1)))
        iterations.append(tuple(int(n) for n in numbers if n >= 0))
        wanted += np.bincount(op[rows], weight, minlength=len(wanted)) if len(rows) else 0
        own = rows[mark[rows]]
        there += np.bincount(op[own], dur[own] + 1, minlength=len(there)) if len(own) else 0
    shares = {
        word: float(there[code] / wanted[code])
        for code, word in enumerate([*words, "other"])
        if wanted[code]
    }
    return Rates(found, iterations, shares)


def _covered(iteration: Ints, dur: npt.NDArray[np.float64], matched: Mask) -> Ints:
    """Return the iterations of which enough is matched; none if there are none such."""
    numbers, place = np.unique(iteration, return_inverse=True)
    place = place.reshape(-1)
    whole = np.bincount(place, dur + 1, minlength=len(numbers))
    part = np.bincount(place, (dur + 1) * matched, minlength=len(numbers))
    kept = numbers[(part >= COVERED * whole) & (numbers >= 0)]
    return kept if len(kept) < np.count_nonzero(numbers >= 0) else numbers


def refuse_poor(
    kernels: pa.Table, counted: pa.Table, matches: Matches, found: Rates, min_rate: float
) -> None:
    """Raise if too little could be matched on any GPU in any pass.

    Raises
    ------
    AlignmentError
        With the rate found and needed, and the first kernel without a partner.
    """
    if not matches.devices:
        msg = (
            "none of the counted kernels could be tied to a GPU of this trace: the counting run "
            "holds no compute kernel of the same name"
        )
        raise AlignmentError(msg)
    worst = int(np.argmin(found.device))
    if found.device[worst] >= min_rate:
        return
    device = matches.devices[worst]
    msg = (
        f"{100 * found.device[worst]:.1f} % of the kernel time of GPU {device.gpu} could be "
        f"matched with pass {device.number}, {100 * min_rate:.1f} % are needed; "
        f"{_first_mismatch(kernels, counted, matches, device)}. Were both runs the same program "
        "with the same sizes on as many GPUs? With partial=True, what matched is kept"
    )
    raise AlignmentError(msg)


def _first_mismatch(kernels: pa.Table, counted: pa.Table, matches: Matches, device: Device) -> str:
    """Name the first kernel of a GPU without a partner, and what was counted in its place."""
    passes = np.asarray(counted["pass"].to_numpy(), np.int64)[matches.counted]
    partner = np.full(kernels.num_rows, -1, np.int64)
    here = passes == device.number
    partner[matches.timed[here]] = matches.counted[here]
    lost = partner[device.timed] < 0
    first = int(np.argmax(lost))
    before = partner[device.timed[:first]]
    place = np.full(counted.num_rows, -1, np.int64)
    place[device.counted] = np.arange(len(device.counted))
    at = int(place[before].max(initial=-1)) + 1
    own = _described(kernels, int(device.timed[first]), "grid", "block")
    if at >= len(device.counted):
        return f"first mismatch: the trace has {own}, where the pass had ended"
    other = _described(counted, int(device.counted[at]), "work_items", "group_items")
    return f"first mismatch: the trace has {own}, the pass has {other}"


def _described(table: pa.Table, row: int, *sizes: str) -> str:
    name = str(table["name"][row].as_py())
    name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    told = ", ".join(f"{size.replace('_', ' ')} {table[size][row].as_py()}" for size in sizes)
    return f"{name!r} ({told})"
