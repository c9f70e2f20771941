"""Walks over the forest of host ranges, parents before children.

Each is plain Python that numba compiles where it is installed and the forest is large enough;
elsewhere the same answer comes level by level from numpy (``nesting``), or from lists.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORTH_COMPILING = 200_000
"""Number of ranges from which loading numba takes less time than it saves."""

WORTH_USING = 50_000
"""The same where numba is loaded already, for reading the file."""

TOLERANCE_NS = 1000
"""Old traces have whole microseconds: a child may end that much after its parent."""


def is_worth(count: int) -> bool:
    """Say whether compiled code serves so many ranges better, and is there at all."""
    if "numba" in sys.modules:
        return count >= min(WORTH_USING, WORTH_COMPILING)
    return count >= WORTH_COMPILING and importlib.util.find_spec("numba") is not None


@lru_cache(maxsize=16)
def compiled(walk: Callable[..., Any]) -> Callable[..., Any]:
    """Compile one of the walks; where it can be written, the code is kept beside this file."""
    from numba import njit  # noqa: PLC0415  optional, the extra "fast"

    made: Callable[..., Any] = njit(cache=True, nogil=True)(walk)
    return made


def parents(
    tid: Any, start: Any, end: Any, parent: Any, container: Any, depth: Any, stack: Any
) -> Any:
    """Fill parent, container and depth with a stack of open ranges; return how many cross.

    Runs as it is on lists, and compiled on arrays. A stack stays right where ranges cross.
    """
    crossing, height, thread = 0, 0, -1
    for i in range(len(tid)):
        if tid[i] != thread:
            thread, height = tid[i], 0
        at, until = start[i], end[i]
        while height > 0 and end[stack[height - 1]] <= at:
            height -= 1
        if height > 0:
            top = stack[height - 1]
            if end[top] < until:
                crossing += 1
            while top >= 0 and end[top] + TOLERANCE_NS < until:
                top = parent[top]
            parent[i] = top
            depth[i] = depth[top] + 1 if top >= 0 else 0
            while top >= 0 and end[top] < until:
                top = container[top]
            container[i] = top
        stack[height] = i
        height += 1
    return crossing


def nearest(parent: Any, mark: Any, found: Any) -> None:
    """Fill the nearest marked range at or above each."""
    for i in range(len(parent)):
        if mark[i]:
            found[i] = i
        elif parent[i] >= 0:
            found[i] = found[parent[i]]
        else:
            found[i] = -1


def nearest_above(parent: Any, mark: Any, found: Any) -> None:
    """Fill the nearest marked range above each, not counting itself."""
    for i in range(len(parent)):
        above = parent[i]
        if above < 0 or mark[above]:
            found[i] = above
        else:
            found[i] = found[above]


def outermost_below(parent: Any, scope: Any, mark: Any, found: Any) -> None:
    """Fill the outermost marked range at or above each, below the nearest scope."""
    for i in range(len(parent)):
        above = parent[i]
        if scope[i]:
            found[i] = -1
        elif above >= 0 and found[above] >= 0:
            found[i] = found[above]
        elif mark[i]:
            found[i] = i
        else:
            found[i] = -1


def any_below(parent: Any, mark: Any, found: Any) -> None:
    """Mark the ranges that contain a marked one; ``found`` comes without any."""
    for i in range(len(parent) - 1, -1, -1):
        if (mark[i] or found[i]) and parent[i] >= 0:
            found[parent[i]] = True
