"""One iteration of a training loop as its host runs it: ranges, launches and waits.

Every rank runs the same script in every iteration; times are ns since the iteration began, as
if nothing held the host up. Stalls say where something may.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAIN, AUTOGRAD = 0, 1
"""Threads of a training process."""

COMPUTE, COMMUNICATION = 0, 1
"""Streams of a GPU."""

CALL_NS, GAP_NS, STEP_NS = 3_000, 1_000, 500
"""Host time of a launch call, of the way to it, and of opening or closing a range."""

StallKind = Literal["iteration_boundary", "input", "host_sync", "host_late", "sync"]

WAITS: tuple[StallKind, ...] = ("host_sync", "sync")
"""Stalls in which the host waits for the GPU."""


@dataclass(frozen=True)
class Tensor:
    """An input of an operator, as the profiler records it."""

    dims: tuple[int, ...] = ()
    kind: str = "c10::BFloat16"
    concrete: str = ""


@dataclass
class Range:
    """A host range; ``external`` numbers it, ``seq`` is its autograd number."""

    name: str
    category: str
    thread: int
    begin: int
    external: int
    end: int = 0
    seq: int | None = None
    backward: bool = False
    inputs: tuple[Tensor, ...] = ()
    collective: Collective | None = None


@dataclass(frozen=True)
class Collective:
    """What a collective moves; elements are of one rank's input and output."""

    name: str
    elements_in: int
    elements_out: int


@dataclass(frozen=True)
class Work:
    """What a kernel does.

    Parameters
    ----------
    name : str
        Name of the device kernel.
    grid, block : tuple of int
        Launch dimensions.
    flops : int
        Useful FLOPs on matrix units; 0 for what memory bounds.
    read, written : int
        Bytes of memory traffic.
    kind : {"compute", "collective", "memcpy"}
        Kind of device activity.
    collective : Collective, optional
        What it moves.
    """

    name: str
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    flops: int = 0
    read: int = 0
    written: int = 0
    kind: str = "compute"
    collective: Collective | None = None


@dataclass(frozen=True)
class Launch:
    """A launch call and what it starts; ``after`` is a collective that it waits for, or -1."""

    work: Work
    at: int
    thread: int
    external: int
    stream: int
    after: int
    label: Label


@dataclass(frozen=True)
class Label:
    """The levels of a kernel, as a reader should find them."""

    phase: str | None = None
    layer: str | None = None
    op: str | None = None


@dataclass(frozen=True)
class Stall:
    """A place where the host may be held up, before launch number ``before``."""

    kind: StallKind
    at: int
    before: int


@dataclass
class Script:
    """Recorder of one iteration.

    Examples
    --------
    >>> script = Script()
    >>> with script.op("aten::mm"):
    ...     _ = script.launch(Work("gemm"), Label("forward", "lm_head", "lm_head"))
    >>> len(script.ranges), script.launches[0].work.name
    (1, 'gemm')
    """

    ranges: list[Range] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    flows: list[tuple[Range, Range]] = field(default_factory=list)
    now: int = 0
    thread: int = MAIN
    sequence: int = 0
    _external: list[int] = field(default_factory=lambda: [0])
    _wait: int = -1

    @contextmanager
    def range(
        self,
        name: str,
        category: str = "cpu_op",
        *,
        seq: int | None = None,
        backward: bool = False,
        inputs: tuple[Tensor, ...] = (),
        collective: Collective | None = None,
    ) -> Iterator[Range]:
        """Open a range; it lasts until the block ends."""
        made = Range(
            name, category, self.thread, self.now, len(self.ranges) + 1,
            seq=seq, backward=backward, inputs=inputs, collective=collective,
        )  # fmt: skip
        self.ranges.append(made)
        self._external.append(made.external)
        self.now += STEP_NS
        yield made
        self._external.pop()
        self.now += STEP_NS
        made.end = self.now
        self.now += STEP_NS

    @contextmanager
    def op(self, name: str, *inputs: Tensor, seq: int | None = None) -> Iterator[Range]:
        """Open an operator call; ``seq`` is the number of the gradient it will have."""
        with self.range(name, seq=seq, inputs=inputs) as made:
            yield made

    @contextmanager
    def annotation(self, name: str) -> Iterator[Range]:
        """Open a user range."""
        with self.range(name, "user_annotation") as made:
            yield made

    @property
    def calls(self) -> int:
        """Calls of the runtime that have a correlation id: launches, and waits for the GPU."""
        return len(self.launches) + len(WAITS)

    def next_sequence(self) -> int:
        """Return a new autograd number."""
        self.sequence += 1
        return self.sequence

    @contextmanager
    def gradient(
        self, node: str, forward: Range, before: Callable[[], None] | None = None
    ) -> Iterator[Range]:
        """Open the backward of a forward operator as the autograd engine runs it.

        ``before`` runs in the engine, ahead of the node, as hooks do.
        """
        with self.range(f"autograd::engine::evaluate_function: {node}"):
            if before is not None:
                before()
            with self.range(node, seq=forward.seq, backward=True) as made:
                self.flows.append((forward, made))
                yield made

    def launch(self, work: Work, label: Label, stream: int = COMPUTE) -> int:
        """Launch a kernel and return its number."""
        self.now += GAP_NS
        wait = self._wait if stream == COMPUTE else -1
        if stream == COMPUTE:
            self._wait = -1
        self.launches.append(
            Launch(work, self.now, self.thread, self._external[-1], stream, wait, label)
        )
        self.now += CALL_NS
        return len(self.launches) - 1

    def wait(self, collective: int) -> None:
        """Let the next compute kernel wait for a collective."""
        self._wait = max(self._wait, collective)

    def stall(self, kind: StallKind) -> None:
        """Mark a place where the host may be held up."""
        self.stalls.append(Stall(kind, self.now, len(self.launches)))
        self.now += STEP_NS
