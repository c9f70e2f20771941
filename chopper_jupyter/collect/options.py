"""What to record, as one value that can travel to other processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ProfileOptions:
    """What to record; see ``profile`` for the meaning of each."""

    warmup: int = 2
    iterations: int = 5
    tokens: int | None = None
    shapes: bool = True
    stacks: bool = False
    telemetry: bool = True
    memory: bool = False

    def __post_init__(self) -> None:
        if self.warmup < 0 or self.iterations < 1:
            msg = f"warmup={self.warmup}, iterations={self.iterations}: at least 0 and 1 are needed"
            raise ValueError(msg)
        if self.tokens is not None and self.tokens < 1:
            msg = f"tokens={self.tokens}: give the tokens of one iteration over all ranks"
            raise ValueError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data.

        Examples
        --------
        >>> ProfileOptions.from_dict(ProfileOptions(warmup=1).to_dict()).warmup
        1
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProfileOptions:
        """Read what ``to_dict`` wrote; unknown keys of other versions are ignored."""
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})
