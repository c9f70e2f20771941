"""Whether anybody can talk to a widget: live in a notebook front end, static elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal

from chopper_jupyter.core.errors import unknown_name

MODE_VARIABLE = "CHOPPER_JUPYTER_MODE"
MODES = ("auto", "live", "static")

Mode = Literal["live", "static"]


def display_mode() -> Mode:
    """Say how explorers of this process are to be shown.

    A notebook front end offers ``input()`` to the cells it runs; nbclient, papermill and
    ``jupyter execute`` do not. A widget that nobody can answer would only leave a dead
    placeholder in the saved notebook, so headless runs show the static explorer alone.
    The environment variable ``CHOPPER_JUPYTER_MODE`` (``auto``, ``live`` or ``static``)
    overrules this.

    Returns
    -------
    {"live", "static"}
        ``"static"`` outside a Jupyter kernel.

    Raises
    ------
    SchemaError
        If ``CHOPPER_JUPYTER_MODE`` holds another word.
    """
    mode = os.environ.get(MODE_VARIABLE) or "auto"
    if mode not in MODES:
        raise unknown_name(what=f"{MODE_VARIABLE} mode", name=mode, known=MODES)
    if mode == "live":
        return "live"
    return "live" if mode == "auto" and _front_end_listens() else "static"


def _front_end_listens() -> bool:
    # Who has not imported IPython does not run in it, and importing it costs half a second.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return False
    request: Any = getattr(kernel, "get_parent", dict)() or {}
    content = request.get("content") or {}
    # A Jupyter kernel that does not tell is one in a browser (JupyterLite): somebody listens.
    return bool(content.get("allow_stdin", True))
