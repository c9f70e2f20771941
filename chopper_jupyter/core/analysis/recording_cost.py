"""What recording cost, in words, from what the recorder noted down in ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping

from chopper_jupyter.core.analysis.quantities import duration, number, size

_ONCE = ("start_s", "stop_s", "export_s")
"""Seconds that recording took once, outside the iterations."""


def cost_text(cost: object) -> str:
    """Say what recording cost; empty if nothing was noted.

    Parameters
    ----------
    cost : object
        ``profiler_cost`` of ``run.json``: a mapping that may hold ``start_s``, ``stop_s``,
        ``export_s``, ``bytes``, ``recorded_iteration_s``, ``unrecorded_iteration_s`` and
        ``ratio``, each a number or null. What is anything else is passed over.

    Examples
    --------
    >>> cost_text({"start_s": 0.01, "stop_s": 0.13, "bytes": 2_100_000, "ratio": None})
    '140 ms to start, stop and write 2.10 MB'
    >>> cost_text({"ratio": 1.13, "recorded_iteration_s": 0.113, "unrecorded_iteration_s": 0.1})
    'iterations took 1.13 times as long (113 ms, unrecorded 100 ms)'
    >>> cost_text(None)
    ''
    """
    if not isinstance(cost, Mapping):
        return ""
    noted = {k: v for k, v in cost.items() if isinstance(v, int | float) and v > 0}
    return "; ".join(text for text in (_slower(noted), _once(noted)) if text)


def _slower(noted: Mapping[str, float]) -> str:
    """Say how much slower iterations ran while they were recorded."""
    if "ratio" not in noted:
        return ""
    text = f"iterations took {number(noted['ratio'])} times as long"
    both = [noted.get(f"{name}_iteration_s") for name in ("recorded", "unrecorded")]
    if None in both:
        return text
    recorded, unrecorded = (duration(1e9 * (s or 0.0)) for s in both)
    return f"{text} ({recorded}, unrecorded {unrecorded})"


def _once(noted: Mapping[str, float]) -> str:
    """Say what starting, stopping and writing took."""
    seconds = sum(noted.get(name, 0.0) for name in _ONCE)
    if not seconds:
        return ""
    written = f" {size(noted['bytes'])}" if "bytes" in noted else ""
    return f"{duration(1e9 * seconds)} to start, stop and write{written}"
