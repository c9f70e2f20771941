"""Names of module calls: which root, which path below it, which class.

A path is relative to the innermost module that is running and contains the called one. The
first name a module got is remembered, because checkpoint recomputation calls a block while
none of its parents runs. Everything is keyed by ``id``: modules need not be hashable, and a
call must cost next to nothing. A module that dies takes its entries with it, so ids may be
used again.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from chopper_jupyter.core.annotations import WRAPPER_PREFIXES, module_range, strip_wrappers

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

_WRAPPER_CHILDREN = {prefix.removesuffix(".") for prefix in WRAPPER_PREFIXES}


class ModuleNames:
    """Range names of module calls, found once per (parent, module) and then looked up."""

    def __init__(self) -> None:
        self._below: dict[int, dict[int, str]] = {}
        self._indexed: set[int] = set()
        self._places: dict[int, tuple[str, str]] = {}
        self._labels: dict[int, str] = {}
        self._refs: dict[int, weakref.ref[nn.Module]] = {}
        self._root_names: dict[int, str] = {}

    def label(self, module: nn.Module, running: list[nn.Module]) -> str:
        """Return the range name of a call of ``module`` made while ``running`` modules run."""
        key = id(module)
        if not running:
            return self._labels.get(key) or self._as_root(module)
        found = self._below.get(id(running[-1]), {}).get(key)
        if found is None:
            found = self._find(module, running)
            self._below.setdefault(id(running[-1]), {})[key] = found
        return found

    def _find(self, module: nn.Module, running: list[nn.Module]) -> str:
        key = id(module)
        for parent in reversed(running):
            if parent is module:
                return self._labels[key]
            self._index(parent)
            found = self._below[id(parent)].get(key)
            if found is not None:
                return found
        return self._labels.get(key) or self._as_root(module)

    def _index(self, parent: nn.Module) -> None:
        """Name every module below ``parent``; a module's first name is the one it keeps."""
        if id(parent) in self._indexed:
            return
        self._indexed.add(id(parent))
        below = self._below.setdefault(id(parent), {})
        root, base = self._places[id(parent)]
        for path, child in parent.named_modules(remove_duplicate=False):
            if path and id(child) not in below:
                full = f"{base}.{path}" if base else path
                below[id(child)] = self._keep(child, root, full)

    def _keep(self, module: nn.Module, root: str, path: str) -> str:
        """Remember a module's place, unless it has one, and return its label there."""
        key = id(module)
        label = module_range(root, strip_wrappers(path), class_name(module))
        if key not in self._refs:
            self._refs[key] = weakref.ref(module, self._forgetting(key))
            self._places[key] = (root, path)
            self._labels[key] = label
        return label

    def _as_root(self, module: nn.Module) -> str:
        cls = class_name(unwrapped(module))
        taken = set(self._root_names.values())
        name, number = cls, 1
        while name in taken:
            number += 1
            name = f"{cls}#{number}"
        self._root_names[id(module)] = name
        return self._keep(module, name, "")

    def _forgetting(self, key: int) -> Callable[[object], None]:
        return lambda _: self._forget(key)

    def _forget(self, key: int) -> None:
        for entries in (self._below, self._places, self._labels, self._refs, self._root_names):
            entries.pop(key, None)
        self._indexed.discard(key)
        for below in list(self._below.values()):
            below.pop(key, None)


def class_name(module: nn.Module) -> str:
    """Return the class the user wrote: ``fully_shard`` puts a made-up subclass over it."""
    cls = type(module)
    bases = cls.__bases__
    if len(bases) == 2 and bases[0].__name__ == "FSDPModule":  # noqa: PLR2004
        return bases[1].__name__
    return cls.__name__


def unwrapped(module: nn.Module) -> nn.Module:
    """Return what DDP, FSDP or torch.compile wrapped, so that the root has the user's name."""
    while len(module._modules) == 1:  # noqa: SLF001  named_children would skip a None child
        name, child = next(iter(module._modules.items()))  # noqa: SLF001
        if name not in _WRAPPER_CHILDREN or child is None:
            break
        module = child
    return module
