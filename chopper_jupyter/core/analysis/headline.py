"""Where the time went, in about six lines of text or HTML."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core.analysis.breakdown import PARTS, breakdown
from chopper_jupyter.core.analysis.included import Included, included
from chopper_jupyter.core.analysis.iteration_time import IterationTime, iteration_time
from chopper_jupyter.core.analysis.memory_peaks import memory_text
from chopper_jupyter.core.analysis.quantities import counted, duration, number, percent, time_range
from chopper_jupyter.core.analysis.recording_cost import cost_text
from chopper_jupyter.core.analysis.summary import summarize
from chopper_jupyter.core.analysis.surroundings import clocks_text, cores_text
from chopper_jupyter.core.names import short_name

if TYPE_CHECKING:
    from chopper_jupyter.core.trace import Trace

_TOP = 4
_LONGEST_NAME = 48


@dataclass(frozen=True)
class Headline:
    """A few labelled facts about one trace.

    Parameters
    ----------
    title : str
        Name of the run and what it ran on.
    facts : tuple of (str, str)
        Label and sentence of each line.
    """

    title: str
    facts: tuple[tuple[str, str], ...]

    @property
    def lines(self) -> list[str]:
        """The same as lines of plain text."""
        width = max((len(label) for label, _ in self.facts), default=0)
        return [self.title, *(f"  {label:<{width}}  {text}" for label, text in self.facts)]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Show as a table without scripts, classes or colours: it survives any sanitizer."""
        rows = "".join(
            f'<tr><td style="{_LABEL}">{html.escape(label)}</td>'
            f'<td style="{_TEXT}">{html.escape(text)}</td></tr>'
            for label, text in self.facts
        )
        title = f'<div style="font-weight: 600">{html.escape(self.title)}</div>'
        return f'<div>{title}<table style="margin: 4px 0 0 0">{rows}</table></div>'


_LABEL = "text-align: left; vertical-align: top; white-space: nowrap; padding: 1px 16px 1px 0"
_TEXT = "text-align: left; vertical-align: top; padding: 1px 0"


def headline(trace: Trace) -> Headline:
    """Say in about six lines where the time went.

    Iteration time is the median over the iterations after warm-up of the slowest GPU's wall
    time; shares of ops are of kernel time, all others of wall time.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> print(headline(Trace.from_tables({})))
    trace: 0 GPUs
      Data  No kernels recorded
    """
    which = included(trace)
    facts = [*_time_facts(trace, which), *_recording_facts(trace)]
    return Headline(_title(trace, which), tuple((label, text) for label, text in facts if text))


def _title(trace: Trace, which: Included) -> str:
    ranks = f" of {len(which.gpus)} ranks" if len(which.gpus) > 1 else ""
    what = f"CPU operators{ranks}, no GPU recorded"
    if trace.info.device_kind != "cpu":
        mine = trace.gpus.filter(pc.is_in(trace.gpus["gpu"], pa.array(which.gpus, pa.int32())))
        names = [name for name in pc.unique(mine["name"]).to_pylist() if name]
        what = counted(len(which.gpus), "GPU") + (f", {', '.join(names)}" if names else "")
    return f"{trace.info.name}: {what}" + (" [simulated]" if trace.info.simulated else "")


def _time_facts(trace: Trace, which: Included) -> list[tuple[str, str]]:
    found = iteration_time(trace)
    if found is None:
        return []
    label = "Iteration" if found.iterations else "Wall time"
    what = "CPU operator" if trace.info.device_kind == "cpu" else "kernel"
    return [
        (label, _iteration_text(found, len(which.gpus), trace.info.device_kind)),
        ("Time", _breakdown_text(trace)),
        ("Top ops", f"{_top_ops(trace)} of {what} time"),
        ("Memory", memory_text(trace, which)),
        ("Processors", cores_text(trace)),
        ("Clocks", clocks_text(trace)),
        ("Covers", _covers(which, what)),
    ]


def _recording_facts(trace: Trace) -> list[tuple[str, str]]:
    data = trace.quality.phrase().removeprefix("Data ")
    missing = trace.info.missing_ranks
    if missing:
        ranks = ", ".join(map(str, missing))
        data += f"; no recording of rank{'s' if len(missing) > 1 else ''} {ranks}"
    return [
        ("Recording", cost_text(trace.info.run.get("profiler_cost"))),
        ("Data", data),
    ]


def _iteration_text(found: IterationTime, gpus: int, device_kind: str) -> str:
    device = "rank" if device_kind == "cpu" else "GPU"
    text = duration(found.median_ns) + (f" on the slowest {device}" if gpus > 1 else "")
    count = len(found.iterations)
    if count > 1:
        spread = time_range(int(found.wall_ns.min()), int(found.wall_ns.max()))
        text += f", median of {count} iterations ({spread})"
    elif count:
        text += ", one iteration"
    if found.tokens_per_second:
        text += f"; {number(found.tokens_per_second)} tokens/s"
        text += f" ({found.tokens_from})" if found.tokens_from.startswith("inferred") else ""
    return text


def _breakdown_text(trace: Trace) -> str:
    """Say the parts of the wall time; what a CPU recording cannot hold is left out."""
    row = breakdown(trace).iloc[0]
    wall = int(row["wall_ns"])
    shares = {part: int(row[f"{part}_ns"]) / wall for part in PARTS} if wall else {}
    if not shares:
        return ""
    busy = f"busy {percent(1 - shares['idle'])}"
    if trace.info.device_kind != "cpu":
        words = {"exposed_communication": "exposed communication", "memory": "copies"}
        shown = {"compute": "compute"} | {part: w for part, w in words.items() if shares[part]}
        parts = ", ".join(f"{word} {percent(shares[part])}" for part, word in shown.items())
        busy += f" ({parts})"
    return f"{busy}, idle {percent(shares['idle'])}"


def _top_ops(trace: Trace) -> str:
    level = "op" if trace.kernels["op"].null_count < trace.kernels.num_rows else "kernel"
    table = summarize(trace, level, ["share"]).head(_TOP)
    short = short_name if level == "kernel" else _clipped
    names = ["other" if pd.isna(name) else short(str(name)) for name in table[level]]
    shares = [float(share) / 100 for share in table["share_percent"]]
    return ", ".join(f"{n} {percent(s)}" for n, s in zip(names, shares, strict=True))


def _clipped(name: str) -> str:
    """Shorten a name that a program made very long, in the middle: its end tells, too."""
    if len(name) <= _LONGEST_NAME:
        return name
    half = _LONGEST_NAME // 2
    return f"{name[:half]}…{name[half + 1 - _LONGEST_NAME :]}"


def _covers(which: Included, what: str) -> str:
    text = which.phrase()
    if which.outside:
        text += f"; {counted(which.outside, what)} outside any iteration left out"
    return text
