"""What is known about one kernel, in words for its panel under the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.quantities import duration, number, size
from chopper_jupyter.core.names import short_name
from chopper_jupyter.widgets.wording import clip, printable, typeset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chopper_jupyter.core.analysis.kernel_details import KernelDetails

_LONGEST = 300
_MOST_COUNTERS = 24


def details_json(details: KernelDetails) -> dict[str, Any]:
    """Describe a kernel: rows of label and value, times for the picture, its neighbours.

    Returns
    -------
    dict
        ``title``, ``name``, ``rows``, ``start`` and ``end`` in ns, ``launch`` (start of the
        launch call, or None), ``forward`` (start of the forward call, or None), ``before`` and
        ``after`` (id and label, or None), ``counters``.
    """
    kernel = details.kernel
    return {
        "id": kernel["kernel_id"],
        "title": short_name(kernel["name"]),
        "name": _text(kernel["name"]),
        "gpu": kernel["gpu"],
        "start": kernel["start_ns"],
        "end": kernel["start_ns"] + kernel["dur_ns"],
        "launch": kernel["launch_ns"],
        "forward": details.forward["start_ns"] if details.forward else None,
        "rows": [[label, value] for label, value in _rows(details) if value],
        "before": _neighbour(details.before),
        "after": _neighbour(details.after),
        "counters": [
            [_text(name), typeset(number(value))]
            for name, value in sorted(details.counters.items())[:_MOST_COUNTERS]
        ],
    }


def _rows(details: KernelDetails) -> list[tuple[str, str]]:
    kernel, operator = details.kernel, details.operator
    return [
        ("Time", _time(kernel["dur_ns"])),
        ("Idle before", _time(kernel["idle_ns"]) if kernel["idle_ns"] else ""),
        ("Op", _text(kernel["op"])),
        ("Layer", _text(kernel["layer"])),
        ("Phase", _text(kernel["phase"])),
        ("Operator", _text(operator["name"]) if operator else ""),
        ("Shapes", _text(operator["input_shapes"]) if operator else ""),
        ("Gradient of", _forward(details)),
        ("Launch", _launch(kernel)),
        ("Grid", _grid(kernel)),
        ("Stream", str(kernel["stream"])),
        ("Overlap", _time(kernel["overlap_ns"]) if kernel["overlap_ns"] else ""),
        ("Message", _bytes(kernel["message_bytes"])),
        ("Copied", _bytes(kernel["bytes"])),
        ("Process group", _text(kernel["process_group"])),
    ]


def _forward(details: KernelDetails) -> str:
    forward = details.forward
    if forward is None:
        return ""
    layer = f" in {forward['layer']}" if forward["layer"] else ""
    return _text(f"{forward['name']}{layer}")


def _launch(kernel: Mapping[str, Any]) -> str:
    """Say how long after the start of its launch call the kernel started."""
    if kernel["launch_ns"] is None:
        return "not recorded"
    wait = kernel["start_ns"] - kernel["launch_ns"]
    when = f"{_time(wait)} before it started" if wait >= 0 else f"{_time(-wait)} after it started"
    call = f", call of {_time(kernel['launch_dur_ns'])}" if kernel["launch_dur_ns"] else ""
    return f"{kernel['launch_kind'] or 'call'}, {when}{call}"


def _grid(kernel: Mapping[str, Any]) -> str:
    if not kernel["grid"]:
        return ""
    block = f" blocks of {kernel['block']} threads" if kernel["block"] else ""
    return f"{kernel['grid']}{block}"


def _neighbour(kernel: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if kernel is None:
        return None
    return {
        "id": kernel["kernel_id"],
        "label": _text(kernel["op"] or short_name(kernel["name"])),
        "start": kernel["start_ns"],
        "end": kernel["start_ns"] + kernel["dur_ns"],
    }


def _time(ns: int) -> str:
    return typeset(duration(ns))


def _bytes(count: int | None) -> str:
    return "" if count is None else typeset(size(count))


def _text(text: str | None) -> str:
    return clip(printable(text or ""), _LONGEST)
