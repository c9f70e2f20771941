"""Runs the passes of a replay, one after the other; finished ones are kept."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from chopper_jupyter.collect.replay.tools import command_of, output_of
from chopper_jupyter.core.errors import CollectError
from chopper_jupyter.core.run_folder import pass_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from chopper_jupyter.collect.replay.tools import Tool

RECORD = "pass.json"
LAST_LINES = 15


def run_passes(
    folder: Path,
    script: Path,
    tool: Tool,
    passes: Sequence[Sequence[str]],
    say: Callable[[str], None],
) -> list[Path]:
    """Run a script once per pass under a counter tool.

    Parameters
    ----------
    folder : Path
        The run folder; pass n goes to ``counters/<tool>/pass_<n>``.
    script : Path
        What to run.
    tool : Tool
        The counter tool.
    passes : sequence of sequence of str
        Counters of each pass. One that is there already, of the same script, is not run again.
    say : callable
        Is told of the progress.

    Returns
    -------
    list of Path
        Folder of each pass.

    Raises
    ------
    CollectError
        If a pass fails: the command, its exit code and its last lines.
    """
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    made = []
    for number, counters in enumerate(passes):
        target = pass_folder(folder, tool.name, number)
        title = f"pass {number + 1} of {len(passes)} ({', '.join(counters[:3])}{_more(counters)})"
        made.append(target)
        if _finished(target, digest, counters, tool):
            say(f"{title}: there already")
            continue
        say(f"{title}: running")
        seconds = _run(target, tool, counters, script, digest)
        say(f"{title}: {seconds:.0f} s{_rest(len(passes) - number - 1, seconds)}")
    return made


def _more(counters: Sequence[str]) -> str:
    return ", ..." if len(counters) > 3 else ""  # noqa: PLR2004  as many as are shown


def _rest(left: int, seconds: float) -> str:
    return f"; {left} to go, about {left * seconds:.0f} s" if left else ""


def _finished(target: Path, digest: str, counters: Sequence[str], tool: Tool) -> bool:
    try:
        record: dict[str, Any] = json.loads((target / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    same = record.get("script_sha256") == digest and record.get("counters") == list(counters)
    return same and bool(output_of(tool, target))


def _run(target: Path, tool: Tool, counters: Sequence[str], script: Path, digest: str) -> float:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    command = command_of(tool, counters, target, script)
    begun = time.monotonic()
    log = target / "output.txt"
    with log.open("wb") as output:
        done = subprocess.run(  # noqa: S603  the user agreed to run this script
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        raise CollectError(_failure(command, f"exit code {done.returncode}", log))
    if not output_of(tool, target):
        reason = "it wrote no counters: does this GPU have them all, and did the loop run a kernel?"
        raise CollectError(_failure(command, reason, log))
    record = {"counters": list(counters), "script_sha256": digest, "command": command}
    text = json.dumps(record | {"seconds": seconds}, indent=1)
    (target / RECORD).write_text(text, encoding="utf-8")
    return seconds


def _failure(command: Sequence[str], reason: str, log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    last = "\n  ".join(text.splitlines()[-LAST_LINES:])
    return (
        f"a pass failed: {reason}\n  command: {' '.join(command)}\n  its last lines ({log}):\n"
        f"  {last or '(none)'}\nfinished passes are kept; the next attempt goes on from here"
    )
