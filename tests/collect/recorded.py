"""What a recording left on disk, as plain data."""

from __future__ import annotations

import collections
import gzip
import json

from chopper_jupyter.core.annotations import (
    ITERATION_PREFIX,
    MODULE_PREFIX,
    parse_iteration_mark,
    parse_module_range,
)
from chopper_jupyter.core.run_folder import rank_files, read_run


def events(folder, segment=0):
    path = next(p for _, number, p in rank_files(folder) if number == segment)
    document = json.loads(gzip.decompress(path.read_bytes()))
    return sorted((e for e in document["traceEvents"] if "ts" in e), key=lambda e: e["ts"])


def names(folder):
    """How often each range is in the recording."""
    every = [events(folder, number) for _, number, _ in rank_files(folder)]
    return collections.Counter(str(e["name"]) for rows in every for e in rows if e["ph"] == "X")


def marks(folder):
    """Iteration numbers in order of time."""
    return [
        parse_iteration_mark(e["name"])
        for _, segment, _ in rank_files(folder)
        for e in events(folder, segment)
        if str(e["name"]).startswith(ITERATION_PREFIX)
    ]


def modules(folder):
    """How often each (root, path, class) was called."""
    return collections.Counter(
        {
            tuple(parse_module_range(name)): count
            for name, count in names(folder).items()
            if name.startswith(MODULE_PREFIX)
        }
    )


def per_iteration(folder, name):
    """How often a range begins in each iteration, from its mark to the next."""
    counts = []
    for event in events(folder):
        if str(event["name"]).startswith(ITERATION_PREFIX):
            counts.append(0)
        elif counts and event["name"] == name and event["ph"] == "X":
            counts[-1] += 1
    return counts


run = read_run
