"""The console script ``chopper-jupyter``: what a terminal needs no notebook for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter._version import __version__
from chopper_jupyter.core.errors import ChopperError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status.

    Examples
    --------
    >>> main(["report", "nowhere"])
    2
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (ChopperError, OSError) as error:
        sys.stderr.write(f"chopper-jupyter: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="chopper-jupyter", description="Where did my GPU time go, and why?"
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_profile(commands.add_parser("profile", help="record what a command trains"))
    _add_report(commands.add_parser("report", help="write a report of a run as one HTML file"))
    _add_counters(commands.add_parser("counters", help="count hardware events of a run"))
    return parser


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN", help="run folder, or anything read_trace reads")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: <run>.html")
    parser.add_argument("--compare-to", metavar="RUN", help="another run to compare with")
    parser.add_argument("--title", help="heading of the report; default: the name of the run")
    parser.add_argument("--markdown", action="store_true", help="print Markdown instead")
    parser.add_argument("--private", action="store_true", help="keep host names and home folders")
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    from chopper_jupyter.core.read import read_trace  # noqa: PLC0415  only this subcommand's
    from chopper_jupyter.report import Report  # noqa: PLC0415

    before = read_trace(options.compare_to) if options.compare_to else None
    trace = read_trace(options.run_dir)
    report = Report(trace, before, title=options.title, private=options.private)
    if options.markdown:
        sys.stdout.write(report.to_markdown())
        return 0
    written = report.save(options.output or Path(f"{trace.info.name}.html"))
    sys.stdout.write(f"{written}\n")
    return 0


def _add_profile(parser: argparse.ArgumentParser) -> None:
    from chopper_jupyter.collect import command  # noqa: PLC0415

    command.add_arguments(parser)
    parser.set_defaults(run=command.run)


def _add_counters(parser: argparse.ArgumentParser) -> None:
    from chopper_jupyter.collect.replay import command  # noqa: PLC0415

    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
