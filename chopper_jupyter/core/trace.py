"""The Trace: what every importer makes and every analysis reads."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chopper_jupyter.core import chrome_export, storage
from chopper_jupyter.core.errors import TraceFormatError, unknown_name
from chopper_jupyter.core.quality import Quality
from chopper_jupyter.core.schema import LEVEL_COLUMNS, TABLES, conform, empty

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.headline import Headline

FILTER_COLUMNS = {**LEVEL_COLUMNS, "kind": "kind", "family": "family", "stream": "stream"}


@dataclass(frozen=True)
class TraceInfo:
    """Facts about the whole run.

    Parameters
    ----------
    name : str
        Short name for titles, from the file or folder.
    origin_ns : int
        Wall clock (ns since 1970) of time 0; what the file says, which may be another epoch.
    device_kind : {"gpu", "cpu"}
        ``"cpu"`` when the kernels are CPU operators because no GPU was recorded.
    world_size : int or None
        Ranks of the run, if known; ``missing_ranks`` are those without a file.
    warmup : int
        First iterations that were recorded as warm-up; summaries leave them out.
    tokens_per_iteration : int or None
        Tokens of one iteration over all ranks, if the user said so.
    simulated : bool
        True for a simulated run; every display says so.
    folder : str
        The run folder this was read from, if it was; never saved.
    run : mapping
        What ``run.json`` held (options, cell source, profiler cost, versions), if anything.
    """

    name: str = "trace"
    origin_ns: int = 0
    device_kind: str = "gpu"
    world_size: int | None = None
    missing_ranks: tuple[int, ...] = ()
    warmup: int = 0
    tokens_per_iteration: int | None = None
    simulated: bool = False
    folder: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        facts = asdict(self) | {"missing_ranks": list(self.missing_ranks)}
        del facts["folder"]  # where somebody keeps their runs is nobody else's business
        return facts

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TraceInfo:
        """Read what ``to_dict`` wrote; unknown keys of other versions are ignored."""
        known = {f.name for f in fields(cls)}
        kept = {k: v for k, v in data.items() if k in known}
        return cls(**{**kept, "missing_ranks": tuple(kept.get("missing_ranks", ()))})


@dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """One recorded run as eight Arrow tables; immutable.

    Times are int64 nanoseconds since ``info.origin_ns``. Every kernel carries its ``gpu``,
    ``iteration``, ``phase``, ``layer`` and ``op``; null where the recording does not tell.
    ``trace.kernels.schema`` documents unit and meaning of each column.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> trace = Trace.from_tables({})
    >>> trace.kernels.num_rows
    0
    """

    gpus: pa.Table
    spans: pa.Table
    ops: pa.Table
    kernels: pa.Table
    counters: pa.Table
    telemetry: pa.Table
    collectives: pa.Table
    memory: pa.Table
    info: TraceInfo = field(default_factory=TraceInfo)
    quality: Quality = field(default_factory=Quality)
    unfiltered: pa.Table | None = None

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str, pa.Table],
        info: TraceInfo | None = None,
        quality: Quality | None = None,
    ) -> Trace:
        """Build a Trace from tables; absent ones are empty, all are cast to the schema."""
        for name in tables:
            if name not in TABLES:
                raise unknown_name(what="table", name=name, known=TABLES)
        made = {n: conform(n, tables[n]) if n in tables else empty(n) for n in TABLES}
        return cls(**made, info=info or TraceInfo(), quality=quality or Quality())

    @property
    def tables(self) -> dict[str, pa.Table]:
        """All tables by name."""
        return {name: getattr(self, name) for name in TABLES}

    @property
    def all_kernels(self) -> pa.Table:
        """Kernels before any ``filter``: what ran before and beside those that were kept."""
        return self.kernels if self.unfiltered is None else self.unfiltered

    @property
    def iterations(self) -> list[int]:
        """Iterations that own at least one kernel, in order."""
        return sorted(i for i in pc.unique(self.kernels["iteration"]).to_pylist() if i is not None)

    @property
    def measured_iterations(self) -> list[int]:
        """Iterations that summaries cover: all but warm-up, or all if there is nothing else."""
        all_ = self.iterations
        return all_[self.info.warmup :] or all_

    def filter(self, **levels: Any) -> Trace:
        """Keep the kernels that match every given value; spans, ops and gpus stay whole.

        Rows of ``memory`` are kept by the levels that they have.

        Parameters
        ----------
        **levels
            ``gpu``, ``iteration``, ``phase``, ``layer``, ``op``, ``kernel``, ``kind``,
            ``family`` or ``stream``; a value, or a list of values any of which may match.
            ``None`` matches null.

        Returns
        -------
        Trace
            A new Trace; the counters and telemetry of the kept kernels and GPUs come along.
            It remembers (but does not save) all kernels, so that overlap and launch overhead
            stay what they were.
            Iterations chosen here count as measured, even if they were recorded as warm-up.

        Raises
        ------
        SchemaError
            If a level does not exist.

        Examples
        --------
        >>> Trace.from_tables({}).filter(phase="forward", iteration=[2, 3]).kernels.num_rows
        0
        """
        mask = None
        for level, value in levels.items():
            if level not in FILTER_COLUMNS:
                raise unknown_name(what="level", name=level, known=FILTER_COLUMNS)
            one = _matches(self.kernels[FILTER_COLUMNS[level]], value)
            mask = one if mask is None else pc.and_(mask, one)
        if mask is None:
            return self
        kernels = self.kernels.filter(mask)
        counters = self.counters.filter(
            pc.is_in(self.counters["kernel_id"], kernels["kernel_id"].combine_chunks())
        )
        telemetry = self.telemetry
        if "gpu" in levels:
            telemetry = telemetry.filter(_matches(telemetry["gpu"], levels["gpu"]))
        kept = altered(
            self,
            kernels=kernels,
            counters=counters,
            telemetry=telemetry,
            memory=_matching(self.memory, levels),
            unfiltered=self.all_kernels,
        )
        # Iterations that were asked for by number are wanted, warm-up or not.
        warmup = set() if "iteration" in levels else set(self.iterations[: self.info.warmup])
        left = len(warmup.intersection(kept.iterations))
        return altered(kept, info=replace(self.info, warmup=left))

    def save(self, path: str | Path) -> Path:
        """Write the Trace as a folder of Parquet files with a versioned manifest.

        Returns
        -------
        pathlib.Path
            The folder; ``Trace.open`` and ``read_trace`` read it back unchanged.
        """
        folder = Path(path)
        manifest = {"info": self.info.to_dict(), "quality": self.quality.to_dict()}
        storage.write(folder, self.tables, manifest)
        return folder

    @classmethod
    def open(cls, path: str | Path) -> Trace:
        """Open a folder that ``save`` wrote.

        Each table is read when it is first used. The files may be replaced or removed
        meanwhile; they stay open.

        Raises
        ------
        TraceFormatError
            If the folder is not a saved Trace, is damaged, or of a newer version. Damage
            inside of a table is found, and raised, when the table is first used.
        """
        folder = Path(path)
        unread, manifest = storage.read(folder)
        try:
            info = TraceInfo.from_dict(manifest.get("info", {}))
            quality = Quality.from_dict(manifest.get("quality", {}))
        except (TypeError, AttributeError) as error:
            msg = f"{folder / storage.MANIFEST} is damaged ({error!r})"
            raise TraceFormatError(msg) from error
        trace = object.__new__(cls)
        unknown = {name: empty(name) for name in TABLES if name not in unread}
        vars(trace).update(info=info, quality=quality, _unread=unread, **unknown)
        return trace

    if not TYPE_CHECKING:  # for a type checker, tables are always there

        def __getattr__(self, name: str) -> pa.Table:
            """Read a table that is still in its file; called for what is not there yet."""
            unread = vars(self).get("_unread", {}).get(name)
            if unread is None:
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(msg)
            return vars(self).setdefault(name, unread.read())

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *TABLES})

    def __getstate__(self) -> dict[str, Any]:
        """Return all that a copy in another process needs: the tables, not their files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _rows(self, table: str) -> int:
        """Count the rows of a table, without reading it."""
        unread = vars(self).get("_unread", {}).get(table)
        return int(vars(self).get(table, unread).num_rows)

    def export_chrome(self, path: str | Path) -> Path:
        """Write all ranks into one Chrome trace file that opens in Perfetto.

        Iterations, phases, layers and ops are tracks above the streams of each GPU. A path
        that ends in ``.gz`` is compressed.
        """
        return chrome_export.write(Path(path), self.tables, name=self.info.name)

    def headline(self) -> Headline:
        """Say in about six lines where the time went; shows as text and as HTML."""
        from chopper_jupyter.core.analysis.headline import headline  # noqa: PLC0415

        return headline(self)

    def __repr__(self) -> str:
        return "\n".join(self._summary())

    def _repr_html_(self) -> str:
        lines = self._summary()
        rest = "".join(f"<div>{html.escape(line)}</div>" for line in lines[1:])
        return f"<div><b>{html.escape(lines[0])}</b>{rest}</div>"

    def _summary(self) -> list[str]:
        ranks = self.gpus.num_rows
        what = "CPU" if self.info.device_kind == "cpu" else f"{ranks} GPU{'s' * (ranks != 1)}"
        names = [n for n in pc.unique(self.gpus["name"]).to_pylist() if n and n != "cpu"]
        title = f"Trace {self.info.name}: {what}" + (f" ({', '.join(names)})" if names else "")
        if self.info.simulated:
            title += " [simulated]"
        found = self.iterations
        counts = (
            f"  {self.kernels.num_rows:,} kernels, {self._rows('ops'):,} ops, "
            f"{len(found)} iterations"
        )
        if found:
            counts += f" ({found[0]} to {found[-1]}, {min(self.info.warmup, len(found))} warm-up)"
        lines = [title, counts]
        if self.info.missing_ranks:
            lines.append(f"  missing ranks: {', '.join(map(str, self.info.missing_ranks))}")
        return lines + [f"  {line}" for line in self.quality.lines()]


def altered(trace: Trace, **changes: Any) -> Trace:
    """Copy a Trace with other values of some fields; what is still in files stays there.

    Examples
    --------
    >>> altered(Trace.from_tables({}), info=TraceInfo(name="x")).info.name
    'x'
    """
    made = object.__new__(type(trace))
    vars(made).update(vars(trace) | changes)
    return made


def _matching(table: pa.Table, levels: Mapping[str, Any]) -> pa.Table:
    """Keep the rows of a table that match, by those levels that it has a column for."""
    for level in levels.keys() & set(table.column_names) if table.num_rows else ():
        table = table.filter(_matches(table[level], levels[level]))
    return table


def _matches(column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    """Mark the rows of a column that equal the value, or any of several; None means null."""
    many = isinstance(value, Iterable) and not isinstance(value, str)
    values = list(value) if many else [value]
    plain = [v for v in values if v is not None]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    found = pc.is_in(column, pa.array(plain, type=kind))
    return pc.or_(found, pc.is_null(column)) if None in values else found
