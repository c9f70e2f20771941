"""What was counted on the hardware, as measures that add, by expressions that are data.

``counters.csv`` says how each measure follows from the counters of a vendor and architecture;
of several expressions of a measure the first one counts whose counters a kernel has.
"""

from __future__ import annotations

import csv
import fnmatch
import importlib.resources
import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core import hardware
from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.analysis.expressions import Node, evaluate, parse
from chopper_jupyter.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.analysis.timeline import Mask
    from chopper_jupyter.core.hardware import Hardware
    from chopper_jupyter.core.trace import Trace

MATRIX_FLOPS = "matrix_flops_"
"""Prefix of the operations counted in one number format; the name of the format follows."""

PAIRS = (("matrix_busy_cycles", "matrix_capacity_cycles"),)
"""Measures of one ratio: neither may be summed over kernels that lack the other."""


SHORTEST_NS = 50_000
"""Time below which cycles are of no use: AMD's tools count for longer than the kernel runs."""

_DENSE = 4
"""Range of ids, over their number, up to which a table of the range finds them fastest."""

FASTEST = 1.05
"""Clock while counting, over the highest of the GPU, from which on there are too many cycles."""


class Expression(NamedTuple):
    """How a measure follows from counters, and of what hardware."""

    measure: str
    vendor: str
    arch: str
    node: Node


_COLUMNS = ("measure", "vendor", "arch", "expression", "note")
_added: list[Expression] = []
_read: list[Expression] = []


def add(rows: Iterable[Mapping[str, str]]) -> None:
    """Add expressions, which come before those of the package, in this process.

    Parameters
    ----------
    rows : iterable of mapping
        ``measure`` and ``expression``; ``vendor`` and ``arch`` are ``*`` unless given.

    Raises
    ------
    SchemaError
        If a column does not exist, or an expression is none.

    Examples
    --------
    >>> add([{"measure": "hbm_read_bytes", "vendor": "amd", "expression": "64 * MY_READS"}])
    >>> _added.clear()
    """
    _added[:0] = [_expression(row) for row in rows]


def counted_measures(trace: Trace, kernels: pa.Table) -> dict[str, Floats]:
    """Return what was counted of each kernel.

    Parameters
    ----------
    trace : Trace
        Holds the counters and the GPUs.
    kernels : pyarrow.Table
        Kernels of the trace: at least ``kernel_id`` and ``gpu``.

    Returns
    -------
    dict of str to float64 array
        Per kernel, NaN where its counters do not tell: ``matrix_flops`` and, by number format,
        ``matrix_flops_bf16`` and others; ``cycles`` of the clock of the GPU;
        ``matrix_busy_cycles`` and ``matrix_capacity_cycles``, whose ratio is the utilisation of
        the matrix units; ``hbm_read_bytes``, ``hbm_write_bytes``; ``counted_ns``, the time in
        the pass that counted. A measure that no kernel has is absent. A counter that several
        passes counted is averaged over them.
    """
    rows = kernels.num_rows
    values = _values(trace.counters, kernels)
    if not values:
        return {}
    found: dict[str, Floats] = {}
    gpu = kernels["gpu"].to_numpy()
    table = [*_added, *_table()]
    for number, known in hardware_of(trace).items():
        mine = np.flatnonzero(gpu == number)
        of_gpu = {name: array[mine] for name, array in values.items()}
        for name, array in _measures(of_gpu, known, table, len(mine)).items():
            found.setdefault(name, np.full(rows, np.nan))[mine] = array
    for pair in PAIRS:
        both = [found[name] for name in pair if name in found]
        missing = np.isnan(both).any(axis=0) if len(both) == len(pair) else np.ones(rows, bool)
        for array in both:
            array[missing] = np.nan
    return {name: array for name, array in found.items() if np.isfinite(array).any()}


def hardware_of(trace: Trace) -> dict[int, Hardware | None]:
    """Return the row of the hardware table of each GPU, None for one that is not known.

    Rows that a user added since the trace was read count.
    """
    found: dict[int, Hardware | None] = {}
    columns = (trace.gpus[name].to_pylist() for name in ("gpu", "name", "hardware"))
    for gpu, name, key in zip(*columns, strict=True):
        known = hardware.find(name)
        if known is None and key is not None and key in hardware.known():
            known = hardware.named(key)
        found[gpu] = known
    return found


def _measures(
    counters: Mapping[str, Floats], known: Hardware | None, table: Sequence[Expression], rows: int
) -> dict[str, Floats]:
    values = dict(counters)
    if known is not None:
        values |= {f"hardware.{n}": np.full(rows, float(getattr(known, n))) for n in _CONSTANTS}
    found: dict[str, Floats] = {}
    for one in table:
        if not _applies(one, known):
            continue
        so_far = found.get(one.measure, np.full(rows, np.nan))
        if np.isnan(so_far).any():
            here = evaluate(one.node, values, rows)
            found[one.measure] = np.where(np.isnan(so_far), here, so_far)
            values[one.measure] = found[one.measure]
    by_format = [v for name, v in found.items() if name.startswith(MATRIX_FLOPS)]
    if by_format:
        any_of = np.isfinite(by_format).any(axis=0)
        found["matrix_flops"] = np.where(any_of, np.nansum(by_format, axis=0), np.nan)
    return found


_CONSTANTS = ("units", "dies")


def _applies(one: Expression, known: Hardware | None) -> bool:
    """Say whether an expression holds for a GPU; for an unknown one only if it holds for all."""
    if known is None:
        return one.arch == "*"
    archs = one.arch.split(";")
    return one.vendor in ("*", known.vendor) and any(
        fnmatch.fnmatchcase(known.arch, arch) for arch in archs
    )


def _values(counters: pa.Table, kernels: pa.Table) -> dict[str, Floats]:
    """Return each counter as one value per kernel, averaged over passes; NaN where not counted."""
    if not counters.num_rows or not kernels.num_rows:
        return {}
    code, names = codes(counters["counter"])
    row = rows_of(kernels["kernel_id"].to_numpy(), counters["kernel_id"].to_numpy())
    value = counters["value"].to_numpy()
    good = (row >= 0) & np.isfinite(value)
    code, row, value = code[good], row[good], value[good]
    found = {}
    order = np.argsort(code.astype(np.min_scalar_type(len(names))), kind="stable")
    edges = np.cumsum([0, *np.bincount(code, minlength=len(names))])
    for number, name in enumerate(names):
        at = order[edges[number] : edges[number + 1]]
        if len(at):
            times = np.bincount(row[at], minlength=kernels.num_rows)
            sums = np.bincount(row[at], value[at], kernels.num_rows)
            found[name] = np.where(times > 0, sums / np.maximum(times, 1), np.nan)
    return found


def rows_of(ids: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted id, -1 for one that is not there.

    Examples
    --------
    >>> rows_of(np.array([7, 3]), np.array([3, 7, 5])).tolist()
    [1, 0, -1]
    """
    if not len(ids):
        return np.full(len(wanted), -1)
    low, size = int(ids.min()), int(ids.max()) - int(ids.min()) + 1
    if size <= _DENSE * len(ids):
        row = np.full(size + 1, -1)
        row[ids[::-1] - low] = np.arange(len(ids) - 1, -1, -1)  # of equal ids the first counts
        return row[np.where((wanted >= low) & (wanted < low + size), wanted - low, size)]
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order][at] == wanted, order[at], -1)


def doubtful_cycles(
    counts: Mapping[str, Floats],
    gpu: Ints,
    time_ns: Floats,
    hardware: Mapping[int, Hardware | None],
) -> Mask:
    """Mark the kernels whose cycles are not those of their own time.

    Parameters
    ----------
    counts : mapping of str to float64 array
        As from ``counted_measures``.
    gpu, time_ns : arrays
        GPU of each kernel, and its time in the timed run: taken where that of the pass is unknown.
    hardware : mapping of int to Hardware or None
        By GPU.

    Examples
    --------
    >>> amd = {0: hardware.named("MI300X")}
    >>> counts = {"cycles": np.array([9e4, 9e4, 3e5]), "counted_ns": np.array([9e3, 6e4, 6e4])}
    >>> doubtful_cycles(counts, np.zeros(3, int), np.zeros(3), amd).tolist()
    [True, False, True]
    """
    unknown = np.full(len(gpu), np.nan)
    cycles, counted = (counts.get(name, unknown) for name in ("cycles", "counted_ns"))
    highest, short = np.full(len(gpu), np.nan), np.zeros(len(gpu), bool)
    for number, known in hardware.items():
        if known is not None:
            clocks = [c for c in (known.peak_clock_mhz, known.tensor_clock_mhz) if c]
            highest[gpu == number] = 1e6 * max(clocks, default=np.nan)
            short[gpu == number] = known.vendor == "amd"
    short &= np.where(np.isfinite(counted), counted, time_ns) < SHORTEST_NS
    with np.errstate(divide="ignore", invalid="ignore"):
        fast = 1e9 * cycles / counted > FASTEST * highest
    return np.isfinite(cycles) & (short | fast)


def _table() -> list[Expression]:
    if not _read:
        package = importlib.resources.files("chopper_jupyter.core")
        text = (package / "hardware_data" / "counters.csv").read_text(encoding="utf-8")
        _read.extend(_expression(row) for row in csv.DictReader(io.StringIO(text)))
    return _read


def _expression(row: Mapping[str, str]) -> Expression:
    unknown = set(row) - set(_COLUMNS)
    if unknown or not row.get("measure") or not row.get("expression"):
        msg = f"a counter expression has the columns {', '.join(_COLUMNS)}, not {sorted(row)}"
        raise SchemaError(msg)
    vendor, arch = row.get("vendor") or "*", row.get("arch") or "*"
    return Expression(row["measure"], vendor, arch, parse(row["expression"]))
