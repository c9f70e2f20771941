"""Share what several answers about a trace are made from, for as long as one display is made.

Such things are as large as the trace: none of them stays when the display is done.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from typing import Any

    from chopper_jupyter.core.trace import Trace

T = TypeVar("T")


@contextmanager
def sharing(trace: Trace) -> Iterator[None]:
    """While it lasts, work out once what is ``shared`` about a trace.

    Examples
    --------
    >>> from chopper_jupyter.core.trace import Trace
    >>> trace = Trace.from_tables({})
    >>> with sharing(trace):
    ...     shared(trace, "answer", list) is shared(trace, "answer", list)
    True
    >>> shared(trace, "answer", list) is shared(trace, "answer", list)
    False
    """
    if trace in _SHARED:  # whoever began it keeps it
        yield
        return
    _SHARED[trace] = {}
    try:
        yield
    finally:
        _SHARED.pop(trace, None)


def shared(trace: Trace, what: Hashable, make: Callable[[], T]) -> T:
    """Return what was made of a trace before, or make it; nobody may change it."""
    made = _SHARED.get(trace)
    if made is None:
        return make()
    if what not in made:
        made[what] = make()
    found: T = made[what]
    return found


_SHARED: WeakKeyDictionary[Trace, dict[Hashable, Any]] = WeakKeyDictionary()
