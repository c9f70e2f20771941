"""Whether anybody can talk to a widget: live in a notebook front end, static elsewhere."""

from __future__ import annotations

import os
from typing import Literal

from chopper_jupyter.core.errors import unknown_name
from chopper_jupyter.core.listening import front_end_listens

MODE_VARIABLE = "CHOPPER_JUPYTER_MODE"
MODES = ("auto", "live", "static")

Mode = Literal["live", "static"]


def display_mode() -> Mode:
    """Say how explorers of this process are to be shown.

    A widget that nobody can answer would only leave a dead placeholder in the saved notebook,
    so headless runs show the static explorer alone.
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
    return "live" if mode == "auto" and front_end_listens() else "static"
