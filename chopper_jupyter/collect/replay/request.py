"""From wanted counters to counters in the run folder: the one way that magic and CLI go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chopper_jupyter.collect.replay.checks import held_memory, problems
from chopper_jupyter.collect.replay.counter_sets import plan_passes
from chopper_jupyter.collect.replay.passes import run_passes
from chopper_jupyter.collect.replay.tools import find_tool, gpu_of_torch
from chopper_jupyter.core.errors import CollectError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def collect_counters(
    folder: Path,
    script: Path,
    wanted: Sequence[str],
    *,
    agreed: bool,
    say: Callable[[str], None],
    gpu: tuple[str | None, str | None] | None = None,
) -> list[Path]:
    """Count hardware events of a script's training loop into a run folder.

    Parameters
    ----------
    folder : Path
        The run folder.
    script : Path
        What to run again, once per pass.
    wanted : sequence of str
        Sets of counters (``matrix``, ``memory``) or names of counters.
    agreed : bool
        Whether the user agreed to run the script; it may install, download or write.
    say : callable
        Is told what happens.
    gpu : (vendor, architecture), optional
        As torch says by default.

    Returns
    -------
    list of Path
        Folder of each pass; empty if the user has not agreed yet.

    Raises
    ------
    CollectError
        If there is no tool or no permission, or a pass fails.
    """
    tool = find_tool(*(gpu or gpu_of_torch()))
    passes = plan_passes(wanted, tool.name, tool.architecture)
    found = problems(tool)
    if found:
        raise CollectError("; ".join(found))
    if not script.is_file():
        msg = f"no script to replay: {script} does not exist; name one with --script FILE"
        raise CollectError(msg)
    say(f"{tool.name}, {len(passes)} pass{'es' * (len(passes) != 1)}: each runs {script} once")
    held = held_memory()
    if held:
        say(f"note: {held}")
    if not agreed:
        say(
            "Not run: earlier cells may install, download or write. Look at the script, then run "
            "it with --yes, choose cells with --setup-cells 1,3-5, or give --script FILE."
        )
        return []
    return run_passes(folder, script, tool, passes, say)
