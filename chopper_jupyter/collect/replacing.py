"""Replace an attribute of somebody else's class or module for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Set ``owner.name`` to ``make(original)``; put the original back at the end.

    It is put back only if the attribute is still ours: whoever wrapped it meanwhile keeps
    their wrapper, which then calls ours for ever, so a replacement must be able to do nothing.
    An owner without the attribute is left alone.

    Examples
    --------
    >>> class Box:
    ...     size = 1
    >>> with replaced(Box, "size", lambda original: original + 1):
    ...     Box.size
    2
    >>> Box.size
    1
    """
    if name not in vars(owner):
        yield
        return
    original = vars(owner)[name]
    mine = make(original)
    setattr(owner, name, mine)
    try:
        yield
    finally:
        if vars(owner).get(name) is mine:
            setattr(owner, name, original)
