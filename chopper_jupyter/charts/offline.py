"""BokehJS inside the notebook: compressed, once, and found by every figure on the page."""

from __future__ import annotations

import base64
import functools
import gzip
import json
from pathlib import Path
from typing import Any

import bokeh
from IPython import get_ipython

_SCRIPT = """
<script>(function () {
  var version = %s, known = window.__chopperBokeh = window.__chopperBokeh || {};
  if (known[version]) return;
  known[version] = (async function () {
    if (window.Bokeh && window.Bokeh[version]) return window.Bokeh[version];
    var packed = Uint8Array.from(atob("%s"), function (c) { return c.charCodeAt(0); });
    var stream = new Response(packed).body.pipeThrough(new DecompressionStream("gzip"));
    var code = await new Response(stream).text(), define = window.define;
    try { window.define = undefined; (0, eval)(code); } finally { window.define = define; }
    return (window.Bokeh && window.Bokeh[version]) || window.Bokeh;
  })();
})();</script>"""


class _Where:
    """The cell whose output holds BokehJS, in this Jupyter kernel."""

    cell: str | None = None
    shown = False


def loader(*, once: bool = True) -> str:
    """Return the script that brings BokehJS, or nothing if an output before it does.

    Parameters
    ----------
    once : bool
        False always returns it. A cell that is run again gets it again, because its output
        takes the place of the one that had it.
    """
    cell = _current_cell()
    if once and _Where.shown and (cell is None or cell != _Where.cell):
        return ""
    if once:
        _Where.shown, _Where.cell = True, cell
    return _SCRIPT % (json.dumps(bokeh.__version__), _packed())


def _current_cell() -> str | None:
    """Return the identity of the running cell, if the front end tells it."""
    shell = get_ipython()
    header: dict[str, Any] = getattr(getattr(shell, "kernel", None), "_parent_header", None) or {}
    metadata = header.get("metadata") or {}
    return metadata.get("cellId")


@functools.cache
def _packed() -> str:
    path = Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js"
    return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode("ascii")
