"""The ops with the most time, for the plain table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.analysis.cube import cube

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.widgets.members import Members

MOST_ROWS = 12


def top_ops_of(codes: LevelCodes, members: Members) -> list[dict[str, Any]]:
    """List label, time and count of the longest ops, longest first, and of the rest as one row.

    Kernels of no known op are the row "other". Sums are over all included instances.
    """
    sums = cube(codes, ["op"])
    labels = [*(member["label"] for member in members["op"]), "other"]
    codes_, time, count = (
        column.tolist()
        for column in (sums.codes[0], sums.measures["time_ns"], sums.measures["count"])
    )
    rows = [
        {"label": labels[code], "time_ns": t, "count": n}
        for code, t, n in sorted(
            zip(codes_, time, count, strict=True), key=lambda row: (-row[1], row[0])
        )
    ]
    if len(rows) <= MOST_ROWS:
        return rows
    shown, rest = rows[: MOST_ROWS - 1], rows[MOST_ROWS - 1 :]
    sums_of_rest = {name: sum(row[name] for row in rest) for name in ("time_ns", "count")}
    return [*shown, {"label": f"{len(rest):,} more ops", **sums_of_rest}]
