"""A replay asked for in a notebook: the script is made of its cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chopper_jupyter.collect.replay.request import collect_counters
from chopper_jupyter.collect.replay.script import write_script
from chopper_jupyter.core.errors import CollectError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from chopper_jupyter.collect.replay.cells import Cell

OPTIONS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (
        ("--counters",),
        {
            "metavar": "NAMES",
            "help": "Run the cell again for hardware counters: matrix, memory, or names of "
            "counters, separated by commas. Shows the script; runs it with one of the next three.",
        },
    ),
    (
        ("--setup-cells",),
        {"metavar": "NUMBERS", "help": "Run it with these earlier cells, for instance 1,3-5."},
    ),
    (("--script",), {"metavar": "FILE", "help": "Run this script instead."}),
    (("--yes",), {"action": "store_true", "help": "Run it with all earlier cells."}),
]
"""Arguments of magics that replay."""


def replay(
    arguments: Namespace,
    folder: Path,
    earlier: Sequence[Cell],
    profiled: Cell,
    say: Callable[[str], None],
) -> bool:
    """Write the script, say what is in it, and run it if the user agreed.

    Parameters
    ----------
    arguments : Namespace
        With the values of ``OPTIONS``.
    folder : Path
        The run folder.
    earlier : sequence of Cell
        Cells that ran before.
    profiled : Cell
        The profiled cell.
    say : callable
        Is told what happens.

    Returns
    -------
    bool
        Whether there are counters now.

    Raises
    ------
    CollectError
        If it cannot be done, or a pass failed.
    """
    names = [name for name in arguments.counters.split(",") if name.strip()]
    if arguments.script is not None:
        script = Path(arguments.script)
    else:
        only = cell_numbers(arguments.setup_cells) if arguments.setup_cells else None
        made = write_script(folder, earlier, profiled, only=only)
        script = made.path
        say(str(made))
    agreed = bool(arguments.yes or arguments.script or arguments.setup_cells)
    return bool(collect_counters(folder, script, names, agreed=agreed, say=say))


def cell_numbers(text: str) -> set[int]:
    """Read a list of numbers and ranges.

    Raises
    ------
    CollectError
        If it is none.

    Examples
    --------
    >>> sorted(cell_numbers("1, 3-5"))
    [1, 3, 4, 5]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            msg = f"--setup-cells {text}: give numbers of cells, for instance 1,3-5"
            raise CollectError(msg)
        found |= set(range(int(first), int(last or first) + 1))
    return found
