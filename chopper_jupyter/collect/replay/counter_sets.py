"""Named sets of hardware counters, and how they are spread over passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chopper_jupyter.core.errors import CollectError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PER_PASS = 3
"""Counters that fit into one pass on every AMD GPU."""

Passes = tuple[tuple[str, ...], ...]

_MATRIX: Passes = (
    ("GRBM_GUI_ACTIVE", "SQ_VALU_MFMA_BUSY_CYCLES", "SQ_BUSY_CU_CYCLES"),
    (
        "SQ_INSTS_VALU_MFMA_MOPS_BF16",
        "SQ_INSTS_VALU_MFMA_MOPS_F16",
        "SQ_INSTS_VALU_MFMA_MOPS_F32",
    ),
)
_WITH_FP8: Passes = (*_MATRIX, ("SQ_INSTS_VALU_MFMA_MOPS_F8", "GRBM_GUI_ACTIVE"))

AMD: dict[str, Mapping[str, Passes]] = {
    "gfx90a": {
        "matrix": _MATRIX,
        "memory": (
            ("TCC_EA_RDREQ_sum", "TCC_EA_RDREQ_32B_sum", "GRBM_GUI_ACTIVE"),
            ("TCC_EA_WRREQ_sum", "TCC_EA_WRREQ_64B_sum", "GRBM_GUI_ACTIVE"),
        ),
    },
    "gfx942": {
        "matrix": _WITH_FP8,
        "memory": (
            ("TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum"),
            ("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum", "GRBM_GUI_ACTIVE"),
        ),
    },
    "gfx950": {
        "matrix": _WITH_FP8,
        "memory": (
            ("TCC_EA0_RDREQ_32B_sum", "TCC_EA0_RDREQ_64B_sum", "TCC_EA0_RDREQ_128B_sum"),
            ("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum", "GRBM_GUI_ACTIVE"),
        ),
    },
}
"""Sets of rocprofv3 counters by architecture (ROCm documentation of performance counters)."""

_CYCLES = (
    "gpc__cycles_elapsed.max",
    "sm__cycles_elapsed.avg",
    "gpc__cycles_elapsed.avg.per_second",
    "gpu__time_duration.sum",
    "launch__sm_count",
)
NVIDIA: Mapping[str, tuple[str, ...]] = {
    "matrix": (
        *_CYCLES,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        r"regex:sm__ops_path_tensor.*sparsity_off\.sum$",
    ),
    "memory": (*_CYCLES, "dram__bytes_read.sum", "dram__bytes_write.sum"),
}
"""Sets of Nsight Compute metrics."""

NAMES = tuple(NVIDIA)


def plan_passes(wanted: Iterable[str], tool: str, architecture: str | None = None) -> Passes:
    """Spread counters over the passes of a tool.

    Parameters
    ----------
    wanted : iterable of str
        Names of sets (``matrix``, ``memory``) or of counters.
    tool : {"rocprofv3", "ncu"}
        Nsight Compute replays each kernel as often as it needs: one pass.
    architecture : str, optional
        Of an AMD GPU, for instance ``gfx942``; sets need it.

    Returns
    -------
    tuple of tuple of str
        Counters of each pass, without repeated passes.

    Raises
    ------
    CollectError
        If a set is not known for the architecture.
    SchemaError
        If a name is neither a set nor looks like a counter.

    Examples
    --------
    >>> plan_passes(["memory"], "rocprofv3", "gfx90a")[0]
    ('TCC_EA_RDREQ_sum', 'TCC_EA_RDREQ_32B_sum', 'GRBM_GUI_ACTIVE')
    >>> plan_passes(["A_1", "B_1", "C_1", "D_1"], "rocprofv3")
    (('A_1', 'B_1', 'C_1'), ('D_1',))
    """
    names = [name.strip() for name in wanted if name.strip()]
    if not names:
        msg = f"no counters named; sets: {', '.join(NAMES)}"
        raise CollectError(msg)
    sets = [name for name in names if name in NAMES]
    raw = [name for name in names if name not in NAMES]
    for name in raw:
        if "_" not in name:
            raise unknown_name(what="set of counters", name=name, known=NAMES)
    if tool == "ncu":
        metrics = [metric for name in sets for metric in NVIDIA[name]]
        return (tuple(dict.fromkeys([*metrics, *raw])),)
    passes = [one for name in sets for one in _amd(name, architecture)]
    passes += [tuple(raw[i : i + PER_PASS]) for i in range(0, len(raw), PER_PASS)]
    return tuple(dict.fromkeys(passes))


def _amd(name: str, architecture: str | None) -> Sequence[tuple[str, ...]]:
    known = AMD.get((architecture or "").split(":")[0])
    if known is None:
        msg = (
            f"the counters of the set {name!r} are not known for {architecture or 'this GPU'}; "
            f"name counters instead (rocprofv3-avail list --pmc), or use {', '.join(AMD)}"
        )
        raise CollectError(msg)
    return known[name]
