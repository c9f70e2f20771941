"""Least bytes that an operator call must move between memory and GPU, from shapes and dtypes.

Every tensor that goes in is read once, every one that comes out is written once: what caches
save is not saved again, what a kernel reads twice is its own inefficiency. An operator that no
rule knows is unknown, never 0.
"""

from __future__ import annotations

import json
import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from chopper_jupyter.core.align import flops_attention, flops_convolution
from chopper_jupyter.core.align.flops import flops_of, has_formula

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8,
    "int": 4, "short": 2, "short int": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
    "c10::Float8_e4m3fn": 1, "c10::Float8_e4m3fnuz": 1, "c10::Float8_e5m2": 1,
    "c10::Float8_e5m2fnuz": 1, "c10::Float8_e8m0fnu": 1, "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}  # fmt: skip
"""Bytes of one element, by the names that Kineto writes."""

TENSOR_LIST = "TensorList"
_FP8 = "c10::Float8_"
_FP8_RESULT = 2
"""A product of 8-bit numbers is written as 16-bit ones."""


class Moved(NamedTuple):
    """Bytes of a call: ``known``, and ``elements`` of a size that only its kernel tells."""

    known: int
    elements: int = 0


class _Tensor(NamedTuple):
    shape: list[int]
    size: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.size


def bytes_of(name: str, shapes: str | None, dtypes: str | None, flops: int = 0) -> Moved | None:
    """Model the bytes of a call.

    Parameters
    ----------
    name : str
        Operator.
    shapes, dtypes : str or None
        As the ``ops`` table holds them.
    flops : int
        Operations of the call, which give the size of what a convolution writes.

    Returns
    -------
    Moved or None
        None if no rule knows the operator, or its inputs are not recorded.

    Examples
    --------
    >>> bytes_of("aten::add", "[[4, 8], [8], []]", '["float", "float", "Scalar"]')
    Moved(known=288, elements=0)
    >>> bytes_of("aten::addmm", "[[8],[2,4],[4,8],[],[]]", '["float","float","float","",""]')
    Moved(known=256, elements=0)
    >>> bytes_of("aten::topk", "[[4, 8]]", '["float"]') is None
    True
    """
    if shapes is None or dtypes is None or not has_model(name):
        return None
    dims, kinds = json.loads(shapes), json.loads(dtypes)
    if not isinstance(dims, list) or not isinstance(kinds, list) or len(dims) != len(kinds):
        return None
    try:
        if name in _LISTS:
            return _of_lists(_LISTS[name], dims, kinds)
        inputs = [_tensor(d, k) for d, k in zip(dims, kinds, strict=True)]
        if has_formula(name):
            own = flops_of(name, shapes, None)
            return Moved(_product(name, inputs, own.count if own else flops))
        model = _MODELS.get(name) or _touched
        return Moved(model(inputs))
    except (IndexError, TypeError, ValueError, AttributeError):
        return None  # inputs of another form than the operator has


def has_model(name: str) -> bool:
    """Say whether a rule knows an operator."""
    return name in _MODELS or name in _LISTS or has_formula(name) or bool(_FUSED.match(name))


_FUSED = re.compile(r"triton_(?:poi|red|per)_")
"""Kernels that a compiler fused: each buffer in their arguments is touched once."""


def _tensor(shape: Any, kind: str) -> _Tensor | None:
    """Return an input; None for what is no tensor."""
    if kind not in SIZES:
        if kind.startswith("c10::") or kind == TENSOR_LIST:
            raise ValueError(kind)
        return None
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(kind)
    return _Tensor(shape, SIZES[kind])


_Inputs = list["_Tensor | None"]


def _tensors(inputs: _Inputs) -> list[_Tensor]:
    found = [one for one in inputs if one is not None]
    if not found:
        msg = "no tensor goes in"
        raise ValueError(msg)
    return found


def _broadcast(tensors: list[_Tensor]) -> int:
    """Return the number of elements of what tensors become when they are combined."""
    length = max(len(t.shape) for t in tensors)
    full = [[1] * (length - len(t.shape)) + t.shape for t in tensors]
    return prod(max(sizes) if 0 not in sizes else 0 for sizes in zip(*full, strict=True))


def _touched(inputs: _Inputs) -> int:
    return sum(t.bytes for t in _tensors(inputs))


def _elementwise(inputs: _Inputs) -> int:
    """Read all, write one result of the widest input's dtype."""
    tensors = _tensors(inputs)
    wide = max(t.size for t in tensors if t.shape) if any(t.shape for t in tensors) else 4
    return _touched(inputs) + _broadcast(tensors) * wide


def _compared(inputs: _Inputs) -> int:
    return _touched(inputs) + _broadcast(_tensors(inputs))


def _in_place(inputs: _Inputs) -> int:
    """Read all, write the first one."""
    return _touched(inputs) + _tensors(inputs)[0].bytes


def _copied(inputs: _Inputs) -> int:
    return sum(t.bytes for t in _tensors(inputs)[:2])


def _filled(inputs: _Inputs) -> int:
    return _tensors(inputs)[0].bytes


def _twice(inputs: _Inputs) -> int:
    """Read and write the first one."""
    return 2 * _tensors(inputs)[0].bytes


def _normalised(inputs: _Inputs) -> int:
    """Read all, write a result like the first one."""
    return _in_place(inputs)


def _norm_backward(inputs: _Inputs) -> int:
    """Read all; write the gradient of the input, and of the weight where there is one."""
    tensors = _tensors(inputs)
    vectors = [t for t in tensors[2:] if len(t.shape) == 1]
    return _touched(inputs) + tensors[0].bytes + 2 * max((t.bytes for t in vectors), default=0)


def _gathered(inputs: _Inputs) -> int:
    """Read indices and the rows they name, write these rows: ``embedding(weight, indices)``."""
    weight, indices = _tensors(inputs)[:2]
    return indices.bytes + 2 * prod(indices.shape) * weight.shape[-1] * weight.size


def _loss(inputs: _Inputs) -> int:
    """Read one entry of each row and its target; or write the entry, in the backward pass."""
    scores, target = [t for t in _tensors(inputs) if t.shape][:2]
    return target.bytes + prod(target.shape) * scores.size


_MODELS: dict[str, Callable[[_Inputs], int]] = {}


def _know(model: Callable[[_Inputs], int], names: str) -> None:
    _MODELS.update({f"aten::{name}": model for name in names.split()})


_know(_elementwise, """
    add sub mul div rsub pow sqrt rsqrt exp log log2 neg abs sin cos tanh sigmoid relu gelu silu
    erf reciprocal floor ceil round maximum minimum where clamp clamp_min clamp_max hardtanh
    leaky_relu elu softplus mish hardswish addcmul addcdiv lerp clone remainder floor_divide
    silu_backward gelu_backward threshold_backward tanh_backward sigmoid_backward
    hardswish_backward leaky_relu_backward elu_backward softplus_backward mish_backward
    _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data masked_fill
    bitwise_and bitwise_or bitwise_not bitwise_xor square sign trunc
""")  # fmt: skip
_know(_compared, "eq ne lt le gt ge logical_and logical_or logical_not isnan isinf isfinite")
_know(_in_place, """
    add_ sub_ mul_ div_ pow_ sqrt_ rsqrt_ exp_ log_ neg_ abs_ tanh_ sigmoid_ relu_ gelu_ silu_
    clamp_ clamp_min_ clamp_max_ addcmul_ addcdiv_ lerp_ masked_fill_ hardtanh_ leaky_relu_
""")  # fmt: skip
_know(_copied, "copy_")
_know(_filled, "fill_ zero_")
_know(_twice, "tril triu flip roll cumsum split_with_sizes_copy")
_know(_touched, "sum mean amax amin max min argmax argmin norm linalg_vector_norm std var all any")
_know(_normalised, """
    native_layer_norm native_batch_norm native_group_norm rms_norm _fused_rms_norm cudnn_batch_norm
    miopen_batch_norm
""")  # fmt: skip
_know(_norm_backward, """
    native_layer_norm_backward native_batch_norm_backward native_group_norm_backward
    _fused_rms_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward
""")  # fmt: skip
_know(_gathered, "embedding")
_know(_loss, "nll_loss_forward nll_loss_backward")

_FOREACH = ("add", "sub", "mul", "div", "pow", "sqrt", "neg", "reciprocal")
_FOREACH_IN_PLACE = (*_FOREACH, "clamp_min", "clamp_max", "abs", "exp")
_LISTS = {
    **{f"aten::_foreach_{n}_": (1, 1) for n in
       _FOREACH_IN_PLACE},
    **{f"aten::_foreach_{n}": (1, 1) for n in _FOREACH},
    **{f"aten::_foreach_{n}_": (1, 1) for n in ("lerp", "addcmul", "addcdiv")},
    "aten::_foreach_copy_": (0, 1),
    "aten::_foreach_zero_": (-1, 1),
    "aten::_foreach_norm": (1, 0),
    "aten::_foreach_max": (1, 0),
    "aten::cat": (1, 1),
    "aten::_fused_adamw_": (1, 3),
    "aten::_fused_adam_": (1, 3),
    "aten::_fused_sgd_": (1, 2),
}  # fmt: skip
"""Operators over lists: how often their first list is read, and how often its size is written.

All further lists are read once. ``copy_`` does not read its first, ``zero_`` reads none.
"""


def _of_lists(rule: tuple[int, int], dims: list[Any], kinds: list[str]) -> Moved | None:
    """Count the elements of lists of tensors; their dtype is not recorded."""
    reads, writes = rule
    lists = [d for d, k in zip(dims, kinds, strict=True) if k == TENSOR_LIST and d]
    if not lists or kinds[0] != TENSOR_LIST or not dims[0]:
        return None
    counts = [sum(prod(shape) for shape in one) for one in lists]
    if reads < 0:
        return Moved(0, counts[0])
    return Moved(0, reads * counts[0] + sum(counts[1:]) + writes * counts[0])


def _product(name: str, inputs: _Inputs, flops: int) -> int:
    """Read both sides (and what is added), write the result."""
    if flops_attention.has_formula(name):
        return _attention(name, inputs)
    if flops_convolution.has_formula(name):
        return _convolution(name, inputs, flops)
    tensors = [t for t in _tensors(inputs) if t.shape]
    added = "add" in name  # addmm, baddbmm, ...: the first one is added
    left, right = tensors[int(added) : int(added) + 2]
    if "grouped" in name and len(left.shape) == len(right.shape) == 2:  # noqa: PLR2004
        msg = "the number of groups, and so of results, is not recorded"
        raise ValueError(msg)
    result = flops // (2 * left.shape[-1]) if left.shape[-1] else 0
    out = result * (_FP8_RESULT if left.size == 1 else left.size)
    return left.bytes + right.bytes + out + (tensors[0].bytes if added else 0)


def _attention(name: str, inputs: _Inputs) -> int:
    """Move query, key, value and output; backward also their gradients."""
    backward = "backward" in name
    query, key, value = _tensors(inputs)[backward : backward + 3]
    out = prod(query.shape[:-1]) * value.shape[-1] * query.size
    forward = query.bytes + key.bytes + value.bytes + out
    return 2 * forward if backward else forward


def _convolution(name: str, inputs: _Inputs, flops: int) -> int:
    """Move input, weight and output; backward reads all three and writes two gradients."""
    tensors = _tensors(inputs)
    if name.endswith("_backward"):
        grad, given, weight = tensors[:3]
        return grad.bytes + 2 * given.bytes + 2 * weight.bytes
    given, weight = tensors[:2]
    out = flops // max(2 * prod(weight.shape[1:]), 1) * given.size
    return given.bytes + weight.bytes + out
