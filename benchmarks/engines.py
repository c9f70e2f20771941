"""Which engine reads large files: a compiled scanner, typed or untyped decoders of JSON.

Each makes columns of all complete events of the same gzipped file: exact nanoseconds, names and
categories as codes, two ids. Measured with 53 MB of JSON on two busy cores:

The compiled scanner reads it in 0.9 CPU s, msgspec's structs in 2.6, orjson in 2.7, json in 3.2.
It costs 213 MB installed (numba, llvmlite), 20 to 30 CPU s of compiling once a machine, and 1.2
at the start of a process; so it is the extra ``fast``, and small files never wait for it.
It alone keeps exact times without an object per event, and frees other threads meanwhile.
The plain path is json: no dependency, and right for damaged files, which msgspec would not be.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import replicate
import timing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNIT = 1 << 18
PACKAGES = {
    "numba": ("numba", "llvmlite"), "msgspec": ("msgspec",), "orjson": ("orjson",), "json": (),
}  # fmt: skip
BETWEEN_EVENTS = re.compile(rb'\},\s*(?=\{\s*"[A-Za-z])')


def with_numba(path: Path) -> int:
    from chopper_jupyter.core.importers import kineto_fast

    found = kineto_fast.read_rank(path)
    return found.events_read


def with_msgspec(path: Path) -> int:
    """Typed structs, a unit of text at a time: unknown fields are stepped over, not made."""
    import msgspec

    raw, absent = msgspec.Raw, msgspec.Raw()
    args_type = msgspec.defstruct(
        "Args",
        [("external", raw, absent), ("correlation", raw, absent)],
        rename={"external": "External id"},
    )
    event_type = msgspec.defstruct(
        "Event",
        [("ph", str), ("name", str, ""), ("cat", str, ""), ("ts", raw, absent),
         ("dur", raw, absent), ("args", args_type | None, None)],
    )  # fmt: skip
    decoder = msgspec.json.Decoder(list[event_type])
    made = []
    for unit in _units(path):
        events = [e for e in decoder.decode(unit) if e.ph == "X"]
        args = [e.args or args_type() for e in events]
        made.append(_columns(
            [e.name for e in events], [e.cat for e in events],
            [bytes(e.ts) for e in events], [bytes(e.dur) for e in events],
            [bytes(a.external) or None for a in args],
            [bytes(a.correlation) or None for a in args],
        ))  # fmt: skip
    return pa.concat_tables(made).unify_dictionaries().num_rows


def with_orjson(path: Path) -> int:
    import orjson

    return _from_dicts(orjson.loads(_text(path))["traceEvents"])


def with_json(path: Path) -> int:
    return _from_dicts(
        json.JSONDecoder(parse_float=str).decode(_text(path).decode())["traceEvents"]
    )


ENGINES = {"numba": with_numba, "msgspec": with_msgspec, "orjson": with_orjson, "json": with_json}


def _text(path: Path) -> bytes:
    from chopper_jupyter.core.importers.json_stream import blocks

    return b"".join(blocks(path))


def _units(path: Path) -> Iterator[bytes]:
    """Cut the array into lists of whole events (the replica holds no text that looks like one)."""
    from chopper_jupyter.core.importers.json_stream import blocks, split_head

    stream = blocks(path)
    _, data = split_head(stream)
    for block in itertools.chain(stream, [b""]):
        cuts = [0]
        for match in BETWEEN_EVENTS.finditer(data):
            if match.start() - cuts[-1] > UNIT:
                cuts.append(match.end())
        for start, end in itertools.pairwise(cuts):
            yield b"[" + data[start:end].rstrip().removesuffix(b",") + b"]"
        data = data[cuts[-1] :] + block
    yield b"[" + data[: data.rindex(b"]")] + b"]"


def _from_dicts(events: list[dict[str, Any]]) -> int:
    events = [e for e in events if e["ph"] == "X"]
    args = [e.get("args", {}) for e in events]
    return _columns(
        [e["name"] for e in events], [e.get("cat") for e in events],
        [str(e["ts"]) for e in events], [str(e["dur"]) for e in events],
        [a.get("External id") for a in args], [a.get("correlation") for a in args],
    ).num_rows  # fmt: skip


def _columns(names: Any, cats: Any, ts: Any, dur: Any, external: Any, correlation: Any) -> pa.Table:
    return pa.table({
        "name": pa.array(names).dictionary_encode(), "cat": pa.array(cats).dictionary_encode(),
        "ts": _nanoseconds(ts), "dur": _nanoseconds(dur),
        "external": _ints(external), "correlation": _ints(correlation),
    })  # fmt: skip


def _nanoseconds(texts: Iterable[Any]) -> pa.Array:
    exact = pa.array(texts).cast(pa.string()).cast(pa.decimal128(22, 3))
    return pc.multiply(exact, pa.scalar(1000, pa.decimal128(4, 0))).cast(pa.int64())


def _ints(values: Iterable[Any]) -> pa.Array:
    found = pa.array(values)
    return (found if pa.types.is_integer(found.type) else found.cast(pa.string())).cast(pa.int64())


def installed_megabytes(engine: str) -> float:
    files = itertools.chain(*(importlib.metadata.files(p) or () for p in PACKAGES[engine]))
    return sum(Path(f.locate()).stat().st_size for f in files if Path(f.locate()).exists()) / 1e6


def measure(engine: str, path: Path) -> None:
    gc.disable()
    first, _ = timing.timed(lambda: ENGINES[engine](path))
    peak = timing.peak_memory()
    again, _ = timing.timed(lambda: ENGINES[engine](path)) if engine == "numba" else (first, 0)
    facts = {"peak": peak, "first": first.cpu}
    print(json.dumps({"cpu": again.cpu, "wall": again.wall, **facts}))


def fresh(engine: str, path: Path, **env: str) -> timing.Sample:
    return timing.in_fresh_process(
        __file__, "--engine", engine, str(path), env={**os.environ, **env}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", help="a real trace to copy")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        measure(options.engine, Path(options.file))
        return
    path, size = replicate.replica(replicate.base_file(options.file), options.megabytes)
    there = [name for name in ENGINES if importlib.util.find_spec(name)]
    for name in ENGINES:
        print(f"{name}: {installed_megabytes(name):.1f} MB" if name in there
              else f"{name}: not installed, left out")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for what in ("compiling, once a machine", "compiled"):
            run = fresh("numba", path, NUMBA_CACHE_DIR=folder)
            print(
                f"numba, first use in a process, {what}: {run.facts['first'] - run.cpu:.2f} CPU s"
            )
    found = timing.interleaved({n: partial(fresh, n, path) for n in there}, options.runs)
    timing.show(f"{size / 1e6:.0f} MB of JSON to columns, without imports", found)


if __name__ == "__main__":
    main()
