"""Operations of attention: 2 (d_qk + d_v) for each pair of a query and a key that it may see.

A causal mask leaves half of the pairs: s^2 / 2 where queries and keys are as many. Backward is
five products where forward is two: 2.5 times as much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Shape = list[int]

TOP_LEFT, BOTTOM_RIGHT = "top left", "bottom right"
"""Where the diagonal of a causal mask starts if there are more keys than queries, or fewer."""


class _Form(NamedTuple):
    """Where an operator has its arguments.

    ``query`` is the position of the query, key and value follow; ``heads`` the dimension of the
    heads; ``causal`` the position of the flag, or None if the call does not show it;
    ``lengths`` the position of the offsets of sequences that lie one after the other, the
    greatest lengths are two and three behind it; ``window`` the position of the left window.
    """

    query: int
    heads: int
    causal: int | None
    diagonal: str = TOP_LEFT
    lengths: int | None = None
    window: int | None = None


_SDPA = "aten::_scaled_dot_product_"
_FORMS = {
    "aten::scaled_dot_product_attention": _Form(0, 1, 5),
    _SDPA + "attention_math": _Form(0, 1, 5),
    _SDPA + "flash_attention": _Form(0, 1, 4),
    _SDPA + "flash_attention_for_cpu": _Form(0, 1, 4),
    _SDPA + "efficient_attention": _Form(0, 1, 6),
    _SDPA + "cudnn_attention": _Form(0, 1, 6),
    _SDPA + "fused_attention_overrideable": _Form(0, 1, 5),
    _SDPA + "flash_attention_backward": _Form(1, 1, 11),
    _SDPA + "flash_attention_for_cpu_backward": _Form(1, 1, 7),
    _SDPA + "efficient_attention_backward": _Form(1, 1, 11),
    _SDPA + "cudnn_attention_backward": _Form(1, 1, 14),
    _SDPA + "fused_attention_overrideable_backward": _Form(1, 1, 13),
    "aten::_cudnn_attention_forward": _Form(0, 1, 10, lengths=4),
    "aten::_cudnn_attention_backward": _Form(1, 1, 14, lengths=9),
    "aten::_flash_attention_forward": _Form(0, 2, 8, BOTTOM_RIGHT, lengths=3),
    "aten::_flash_attention_backward": _Form(1, 2, 11, BOTTOM_RIGHT, lengths=6),
    "aten::_efficient_attention_forward": _Form(0, 2, 9, lengths=4),
    "aten::_efficient_attention_backward": _Form(1, 2, 14, lengths=6),
    "flash_attn::_flash_attn_forward": _Form(0, 2, 5, BOTTOM_RIGHT, window=6),
    "flash_attn::_flash_attn_backward": _Form(1, 2, 11, BOTTOM_RIGHT, window=12),
    "flash_attn::_flash_attn_varlen_forward": _Form(0, 2, 9, BOTTOM_RIGHT, lengths=3, window=10),
    "flash_attn::_flash_attn_varlen_backward": _Form(1, 2, 15, BOTTOM_RIGHT, lengths=9, window=16),
    "FlashAttnFunc": _Form(0, 2, None, BOTTOM_RIGHT),
}
"""By the operators' published signatures; ``FlashAttnFunc`` shows tensors only."""

_CAUSAL = {
    "False": (True, None),
    "0": (True, None),
    "True": (True, ""),
    "1": (True, TOP_LEFT),
    "2": (True, BOTTOM_RIGHT),
}
"""Written flag, or number of the mask, to (known, diagonal); "" is the operator's own."""


def has_formula(name: str) -> bool:
    """Say whether an operator is a known attention."""
    return name in _FORMS


def flops(name: str, dims: list[Any], written: list[Any]) -> tuple[int, bool] | None:
    """Count the operations of an attention call, and say whether the count is certain.

    Grouped queries need nothing special: every head of the query counts. None where sequences
    of unknown length lie one after the other, and where a window hides keys.

    Examples
    --------
    >>> shapes = [[2, 8, 32, 64], [2, 2, 32, 64], [2, 2, 32, 64]]
    >>> flops("aten::_scaled_dot_product_flash_attention", shapes, ["", "", "", "0.", "True"])
    (2097152, True)
    >>> flops("aten::_scaled_dot_product_flash_attention", shapes, [])
    (4194304, False)
    """
    form = _FORMS[name]
    query, key, value = dims[form.query : form.query + 3]
    if _has_window(form, written):
        return None
    found = _sizes(form, query, key, dims, written)
    if found is None:
        return None
    batch, queries, keys = found
    heads, size, value_size = query[form.heads if len(query) == 4 else -2], query[-1], value[-1]  # noqa: PLR2004
    known, diagonal = _causality(form, written)
    doubled = _pairs_doubled(queries, keys, diagonal)
    backward = "backward" in name
    products = 3 * size + 2 * value_size if backward else size + value_size
    return batch * heads * doubled * products, known


def _causality(form: _Form, written: list[Any]) -> tuple[bool, str | None]:
    text = _at(written, form.causal)
    known, diagonal = _CAUSAL.get(text or "", (False, None))
    return known, form.diagonal if diagonal == "" else diagonal


def _has_window(form: _Form, written: list[Any]) -> bool:
    left = _at(written, form.window)
    return left is not None and left not in ("", "-1")


def _sizes(
    form: _Form, query: Shape, key: Shape, dims: list[Any], written: list[Any]
) -> tuple[int, int, int] | None:
    """Return batch, queries and keys of one sequence."""
    sequence = 3 - form.heads
    if len(query) == 4 and not (form.lengths is not None and _filled(dims, form.lengths)):  # noqa: PLR2004
        return query[0], query[sequence], key[sequence]
    if form.lengths is None or not _filled(dims, form.lengths):
        return None
    sequences = dims[form.lengths][0] - 1
    longest = [int(_at(written, form.lengths + step) or 0) for step in (2, 3)]
    total = [shape[-3] if len(shape) == 3 else shape[0] * shape[sequence] for shape in (query, key)]  # noqa: PLR2004
    if [sequences * length for length in longest] != total:
        return None  # they differ in length, which only their values tell
    return sequences, longest[0], longest[1]


def _filled(dims: list[Any], at: int) -> bool:
    return at < len(dims) and bool(dims[at])


def _at(written: list[Any], at: int | None) -> str | None:
    return str(written[at]) if at is not None and at < len(written) else None


def _pairs_doubled(queries: int, keys: int, diagonal: str | None) -> int:
    """Return twice the pairs of a query and a key it sees, the diagonal counted half."""
    if diagonal is None:
        return 2 * queries * keys
    if diagonal == TOP_LEFT:
        return queries**2 if queries <= keys else keys**2 + 2 * (queries - keys) * keys
    return 2 * queries * keys - queries**2 if queries <= keys else keys**2
