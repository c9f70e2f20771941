"""A figure with what it was made of; it shows itself in notebooks, also without a network."""

from __future__ import annotations

import html
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import bokeh
import pandas as pd
from bokeh.embed import json_item

from chopper_jupyter.charts.offline import loader
from chopper_jupyter.core.analysis.quantities import number

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM

ROWS = 16
"""Rows of the table for readers without scripts."""

_EMBED = """
<script>(async function () {
  var bokeh = await (window.__chopperBokeh || {})[%(version)s];
  var root = document.getElementById("%(uid)s");
  if (!bokeh || !root || root.childElementCount) return;
  await bokeh.embed.embed_item(%(item)s);
  var table = document.getElementById("%(uid)s-table");
  if (table) table.open = false;
})();</script>"""


@dataclass(frozen=True)
class Chart:
    """One figure.

    Parameters
    ----------
    figure : bokeh.models.LayoutDOM
        The bokeh figure or layout.
    data : pandas.DataFrame
        What is drawn.
    title, caption : str
        What it shows, and what was computed from what.
    """

    figure: LayoutDOM
    data: pd.DataFrame
    title: str
    caption: str

    def _repr_html_(self) -> str:
        return self.to_html()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Chart {self.title!r}: {len(self.data)} rows>"

    def to_html(self, *, with_bokeh: bool | None = None) -> str:
        """Return the figure as HTML that needs no network.

        Parameters
        ----------
        with_bokeh : bool, optional
            Whether BokehJS comes along (about 470 kB). By default in the first figure of a
            notebook.
        """
        uid = "cj" + uuid.uuid4().hex[:10]
        item = (
            json.dumps(json_item(self.figure, uid)).replace("</", "<\\/").replace("<!--", "<\\!--")
        )
        script = _EMBED % {"version": json.dumps(bokeh.__version__), "uid": uid, "item": item}
        before = loader() if with_bokeh is None else loader(once=False) if with_bokeh else ""
        label = html.escape(f"{self.title}. {self.caption}", quote=True)
        return (
            f'<figure style="margin: 8px 0" role="group" aria-label="{label}">{before}'
            f'<div id="{uid}"></div>'
            f'<figcaption style="{_CAPTION}">{html.escape(self.caption)}</figcaption>'
            f'<details id="{uid}-table" open><summary style="{_CAPTION}">Data of '
            f"“{html.escape(self.title)}”</summary>{table_html(self.data)}</details>"
            f"{script}</figure>"
        )


_CAPTION = "font: 12px/16px system-ui, sans-serif; opacity: .8; margin: 4px 0"
_CELL = "padding: 1px 10px 1px 0; text-align: {}; white-space: nowrap"


def table_html(data: pd.DataFrame, rows: int = ROWS) -> str:
    """Return the first rows of a table as plain HTML; texts are escaped, numbers rounded."""
    numeric: dict[Any, bool] = {
        name: pd.api.types.is_numeric_dtype(data[name]) for name in data.columns
    }
    side: dict[Any, str] = {
        name: _CELL.format("right" if numeric[name] else "left") for name in data.columns
    }
    head = "".join(
        f'<th scope="col" style="{side[n]}">{html.escape(str(n))}</th>' for n in data.columns
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{side[n]}">{_cell(v)}</td>' for n, v in zip(data, row, strict=True))
        + "</tr>"
        for row in data.head(rows).itertuples(index=False)
    )
    more = f"<p>{len(data) - rows:,} more rows</p>" if len(data) > rows else ""
    head = f"<thead><tr>{head}</tr></thead>"
    table = f'<table style="font-size: 12px">{head}<tbody>{body}</tbody></table>'
    return f'<div style="overflow-x: auto">{table}</div>{more}'


def _cell(value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):  # noqa: PLR0124
        return ""
    if isinstance(value, float):
        return number(value)
    return html.escape(str(value))
