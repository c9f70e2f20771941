"""All that became of the time of a trace's ops and collectives, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chopper_jupyter.core.analysis.collective_parts import CollectiveParts, collective_parts
from chopper_jupyter.core.analysis.grouping import Key
from chopper_jupyter.core.analysis.instance_parts import InstanceParts, instance_parts
from chopper_jupyter.core.analysis.op_instances import Instances, instances
from chopper_jupyter.core.analysis.sharing import shared
from chopper_jupyter.core.errors import MissingDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chopper_jupyter.core.analysis.included import Include
    from chopper_jupyter.core.trace import Trace


@dataclass(frozen=True)
class TakenApart:
    """Runs of ops and, below them, collectives.

    Parameters
    ----------
    found : Instances
        The runs of ops.
    parts : InstanceParts
        What became of their time.
    calls : CollectiveParts
        What became of the time of the collectives.
    """

    found: Instances
    parts: InstanceParts
    calls: CollectiveParts

    @property
    def rows(self) -> int:
        """Runs of ops and collectives together."""
        return len(self.found) + len(self.found.collectives)

    def keys(self, names: Sequence[str]) -> list[Key]:
        """Return levels of all rows."""
        above, below = self.found.keys, self.found.collective_keys
        return [
            Key(n, above[n].values, np.concatenate([above[n].codes, below[n].codes])) for n in names
        ]


def take_apart(trace: Trace, include: Include) -> TakenApart:
    """Take the time of each op and collective apart.

    Raises
    ------
    MissingDataError
        If the least time of no kernel is known.
    """
    return shared(trace, ("apart", include), lambda: _take_apart(trace, include))


def _take_apart(trace: Trace, include: Include) -> TakenApart:
    found = instances(trace, include)
    parts = instance_parts(trace, found)
    calls = collective_parts(trace, found.collectives, found.hardware)
    if not (np.isfinite(parts.theoretical).any() or np.isfinite(calls.theoretical).any()):
        msg = (
            "nobody knows how fast these kernels could be: record with shapes on the default of "
            "%%chopper_profile, and if the GPU is unknown, describe it with hardware.add"
        )
        raise MissingDataError(msg)
    return TakenApart(found, parts, calls)
