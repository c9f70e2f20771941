"""The names of the ranges that a recording writes into the trace and a reader finds there.

They are the only agreement between the collector and the reader besides the run folder.
"""

from __future__ import annotations

from typing import NamedTuple

MODULE_PREFIX = "chopper::module::"
ITERATION_PREFIX = "chopper::iteration::"

WRAPPER_PREFIXES = ("module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")
"""Parts that wrappers put into a module path and that no user wrote."""


class ModuleRange(NamedTuple):
    """One call of an ``nn.Module``, as its range's name tells it."""

    root: str
    """Class of the outermost module, ``#2`` and so on appended for further ones of that class."""
    path: str
    """Path below the outermost module as ``named_modules`` gives it, wrappers stripped."""
    cls: str
    """Class of the module."""


def module_range(root: str, path: str, cls: str) -> str:
    """Return the range name of one module call.

    Examples
    --------
    >>> module_range("Llama", "layers.0.mlp", "MLP")
    'chopper::module::Llama::layers.0.mlp::MLP'
    """
    return f"{MODULE_PREFIX}{root}::{path}::{cls}"


def parse_module_range(name: str) -> ModuleRange | None:
    """Read a range name back; None if the name is not of that form.

    Examples
    --------
    >>> parse_module_range("chopper::module::Llama::layers.0.mlp::MLP").path
    'layers.0.mlp'
    >>> parse_module_range("aten::mm") is None
    True
    """
    if not name.startswith(MODULE_PREFIX):
        return None
    parts = name[len(MODULE_PREFIX) :].split("::")
    if len(parts) < 3:  # noqa: PLR2004  root, path, class
        return None
    return ModuleRange(parts[0], "::".join(parts[1:-1]), parts[-1])


def strip_wrappers(path: str) -> str:
    """Remove wrapper parts (DDP, FSDP, checkpoint, torch.compile) from a module path.

    Examples
    --------
    >>> strip_wrappers("module.layers.0._checkpoint_wrapped_module.mlp")
    'layers.0.mlp'
    >>> strip_wrappers("module")
    ''
    """
    dotted = path + "."
    for prefix in WRAPPER_PREFIXES:
        if prefix == "module.":  # only DDP's own child is a wrapper, not a child named so deeper
            dotted = dotted.removeprefix(prefix)
        else:
            dotted = dotted.replace("." + prefix, ".").removeprefix(prefix)
    return dotted.removesuffix(".")


def iteration_mark(number: int) -> str:
    """Return the name of the empty range that marks the first call of an iteration.

    Examples
    --------
    >>> iteration_mark(3)
    'chopper::iteration::3'
    """
    return f"{ITERATION_PREFIX}{number}"


def parse_iteration_mark(name: str) -> int | None:
    """Read an iteration mark back; None if the name is not one."""
    tail = name.removeprefix(ITERATION_PREFIX)
    return int(tail) if tail != name and tail.isdecimal() else None
