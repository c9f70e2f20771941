"""What rocprofv3 says of the GPUs of a host: ``agent_info``, in CSV, JSON and databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.importers.counter_parts import Agents
from chopper_jupyter.core.importers.csv_columns import header_of, read_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_COUNTS = {
    "num_xcc": "num_xcc",
    "cu_count": "cu_count",
    "simd_per_cu": "simd_per_cu",
    "max_clock_mhz": "max_engine_clk_fcompute",  # the other clock is of processors
}
_NAMES = {"product_name": "product_name", "architecture": "name"}


def is_agents(path: Path) -> bool:
    """Say whether a CSV file is an ``agent_info`` of rocprofv3."""
    return {"node_id", "agent_type", "cu_count"} <= set(header_of(path))


def read_agents(path: Path) -> Agents:
    """Read an ``agent_info.csv``.

    Raises
    ------
    TraceFormatError
        If it is no CSV.
    """
    file = read_columns(path)
    columns = [file.columns[name].to_pylist() for name in file.columns]
    rows = [dict(zip(file.columns, values, strict=True)) for values in zip(*columns, strict=True)]
    return agents_of([row for row in rows if str(row.get("agent_type", "")).upper() == "GPU"])


def agents_of(gpus: Sequence[Mapping[str, Any]]) -> Agents:
    """Give the GPUs of a host numbers, and keep what is known of them.

    Parameters
    ----------
    gpus : sequence of mapping
        The GPUs among the agents, with the columns of ``agent_info`` in lower case, and, where
        a file has names of its own for them, ``label``.

    Returns
    -------
    Agents
        Devices are numbered by node. Counter files name them by node (``"1"``, rocprofv3 6.x
        or ``--agent-index absolute``), by logical node (``"Agent 1"``) or by type (``"GPU 0"``).

    Examples
    --------
    >>> agents = agents_of([{"node_id": "2", "logical_node_id": "2", "cu_count": "304"}])
    >>> agents.devices["Agent 2"], agents.facts[0]["cu_count"]
    (0, 304)
    """
    devices: dict[str, int] = {}
    facts: dict[int, dict[str, Any]] = {}
    for device, row in enumerate(sorted(gpus, key=lambda row: _whole(row.get("node_id")) or 0)):
        node, logical = _whole(row.get("node_id")), _whole(row.get("logical_node_id"))
        of_type = _whole(row.get("logical_node_type_id"))
        devices |= (
            {str(row["label"]): device}
            if "label" in row
            else {
                str(node): device,
                f"Agent {node if logical is None else logical}": device,
                f"GPU {device if of_type is None else of_type}": device,
            }
        )
        facts[device] = _facts(row) | ({} if node is None else {"node_id": node})
    return Agents(devices, facts)


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {fact: _whole(row.get(column)) for fact, column in _COUNTS.items()}
    texts = {fact: str(row.get(column) or "").strip() for fact, column in _NAMES.items()}
    place = _whole(row.get("location_id"))
    found: dict[str, Any] = {name: value for name, value in (numbers | texts).items() if value}
    if place:
        domain = _whole(row.get("domain")) or 0
        bus, device, function = place >> 8 & 0xFF, place >> 3 & 0x1F, place & 7
        found["bus_id"] = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    return found


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
