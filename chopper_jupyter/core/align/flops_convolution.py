"""Operations of convolutions: one multiply-add per weight and output position.

A transposed one has one per weight and input position.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any, NamedTuple

Shape = list[int]


class _Form(NamedTuple):
    """Positions of stride, padding and dilation, and whether or where it is transposed."""

    stride: int
    padding: int
    dilation: int | None
    transposed: bool | int = False


_FORMS = {
    **{f"aten::conv{n}d": _Form(3, 4, 5) for n in (1, 2, 3)},
    **{f"aten::conv_transpose{n}d": _Form(3, 4, 7, transposed=True) for n in (1, 2, 3)},
    "aten::convolution": _Form(3, 4, 5, 6),
    "aten::_convolution": _Form(3, 4, 5, 6),
    "aten::convolution_overrideable": _Form(3, 4, 5, 6),
    "aten::cudnn_convolution": _Form(3, 2, 4),
    "aten::cudnn_convolution_relu": _Form(3, 4, 5),
    "aten::cudnn_convolution_transpose": _Form(4, 2, 5, transposed=True),
    "aten::miopen_convolution": _Form(4, 3, 5),
    "aten::miopen_depthwise_convolution": _Form(4, 3, 5),
    "aten::miopen_convolution_transpose": _Form(5, 3, 6, transposed=True),
    "aten::mkldnn_convolution": _Form(4, 3, 5),
    "aten::_conv_depthwise2d": _Form(4, 5, 6),
    "aten::_slow_conv2d_forward": _Form(4, 5, None),
}
_BACKWARD = "aten::convolution_backward"
_BACKWARD_TRANSPOSED, _BACKWARD_MASK = 7, 10


def has_formula(name: str) -> bool:
    """Say whether an operator is a known convolution."""
    return name in _FORMS or name == _BACKWARD


def flops(name: str, dims: list[Any], written: list[Any]) -> int | None:
    """Count the operations of a convolution; None if its written arguments are not there.

    Examples
    --------
    >>> arguments = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"]
    >>> flops("aten::conv2d", [[8, 3, 32, 32], [64, 3, 7, 7], [64]], arguments)
    38535168
    """
    if name == _BACKWARD:
        return _backward(dims, written)
    form = _FORMS[name]
    given, weight = dims[0], dims[1]
    if _is_transposed(form.transposed, written):
        return int(2 * prod(weight) * prod(_positions(given, weight)))
    spatial = len(weight) - 2
    stride = _numbers(written[form.stride], spatial)
    dilation = [1] * spatial if form.dilation is None else _numbers(written[form.dilation], spatial)
    sizes = given[-spatial:]
    if written[form.padding] == "same":
        out = sizes
    else:
        text = "[0]" if written[form.padding] == "valid" else written[form.padding]
        padding = _numbers(text, spatial)
        out = [
            (size + 2 * pad - dilate * (kernel - 1) - 1) // step + 1
            for size, pad, dilate, kernel, step in zip(
                sizes, padding, dilation, weight[2:], stride, strict=True
            )
        ]
    if min(out) < 0:
        return None
    batch = given[0] if len(given) == len(weight) else 1
    return int(2 * prod(weight) * batch * prod(out))


def _backward(dims: list[Any], written: list[Any]) -> int | None:
    """Count one convolution each for the gradients of the input and of the weight."""
    grad, given, weight = dims[:3]
    transposed = _is_transposed(_BACKWARD_TRANSPOSED, written)
    mask = written[_BACKWARD_MASK].strip("[]").split(",")
    wanted = sum(flag.strip() == "True" for flag in mask[:2])
    return int(wanted * 2 * prod(weight) * prod(_positions(given if transposed else grad, weight)))


def _is_transposed(known: bool | int, written: list[Any]) -> bool:  # noqa: FBT001  a position or the answer
    return known if isinstance(known, bool) else {"True": True, "False": False}[written[known]]


def _positions(shape: Shape, weight: Shape) -> Shape:
    """Return batch and spatial sizes of an input or output; an unbatched one is a batch of 1."""
    spatial = len(weight) - 2
    return [shape[0] if len(shape) == len(weight) else 1, *shape[-spatial:]]


def _numbers(text: Any, count: int) -> list[int]:
    """Read a written list of numbers; a single one stands for all."""
    found = json.loads(text)
    values = found if isinstance(found, list) else [found]
    return [int(v) for v in (values * count if len(values) == 1 else values)]
