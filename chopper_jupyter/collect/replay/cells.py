"""Cells of a notebook as plain Python: magics and shell commands left out, and what they were."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import TransformerManager

from chopper_jupyter.core.errors import CollectError

if TYPE_CHECKING:
    from collections.abc import Iterable

KEEP_BODY = ("chopper_profile", "time", "timeit", "capture", "prun", "memit")
"""Cell magics that run the Python below them."""


@dataclass(frozen=True)
class Cell:
    """One executed cell.

    Parameters
    ----------
    number : int
        Its execution count.
    source : str
        As written.
    identity : str or None
        Of the cell in the notebook, which stays when it is edited and run again.
    succeeded : bool or None
        None if not known.
    """

    number: int
    source: str
    identity: str | None = None
    succeeded: bool | None = None


@dataclass(frozen=True)
class Plain:
    """A cell as plain Python, and what was left out of it."""

    number: int
    code: str
    left_out: tuple[str, ...] = ()


def last_successful(cells: Iterable[Cell]) -> list[Cell]:
    """Return the last successful version of each cell, in the order in which these ran.

    Examples
    --------
    >>> cells = [Cell(1, "a = 1", "x", True), Cell(2, "b", "y", False), Cell(3, "a = 2", "x", True)]
    >>> [cell.source for cell in last_successful(cells)]
    ['a = 2']
    """
    kept: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.number):
        if cell.succeeded is not False:
            kept[cell.identity or cell.source] = cell
    return sorted(kept.values(), key=lambda cell: cell.number)


def plain(cell: Cell) -> Plain:
    r"""Turn a cell into plain Python.

    Raises
    ------
    CollectError
        If it awaits something outside a function, which a script cannot.

    Examples
    --------
    >>> plain(Cell(1, "%matplotlib inline\nx = 1")).left_out
    ('%matplotlib inline',)
    >>> plain(Cell(2, "%%bash\nrm -r x")).code
    ''
    """
    lines = cell.source.lstrip("\n").splitlines()
    left_out: list[str] = []
    while lines and lines[0].startswith("%%"):
        if lines[0][2:].split(maxsplit=1)[:1] not in [[name] for name in KEEP_BODY]:
            return Plain(cell.number, "", (*left_out, f"cell {cell.number} ({lines[0]})"))
        left_out.append(lines.pop(0))
    code, gone = _without_magics("\n".join(lines), cell.number)
    return Plain(cell.number, code, (*left_out, *gone))


def _without_magics(source: str, number: int) -> tuple[str, list[str]]:
    code = TransformerManager().transform_cell(source)
    try:
        tree = compile(code, f"cell {number}", "exec", ast.PyCF_ONLY_AST)
    except SyntaxError as error:
        msg = f"cell {number} cannot be a script: {error}"
        raise CollectError(msg) from error
    if _awaits(tree):
        msg = f"cell {number} awaits at its top level, which a script cannot; give --script FILE"
        raise CollectError(msg)
    lines, written = code.splitlines(), source.splitlines()
    gone = []
    for node in _magic_statements(tree):
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        shown = written[first].strip() if first < len(written) else lines[first].strip()
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        lines[first:last] = [f"{indent}pass  # left out: {shown}", *[""] * (last - first - 1)]
        gone.append(shown)
    return "\n".join(lines), gone


def _magic_statements(tree: ast.AST) -> list[ast.stmt]:
    """Return the innermost statements that call IPython."""
    found = []
    for node in ast.walk(tree):
        inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node]
        if isinstance(node, ast.stmt) and not inner and _calls_ipython(node):
            found.append(node)
    return sorted(found, key=lambda node: node.lineno)


def _calls_ipython(node: ast.AST) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "get_ipython"
        for n in ast.walk(node)
    )


def _awaits(node: ast.AST) -> bool:
    """Say whether anything is awaited outside functions."""
    if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
        return True
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return any(
        _awaits(child) for child in ast.iter_child_nodes(node) if not isinstance(child, functions)
    )
