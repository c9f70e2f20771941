"""``chopper-jupyter counters``: count hardware events of a recorded loop, outside a notebook."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.collect.replay.request import collect_counters
from chopper_jupyter.collect.replay.script import FOLDER, SCRIPT

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="run folder to add counters to")
    parser.add_argument(
        "--counters",
        default="matrix,memory",
        metavar="NAMES",
        help="sets (matrix, memory) or counters, separated by commas; default: matrix,memory",
    )
    parser.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="script to run under the counter tool; default: replay/replay.py in the run folder",
    )
    parser.add_argument(
        "--yes", action="store_true", help="run the script that was made from the notebook's cells"
    )


def run(options: Namespace) -> int:
    """Count; return the exit status."""
    script = options.script or options.run_dir / FOLDER / SCRIPT
    agreed = options.yes or options.script is not None
    collect_counters(
        options.run_dir,
        script,
        options.counters.split(","),
        agreed=agreed,
        say=lambda text: print(text, file=sys.stderr),  # noqa: T201  progress of a command
    )
    return 0
