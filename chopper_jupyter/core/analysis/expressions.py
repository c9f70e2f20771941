"""Arithmetic over counters as text: parsed by rules of its own, never run as a program.

``+ - * /``, parentheses, numbers, names of counters (letters, digits, ``_`` and ``.``), and
``total("glob")``: the sum of all counters of that name that were counted.
"""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chopper_jupyter.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.analysis.grouping import Floats

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w.]*)|(?P<glob>\"[^\"]*\")"
    r"|(?P<sign>[-+*/()]))"
)
_LONGEST = 2000


class Node(NamedTuple):
    """A number, a name, a glob, or an operator over two nodes."""

    kind: str
    text: str
    parts: tuple[Node, ...] = ()


@lru_cache(maxsize=1 << 10)
def parse(text: str) -> Node:
    """Read an expression.

    Raises
    ------
    SchemaError
        If it is none; the message shows where.

    Examples
    --------
    >>> parse("2 * (a.sum - b)").text
    '*'
    """
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None or len(text) > _LONGEST:
            raise _wrong(text, text[at:])
        tokens.append((str(found.lastgroup), found[0].strip()))
        at = found.end()
    node, rest = _sum(text, tokens)
    if rest:
        raise _wrong(text, rest[0][1])
    return node


def evaluate(node: Node, values: Mapping[str, Floats], rows: int) -> Floats:
    """Work an expression out for all rows at once.

    Parameters
    ----------
    node : Node
        What ``parse`` returned.
    values : mapping of str to array
        Counters; NaN where one was not counted.
    rows : int
        Length of the arrays.

    Returns
    -------
    float64 array
        NaN where something it needs was not counted.

    Examples
    --------
    >>> values = {"a_x": np.array([1.0, np.nan]), "a_y": np.array([2.0, 5.0])}
    >>> evaluate(parse('2 * total("a_*")'), values, 2).tolist()
    [6.0, 10.0]
    >>> evaluate(parse("a_x / a_y"), values, 2).tolist()
    [0.5, nan]
    """
    if node.kind == "number":
        return np.full(rows, float(node.text))
    if node.kind == "name":
        return values.get(node.text, np.full(rows, np.nan))
    if node.kind == "total":
        return _total([v for n, v in values.items() if fnmatch.fnmatchcase(n, node.text)], rows)
    left, right = (evaluate(part, values, rows) for part in node.parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        if node.text == "+":
            return left + right
        if node.text == "-":
            return left - right
        return left * right if node.text == "*" else left / right


def _total(found: list[Floats], rows: int) -> Floats:
    if not found:
        return np.full(rows, np.nan)
    counted = np.any([np.isfinite(v) for v in found], axis=0)
    return np.where(counted, np.sum([np.nan_to_num(v) for v in found], axis=0), np.nan)


_Tokens = list[tuple[str, str]]


def _sum(text: str, tokens: _Tokens) -> tuple[Node, _Tokens]:
    node, rest = _product(text, tokens)
    while rest and rest[0][1] in ("+", "-"):
        other, after = _product(text, rest[1:])
        node, rest = Node("operator", rest[0][1], (node, other)), after
    return node, rest


def _product(text: str, tokens: _Tokens) -> tuple[Node, _Tokens]:
    node, rest = _atom(text, tokens)
    while rest and rest[0][1] in ("*", "/"):
        other, after = _atom(text, rest[1:])
        node, rest = Node("operator", rest[0][1], (node, other)), after
    return node, rest


def _atom(text: str, tokens: _Tokens) -> tuple[Node, _Tokens]:
    if not tokens:
        raise _wrong(text, "its end")
    (kind, word), rest = tokens[0], tokens[1:]
    if word == "(":
        node, rest = _sum(text, rest)
        return node, _closed(text, rest)
    if word == "total" and [t for _, t in rest[:1]] == ["("]:
        if len(rest) < 2 or rest[1][0] != "glob":  # noqa: PLR2004  the bracket and the glob
            raise _wrong(text, "total(")
        return Node("total", rest[1][1].strip('"')), _closed(text, rest[2:])
    if kind not in ("number", "name"):
        raise _wrong(text, word)
    return Node(kind, word), rest


def _closed(text: str, tokens: _Tokens) -> _Tokens:
    if not tokens or tokens[0][1] != ")":
        raise _wrong(text, tokens[0][1] if tokens else "its end")
    return tokens[1:]


def _wrong(text: str, at: str) -> SchemaError:
    return SchemaError(f"not an expression over counters, at {at[:20]!r}: {text[:200]}")
