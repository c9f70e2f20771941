"""Writes the script that is replayed: earlier cells, fixed seeds, the cell, and where to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chopper_jupyter.collect.replay.cells import Cell, Plain, last_successful, plain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

SCRIPT = "replay.py"
FOLDER = "replay"

_HEAD = '''\
"""Runs a training cell again, for hardware counters.

Made from the notebook: {what}.
{left_out}Edit it freely; it is run as it is.
"""

import random

import numpy
import torch

from chopper_jupyter.collect.replay import limit

random.seed(0)
numpy.random.seed(0)
torch.manual_seed(0)
'''


@dataclass(frozen=True)
class ReplayScript:
    """A script and what went into it.

    Parameters
    ----------
    path : Path
        Where it lies.
    cells : tuple of int
        Execution counts of the earlier cells in it.
    left_out : tuple of str
        Magics and shell commands that are not.
    """

    path: Path
    cells: tuple[int, ...]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        what = f"earlier cells {_numbers(self.cells)}" if self.cells else "no earlier cell"
        text = f"{self.path}: {what}, and the profiled cell"
        return text + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")


def write_script(
    folder: Path,
    earlier: Sequence[Cell],
    profiled: Cell,
    *,
    warmup: int = 1,
    iterations: int = 1,
    only: Collection[int] | None = None,
) -> ReplayScript:
    """Write ``replay/replay.py`` into a run folder.

    Parameters
    ----------
    folder : Path
        The run folder.
    earlier : sequence of Cell
        What ran before; the last successful version of each cell is taken.
    profiled : Cell
        The cell to replay.
    warmup, iterations : int
        Iterations to run before those that are counted, and how many are.
    only : collection of int, optional
        Execution counts of the earlier cells to take; all by default.

    Raises
    ------
    CollectError
        If a cell cannot be part of a script.
    """
    chosen = [
        cell
        for cell in last_successful(earlier)
        if cell.number < profiled.number and (only is None or cell.number in only)
    ]
    parts = [plain(cell) for cell in chosen]
    last = plain(profiled)
    parts = [part for part in parts if part.code.strip() or part.left_out]
    left_out = tuple(text for part in [*parts, last] for text in part.left_out)
    kept = [part for part in parts if part.code.strip()]
    path = folder / FOLDER / SCRIPT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(kept, last, left_out, warmup, iterations), encoding="utf-8")
    return ReplayScript(path, tuple(part.number for part in kept), left_out)


def _text(
    earlier: Sequence[Plain], last: Plain, left_out: Sequence[str], warmup: int, iterations: int
) -> str:
    what = f"cells {_numbers([p.number for p in earlier])} and the profiled cell"
    what = what if earlier else "the profiled cell alone"
    gone = "".join(f"Left out: {_quoted(text)}\n" for text in left_out)
    parts = [_HEAD.format(what=what, left_out=gone)]
    parts += [f"# cell {part.number}\n{part.code}\n" for part in earlier]
    parts.append(f"# the profiled cell\nlimit.begin(warmup={warmup}, iterations={iterations})")
    parts.append(f"{last.code}\n")
    return "\n".join(parts)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
