"""What the panels on the right need to say: findings, and what was not recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.findings import findings
from chopper_jupyter.core.analysis.timeline_tracks import TRACKS
from chopper_jupyter.widgets.wording import clip, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chopper_jupyter.core.trace import Trace

MOST_FINDINGS = 5
_LONGEST = 400


def findings_of(rows: Iterable[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Shorten the rows of findings for the browser.

    Parameters
    ----------
    rows : iterable of mapping
        ``title``, ``detail``, ``value`` (formatted), ``evidence`` and ``selection`` (pairs of level
        and value).
    """
    return [
        {
            "title": _text(row["title"]),
            "detail": _text(row.get("detail", "")),
            "value": _text(row.get("value", "")),
            "evidence": _text(row.get("evidence", "")),
            "selection": [list(pair) for pair in row.get("selection", ())],
        }
        for row in list(rows)[:MOST_FINDINGS]
    ]


def missing_from(trace: Trace) -> list[dict[str, str]]:
    """Say what was not recorded, what it would tell, and the command that records it."""
    if trace.info.device_kind == "cpu" or not trace.kernels.num_rows:
        return []
    found = []
    if not trace.counters.num_rows:
        found.append({
            "name": "counters",
            "title": "No hardware counters in this run",
            "text": "They split compute time into theoretical time and its losses. "
            "Everything else works without them. Record them with",
            "command": "chopper-jupyter counters RUN",
        })  # fmt: skip
    sampled = set(trace.telemetry["metric"].unique().to_pylist())
    if not sampled & set(TRACKS):
        found.append({
            "name": "telemetry",
            "title": "No clock and power samples in this run",
            "text": "They are tracks under the timeline. Recordings hold them, unless made with "
            "--no-telemetry:",
            "command": "%%chopper_profile",
        })  # fmt: skip
    return found


def found_in(trace: Trace) -> list[dict[str, Any]]:
    """List the findings of a trace."""
    return findings_of(findings(trace).to_dict("records"))


def _text(text: Any) -> str:
    return clip(printable(str(text)), _LONGEST)
