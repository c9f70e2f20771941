"""How processes that a recorded cell or command starts find its run folder.

The environment tells them: one variable names the recording, and ``PYTHONPATH`` begins with a
folder whose ``sitecustomize`` joins it once torch is imported. Needs no torch.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chopper_jupyter.collect.options import ProfileOptions
from chopper_jupyter.core.run_folder import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "CHOPPER_JUPYTER_RECORDING"
HOOK_FOLDER = Path(__file__).parent / "child"


@dataclass(frozen=True)
class Ticket:
    """What a process needs to know to join a recording.

    Parameters
    ----------
    run_dir : pathlib.Path
        The run folder.
    recording : str
        Identity of the recording, which ``run.json`` repeats: a folder may be used again.
    host : str
        Where the recording was started, and its telemetry is sampled.
    options : ProfileOptions
        What to record.
    """

    run_dir: Path
    recording: str
    host: str
    options: ProfileOptions

    def to_text(self) -> str:
        """Return the value of the environment variable.

        Examples
        --------
        >>> ticket = Ticket(Path("run"), "a1", "node", ProfileOptions(warmup=0))
        >>> Ticket.from_text(ticket.to_text()) == ticket
        True
        """
        package = Path(__file__).parents[1]
        return json.dumps(
            {
                "run_dir": str(self.run_dir),
                "recording": self.recording,
                "host": self.host,
                "options": self.options.to_dict(),
                "package": str(package),  # where sitecustomize finds it, whatever sys.path says
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Ticket:
        """Read what ``to_text`` wrote.

        Raises
        ------
        ValueError
            If it is something else.
        """
        try:
            told = json.loads(text)
            options = ProfileOptions.from_dict(told["options"])
            return cls(Path(told["run_dir"]), told["recording"], told["host"], options)
        except (KeyError, TypeError) as error:
            msg = f"{VARIABLE} is not what a recording writes there: {error!r}"
            raise ValueError(msg) from error

    def is_open(self) -> bool:
        """Say whether the recording still takes new processes."""
        try:
            run = json.loads((self.run_dir / RUN_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(run, dict) and run.get("recording") == self.recording and run["open"]


def from_environment() -> Ticket | None:
    """Return the recording that this process was started in, if any.

    Raises
    ------
    ValueError
        If the variable holds something else.
    """
    text = os.environ.get(VARIABLE)
    return Ticket.from_text(text) if text else None


@contextmanager
def announced(ticket: Ticket) -> Iterator[None]:
    """Let processes started inside the context find the recording.

    Afterwards the environment is what it was, except for what others changed meanwhile.
    """
    before = os.environ.get(VARIABLE)
    had_path = "PYTHONPATH" in os.environ
    os.environ[VARIABLE] = ticket.to_text()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HOOK_FOLDER), *_python_path()])
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
        rest = _python_path()
        if rest or had_path:
            os.environ["PYTHONPATH"] = os.pathsep.join(rest)
        else:
            os.environ.pop("PYTHONPATH", None)


def _python_path() -> list[str]:
    """Return the entries of ``PYTHONPATH`` but ours; an empty entry is kept: it means here."""
    value = os.environ.get("PYTHONPATH")
    entries = value.split(os.pathsep) if value else []
    return [entry for entry in entries if entry != str(HOOK_FOLDER)]
