"""The members of each level as the browser lists them: label, short form, family."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from chopper_jupyter.core.names import short_name
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.widgets.wording import clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chopper_jupyter.core.analysis.cube import LevelCodes

Member = dict[str, Any]
Members = dict[str, list[Member]]

LONGEST_LABEL = 400
"""Longer names are shown shortened in the middle; a tooltip cannot show more anyway."""

NUMBERED_LEVELS = ("gpu", "iteration")

_DIGITS = re.compile(r"[0-9]+")


def members_of(codes: LevelCodes, device_kind: str) -> Members:
    """List the members of every level in the order of their codes.

    Parameters
    ----------
    codes : LevelCodes
        The encoded levels.
    device_kind : {"gpu", "cpu"}
        Word for the device in the labels.

    Returns
    -------
    dict of str to list of dict
        Per level, a dict with the distinct ``label`` of each member. GPUs and iterations also
        carry their number as ``value``; layers and kernels a ``short`` form; kernels a
        ``family``.
    """
    values = codes.dictionaries
    listed: Members = {}
    for level in LEVELS:
        labels = _labels(level, values[level], device_kind)
        listed[level] = [{"label": label} for label in labels]
    for level in NUMBERED_LEVELS:
        for member, value in zip(listed[level], values[level], strict=True):
            member["value"] = int(value)
    _add(listed["layer"], "short", short_layers([m["label"] for m in listed["layer"]]))
    _add(listed["kernel"], "short", (short_name(name) for name in values["kernel"]))
    _add(listed["kernel"], "family", codes.kernel_families())
    return listed


def short_layers(layers: Sequence[str]) -> list[str]:
    """Shorten layer paths to their end, as long as different containers stay apart.

    Examples
    --------
    >>> short_layers(["model.embed", "model.layers.0", "model.layers.1"])
    ['embed', 'layers.0', 'layers.1']
    >>> short_layers(["encoder.layers.0", "decoder.layers.0"])
    ['encoder.layers.0', 'decoder.layers.0']
    """
    kept: dict[tuple[str, ...], int] = {}
    for layer in layers:
        pattern = _pattern(layer)
        # From the container of the outermost number on; what has no number by its last part.
        kept[pattern] = len(pattern) + 1 - pattern.index("#") if "#" in pattern else 1
    while True:
        by_end = defaultdict(list)
        for pattern, count in kept.items():
            by_end[pattern[-count:]].append(pattern)
        alike = [p for group in by_end.values() if len(group) > 1 for p in group]
        longer = [pattern for pattern in alike if kept[pattern] < len(pattern)]
        if not longer:
            break
        for pattern in longer:
            kept[pattern] += 1
    return [".".join(layer.split(".")[-kept[_pattern(layer)] :]) for layer in layers]


def _pattern(layer: str) -> tuple[str, ...]:
    """Return the parts of a path; repeated blocks differ only in numbers, so these are hidden."""
    return tuple("#" if _DIGITS.fullmatch(part) else part for part in layer.split("."))


def _labels(level: str, values: Iterable[Any], device_kind: str) -> list[str]:
    if level == "gpu":
        return [f"{device_kind.upper()} {value}" for value in values]
    return distinct(clip(str(value), LONGEST_LABEL) for value in values)


def distinct(labels: Iterable[str]) -> list[str]:
    """Append numbers to labels that became alike by shortening: one label, one member.

    Examples
    --------
    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    made = []
    for label in labels:
        one = label
        while one in taken:
            seen[label] += 1
            one = f"{label} ({seen[label] + 1})"
        taken.add(one)
        made.append(one)
    return made


def _add(members: list[Member], key: str, values: Iterable[str]) -> None:
    for member, value in zip(members, values, strict=True):
        member[key] = value
