"""Runs first in every Python process that a recorded cell or command starts.

Its folder leads ``PYTHONPATH`` there. Where torch gets imported, the process joins the recording
that its environment names; otherwise nothing happens. Whatever goes wrong here is left as a note
in the run folder: the process must run as it would without us. Uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

VARIABLE = "CHOPPER_JUPYTER_RECORDING"
HERE = str(Path(__file__).resolve().parent)


class JoinAfterTorch:
    """A finder that finds what the others find, and joins once torch has been imported."""

    searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find torch, whose loader then also joins the recording."""
        if name != "torch" or self.searching:
            return None
        self.searching = True
        try:
            spec = next(
                (
                    found
                    for finder in sys.meta_path
                    if finder is not self
                    and hasattr(finder, "find_spec")
                    and (found := finder.find_spec(name, path, target)) is not None
                ),
                None,
            )
            if spec is not None and spec.loader is not None:
                self._join_after(spec.loader)
        finally:
            self.searching = False
        return spec

    def _join_after(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)
            _join()

        try:
            loader.exec_module = exec_module
        except Exception as error:  # noqa: BLE001  a loader of somebody's own
            _note(f"could not wait for torch: {error!r}")


def _join() -> None:
    half = sys.modules.get("chopper_jupyter.collect.joined")
    if half is not None and not hasattr(half, "join"):  # its own imports brought torch in
        half.join_when_complete = True  # type: ignore[attr-defined]
        return
    try:
        package = Path(json.loads(os.environ[VARIABLE])["package"])
        if "chopper_jupyter" not in sys.modules and not importlib.util.find_spec("chopper_jupyter"):
            _load(package)
        from chopper_jupyter.collect.joined import join  # noqa: PLC0415  only with torch

        join()
    except Exception as error:  # noqa: BLE001  nothing of ours may break somebody's process
        _note(f"could not join: {error!r}")


def _load(package: Path) -> None:
    """Import the package from where the recording process has it, without touching the path."""
    spec = importlib.util.spec_from_file_location(
        "chopper_jupyter", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        msg = f"no package at {package}"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules["chopper_jupyter"] = module
    spec.loader.exec_module(module)


def _note(sentence: str) -> None:
    with contextlib.suppress(Exception):
        folder = Path(json.loads(os.environ[VARIABLE])["run_dir"]) / "notes"
        folder.mkdir(exist_ok=True)
        with (folder / f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(f"a process was not recorded: it {sentence}\n".replace("\n", " ") + "\n")


def _run_the_other_one() -> None:
    """Run the ``sitecustomize`` that this one stands in front of, errors and all."""
    others = [entry for entry in sys.path if str(Path(entry or ".").resolve()) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    sys.path[:] = [entry for entry in sys.path if str(Path(entry or ".").resolve()) != HERE]
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, JoinAfterTorch())
    _run_the_other_one()
