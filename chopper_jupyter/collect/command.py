"""``chopper-jupyter profile -- COMMAND``: record what a command trains, outside of notebooks.

The command runs as it would without; its Python processes that train record themselves. Nothing
here imports torch.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from chopper_jupyter.collect.options import ProfileOptions
from chopper_jupyter.collect.run_writer import describe_machine, make_run_folder, shown_path
from chopper_jupyter.collect.telemetry import start_sampler
from chopper_jupyter.collect.ticket import Ticket, announced
from chopper_jupyter.core import run_folder
from chopper_jupyter.core.errors import CollectError, TraceFormatError
from chopper_jupyter.core.read import read_trace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

KILLED = 128
"""Shells report a command that a signal ended as this plus the signal's number."""

MISSED = (
    "nothing was recorded: no Python process of the command called an nn.Module. Processes that "
    "get an environment of their own, or run as python -I or -E, do not find the recording; call "
    "chopper_jupyter.profile() in them."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the subcommand's arguments."""
    add = parser.add_argument
    add("-o", "--run-dir", metavar="RUN", help="run folder to write; default: chopper_runs/<time>")
    add("--warmup", type=int, default=2, help="first iterations to leave out; default: 2")
    add("--iterations", type=int, default=5, help="iterations to record after these; default: 5")
    add("--tokens", type=int, help="tokens of one iteration over all ranks, for tokens/s")
    add("--stacks", action="store_true", help="record Python stacks; slower")
    add("--no-shapes", action="store_true", help="do not record shapes of operator inputs")
    add("--memory", action="store_true", help="record what is allocated and freed; slower")
    add("--no-telemetry", action="store_true", help="do not sample processors and GPUs")
    add("command", nargs="+", metavar="COMMAND", help="after --: torchrun ... train.py, say")


def run(arguments: argparse.Namespace) -> int:
    """Run the command with its processes recorded; return its exit status.

    Raises
    ------
    CollectError
        If the run folder cannot be written, options are out of range, or there is no such command.
    """
    try:
        options = ProfileOptions(
            arguments.warmup, arguments.iterations, arguments.tokens,
            shapes=not arguments.no_shapes, stacks=arguments.stacks,
            telemetry=not arguments.no_telemetry, memory=arguments.memory,
        )  # fmt: skip
    except ValueError as error:
        raise CollectError(str(error)) from None
    folder = make_run_folder(arguments.run_dir, "profile")
    facts = describe_machine()
    ticket = Ticket(folder, uuid.uuid4().hex, facts["host"], options)
    started = time.monotonic()
    _describe(ticket, facts, arguments.command, is_open=True)
    try:
        status = _recorded(ticket, arguments.command)
    finally:
        _describe(ticket, facts, arguments.command, is_open=False)
    _report(folder, time.monotonic() - started)
    return status


def _describe(ticket: Ticket, facts: dict[str, Any], command: list[str], *, is_open: bool) -> None:
    described = {
        **facts,
        "recording": ticket.recording,
        "open": is_open,
        "options": ticket.options.to_dict(),
        "command": command,
        "cell_source": None,
        "notes": [],
        "world_size": None,
        "ranks": {},
    }
    run_folder.write_run(
        ticket.run_dir, run_folder.fold(described, run_folder.statuses(ticket.run_dir))
    )


def _recorded(ticket: Ticket, command: list[str]) -> int:
    """Run the command where its processes find the recording."""
    sampler = None
    if ticket.options.telemetry:
        sampler = start_sampler(ticket.run_dir, ticket.host, expect_gpu=False)
    try:
        with announced(ticket):
            try:
                process = subprocess.Popen(command)  # noqa: S603  the user's own command
            except OSError as error:
                msg = f"cannot run {command[0]}: {error}"
                raise CollectError(msg) from error
        with _passing_on(process):
            status = _status(process)
    finally:
        if sampler is not None:
            sampler.stop()
    return KILLED - status if status < 0 else status


def _status(process: subprocess.Popen[bytes]) -> int:
    """Wait for the command; a Ctrl-C reaches it from the terminal as well as us."""
    while True:
        with suppress(KeyboardInterrupt):
            return process.wait()


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass a request to end on to the command, whose processes save what they have."""
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _report(folder: Path, seconds: float) -> None:
    """Print the headline; whatever the recording is like, the command's status counts."""
    where = f"Recording: {shown_path(folder)} ({seconds:.0f} s)"
    try:
        trace = read_trace(folder)
    except TraceFormatError:
        told = run_folder.read_run(folder).get("notes") or [MISSED]
        sys.stderr.write("\n".join(["chopper-jupyter: " + " ".join(told), where]) + "\n")
        return
    lines = [str(trace.headline()), where, *(trace.info.run.get("notes") or ())]
    sys.stdout.write("\n".join(lines) + "\n")
