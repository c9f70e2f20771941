"""The plain table that stands where no script may run: untrusted notebooks, mail, GitHub.

Only inline styles are used, and every statement is readable without them, because
sanitizers drop style sheets, scripts and data attributes.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.quantities import duration, number, percent
from chopper_jupyter.widgets.wording import clip, printable, typeset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LONGEST_NAME = 90
QUALITY_LINES = 12

_NUMBER = "text-align:right;padding:2px 8px;white-space:nowrap"
_NAME = "text-align:left;padding:2px 8px"
_PART_COLOURS = {
    "compute": "#4E6CBE",
    "exposed_communication": "#D68AB8",
    "memory": "#878B8F",
    "idle": "#C9CDD3",
}
_OP_COLOUR = _PART_COLOURS["compute"]


def fallback_html(payload: Mapping[str, Any], top_ops: Sequence[Mapping[str, Any]]) -> str:
    """Lay out the facts, the breakdown, the longest ops and the data quality as HTML.

    Parameters
    ----------
    payload : mapping
        The explorer payload; its title, facts, breakdown, totals and quality are used.
    top_ops : sequence of mapping
        Rows with ``label``, ``time_ns`` and ``count`` over all instances, longest first.

    Returns
    -------
    str
        A ``<details open>`` element. Names of the trace are escaped.
    """
    instances = max(payload["instances"]["gpus"] * payload["instances"]["iterations"], 1)
    facts = ", ".join(
        f"{_text(fact['label'])} {_text(fact['value'])}".strip() for fact in payload["facts"]
    )
    note = f"{payload['included']}; times are per iteration and {_device(payload)}"
    return (
        f'<details open class="cj-static-table"><summary><b>{_text(payload["title"])}</b> '
        f"{facts}</summary>"
        f"<p>{_text(note[:1].upper() + note[1:])}.</p>"
        f"{_breakdown(payload['breakdown'], instances)}"
        f"{_ops(top_ops, payload['totals']['time_ns'], instances, payload)}"
        f"{_quality(payload['quality'])}"
        "<p>This is the plain form. Where scripts may run, it becomes interactive: "
        "trust the notebook (command Trust Notebook) and open it again.</p></details>"
    )


def _device(payload: Mapping[str, Any]) -> str:
    return "CPU" if payload["device_kind"] == "cpu" else "GPU"


def _breakdown(parts: Sequence[Mapping[str, Any]], instances: int) -> str:
    total = sum(part["ns"] for part in parts) or 1
    rows = (
        (
            _text(part["title"]),
            _number(duration, part["ns"] / instances),
            _number(percent, part["ns"] / total),
            _bar(part["ns"] / total, _PART_COLOURS.get(part["name"], _OP_COLOUR)),
        )
        for part in parts
    )
    return _table(("Wall time", "Time", "Share", ""), rows)


def _ops(
    top_ops: Sequence[Mapping[str, Any]],
    total_ns: int,
    instances: int,
    payload: Mapping[str, Any],
) -> str:
    rows = (
        (
            _text(op["label"]),
            _number(duration, op["time_ns"] / instances),
            _number(percent, op["time_ns"] / (total_ns or 1)),
            _number(_count, op["count"] / instances),
            _bar(op["time_ns"] / (total_ns or 1), _OP_COLOUR),
        )
        for op in top_ops
    )
    kernels = "CPU operators" if payload["device_kind"] == "cpu" else "Kernels"
    return _table(("Op", "Time", "Share", kernels, ""), rows)


def _quality(quality: Mapping[str, Any]) -> str:
    lines = quality["lines"][:QUALITY_LINES]
    left = len(quality["lines"]) - len(lines)
    shown = [*map(_text, lines), *([f"and {left} more lines"] if left else [])]
    return f"<p>{_text(quality['phrase'])}</p><p>{'<br>'.join(shown)}</p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Join cells that are HTML already; the first column is a name, the others numbers."""
    head = "".join(f'<th style="{_style(i)}">{name}</th>' for i, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f'<td style="{_style(i)}">{cell}</td>' for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )  # fmt: skip
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _style(column: int) -> str:
    return _NUMBER if column else _NAME


def _bar(share: float, colour: str) -> str:
    width = max(1, round(160 * share)) if share else 0
    return f'<div style="width:{width}px;height:10px;background-color:{colour}"></div>'


def _count(count: float) -> str:
    return f"{count:,.0f}" if float(count).is_integer() else number(count)


def _number(write: Callable[[float], str], value: float) -> str:
    return typeset(write(value))


def _text(text: object) -> str:
    return html.escape(clip(printable(str(text)), LONGEST_NAME))
