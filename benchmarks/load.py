"""Loading one large file: against reading its bytes, ``json.loads`` and HTA.

The baseline is what cannot be avoided: ISA-L gunzip and one pass over the bytes that counts the
events. Every run is a process of its own; "again" is the second time in it, without imports.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import replicate
import timing

ROOT = Path(__file__).parents[1]
HTA_CODE = """
import json, sys, time
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
sys.path.insert(0, sys.argv[2])
import timing
t, result = timing.timed(lambda: parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg()))
print(json.dumps({"cpu": t.cpu, "wall": t.wall, "peak": timing.peak_memory()}))
"""


def count_events(path: Path) -> int:
    from chopper_jupyter.core.importers.json_stream import blocks

    return sum(block.count(b'"ph"') for block in blocks(path))


def json_loads(path: Path) -> int:
    from isal import igzip

    gc.disable()
    with igzip.open(path, "rb") as file:
        return len(json.loads(file.read())["traceEvents"])


def load_and_link(path: Path) -> Any:
    from chopper_jupyter.core.align.link import link
    from chopper_jupyter.core.importers import kineto_fast

    read, events = timing.timed(lambda: kineto_fast.read_rank(path))
    linked, _ = timing.timed(lambda: link(events))
    return {"load": read.cpu, "link": linked.cpu, "events": events.events_read}


TASKS = {"baseline": count_events, "json.loads": json_loads, "load + link": load_and_link}


def measure(task: str, path: Path) -> None:
    """Run one task, in this process, and print what it took."""
    from chopper_jupyter.core.freed_memory import give_back

    first, found = timing.timed(lambda: TASKS[task](path))
    facts = {"peak": timing.peak_memory(), "first": first.cpu}
    again = first
    if task != "json.loads":
        give_back()  # as ``read_trace`` does
        again, found = timing.timed(lambda: TASKS[task](path))
    facts |= found if isinstance(found, dict) else {}
    print(json.dumps({"cpu": again.cpu, "wall": again.wall, **facts}))


def fresh(task: str, path: Path, **env: str) -> timing.Sample:
    return timing.in_fresh_process(__file__, "--task", task, str(path), env={**os.environ, **env})


def show_first_use(path: Path) -> None:
    """Compile into an empty folder, as on a new machine; then load from there."""
    with tempfile.TemporaryDirectory() as folder:
        for what in ("compiling, once a machine", "compiled"):
            run = fresh("load + link", path, NUMBA_CACHE_DIR=folder)
            start = run.facts["first"] - run.cpu
            print(f"first use in a process, {what}: {start:.2f} CPU s more than later ones")


def show_equality(source: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from same_events import check_same

    path, size = replicate.replica(source, 30)
    same = "equal" if check_same(path) else "left to the plain reader"
    print(f"fast and plain reader on {size / 1e6:.0f} MB: {same}, event by event")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", help="a real trace to copy")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has traceinsight 0.6.1")
    parser.add_argument("--hta-runs", type=int, default=1, help="it takes a minute for 200 MB")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        measure(options.task, Path(options.file))
        return
    source = replicate.base_file(options.file)
    path, size = replicate.replica(source, options.megabytes)
    show_equality(source)
    show_first_use(path)
    found = timing.interleaved({t: partial(fresh, t, path) for t in TASKS}, options.runs)
    if options.hta:
        arguments = ("-c", HTA_CODE, str(path), str(ROOT / "benchmarks"))
        one = partial(timing.in_fresh_process, *arguments, python=options.hta)
        found |= timing.interleaved({"HTA": one}, options.hta_runs)
    timing.show(f"{size / 1e6:.0f} MB of JSON, {path.stat().st_size / 1e6:.0f} MB gzipped", found)
    own = found["load + link"]
    cpu = {name: timing.median(samples) for name, samples in found.items()}
    names = ("load", "link", "first")
    parts = ", ".join(f"{name} {timing.median(own, name):.2f} s" for name in names)
    print(f"\n{own[0].facts['events']:,} events: {parts} (in a process that has read nothing yet)")
    for name in list(cpu)[1:]:
        if name != "load + link":
            print(f"load + link / {name}: {cpu['load + link'] / cpu[name]:.3f}")
    print(f"peak memory / JSON size: {timing.median(own, 'peak') / size:.2f}")


if __name__ == "__main__":
    main()
