"""The explorer as HTML that works without Python: a table that a script makes interactive."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

from chopper_jupyter.widgets import front_end
from chopper_jupyter.widgets.fallback import fallback_html
from chopper_jupyter.widgets.packing import pack
from chopper_jupyter.widgets.wording import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_BUILT = (
    "<p>The interactive explorer is not part of this installation: its front end was not built. "
    "Run <code>make js</code> in the source folder (needs Node.js 20 or newer).</p>"
)

_COLOURS = {
    "light": "body { background: #ffffff; color: #1b1f24; }",
    "dark": "body { background: #16191e; color: #e7eaee; }",
}
_COLOURS[""] = f"{_COLOURS['light']}\n@media (prefers-color-scheme: dark) {{ {_COLOURS['dark']} }}"
"""Colours of a page of its own by theme; without one it follows the reader's system."""

PAGE_BYTES = 290_000
"""Size of a page inside a notebook file, whatever the size of the trace; 300 kB is promised."""

_TABLE_BYTES = 15_000
_MOST_DATA_BYTES = 200_000

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 16px; font: 13px/1.4 system-ui, sans-serif; }}
{colours}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def static_html(payload: Mapping[str, Any], top_ops: Sequence[Mapping[str, Any]]) -> str:
    """Return the explorer as an HTML fragment for a notebook output.

    Parameters
    ----------
    payload : mapping
        The explorer payload with its ``uid``.
    top_ops : sequence of mapping
        Rows of the plain table; see ``fallback_html``.

    Returns
    -------
    str
        The plain table, then one script that holds the front end and the data. Nothing is
        loaded from anywhere.
    """
    uid = payload["uid"]
    table = fallback_html(payload, top_ops)
    if not front_end.is_built(front_end.STATIC_FILE):
        return f"<div>{table}{NOT_BUILT}</div>"
    call = f"ChopperStatic.upgrade({json.dumps(uid)},{json.dumps(pack(payload))})"
    script = front_end.bootstrap(front_end.STATIC_FILE, call)
    return (
        f'<div data-chopper-static="{html.escape(uid)}">{table}</div>'
        f"<script>(function(){{{script}}})();</script>"
    )


def data_budget() -> int:
    """Return how many bytes of packed data fit into a page beside the script and the table."""
    if not front_end.is_built(front_end.STATIC_FILE):
        return _MOST_DATA_BYTES
    script = json.dumps(front_end.bootstrap(front_end.STATIC_FILE, ""))
    left = PAGE_BYTES - _TABLE_BYTES - len(script)
    return min(left, _MOST_DATA_BYTES)


def page(title: str, body: str, theme: str = "") -> str:
    """Return a whole HTML document around a fragment.

    Examples
    --------
    >>> "<title>a &lt;b&gt;</title>" in page("a <b>", "")
    True
    """
    name = html.escape(printable(title))
    return _PAGE.format(title=name, colours=_COLOURS[theme], body=body)
