"""A selection: levels fixed to one value each, checked against what a trace holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chopper_jupyter.core.errors import SchemaError, unknown_name
from chopper_jupyter.core.schema import LEVELS
from chopper_jupyter.widgets.members import NUMBERED_LEVELS
from chopper_jupyter.widgets.wording import clip

if TYPE_CHECKING:
    from chopper_jupyter.core.analysis.cube import LevelCodes
    from chopper_jupyter.widgets.members import Members

Selection = list[tuple[str, Any]]
Labelled = list[list[Any]]

_FEW = 12
_LONGEST_NAME = 80
_TRAILING_NUMBER = re.compile(r"([0-9]+)$")


def checked(
    selection: Mapping[str, Any] | Iterable[tuple[str, Any]] | None, codes: LevelCodes
) -> Selection:
    """Return a selection as pairs; a level given twice keeps its last value.

    Raises
    ------
    SchemaError
        If a level does not exist, or the trace has no such value; the message names near ones.
    """
    pairs = selection.items() if isinstance(selection, Mapping) else selection or ()
    found: dict[str, Any] = {}
    for level, value in pairs:
        if level not in LEVELS:
            raise unknown_name(what="level", name=level, known=LEVELS)
        found[level] = _value(level, value, codes)
    return list(found.items())


def checked_order(order: Iterable[str] | None, default: Iterable[str]) -> list[str]:
    """Return a complete order of levels: what was given, then what it left out.

    Raises
    ------
    SchemaError
        If a level does not exist.

    Examples
    --------
    >>> checked_order(["gpu", "op"], ["op", "layer", "gpu"])
    ['gpu', 'op', 'layer']
    """
    given = list(order or ())
    for level in given:
        if level not in LEVELS:
            raise unknown_name(what="level", name=level, known=LEVELS)
    return list(dict.fromkeys([*given, *default]))


def to_labels(selection: Selection, members: Members, codes: LevelCodes) -> Labelled:
    """Say a selection to the browser: labels, and plain numbers for GPUs and iterations."""
    labelled: Labelled = []
    for level, value in selection:
        if value is None or level in NUMBERED_LEVELS:
            labelled.append([level, value])
        else:
            code = codes.keys[level].values.index(value)
            labelled.append([level, members[level][code]["label"]])
    return labelled


def from_labels(labelled: Iterable[Any], members: Members, codes: LevelCodes) -> Selection:
    """Read what the browser says; what this trace does not hold is left out."""
    found: Selection = []
    for level, label in labelled:
        code = _code(label, members.get(level, []))
        if label is None and level in LEVELS:
            found.append((level, None))
        elif code is not None:
            found.append((level, codes.keys[level].values[code]))
    return found


def _code(label: Any, members: list[dict[str, Any]]) -> int | None:
    for code, member in enumerate(members):
        if label == member["label"] or (isinstance(label, int) and label == member.get("value")):
            return code
    return None


def _value(level: str, value: Any, codes: LevelCodes) -> Any:
    """Return the value as the trace spells it; GPUs and iterations may be given as text."""
    key = codes.keys[level]
    if value is None:
        if (key.codes < 0).any():
            return None
        msg = f"every kernel of this trace has a value for {level!r}; None selects nothing"
        raise SchemaError(msg)
    if level in NUMBERED_LEVELS:
        value = _number(value)
    if value in key.values:
        return value
    raise _unknown_value(level, value, key.values)


def _number(value: Any) -> Any:
    """Turn ``"GPU 3"``, ``"3"`` and NumPy integers into 3."""
    if isinstance(value, str):
        digits = _TRAILING_NUMBER.search(value)
        return int(digits[1]) if digits else value
    return int(value) if isinstance(value, (int, np.integer)) else value


def _unknown_value(level: str, value: Any, values: tuple[Any, ...]) -> SchemaError:
    shown = clip(str(value), _LONGEST_NAME)
    names = [clip(str(name), _LONGEST_NAME) for name in values]
    if len(names) <= _FEW:
        return unknown_name(what=level, name=shown, known=names)
    message = str(unknown_name(what=level, name=shown, known=names))
    head, _, _ = message.partition(" valid: ")
    return SchemaError(f"{head} {len(names):,} exist: {', '.join(names[:_FEW])}, ...")
