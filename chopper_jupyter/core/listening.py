"""Whether a person sits behind this Jupyter kernel, or a program that executes a notebook."""

from __future__ import annotations

import sys
from typing import Any


def front_end_listens() -> bool:
    """Say whether this is a Jupyter kernel and its present request comes from a front end.

    A notebook front end offers ``input()`` to the cells it runs; nbclient, papermill and
    ``jupyter execute`` do not.

    Returns
    -------
    bool
        False outside a Jupyter kernel.
    """
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
