"""Compares what a reader found with the truth that it could not see."""

from __future__ import annotations

import collections
import statistics

from collect import truth


def compare(rows, trace, *, beside=True):
    """Return (duration, expected place, found place, kernel name), kernel by kernel.

    Beside a node, the engine adds gradients that meet: that is the work of the node before.
    At the beginning of a backward, before any node, it makes the first gradient: that of the loss.
    Where sharding has nodes that nobody claimed, what is beside the others is not judged.
    """
    # Kernels are leaves, so one that begins when a range begins is inside of it.
    kernels = [(k["start_ns"] + trace.info.origin_ns, 1, k) for k in trace.kernels.to_pylist()]
    stack, last, result = [], None, []
    moments = sorted([*kernels, *((r.start, 0, r) for r in rows)], key=lambda m: m[:2])
    for at, is_kernel, thing in moments:
        while stack and stack[-1].end <= at:
            last = stack.pop()
        if not is_kernel:
            stack.append(thing)
            last = thing if thing.place is None else last
            continue
        expected = stack[-1].place if stack else None
        if stack and expected is None and beside:
            expected = last.place or truth.Place(None, "backward", None, "loss")
        found = truth.Place(*(thing[level] for level in truth.Place._fields))
        result.append((thing["dur_ns"], expected, found, thing["name"]))
    return result


def share(rows, level):
    """Return the share of kernel time that has the right value of a level.

    Each counts as long as the usual one of its name, so that one that was interrupted does not
    decide.
    """
    durations = collections.defaultdict(list)
    for duration, _, _, name in rows:
        durations[name].append(duration)
    usual = {name: statistics.median(found) for name, found in durations.items()}
    right = [name for _, e, f, name in rows if e and getattr(e, level) == getattr(f, level)]
    return sum(usual[name] for name in right) / sum(usual[name] for *_, name in rows)


def mistakes(rows, *levels):
    """Return what is most often wrong, for a test's message."""
    wrong = collections.Counter(
        (name, e, f)
        for _, e, f, name in rows
        if e is None or any(getattr(e, level) != getattr(f, level) for level in levels or e._fields)
    )
    return wrong.most_common(10)
