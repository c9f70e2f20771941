"""What each kernel had to do, from the shapes of its operator: operations, format and bytes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.align import flops_convolution
from chopper_jupyter.core.align.distinct import distinct
from chopper_jupyter.core.align.flops import has_formula
from chopper_jupyter.core.align.host import codes
from chopper_jupyter.core.analysis.byte_model import SIZES, Moved, bytes_of, has_model
from chopper_jupyter.core.analysis.counted import rows_of
from chopper_jupyter.core.hardware import DTYPES
from chopper_jupyter.core.names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from chopper_jupyter.core.analysis.grouping import Floats, Ints
    from chopper_jupyter.core.hardware import Hardware
    from chopper_jupyter.core.trace import Trace

NONE = -1

FORMATS = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64"}
FP8 = "c10::Float8_e"
_TF32 = re.compile(r"tf32|xf32|_XS|s1688|s16816gemm_s", re.IGNORECASE)
_ELEMENT = re.compile(r"c10::BFloat16|c10::Half|__nv_bfloat16|\bdouble\b|\bfloat\b")
_ELEMENT_BYTES = {"c10::BFloat16": 2, "c10::Half": 2, "__nv_bfloat16": 2, "double": 8, "float": 4}


@dataclass(frozen=True)
class Modelled:
    """What kernels had to do, one value per kernel.

    Parameters
    ----------
    flops : float64 array
        Operations by shape; NaN where no formula knows the call.
    call : int64 array
        Number of the call whose operations are counted once; equal for all its kernels.
    form : int64 array
        Number format, as a position in ``formats``; -1 where unknown.
    formats : tuple of str
        Names of formats, by the hardware table and beyond.
    bytes : float64 array
        Least bytes between memory and GPU; NaN where no rule knows the operator.
    """

    flops: Floats
    call: Ints
    form: Ints
    formats: tuple[str, ...]
    bytes: Floats

    def peaks(self, gpu: Ints, hardware: dict[int, Hardware | None]) -> Floats:
        """Return the peak in FLOP/s of the format of each kernel on its GPU; NaN if unknown.

        32-bit products run on the matrix units where these have a peak for them.
        """
        found = np.full(len(gpu), np.nan)
        for number, known in hardware.items():
            mine = (gpu == number) & (self.form >= 0)
            found[mine] = np.array([peak_of(known, f) for f in self.formats] or [np.nan])[
                self.form[mine]
            ]
        return found


def peak_of(known: Hardware | None, form: str) -> float:
    """Return the peak in FLOP/s of a number format as ``Modelled.peaks`` has it; NaN if unknown."""
    if known is None:
        return float("nan")
    peak = known.peak_flops("fp32_matrix") if form == "fp32" else None
    peak = peak or known.peak_flops(form)
    return float("nan") if peak is None else peak


def modelled(trace: Trace, kernels: pa.Table) -> Modelled:
    """Model what each kernel had to do.

    Parameters
    ----------
    trace : Trace
        Holds the operators.
    kernels : pyarrow.Table
        Kernels of the trace: ``kernel_id``, ``op_id``, ``name``, ``kind``, ``dur_ns``, ``flops``.

    Notes
    -----
    Operations and bytes of a call go to one of its compute kernels; the others have 0, so that
    sums over calls are right. Of nested operators the innermost that a rule knows counts bytes.
    """
    ops = trace.ops
    names, words = codes(ops["name"])
    parent = _rows(ops, ops["parent_id"])
    mine = _rows(ops, kernels["op_id"])
    known = _of_words(words, has_model)[names] if len(names) else np.zeros(0, bool)
    product = _of_words(words, has_formula)[names] if len(names) else np.zeros(0, bool)
    counted = np.asarray(pc.is_valid(ops["flops"]).to_numpy(), bool)
    flops = _floats(kernels["flops"])
    owner = _nearest(parent, counted, mine)
    nearest = _nearest(parent, known, mine)
    compute = _is_compute(kernels)
    flops[compute & np.isnan(flops) & (owner >= 0)] = 0
    form, formats = _formats(ops, _nearest(parent, product, mine), kernels, np.isfinite(flops))
    call = np.where(owner >= 0, owner, ops.num_rows + np.arange(kernels.num_rows))
    found = _bytes(ops, kernels, np.where(compute, nearest, NONE), owner, (names, words))
    return Modelled(flops, call, form, formats, found)


def _rows(ops: pa.Table, ids: pa.ChunkedArray) -> Ints:
    wanted = np.asarray(pc.fill_null(ids, NONE).to_numpy(), np.int64)
    return rows_of(ops["op_id"].to_numpy(), wanted)


def _nearest(parent: Ints, mark: npt.NDArray[np.bool_], start: Ints) -> Ints:
    """Return the nearest marked operator at or above each; -1 if there is none."""
    at = start.copy()
    going = (at >= 0) & ~mark[at] if len(mark) else np.zeros(len(at), bool)
    while going.any():
        at[going] = parent[at[going]]
        going = (at >= 0) & ~mark[at]
    return at


def _of_words(words: list[str], test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    return np.array([test(word) for word in words], bool)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.array(pc.cast(column, pa.float64()).to_numpy(), np.float64)


def _is_compute(kernels: pa.Table) -> npt.NDArray[np.bool_]:
    index, words = codes(kernels["kind"])
    return np.array([*(word == "compute" for word in words), False])[index]


def _formats(
    ops: pa.Table, product: Ints, kernels: pa.Table, wanted: npt.NDArray[np.bool_]
) -> tuple[Ints, tuple[str, ...]]:
    """Return the format of each wanted kernel, from its operator's inputs, else from its name."""
    dtypes, texts = codes(ops["input_dtypes"])
    kernel, names = codes(kernels["name"])
    rows = np.flatnonzero(wanted)
    at = product[rows]
    of_op = np.where(at >= 0, dtypes[at], NONE) if len(dtypes) else np.full(len(rows), NONE)
    pairs, index = distinct(of_op, kernel[rows])
    numbers: dict[str, int] = {}
    found = []
    for text, name in pairs:
        form = _format(texts[text] if text >= 0 else None, names[name])
        found.append(NONE if form is None else numbers.setdefault(form, len(numbers)))
    result = np.full(kernels.num_rows, NONE)
    if len(rows):
        result[rows] = np.array(found, np.int64)[index]
    return result, tuple(numbers)


def _format(dtypes: str | None, kernel: str) -> str | None:
    """Name the format of a product by its first input of a floating dtype."""
    if dtypes is not None:
        kinds = [k for k in json.loads(dtypes) if isinstance(k, str)]
        first = next((k for k in kinds if k in FORMATS or k.startswith(FP8)), None)
        if first is not None:
            form = FORMATS.get(first, "fp8")
            return "tf32" if form == "fp32" and _TF32.search(kernel) else form
    return next((word for word in short_name(kernel).split() if word in DTYPES), None)


def _bytes(
    ops: pa.Table, kernels: pa.Table, call: Ints, owner: Ints, named: tuple[Ints, list[str]]
) -> Floats:
    """Return the modelled bytes of each call on its longest kernel, and 0 on the others."""
    result = np.full(kernels.num_rows, np.nan)
    all_ = np.flatnonzero(call >= 0)
    if not len(all_):
        return result
    all_ = all_[np.lexsort((-kernels["dur_ns"].to_numpy()[all_], call[all_]))]
    first = np.concatenate([[True], call[all_][1:] != call[all_][:-1]])
    rows = all_[first]
    at = call[rows]
    names, words = named
    shapes, shape_texts = codes(ops["input_shapes"])
    dtypes, dtype_texts = codes(ops["input_dtypes"])
    flops = np.asarray(pc.fill_null(ops["flops"], 0).to_numpy(), np.int64)
    convolves = _of_words(words, flops_convolution.has_formula)[names[at]]
    whole = np.where(convolves & (owner[rows] >= 0), flops[owner[rows]], 0)
    amounts, amount = np.unique(whole, return_inverse=True)
    forms, index = distinct(names[at], shapes[at], dtypes[at], amount.reshape(-1))
    moved = [
        bytes_of(words[n], _text(shape_texts, s), _text(dtype_texts, d), int(amounts[a]))
        for n, s, d, a in forms
    ]
    fixed, elements = _columns(moved)
    result[rows] = fixed[index]
    open_ = elements[index] > 0
    result[rows[open_]] += elements[index][open_] * _element_bytes(kernels)[rows[open_]]
    known = np.isfinite(result[rows])[np.cumsum(first) - 1]
    result[all_[~first & known]] = 0
    return result


def _columns(moved: list[Moved | None]) -> tuple[Floats, Floats]:
    fixed = np.array([np.nan if m is None else m.known for m in moved], np.float64)
    return fixed, np.array([0 if m is None else m.elements for m in moved], np.float64)


def _text(texts: list[str], code: int) -> str | None:
    return None if code < 0 else texts[code]


def _element_bytes(kernels: pa.Table) -> Floats:
    """Return the bytes of an element that a kernel's name tells; NaN if it tells none."""
    index, words = codes(kernels["name"])
    found = []
    for word in words:
        kind = _ELEMENT.search(word)
        found.append(_ELEMENT_BYTES[kind[0]] if kind else SIZES.get(word, np.nan))
    return np.array([*found, np.nan], np.float64)[index]
