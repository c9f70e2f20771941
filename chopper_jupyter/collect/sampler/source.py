"""What a source of samples is: something that can be read again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Reading(NamedTuple):
    """One value of one sensor; of a GPU, of a processor core, or of the host."""

    metric: str
    value: float
    device: int | None = None
    core: int | None = None


@dataclass(frozen=True)
class Source:
    """Sensors that are read together.

    Parameters
    ----------
    name : str
        Name of the source, for instance ``nvml``.
    period_s : float
        How often to read it.
    read : callable
        Returns the readings of this moment. Anything it raises ends the source.
    devices : sequence of dict
        The GPUs: ``device`` (index as the training process counts), ``uuid``, ``bus_id``,
        ``name``.
    notes : list of str
        Sentences about what cannot be sampled; ``read`` may add to it.
    """

    name: str
    period_s: float
    read: Callable[[], Sequence[Reading]]
    devices: Sequence[dict[str, Any]] = ()
    notes: list[str] = field(default_factory=list)
