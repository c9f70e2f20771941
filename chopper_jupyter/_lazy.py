"""Public names that are imported at first use, so that importing their package is cheap."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazily(
    package: str, homes: Mapping[str, str], *, listed: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        Public names, and the module below the package in which each lives.
    listed : tuple of str
        Further names for ``dir``.

    Examples
    --------
    >>> get, names = lazily("chopper_jupyter", {"ChopperError": "core.errors"})
    >>> names(), get("ChopperError").__name__
    (['ChopperError'], 'ChopperError')
    """

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value = getattr(importlib.import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted([*homes, *listed])
