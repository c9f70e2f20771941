"""Builds the front end while the Python package is built.

Wheels, editable installs and sdists all carry ``chopper_jupyter/static``. It is made here by
Node.js, unless it is there already and as new as its source, as in an sdist.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = 20
SOURCES = ("src", "package.json", "package-lock.json", "build.mjs", "tsconfig.json")
BUILT = ("widget.js", "static.js")

NO_NODE = (
    f"Building chopper-jupyter from source needs Node.js {OLDEST_NODE} or newer with npm; "
    "install it, or install the released wheel, which needs neither."
)


class FrontEndHook(BuildHookInterface[Any]):
    """Run npm before files are collected, when the built front end is missing or out of date."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build if needed; stop with one sentence where that is impossible."""
        root = Path(self.root)
        if is_current(root):
            return
        npm = find_npm()
        if npm is None and is_built(root):
            self.app.display_warning("No Node.js found: the front end already built is used as is.")
        elif npm is None:
            self.app.abort(NO_NODE)
        elif not build(npm, root / "js"):
            self.app.abort("The front end could not be built; npm's own messages are above.")


def is_built(root: Path) -> bool:
    """Say whether all built files are there."""
    return all((root / "chopper_jupyter" / "static" / name).is_file() for name in BUILT)


def is_current(root: Path) -> bool:
    """Say whether the built files need no new build.

    An sdist's are right by construction; the times of its files mean nothing.
    """
    if not is_built(root):
        return False
    if (root / "PKG-INFO").is_file():
        return True
    built = min((root / "chopper_jupyter" / "static" / name).stat().st_mtime for name in BUILT)
    return built >= max(path.stat().st_mtime for path in sources(root / "js"))


def sources(js: Path) -> list[Path]:
    """List the files that the built ones are made from."""
    found = [path for name in SOURCES for path in [js / name, *(js / name).rglob("*")]]
    return [path for path in found if path.is_file()]


def find_npm() -> str | None:
    """Return the path of npm, or None if it or a new enough Node.js is missing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = re.match(r"v(\d+)", said)
    return npm if major and int(major[1]) >= OLDEST_NODE else None


def build(npm: str, js: Path) -> bool:
    """Install what the build needs, as locked, and run it; say whether it worked."""
    # Leave a developer's node_modules complete; a user's needs nothing for tests.
    which = [] if (js / "node_modules").exists() else ["--omit=dev"]
    steps = (["ci", "--no-audit", "--no-fund", *which], ["run", "build"])
    return all(subprocess.run([npm, *step], cwd=js, check=False).returncode == 0 for step in steps)
