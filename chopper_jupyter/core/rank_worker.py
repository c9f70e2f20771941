"""A process that loads ranks for another one: a line of JSON in, a line of JSON out.

Its parent starts it with ``COMMAND``; it needs no importable ``__main__``, unlike a pool of
``multiprocessing``, and so works from notebooks and from scripts without a guard. It ends when
its input does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from chopper_jupyter.core.load_rank import hand_over, load_rank

COMMAND = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from chopper_jupyter.core import rank_worker; rank_worker.main()"
)
"""Python code of the process; its argument is the parent's ``sys.path`` as JSON."""

READY = {"ready": True}


class _WithoutPandas(MetaPathFinder):
    """Hides pandas from Arrow, which imports it to make an array: longer than a small rank."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


def main() -> None:
    """Load what each line of the standard input asks for, until there is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts the parent ends this process too
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing that is printed by chance may look like an answer
    pa.set_cpu_count(1)  # there are as many processes as processors
    sys.meta_path.insert(0, _WithoutPandas())
    _say(answers, READY)
    for line in sys.stdin:
        _say(answers, answer(json.loads(line)))


def _say(answers: TextIO, words: dict[str, Any]) -> None:
    answers.write(json.dumps(words) + "\n")
    answers.flush()


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """Load the rank of the files ``paths`` and hand it over in the folder ``into``.

    Returns
    -------
    dict
        ``{"done": True}``, or ``error`` (name of the type) and ``message``, or ``no_room``
        where the rank is fine and its tables could not be written.
    """
    try:
        paths = [Path(path) for path in task["paths"]]
        loaded = load_rank(paths, more_text=task.get("more_text", 0))
    except Exception as error:  # noqa: BLE001  whatever is wrong with one rank, others go on
        return {"error": type(error).__name__, "message": str(error)}
    try:
        hand_over(loaded, Path(task["into"]))
    except (OSError, pa.ArrowException) as error:
        return {"no_room": str(error)}
    return {"done": True}
