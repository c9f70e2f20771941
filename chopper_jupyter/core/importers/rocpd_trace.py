"""Traces of rocprofv3 in its database format: rocpd (``.db``), the default since ROCm 7.0."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.errors import TraceFormatError
from chopper_jupyter.core.importers.event_tables import names_of, numbered
from chopper_jupyter.core.importers.rocprof_events import (
    AXES,
    NO_STREAM,
    Records,
    device_of_copy,
    events_of,
)
from chopper_jupyter.core.importers.sqlite_columns import (
    columns_of,
    opened,
    pairs,
    quoted,
    rows_in,
    selected,
    tables_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from chopper_jupyter.core.events import RankEvents
    from chopper_jupyter.core.importers.event_tables import Ints

KERNELS, COPIES, REGIONS = "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region"
_ONE_RUN = re.compile(rf"{KERNELS}(?P<run>_.+)?")
NO_AGENT = -1


def is_rocpd(tables: Sequence[str]) -> bool:
    """Say whether a database with such tables is of rocprofv3."""
    return any(_ONE_RUN.fullmatch(name) for name in tables)


def runs_of(tables: Iterable[str]) -> list[str]:
    """Return how the names of the tables of each run end.

    Examples
    --------
    >>> runs_of(["rocpd_kernel_dispatch", "rocpd_kernel_dispatch_01", "rocpd_string_01"])
    ['_01']
    """
    runs = sorted({m["run"] or "" for name in tables if (m := _ONE_RUN.fullmatch(name))})
    if len(runs) > 1:
        runs = [run for run in runs if run]  # the view without a suffix is their union
    return runs


def read_ranks(path: Path) -> list[RankEvents]:
    """Read a database: one rank for each process in it.

    Parameters
    ----------
    path : pathlib.Path
        A database of one process, or several merged into one.

    Returns
    -------
    list of RankEvents
        The device is the number of the GPU among those of its host. Several processes are
        numbered by their first device; a lone one has no rank number.

    Raises
    ------
    TraceFormatError
        If the file is damaged, of an unknown version, or holds no kernels.
    """
    with opened(path) as db:
        tables = tables_of(db)
        runs = runs_of(tables)
        found = [
            records for run in runs for records in _Run(db, run, set(tables)).records(path.name)
        ]
    used = [records for records in found if len(records.kernels["start"])] or found[:1]
    order = sorted(range(len(used)), key=lambda i: (_first_device(used[i]), i))
    if len(order) > 1:
        for rank, i in enumerate(order):
            used[i].rank = rank
    if not used:
        msg = f"{path.name} is of rocprofv3 but holds no process"
        raise TraceFormatError(msg)
    return [events_of(used[i]) for i in order]


def _first_device(records: Records) -> int:
    devices = records.kernels["device"]
    return int(devices.min()) if len(devices) else 0


class _Run:
    """The tables of one run in a database; their names end alike."""

    def __init__(self, db: sqlite3.Connection, run: str, tables: set[str]) -> None:
        self.db, self.run, self.tables = db, run, tables
        self.strings = pairs(db, f"rocpd_string{run}", "id", "string")
        self.agents = self._agents()

    def name(self, table: str) -> str:
        """Return the name of a table of this run, quoted."""
        return quoted(table + self.run)

    def has(self, table: str) -> bool:
        """Say whether this run has a table."""
        return table + self.run in self.tables

    def records(self, source: str) -> list[Records]:
        """Return the records of each process of this run."""
        if "start" not in columns_of(self.db, KERNELS + self.run):
            msg = (
                f"{source} has a version of the rocpd schema that is not known: convert it with "
                "`rocpd convert -f csv`"
            )
            raise TraceFormatError(msg)
        kernels, copies, calls = self._kernels(), self._copies(), self._calls()
        processes = np.unique(np.concatenate([kernels["process"], copies["process"]])).tolist()
        hosts = pairs(self.db, f"rocpd_info_node{self.run}", "id", "hostname")
        made = []
        for process in processes or [0]:
            parts = [_of_process(columns, process) for columns in (kernels, copies, calls)]
            devices = {number: name for number, name in self.agents.values() if name}
            host = next(iter(hosts.values()), None)
            made.append(
                Records(parts[0], parts[1], parts[2], devices=devices, host=host, source=source)
            )
        for table, what in (("rocpd_memory_allocate", "allocations of memory"),
                            ("rocpd_pmc_event", "counted values")):  # fmt: skip
            if made and self.has(table):
                made[0].skipped[what] += rows_in(self.db, table + self.run)
        return made

    def _agents(self) -> dict[int, tuple[int, str | None]]:
        """Return device number and product name by the id of each GPU."""
        if not self.has("rocpd_info_agent"):
            return {}
        rows = self.db.execute(
            "SELECT id, type_index, COALESCE(product_name, name) "  # noqa: S608  quoted
            f"FROM {self.name('rocpd_info_agent')} WHERE type = 'GPU'"
        )
        return {number: (int(index or 0), name) for number, index, name in rows}

    def _devices(self, agents: Ints) -> Ints:
        number, distinct = numbered(agents)
        known = [self.agents.get(agent, (0, None))[0] for agent in distinct.tolist()]
        return np.array(known, np.int64)[number] if known else number

    def _selected(self, table: str, columns: dict[str, str]) -> dict[str, Ints]:
        """Read integer expressions over a table and its events; T and E name the two."""
        if not self.has(table):
            return {name: np.zeros(0, np.int64) for name in columns}
        terms = ", ".join(f"CAST({one} AS INTEGER)" for one in columns.values())
        query = (
            f"SELECT {terms} FROM {self.name(table)} T "  # noqa: S608  quoted
            f"LEFT JOIN {self.name('rocpd_event')} E ON E.id = T.event_id ORDER BY T.id"
        )
        return selected(self.db, query, list(columns))

    def _times(self) -> dict[str, str]:
        return {"start": "T.start", "end": "T.end", "process": "T.pid",
                "correlation": "COALESCE(E.stack_id, 0)"}  # fmt: skip

    def _kernels(self) -> dict[str, Any]:
        sizes = {f"{of}_{axis}": f"T.{column}_{axis}" for of, column in
                 (("grid", "grid_size"), ("group", "workgroup_size")) for axis in AXES}  # fmt: skip
        raw = self._selected(KERNELS, {
            "kernel": "T.kernel_id", "agent": "T.agent_id", **self._times(), **sizes,
            "stream": f"COALESCE(T.stream_id, T.queue_id, {NO_STREAM})",
        })  # fmt: skip
        symbols = f"rocpd_info_kernel_symbol{self.run}"
        short = pairs(self.db, symbols, "id", "kernel_name")
        names = short | pairs(self.db, symbols, "id", "display_name")
        number, distinct = numbered(raw.pop("kernel"))
        words = [names.get(one, f"kernel {one}") for one in distinct.tolist()]
        return raw | {"name": names_of(number, words), "device": self._devices(raw.pop("agent"))}

    def _copies(self) -> dict[str, Any]:
        raw = self._selected(COPIES, {
            "name": "T.name_id", "from": f"COALESCE(T.src_agent_id, {NO_AGENT})",
            "to": f"COALESCE(T.dst_agent_id, {NO_AGENT})", **self._times(), "bytes": "T.size",
            "stream": f"COALESCE(T.stream_id, {NO_STREAM})",
        })  # fmt: skip
        direction = self._words(raw.pop("name"))
        ends = [self._devices(raw.pop(end)) for end in ("from", "to")]
        return raw | {"direction": direction, "device": device_of_copy(direction, *ends)}

    def _calls(self) -> dict[str, Any]:
        """Return API calls and roctx ranges, whose text stands in the event."""
        raw = self._selected(REGIONS, {
            "name": "T.name_id", "domain": "COALESCE(E.category_id, -1)", "id": "T.id",
            "tid": "T.tid", **self._times(),
        })  # fmt: skip
        names, row = self._words(raw.pop("name")), raw.pop("id")
        texts = self._messages()
        at = pa.compute.index_in(pa.array(row), pa.array(list(texts), pa.int64()))
        said = pa.array(list(texts.values()), pa.string()).take(at)
        return raw | {"domain": self._words(raw.pop("domain")),
                      "name": pa.compute.coalesce(said, names)}  # fmt: skip

    def _messages(self) -> dict[int, str]:
        """Return the text of each roctx range by the id of its region."""
        if not self.has(REGIONS):
            return {}
        rows = self.db.execute(
            "SELECT T.id, json_extract(E.extdata, '$.message') "  # noqa: S608  quoted
            f"FROM {self.name(REGIONS)} T JOIN {self.name('rocpd_event')} E ON E.id = T.event_id "
            f"JOIN {self.name('rocpd_string')} S ON S.id = E.category_id "
            "WHERE S.string LIKE 'MARKER%' AND json_valid(E.extdata)"
        )
        return {region: str(text) for region, text in rows if text is not None}

    def _words(self, ids: Ints) -> pa.Array:
        number, distinct = numbered(ids)
        words = [self.strings.get(one, f"name {one}") for one in distinct.tolist()]
        return names_of(number, words).cast(pa.string())


def _of_process(columns: dict[str, Any], process: int) -> dict[str, Any]:
    """Keep the rows of one process."""
    mask = columns["process"] == process
    chosen = pa.array(mask)
    return {
        name: values.filter(chosen) if isinstance(values, pa.Array) else values[mask]
        for name, values in columns.items()
        if name != "process"
    }
