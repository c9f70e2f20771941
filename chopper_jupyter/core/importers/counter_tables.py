"""Puts the parts of a counting run into its tables: passes, devices, durations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chopper_jupyter.core.counter_events import COUNTED, COUNTED_DURATION, VALUES, CounterRun
from chopper_jupyter.core.importers.counter_parts import UNKNOWN, Agents, Part, codes_of, same_rows
from chopper_jupyter.core.importers.event_tables import nullable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chopper_jupyter.core.importers.event_tables import Ints, Mask

COPIED = "kernels whose times are of another run: duration left out"
BACKWARDS = "kernels that end before they start: duration left out"
SAME_NUMBER = "processes of several hosts with one number: numbered anew"
_NEXT_HOST = 1 << 32


def run_of(
    tool: str,
    passes: Sequence[tuple[int, Part]],
    agents: Sequence[Agents],
    skipped: Mapping[str, int] | None = None,
) -> CounterRun:
    """Join parts, each with the number of its pass and the devices of its host.

    Kernels are ordered by pass, process and number of their dispatch. ``device`` is the
    number of the GPU on its host, where the agents are known; else devices of a process in a
    pass are numbered in the order of their names.
    """
    repairs: Counter[str] = Counter()
    for _, part in passes:
        repairs += part.repairs
    columns = _columns(passes, agents, repairs)
    order = np.lexsort([columns[name] for name in ("start", "device", "order", "process", "pass")])
    id_of = np.empty(len(order), np.int64)
    id_of[order] = np.arange(len(order))
    facts: dict[int, Mapping[str, Any]] = {}
    for one in agents:
        for device, fact in one.facts.items():
            facts[device] = {**facts.get(device, {}), **fact}
    used = set(np.unique(columns["device"]).tolist())
    lost: Counter[str] = Counter(skipped or {})
    for _, part in passes:
        lost += part.skipped
    return CounterRun(
        tool,
        _counted(columns, order),
        _values(passes, id_of, _durations(columns)),
        {device: fact for device, fact in sorted(facts.items()) if device in used},
        dict(lost),
        dict(+repairs),
        tuple(dict.fromkeys(part.source.name for _, part in passes)),
        tuple(dict.fromkeys(note for _, part in passes for note in part.notes)),
    )


def _columns(
    passes: Sequence[tuple[int, Part]], agents: Sequence[Agents], repairs: Counter[str]
) -> dict[str, Any]:
    """Put the kernels of all parts below each other."""
    parts = [part for _, part in passes]
    sizes = [part.size for part in parts]
    columns: dict[str, Any] = {
        name: np.concatenate([part.kernels[name] for part in parts])
        for name in ("stream", "order", "work_items", "group_items", "start", "end")
    }
    columns["pass"] = np.repeat([number for number, _ in passes], sizes)
    columns["process"] = np.concatenate(_processes(passes, repairs))
    columns["device"] = np.concatenate(
        [_devices(part, known) for part, known in zip(parts, agents, strict=True)]
    )
    columns["name"] = pa.chunked_array(
        [
            part.kernels["name"].dictionary_encode().cast(COUNTED.field("name").type)
            for part in parts
        ]
    )
    columns["dur"] = np.concatenate(
        [part.kernels.get("dur", np.full(part.size, np.nan)) for part in parts]
    )
    backwards = (columns["start"] > 0) & (columns["end"] > 0) & (columns["end"] < columns["start"])
    if backwards.any():
        repairs[BACKWARDS] += int(backwards.sum())
    foreign = _copied(passes, columns)
    if foreign.any():
        repairs[COPIED] += int(foreign.sum())
        for name in ("start", "end"):
            columns[name] = np.where(foreign, 0, columns[name])
    return columns


def _processes(passes: Sequence[tuple[int, Part]], repairs: Counter[str]) -> list[Ints]:
    """Return the process of each kernel, other numbers for those of other hosts."""
    homes: dict[tuple[int, int], list[Any]] = {}
    found = []
    for number, part in passes:
        process = part.kernels["process"]
        for one in part.processes:
            known = homes.setdefault((number, one), [])
            if part.source.parent not in known:
                known.append(part.source.parent)
            again = known.index(part.source.parent)
            if again and one != UNKNOWN:
                process = np.where(process == one, one + again * _NEXT_HOST, process)
                repairs[SAME_NUMBER] += 1
        found.append(process)
    return found


def _devices(part: Part, known: Agents) -> Ints:
    """Return the device of each kernel."""
    code, words = codes_of(part.kernels["agent"])
    used = np.unique(code).tolist()
    if all(words[n] in known.devices for n in used):
        place = [known.devices.get(word, 0) for word in words]
    else:  # nobody knows them, or the list is of another host
        digits = {n: int("".join(c for c in words[n] if c.isdigit()) or 0) for n in used}
        rank = {n: i for i, n in enumerate(sorted(used, key=lambda n: (digits[n], words[n])))}
        place = [rank.get(n, 0) for n in range(len(words))]
        _, of_process = np.unique(part.kernels["process"], return_inverse=True)
        return _dense(of_process.reshape(-1), np.array(place, np.int64)[code])
    return np.array(place, np.int64)[code]


def _dense(group: Ints, value: Ints) -> Ints:
    """Give the values of each group numbers from 0, in their order."""
    pairs, place = np.unique(np.stack([group, value], axis=1), axis=0, return_inverse=True)
    first = np.searchsorted(pairs[:, 0], pairs[:, 0], "left")
    return np.asarray((np.arange(len(pairs)) - first)[place.reshape(-1)], np.int64)


def _copied(passes: Sequence[tuple[int, Part]], columns: Mapping[str, Any]) -> Mask:
    """Say which kernels have the very times of a kernel of an earlier part.

    No two runs start and end a kernel in the same nanosecond: the times were copied. Of
    rocprof-compute, which copies them from a run of its own, none are right.
    """
    timed = np.flatnonzero(columns["start"] > 0)
    foreign = np.zeros(len(columns["start"]), bool)
    if len(passes) < 2 or not len(timed):  # noqa: PLR2004  nothing to compare
        return foreign
    unit = np.repeat(np.arange(len(passes)), [part.size for _, part in passes])[timed]
    number, _ = same_rows([columns["start"][timed], columns["end"][timed]])
    lowest = np.full(int(number.max()) + 1, len(passes))
    np.minimum.at(lowest, number, unit)
    highest = np.zeros(len(lowest), np.int64)
    np.maximum.at(highest, number, unit)
    shared = lowest[number] != highest[number]
    tool = np.array([part.tool == "rocprof-compute" for _, part in passes])[unit]
    foreign[timed] = shared & (tool | (unit != lowest[number]))
    return foreign


def _durations(columns: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return how long each kernel ran in its pass; NaN where that is not known."""
    timed = (columns["start"] > 0) & (columns["end"] > columns["start"])
    return np.asarray(np.where(timed, columns["end"] - columns["start"], columns["dur"]))


def _counted(columns: Mapping[str, Any], order: Ints) -> pa.Table:
    dur = _durations(columns)[order]
    known = np.isfinite(dur)
    whole = np.where(known, np.round(np.nan_to_num(dur)), 0).astype(np.int64)
    made = {
        "counted_id": np.arange(len(order)),
        "name": columns["name"].take(pa.array(order)),
        "start_ns": nullable(columns["start"][order]),
        "dur_ns": pa.array(whole, mask=~known),
    }
    for name in ("pass", "device", "order"):
        made[name] = columns[name][order]
    for name in ("process", "stream", "work_items", "group_items"):
        made[name] = nullable(columns[name][order], UNKNOWN)
    arrays = [_typed(made[field.name], field.type) for field in COUNTED]
    table: pa.Table = pa.table(arrays, schema=COUNTED).unify_dictionaries().combine_chunks()
    return table


def _typed(values: Any, kind: pa.DataType) -> Any:
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return array if array.type.equals(kind) else array.cast(kind)


def _values(
    passes: Sequence[tuple[int, Part]], id_of: Ints, durations: np.ndarray[Any, Any]
) -> pa.Table:
    """Put the counters of all parts below each other, and the durations, ordered by kernel."""
    sizes = np.cumsum([0, *(part.size for _, part in passes)])
    timed = np.flatnonzero(np.isfinite(durations))
    rows = [part.row + n for (_, part), n in zip(passes, sizes[:-1], strict=True)]
    name = VALUES.field("counter").type
    own = pa.DictionaryArray.from_arrays(np.zeros(len(timed), np.int32), [COUNTED_DURATION])
    chunks = [part.counter.dictionary_encode().cast(name) for _, part in passes]
    counters = pa.chunked_array([*chunks, own.cast(name)]).unify_dictionaries().combine_chunks()
    counted = id_of[np.concatenate([*rows, timed])]
    value = np.concatenate([*(part.value for _, part in passes), durations[timed]])
    code, words = codes_of(counters)
    rank = np.argsort(np.argsort(np.array(words)))
    order = np.lexsort((rank[code], counted))
    return pa.table(
        [pa.array(counted[order]), counters.take(pa.array(order)), pa.array(value[order])],
        schema=VALUES,
    )
