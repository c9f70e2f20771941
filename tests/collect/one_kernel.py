"""A real Jupyter kernel that runs cells for tests."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from jupyter_client.manager import start_new_kernel

import chopper_jupyter

PATIENCE_S = 300
PACKAGE = str(Path(chopper_jupyter.__file__).parents[1])
"""What is on the path of a Jupyter kernel: the package that is tested, wherever it is."""


class Kernel:
    """A Jupyter kernel in a folder of its own; ``folder`` is where it runs."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        environment = os.environ | {"PYTHONPATH": PACKAGE}
        self._manager, self._client = start_new_kernel(
            kernel_name="python3", cwd=str(self.folder), env=environment
        )
        return self

    def __exit__(self, *_):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def well(self, cell):
        """Run a cell that must go well; return the text of its result, if it has one."""
        outputs = []

        def hear(message):
            if message["header"]["msg_type"] in ("stream", "execute_result", "error"):
                outputs.append(nbformat.v4.output_from_msg(message))

        reply = self._client.execute_interactive(cell, output_hook=hear, timeout=PATIENCE_S)
        assert reply["content"]["status"] == "ok", outputs
        results = [out for out in outputs if out["output_type"] == "execute_result"]
        return results[0]["data"]["text/plain"] if results else None
