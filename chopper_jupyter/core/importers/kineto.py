"""PyTorch profiler (Kineto) traces, of NVIDIA and AMD GPUs and of the CPU, 2021 to now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.core.importers.json_events import GZIP_MAGIC, read_document
from chopper_jupyter.core.importers.json_stream import NotPlain
from chopper_jupyter.core.importers.kineto_events import events_of

if TYPE_CHECKING:
    from chopper_jupyter.core.events import RankEvents

WORTH_COMPILING = 24 << 20
"""Text size from which loading the compiled scanner takes less time than it saves."""

TYPICAL_RATIO = 14
"""How much larger a trace is than its gzip file."""


def read_rank(path: str | Path, *, more_text: int = 0) -> RankEvents:
    """Read one rank's trace file, ``.json`` or gzip, into event columns.

    Large files go through a compiled scanner where numba is installed (the extra ``fast``);
    it gives exactly what the plain reader gives, or leaves the file to it.

    Parameters
    ----------
    path : str or pathlib.Path
        A file that ``torch.profiler`` exported, or a bare list of such events.
    more_text : int, optional
        Bytes of text of the other files that this process reads: many small ones are worth
        the compiled scanner too.

    Returns
    -------
    RankEvents
        Times are absolute nanoseconds: ``baseTimeNanoseconds`` plus the event's own time.

    Raises
    ------
    TraceFormatError
        If the file holds no trace events.
    """
    path = Path(path)
    if _text_size(path) + more_text >= WORTH_COMPILING and importlib.util.find_spec("numba"):
        from chopper_jupyter.core.importers import kineto_fast  # noqa: PLC0415  loads numba

        try:
            return kineto_fast.read_rank(path)
        except NotPlain:
            pass
    return read_rank_plain(path)


def read_rank_plain(path: Path) -> RankEvents:
    """Read a file event by event: slower, and right for every file."""
    return events_of(read_document(path), path.name)


def _text_size(path: Path) -> int:
    """Estimate the size of a file's text."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return path.stat().st_size * (TYPICAL_RATIO if packed else 1)
