"""Colours of the figures: those of the explorer, in its two themes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from chopper_jupyter.core.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True)
class Theme:
    """Colours of one theme.

    Parameters
    ----------
    page, ink, faint, line : str
        Background, text, quiet text and grid.
    families, parts, causes : mapping of str to str
        Kernel families, parts of wall time and overheads, causes of idle time.
    series : tuple of str
        For runs, GPUs and other things without a colour of their own.
    ramp : tuple of str
        From little to much.
    slower, faster : str
        For differences.
    """

    page: str
    ink: str
    faint: str
    line: str
    families: Mapping[str, str]
    parts: Mapping[str, str]
    causes: Mapping[str, str]
    series: tuple[str, ...]
    ramp: tuple[str, ...]
    slower: str
    faster: str


LIGHT = Theme(
    page="#ffffff", ink="#1b1f24", faint="#57606b", line="#e3e6ea",
    families={
        "gemm": "#4E6CBE", "attention": "#C97A2B", "norm": "#45BF98", "elementwise": "#E6E3A3",
        "vector": "#45BF98", "communication": "#F5B5DC", "copy": "#878B8F",
        "optimizer": "#C78BDD",
    },
    parts={
        "compute": "#4E6CBE", "exposed_communication": "#F5B5DC", "memory": "#878B8F",
        "idle": "#E3E6EA", "theoretical": "#4E6CBE", "instruction": "#C97A2B",
        "utilisation": "#45BF98", "overlap": "#F5B5DC", "frequency": "#C78BDD",
        "unexplained": "#878B8F", "prep": "#8f5a00", "call": "#7a6fb0",
    },
    causes={
        "input": "#1f62b5", "iteration_boundary": "#a5450f", "host_sync": "#23787f",
        "host_late": "#8f5a00", "communication": "#c2588f", "launch_latency": "#7a6fb0",
        "unknown": "#8a929d",
    },
    series=("#1f62b5", "#C97A2B", "#2f9e79", "#8f4bab", "#6b7480", "#b0385f", "#8a7a1c", "#4E6CBE"),
    ramp=("#EDF3FA", "#C6DAF0", "#8DB5DF", "#4C87C4", "#17508F"),
    slower="#a5450f", faster="#1f62b5",
)  # fmt: skip

DARK = Theme(
    page="#16191e", ink="#e7eaee", faint="#a9b2bd", line="#2c323a",
    families={
        "gemm": "#3D5FB4", "attention": "#C67F28", "norm": "#38B5A2", "elementwise": "#C2BA5C",
        "vector": "#38B5A2", "communication": "#93305F", "copy": "#6C737B",
        "optimizer": "#A099EA",
    },
    parts={
        "compute": "#3D5FB4", "exposed_communication": "#93305F", "memory": "#6C737B",
        "idle": "#343b44", "theoretical": "#3D5FB4", "instruction": "#C67F28",
        "utilisation": "#38B5A2", "overlap": "#93305F", "frequency": "#A099EA",
        "unexplained": "#6C737B", "prep": "#e3b04b", "call": "#a79ce0",
    },
    causes={
        "input": "#7db2f2", "iteration_boundary": "#f0a56c", "host_sync": "#5fc1c9",
        "host_late": "#e3b04b", "communication": "#d678ae", "launch_latency": "#a79ce0",
        "unknown": "#6d7682",
    },
    series=("#7db2f2", "#C67F28", "#38B5A2", "#c79be0", "#a9b2bd", "#e0829f", "#C2BA5C", "#5b7fd0"),
    ramp=("#1E2B3A", "#25466A", "#33689F", "#5B98D4", "#B5D8FB"),
    slower="#f0a56c", faster="#7db2f2",
)  # fmt: skip


@dataclass
class _Choice:
    theme: Theme = field(default_factory=lambda: LIGHT)


_CHOICE = _Choice()


def use_theme(name: ThemeName) -> None:
    """Choose the colours of the figures made from now on.

    Parameters
    ----------
    name : {"light", "dark"}
        The theme; figures bring their background along.

    Examples
    --------
    >>> use_theme("light")
    """
    if name not in get_args(ThemeName):
        raise unknown_name(what="theme", name=name, known=get_args(ThemeName))
    _CHOICE.theme = {"light": LIGHT, "dark": DARK}[name]


def theme() -> Theme:
    """Return the theme in use."""
    return _CHOICE.theme
