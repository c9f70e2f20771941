"""Compiled: the row of integers of one understood event."""

from __future__ import annotations

from typing import Any

import numpy as np

from chopper_jupyter.core.importers.event_layout import (
    ACTIVITY,
    ARGS,
    C_BYTES,
    C_DEVICE,
    C_DEVICE_TYPE,
    C_NAME,
    C_PID,
    C_STREAM,
    C_TID,
    C_TS,
    COLLECTIVE,
    CONCRETE,
    DUR,
    FLOW,
    ID,
    MEMORY,
    NAME,
    NULL,
    NUMBERS_OF,
    PID,
    TID,
    TS,
    WRITTEN_OF,
)
from chopper_jupyter.core.importers.event_values import (
    has_arguments,
    same_as_before,
)
from chopper_jupyter.core.importers.json_scan import (
    MINUS,
    NUMBER,
    OBJECT,
    STRING,
)
from chopper_jupyter.core.importers.kineto_args import HOST_MEMORY
from chopper_jupyter.core.importers.raw_bytes import (
    byte,
    inlined,
)
from chopper_jupyter.core.importers.word_table import FULL, code


@inlined
def _numbers(role: Any, notes: Any, row: Any) -> Any:
    """Fill the integer columns of a row; False if one is not plain."""
    kind, number_of = notes.kind, notes.number
    odd = False
    k = 0
    while NUMBERS_OF[role, k, 0] >= 0:
        slot = NUMBERS_OF[role, k, 0]
        if kind[slot] == 0:
            slot = NUMBERS_OF[role, k, 2]
        what = kind[slot]
        found = number_of[slot] if what == NUMBER else np.int64(NULL)
        odd |= what != 0 and found == NULL
        row[NUMBERS_OF[role, k, 1]] = found
        k += 1
    return not odd


@inlined
def in_range(role: Any, row: Any) -> Any:
    """Say whether the numbers of a row are such as the plain reader takes as they are."""
    device = row[C_DEVICE]
    if role == ACTIVITY:
        return 0 <= device < 2**31 and row[C_STREAM] != NULL and row[C_TS] > 0
    if role == MEMORY:
        kind = row[C_DEVICE_TYPE]
        return (
            row[C_BYTES] != NULL and kind != NULL and -1 <= device < 2**31
            and (device >= 0 or kind == HOST_MEMORY)
        )  # fmt: skip
    return True


@inlined
def _texts(table: Any, buf: Any, role: Any, notes: Any, row: Any) -> Any:
    """Fill the columns of texts: 1; 0 if one is not plain, -1 if there was no room for words."""
    at, to, kind = notes.start, notes.stop, notes.kind
    for slot, column in ((PID, C_PID), (TID, C_TID)):
        a, b = at[slot], to[slot]
        if kind[slot] == STRING:
            a, b = a + 1, b - 1
        elif kind[slot] != NUMBER or byte(buf, a) == MINUS:
            return 0
        found = same_as_before(table, buf, a, b, slot, notes)
        if found == FULL:
            return -1
        row[column] = found
    if role in (FLOW, MEMORY):
        return 1
    found = code(table, buf, at[NAME] + 1, to[NAME] - 1)
    if found == FULL:
        return -1
    row[C_NAME] = found
    k = 0
    while WRITTEN_OF[role, k, 0] >= 0:
        slot, column = WRITTEN_OF[role, k, 0], WRITTEN_OF[role, k, 1]
        if kind[slot] == 0:  # maybe an older spelling of the same key
            slot = WRITTEN_OF[role, k, 2]
        k += 1
        row[column] = -1
        if kind[slot] == 0 or (
            slot == CONCRETE and not has_arguments(buf, at[NAME] + 1, to[NAME] - 1)
        ):
            continue
        found = code(table, buf, at[slot], to[slot])
        if found == FULL:
            return -1
        row[column] = found
    return 1


@inlined
def fill_row(table: Any, buf: Any, role: Any, notes: Any, row: Any) -> Any:
    """Fill the row of one event: 1; 0 if it is not plain, -1 if there was no room for words."""
    kind = notes.kind
    if kind[TS] != NUMBER:
        return 0
    if role == FLOW:
        if kind[ID] == 0:
            return 0
    elif role == MEMORY:
        if kind[ARGS] != OBJECT:
            return 0
    elif (
        kind[NAME] != STRING or kind[DUR] != NUMBER or kind[COLLECTIVE] != 0
        or (kind[ARGS] != 0 and kind[ARGS] != OBJECT)
    ):  # fmt: skip
        return 0
    if not _numbers(role, notes, row):
        return 0
    if not in_range(role, row):
        return 0
    return _texts(table, buf, role, notes, row)
