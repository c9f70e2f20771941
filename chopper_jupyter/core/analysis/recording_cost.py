"""What recording cost, in words, from what the recorder noted down in ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping

from chopper_jupyter.core.analysis.quantities import duration, number, percent, size

_TIMES = {"_ns": 1.0, "_us": 1e3, "_ms": 1e6, "_s": 1e9, "_seconds": 1e9}


def cost_text(cost: object) -> str:
    """Say what recording cost; empty if nothing was noted.

    The keys' suffixes tell the units; the rest of a key is words. A recorder may note more in
    later versions, so no key is expected by name.

    Examples
    --------
    >>> cost_text({"start_ns": 6_000_000, "stop_s": 0.14, "file_bytes": 2_100_000})
    'start 6.00 ms, stop 140 ms, file 2.10 MB'
    >>> cost_text(None)
    ''
    """
    if isinstance(cost, str):
        return cost
    if not isinstance(cost, Mapping):
        return ""
    texts = [
        _one(str(key), float(value))
        for key, value in cost.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return ", ".join(texts)


def _one(key: str, value: float) -> str:
    """Write one noted number with the unit of its key."""
    for suffix, factor in _TIMES.items():
        if key.endswith(suffix):
            return f"{_words(key.removesuffix(suffix))} {duration(value * factor)}"
    if key.endswith("_bytes"):
        return f"{_words(key.removesuffix('_bytes'))} {size(value)}"
    if key.endswith("_ratio"):
        return f"{_words(key.removesuffix('_ratio'))} {percent(value)}"
    return f"{_words(key)} {number(value)}"


def _words(key: str) -> str:
    return key.replace("_", " ")
