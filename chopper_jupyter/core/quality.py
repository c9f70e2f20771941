"""The data-quality record of a Trace: what was read, skipped, linked and repaired."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LINKS = ("launch", "op", "phase", "layer", "iteration")
"""What a kernel can be linked to, in the order in which displays list it."""

GOOD_SHARE = 0.95

OPS = "op"
"""Key of ``Quality.counted`` under which shares by op stand; the others are passes."""


@dataclass(frozen=True)
class Quality:
    """What became of every event of the input.

    Parameters
    ----------
    events_read : int
        Events found in the files.
    skipped : mapping of str to int
        Events that no table holds, counted by reason.
    repairs : mapping of str to int
        Repairs made to damaged or odd input, counted by kind.
    kernels : int
        Rows of the ``kernels`` table when it was made.
    linked : mapping of str to float
        Share of kernel time (0 to 1) linked to a launch, op, phase, layer and iteration.
    notes : tuple of str
        Plain sentences, for instance how the rank of a file was found.
    counted : mapping of str to mapping
        Share of kernel time (0 to 1) tied to hardware counters, in the iterations that were
        counted: ``{"pass 0": {"gpu 0": 0.99}, "op": {"mlp.up_proj": 0.98}}``.
    """

    events_read: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    kernels: int = 0
    linked: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    counted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def phrase(self) -> str:
        """Say it in one phrase, for headers and headlines.

        Examples
        --------
        >>> Quality(kernels=4, linked={"op": 0.991}).phrase()
        'Data good: 99.1 % linked'
        """
        if not self.kernels:
            return "No kernels recorded"
        share = self.linked.get("op", 0.0)
        word = "good" if share >= GOOD_SHARE and not self.repairs else "partial"
        text = f"Data {word}: {100 * share:.1f} % linked"
        count = sum(self.repairs.values())
        return text + (f", {count} repairs" if count else "")

    def lines(self) -> list[str]:
        """Return the whole record as lines of plain text."""
        lines = [f"{self.events_read:,} events read, {self.kernels:,} kernels"]
        if self.linked:
            shares = ", ".join(
                f"{k} {100 * self.linked[k]:.1f} %" for k in LINKS if k in self.linked
            )
            lines.append(f"kernel time linked to: {shares}")
        lines += [
            f"kernel time with counters, {name}: "
            + ", ".join(f"{gpu} {100 * share:.1f} %" for gpu, share in shares.items())
            for name, shares in self.counted.items()
            if name != OPS
        ]
        lines += [f"skipped {count:,}: {reason}" for reason, count in sorted(self.skipped.items())]
        lines += [f"repaired {count:,}: {what}" for what, count in sorted(self.repairs.items())]
        return lines + list(self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self) | {"notes": list(self.notes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Quality:
        """Read what ``to_dict`` wrote; unknown keys of other versions are ignored."""
        known = {f.name for f in fields(cls)}
        kept = {k: v for k, v in data.items() if k in known}
        return cls(**{**kept, "notes": tuple(kept.get("notes", ()))})

    @classmethod
    def merge(cls, parts: list[Quality], weights: list[int]) -> Quality:
        """Join the records of several ranks; shares are weighted by kernel time."""
        total = sum(weights) or 1
        names = [name for name in LINKS if any(name in part.linked for part in parts)]
        linked = {
            name: sum(p.linked.get(name, 0.0) * w for p, w in zip(parts, weights, strict=True))
            / total
            for name in names
        }
        skipped: Counter[str] = Counter()
        repairs: Counter[str] = Counter()
        for part in parts:
            skipped.update(part.skipped)
            repairs.update(part.repairs)
        return cls(
            events_read=sum(p.events_read for p in parts),
            skipped=dict(skipped),
            repairs=dict(repairs),
            kernels=sum(p.kernels for p in parts),
            linked=linked,
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )
