"""What a simulated run is told to suffer from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from chopper_jupyter.core.errors import unknown_name

DelayCause = Literal[
    "input", "host_late", "host_sync", "iteration_boundary", "communication", "launch_latency"
]
"""Causes of idle time that can be injected."""


@dataclass(frozen=True)
class Injections:
    """Disturbances of a simulated run; by default none.

    Parameters
    ----------
    padding : mapping of str to float
        Performed over useful FLOPs, at least 1, by op (``{"mlp.down_proj": 1.2}``); forward and
        backward alike.
    matrix_utilisation : mapping of str to float
        Share of the peak that matrix instructions of an op reach, in (0, 1].
    overlap_contention : float or mapping of str to float, optional
        Factor, at least 1, by which compute kernels are slower while communication runs: one for
        all, or by op. None, and ops without one, leave what the version of FSDP has by itself.
    clock_loss : mapping
        Factor on the GPU clock, in (0, 1], by ``(rank, iteration)`` or by ``rank``; iterations
        are counted from 0, the first recorded one.
    launch_delay_ns : mapping of str to int
        Time that is lost, by cause. Once per iteration by the host: ``input`` (in the data
        loader), ``host_late`` (the launch of the middle layer comes so long after the GPU ran
        dry), ``host_sync`` (before the middle layer the host waits until the GPU has run all,
        and so long beyond), ``iteration_boundary`` (between two iterations). By every kernel
        that it concerns: ``communication`` (a kernel that waits for a collective starts so long
        after its end), ``launch_latency`` (a compute kernel starts so long after it could).
    straggler : tuple of (int, int), optional
        A rank, and how many ns later than it could its collectives start.
    clock_offset_ns : mapping of int to int
        By how much the clock of a rank's trace runs ahead of the true clock.
    counter_changes : float
        Share of kernels that a counter pass lacks, and share that it has in excess.
    noise : float
        Relative standard deviation of the durations and cycles of kernels.

    Examples
    --------
    >>> Injections(padding={"mlp.down_proj": 1.2}).clock(0, 0)
    1.0
    """

    padding: Mapping[str, float] = field(default_factory=dict)
    matrix_utilisation: Mapping[str, float] = field(default_factory=dict)
    overlap_contention: float | Mapping[str, float] | None = None
    clock_loss: Mapping[int | tuple[int, int], float] = field(default_factory=dict)
    launch_delay_ns: Mapping[DelayCause, int] = field(default_factory=dict)
    straggler: tuple[int, int] | None = None
    clock_offset_ns: Mapping[int, int] = field(default_factory=dict)
    counter_changes: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        """Refuse values that no run can have."""
        for cause, delay in self.launch_delay_ns.items():
            if cause not in get_args(DelayCause):
                raise unknown_name(what="launch delay", name=cause, known=get_args(DelayCause))
            _require(delay >= 0, f"launch_delay_ns[{cause!r}]", delay, "at least 0")
        for op, factor in self.padding.items():
            _require(factor >= 1, f"padding[{op!r}]", factor, "at least 1")
        for key, share in [*self.matrix_utilisation.items(), *self.clock_loss.items()]:
            _require(0 < share <= 1, f"the factor of {key!r}", share, "in (0, 1]")
        contention = 1.0 if self.overlap_contention is None else self.overlap_contention
        by_op = contention if isinstance(contention, Mapping) else {"all ops": contention}
        for op, slower in by_op.items():
            _require(slower >= 1, f"overlap_contention of {op}", slower, "at least 1")
        late = self.straggler[1] if self.straggler else 0
        _require(late >= 0, "the delay of the straggler", late, "at least 0")
        _require(
            0 <= self.counter_changes < 1, "counter_changes", self.counter_changes, "in [0, 1)"
        )
        _require(0 <= self.noise < 1, "noise", self.noise, "in [0, 1)")

    def contention(self, op: str | None, usual: float) -> float:
        """Return how much slower an op is while communication runs.

        Examples
        --------
        >>> Injections(overlap_contention={"lm_head": 1.5}).contention("lm_head", 1.1)
        1.5
        """
        told = self.overlap_contention
        found = told.get(op or "") if isinstance(told, Mapping) else told
        return usual if found is None else float(found)

    def delay(self, cause: DelayCause) -> int:
        """Return the time that is lost by a cause, in ns."""
        return self.launch_delay_ns.get(cause, 0)

    def clock(self, rank: int, iteration: int) -> float:
        """Return the factor on the clock of a rank in an iteration."""
        loss = self.clock_loss
        return float(loss.get((rank, iteration), loss.get(rank, 1.0)))


def _require(holds: bool, what: str, value: object, rule: str) -> None:  # noqa: FBT001
    if not holds:
        msg = f"{what} is {value}; it must be {rule}"
        raise ValueError(msg)
