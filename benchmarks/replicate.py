"""Make a large Kineto trace of a real one: copies one after another, times and ids shifted."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path
from typing import Any

ID_KEYS = ("External id", "correlation")
USUAL = "traces/hta/df_index_resolver.json.gz"
FOLDER = Path(tempfile.gettempdir()) / "chopper_jupyter_benchmarks"


def base_file(named: str | None) -> Path:
    """Return the real trace to copy: the one named, or the usual one of CHOPPER_REAL_DATA."""
    folder = os.environ.get("CHOPPER_REAL_DATA")
    path = Path(named) if named else Path(folder or "", USUAL)
    if not path.is_file():
        msg = (
            f"no real trace at {path}: name one (a .json or .json.gz of the PyTorch profiler), "
            f"or set CHOPPER_REAL_DATA to a folder that holds {USUAL}"
        )
        raise SystemExit(msg)
    return path


def replica(source: Path, megabytes: int) -> tuple[Path, int]:
    """Return a file of so many megabytes of JSON, gzipped, and its exact size; made once."""
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{source.name.split('.')[0]}-{megabytes}.json.gz"
    if not target.exists():
        print(f"writing {target}")
        replicate(source, target.with_suffix(".part"), megabytes)
        target.with_suffix(".part").rename(target)
    with target.open("rb") as file:  # a gzip file ends with the size of its text
        file.seek(-4, os.SEEK_END)
        return target, int.from_bytes(file.read(4), "little")


def replicate(source: Path, target: Path, megabytes: int) -> None:
    """Write at least so many megabytes of JSON text, gzipped."""
    raw = source.read_bytes()
    document = json.loads(gzip.decompress(raw) if source.suffix == ".gz" else raw)
    events = [e for e in document.pop("traceEvents") if e.get("ph") in ("X", "s", "f")]
    shifts = _shifts(events)
    size = copy = 0
    with gzip.open(target, "wt", compresslevel=1, encoding="utf-8", newline="") as out:
        head = json.dumps(document)[:-1] + (", " if document else "") + '"traceEvents": [\n'
        size += out.write(head)
        while size < megabytes * 1_000_000:
            lines = [json.dumps(_shifted(e, copy, shifts)) for e in events]
            size += out.write((",\n" if copy else "") + ",\n".join(lines))
            copy += 1
        out.write("\n]}\n")


def _shifts(events: list[dict[str, Any]]) -> dict[str, int]:
    """Return by how much each copy moves times and ids, so that no two copies share any."""
    ends = [float(e["ts"]) + float(e.get("dur", 0)) for e in events]
    args = [e.get("args", {}) for e in events]
    ids = 1 + max(int(a.get(key, 0)) for a in args for key in ID_KEYS)
    return {
        "ts": int(max(ends) - min(float(e["ts"]) for e in events)) + 1000,
        "id": 1 + max((int(e["id"]) for e in events if "id" in e), default=0),
        "Sequence number": 1 + max(int(a.get("Sequence number", 0)) for a in args),
        **dict.fromkeys(ID_KEYS, ids),
    }


def _shifted(event: dict[str, Any], copy: int, shifts: dict[str, int]) -> dict[str, Any]:
    new = {**event, "ts": round(float(event["ts"]) + copy * shifts["ts"], 3)}
    if "id" in event:
        new["id"] = int(event["id"]) + copy * shifts["id"]
    if "args" in event:
        new["args"] = {
            key: int(value) + copy * shifts[key] if key in shifts else value
            for key, value in event["args"].items()
        }
    if str(event.get("name", "")).startswith("ProfilerStep#"):
        new["name"] = f"ProfilerStep#{int(event['name'].rpartition('#')[2]) + copy * 1000}"
    return new
