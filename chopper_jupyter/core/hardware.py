"""What GPUs can do at best: units, clocks, peaks and bandwidths, as data in ``peaks.csv``.

A peak is only of use together with the clock it is stated at: NVIDIA gives H100's tensor peak
at 1830 MHz, although its top clock is 1980 MHz. ``matrix_clock_hz`` is the clock of the peak.
"""

from __future__ import annotations

import csv
import importlib.resources
import io
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.errors import SchemaError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DTYPES = ("bf16", "fp16", "fp8", "tf32", "fp32", "fp32_matrix")
"""Number formats with a peak: of the matrix units, but ``fp32``, which is of the vector units."""

_TFLOPS = "_tflops"
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Hardware:
    """One GPU, or one die where that is what a driver calls a device; unknown numbers are None.

    Parameters
    ----------
    gpu : str
        Key of the row, for instance ``"MI300X"``.
    vendor, arch : str
        ``"amd"`` and ``"gfx942"``, ``"nvidia"`` and ``"sm_90"``.
    units : int
        Compute units or streaming multiprocessors.
    unit_kind : str
        ``"CU"`` or ``"SM"``.
    dies : int
        Accelerator dies (XCDs, which each count their own cycles) or GPCs.
    peak_clock_mhz, tensor_clock_mhz : float or None
        Highest clock, and the clock at which the peaks of the matrix units are stated.
    peak_tflops : mapping of str to float
        Dense peaks in TFLOP/s, by the names of ``DTYPES``; unknown ones are absent.
    flops_per_clock_per_unit : float or None
        Of one unit's matrix units in bf16 (fp16 where there is no bf16).
    hbm_gb_s, hbm_gib, link_gb_s : float or None
        Memory bandwidth (GB/s), memory (GiB), bandwidth to other GPUs per direction (GB/s).
    grade : str
        A: recomputed or quoted from the vendor; B: one second-hand source; C: by counters only.
    source : str
        Where the numbers are from.
    match, exclude : tuple of str
        Word sequences of product names that are this GPU, and words that rule it out.
    """

    gpu: str
    vendor: str
    arch: str
    units: int
    unit_kind: str
    dies: int
    peak_clock_mhz: float | None
    tensor_clock_mhz: float | None
    peak_tflops: Mapping[str, float]
    flops_per_clock_per_unit: float | None
    hbm_gb_s: float | None
    hbm_gib: float | None
    link_gb_s: float | None
    grade: str = "user"
    source: str = ""
    match: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def peak_flops(self, dtype: str) -> float | None:
        """Return the dense peak in FLOP/s; None if it is not known.

        Examples
        --------
        >>> named("MI300X").peak_flops("bf16")
        1307443200000000.0
        """
        peak = self.peak_tflops.get(dtype)
        return None if peak is None else peak * 1e12

    @property
    def matrix_clock_hz(self) -> float | None:
        """The clock in Hz that the peaks of the matrix units are stated at; None if not known.

        Where no source states it, it follows from the peak and the FLOPs per clock.

        Examples
        --------
        >>> named("H100 SXM").matrix_clock_hz, named("H100 SXM").peak_clock_mhz
        (1830000000.0, 1980.0)
        """
        if self.tensor_clock_mhz is not None:
            return self.tensor_clock_mhz * 1e6
        peak = self.peak_flops("bf16") or self.peak_flops("fp16")
        per_clock = (self.flops_per_clock_per_unit or 0) * self.units
        return peak / per_clock if peak and per_clock else None

    @property
    def bandwidth(self) -> float | None:
        """Memory bandwidth in bytes per second; None if it is not known."""
        return None if self.hbm_gb_s is None else self.hbm_gb_s * 1e9


_added: dict[str, Hardware] = {}


def find(name: str | None) -> Hardware | None:
    """Find the row of a product name, as drivers and profilers write it.

    Parameters
    ----------
    name : str or None
        For instance of PyTorch's device properties, a rocprof agent or NVML.

    Returns
    -------
    Hardware or None
        None if no row, or several alike, fit the name: a peak is never guessed. Rows that
        were added come before those of the package.

    Examples
    --------
    >>> find("NVIDIA H100 80GB HBM3").gpu, find("AMD Instinct MI300X VF").gpu
    ('H100 SXM', 'MI300X')
    >>> find("NVIDIA H100") is None  # SXM, PCIe and NVL differ
    True
    """
    words = _words(name)
    if not words:
        return None
    for rows in (_added, _table()):
        found = sorted(((_length(row, words), key) for key, row in rows.items()), reverse=True)
        if found and found[0][0] and (len(found) == 1 or found[0][0] > found[1][0]):
            return rows[found[0][1]]
    return None


def named(key: str) -> Hardware:
    """Return the row of a key, as ``gpus.hardware`` holds it.

    Raises
    ------
    SchemaError
        If there is no such row.
    """
    row = _added.get(key) or _table().get(key)
    if row is None:
        raise unknown_name(what="GPU in the hardware table", name=key, known=known())
    return row


def known() -> list[str]:
    """List the keys of all rows."""
    return list({**_table(), **_added})


def add(source: str | Path | Iterable[Mapping[str, Any]]) -> list[str]:
    """Add rows for GPUs that the table lacks, or replace rows of it, in this process.

    Parameters
    ----------
    source : path or iterable of mapping
        A CSV file or rows with the columns of ``peaks.csv``: at least ``gpu``, ``vendor``,
        ``arch`` and ``units``. ``match`` holds sequences of words separated by ``;`` that a
        product name must contain; without it, the words of ``gpu``.

    Returns
    -------
    list of str
        Keys of the added rows.

    Raises
    ------
    SchemaError
        If a column does not exist or is missing.
    ValueError
        If a number is none, or not positive.

    Examples
    --------
    >>> add([{"gpu": "X1", "vendor": "amd", "arch": "gfx942", "units": 8, "bf16_tflops": 2.5}])
    ['X1']
    >>> find("Example X1 VF").peak_flops("bf16")
    2500000000000.0
    >>> _added.clear()
    """
    if isinstance(source, (str, Path)):
        with Path(source).open(newline="", encoding="utf-8") as file:
            made = [_row(row) for row in csv.DictReader(file)]
    else:
        made = [_row(row) for row in source]
    _added.update({row.gpu: row for row in made})
    return [row.gpu for row in made]


@lru_cache(maxsize=1)
def _table() -> dict[str, Hardware]:
    package = importlib.resources.files("chopper_jupyter.core")
    text = (package / "hardware_data" / "peaks.csv").read_text(encoding="utf-8")
    return {row.gpu: row for row in map(_row, csv.DictReader(io.StringIO(text)))}


_REQUIRED = ("gpu", "vendor", "arch", "units")


def _row(row: Mapping[str, Any]) -> Hardware:
    columns = {f.name for f in fields(Hardware)} - {"peak_tflops"} | {d + _TFLOPS for d in DTYPES}
    for name in row:
        if name not in columns:
            raise unknown_name(what="hardware column", name=str(name), known=sorted(columns))
    given = {name: value for name, value in row.items() if value not in (None, "")}
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        msg = f"a hardware row needs {', '.join(missing)}: {dict(row)}"
        raise SchemaError(msg)
    kind = "CU" if given["vendor"] == "amd" else "SM"
    peaks = {d: _number(given, d + _TFLOPS) for d in DTYPES if d + _TFLOPS in given}
    return Hardware(
        gpu=str(given["gpu"]),
        vendor=str(given["vendor"]),
        arch=str(given["arch"]),
        units=int(_number(given, "units")),
        unit_kind=str(given.get("unit_kind", kind)),
        dies=int(_number(given, "dies", 1)),
        peak_clock_mhz=_optional(given, "peak_clock_mhz"),
        tensor_clock_mhz=_optional(given, "tensor_clock_mhz"),
        peak_tflops=MappingProxyType(peaks),
        flops_per_clock_per_unit=_optional(given, "flops_per_clock_per_unit"),
        hbm_gb_s=_optional(given, "hbm_gb_s"),
        hbm_gib=_optional(given, "hbm_gib"),
        link_gb_s=_optional(given, "link_gb_s"),
        grade=str(given.get("grade", "user")),
        source=str(given.get("source", "")),
        match=_parts(given.get("match", given["gpu"])),
        exclude=_parts(given.get("exclude", "")),
    )


def _optional(given: Mapping[str, Any], name: str) -> float | None:
    return _number(given, name) if name in given else None


def _number(given: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = given.get(name, default)
    try:
        number = float(value) if value is not None else 0.0
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        msg = f"{name} of {given.get('gpu')!r} must be a positive number, not {value!r}"
        raise ValueError(msg)
    return number


def _parts(text: Any) -> tuple[str, ...]:
    parts = text if isinstance(text, (list, tuple)) else str(text).split(";")
    return tuple(str(part) for part in parts if _words(str(part)))


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(_WORD.findall((text or "").lower()))


def _length(row: Hardware, words: tuple[str, ...]) -> int:
    """Return how many words of a product name a row explains; 0 if it does not fit."""
    if any(_contains(words, _words(part)) for part in row.exclude):
        return 0
    parts = [_words(part) for part in (*row.match, row.gpu)]
    return max((len(part) for part in parts if _contains(words, part)), default=0)


def _contains(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    last = len(words) - len(part)
    return any(words[at : at + len(part)] == part for at in range(last + 1))
