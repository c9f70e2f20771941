"""Useful floating point operations of one operator call, from its input shapes and arguments.

Useful is what the mathematics asks for: 2 m n k of a matrix product; of causal attention only
the half below the diagonal. What a kernel does beyond that (padding, masked tiles) is overhead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.align import flops_attention, flops_convolution

if TYPE_CHECKING:
    from collections.abc import Callable

Shape = list[int]


@dataclass(frozen=True)
class Flops:
    """Operations of a call.

    Parameters
    ----------
    count : int
        Floating point operations; a multiply-add is two.
    certain : bool
        False if the recording does not tell whether an attention is causal; it is then
        counted as if it were not.
    """

    count: int
    certain: bool = True


def flops_of(name: str, shapes: str | None, concrete: str | None) -> Flops | None:
    """Count the operations of a call.

    Parameters
    ----------
    name : str
        Operator.
    shapes, concrete : str or None
        JSON lists of the shapes and of the written arguments, as ``events.RANGES`` has them.

    Returns
    -------
    Flops or None
        None if the operator has no formula, or the recording lacks what its formula needs.

    Examples
    --------
    >>> flops_of("aten::addmm", "[[512],[141,512],[512,512],[],[]]", None)
    Flops(count=73924608, certain=True)
    >>> flops_of("aten::relu", "[[141,512]]", None) is None
    True
    """
    if not has_formula(name) or shapes is None:
        return None
    dims = json.loads(shapes)
    written = json.loads(concrete) if concrete is not None else []
    if not isinstance(dims, list) or not isinstance(written, list) or not _are_sizes(dims):
        return None
    count: Any = None
    certain = True
    try:
        if name in _PRODUCTS:
            count = _PRODUCTS[name](dims)
        elif flops_convolution.has_formula(name):
            count = flops_convolution.flops(name, dims, written)
        elif (found := flops_attention.flops(name, dims, written)) is not None:
            count, certain = found
    except (IndexError, KeyError, TypeError, ValueError):
        return None  # shapes of another form than the operator has: not known, never guessed
    # lists in the place of sizes multiply to a list
    return Flops(count, certain) if type(count) is int else None


def _are_sizes(value: Any) -> bool:
    if isinstance(value, list):
        return all(_are_sizes(inner) for inner in value)
    return type(value) is int and value >= 0


def has_formula(name: str) -> bool:
    """Say whether the operations of an operator can be counted from its shapes."""
    return (
        name in _PRODUCTS
        or flops_convolution.has_formula(name)
        or flops_attention.has_formula(name)
    )


def _mm(a: Shape, b: Shape) -> int:
    (m, k), (inner, n) = a, b
    return 2 * m * _same(k, inner) * n


def _bmm(a: Shape, b: Shape) -> int:
    (batch, m, k), (batches, inner, n) = a, b
    return 2 * _same(batch, batches) * m * _same(k, inner) * n


def _linear(a: Shape, weight: Shape) -> int:
    n, k = weight
    return 2 * prod(a[:-1]) * _same(a[-1], k) * n


def _matmul(a: Shape, b: Shape) -> int:
    """Multiply as ``torch.matmul`` does: vectors gain a dimension, batches are broadcast."""
    left = a if len(a) > 1 else [1, *a]
    right = b if len(b) > 1 else [*b, 1]
    batch = _broadcast(left[:-2], right[:-2])
    return 2 * prod(batch) * left[-2] * _same(left[-1], right[-2]) * right[-1]


def _grouped(a: Shape, b: Shape) -> int:
    """Multiply groups of rows with a matrix each; every row, or column, is in one group."""
    inner = _same(a[-1], b[-2])
    if len(a) == len(b) == 3:  # noqa: PLR2004
        return _bmm(a, b)
    return 2 * a[-2] * inner * b[-1]


def _broadcast(a: Shape, b: Shape) -> Shape:
    length = max(len(a), len(b))
    pairs = zip([1] * (length - len(a)) + a, [1] * (length - len(b)) + b, strict=True)
    return [x if y == 1 else _same(y, x if x != 1 else y) for x, y in pairs]


def _same(a: int, b: int) -> int:
    if a != b:
        msg = "sizes differ"
        raise ValueError(msg)
    return a


def _of(product: Callable[[Shape, Shape], int], at: int = 0) -> Callable[[list[Any]], int]:
    """Apply a product to the two inputs that start at a position."""
    return lambda dims: product(dims[at], dims[at + 1])


_PRODUCTS: dict[str, Callable[[list[Any]], int]] = {
    "aten::mm": _of(_mm),
    "aten::_int_mm": _of(_mm),
    "aten::_scaled_mm": _of(_mm),
    "aten::_scaled_mm_v2": _of(_mm),
    "aten::addmm": _of(_mm, 1),
    "aten::addmm_": _of(_mm, 1),
    "aten::_addmm_activation": _of(_mm, 1),
    "aten::bmm": _of(_bmm),
    "aten::baddbmm": _of(_bmm, 1),
    "aten::baddbmm_": _of(_bmm, 1),
    "aten::addbmm": _of(_bmm, 1),
    "aten::mv": _of(_matmul),
    "aten::addmv": _of(_matmul, 1),
    "aten::addmv_": _of(_matmul, 1),
    "aten::dot": _of(_matmul),
    "aten::matmul": _of(_matmul),
    "aten::linear": _of(_linear),
    "mkldnn::_linear_pointwise": _of(_linear),
    "aten::_grouped_mm": _of(_grouped),
    "aten::_scaled_grouped_mm": _of(_grouped),
}
