"""One uninterrupted stretch of recording by torch.profiler, and its raw Kineto file."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import profiler as autograd_profiler
from torch.profiler import profile as torch_profile
from torch.profiler import supported_activities

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class SegmentOptions:
    """What torch.profiler records besides the operators themselves."""

    shapes: bool = True
    stacks: bool = False
    memory: bool = False


OF_ONE_THREAD = (
    "memory is recorded of the thread that opened the recording only, and the loop runs in another"
)


class Segment:
    """Started when made; ``stop`` ends it; ``export`` writes it once."""

    def __init__(self, options: SegmentOptions) -> None:
        begun = time.perf_counter()
        self._thread = threading.get_ident() if options.memory else None
        self._profiler = torch_profile(
            activities=supported_activities(),  # type: ignore[no-untyped-call]
            record_shapes=options.shapes,
            with_stack=options.stacks,
            profile_memory=options.memory,
            # Torch sees allocations only of the threads that it follows one by one.
            experimental_config=None if options.memory else _all_threads(),
        )
        with _quiet_kineto():
            self._profiler.start()
        self.start_s = time.perf_counter() - begun
        self.stop_s = 0.0

    @property
    def can_stop(self) -> bool:
        """Whether ``stop`` may be called on this thread; elsewhere torch would crash."""
        return self._thread in (None, threading.get_ident())

    def stop(self) -> None:
        """End the recording; on a GPU this waits for the device to finish."""
        begun = time.perf_counter()
        with _quiet_kineto():
            self._profiler.stop()
        self.stop_s = time.perf_counter() - begun

    def export(self, path: Path) -> None:
        """Write Kineto's JSON and free the events; torch can do this only once."""
        self._profiler.export_chrome_trace(str(path))
        del self._profiler


def profiler_running() -> bool:
    """Say whether any torch profiler records at the moment.

    Torch itself knows only of profilers that record one thread; its module remembers the rest.
    """
    of_all_threads = autograd_profiler._is_profiler_enabled  # noqa: SLF001
    return bool(of_all_threads or torch._C._autograd._profiler_enabled())  # noqa: SLF001


def _all_threads() -> Any:
    """Ask for the operators of all threads; torch versions that cannot record one thread."""
    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return _ExperimentalConfig()


@contextmanager
def _quiet_kineto() -> Iterator[None]:
    """Keep Kineto's chatter off stderr; it reads the level when first used."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ.setdefault(name, "6")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
