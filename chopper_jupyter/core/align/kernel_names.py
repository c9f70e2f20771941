"""Which names of kernels are the same kernel, though two tools spell them differently.

Kineto, rocprofv3, rocprof-compute and ncu demangle with different libraries, append suffixes,
drop namespaces, templates or parameters, or cut long names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from chopper_jupyter.core.cxx_names import clean, mangled_parts, qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LAMBDAS = (
    re.compile(r"\{lambda\(.*?\)#(\d+)\}"),  # GNU and LLVM: {lambda(int)#1}
    re.compile(r"\[lambda\(.*?\)\s*\(instance (\d+)\)\]"),  # NVIDIA: [lambda(T1) (instance 1)]
    re.compile(r"\{?lambda \[instance (\d+)\]\}?"),
)
_LLVM_LAMBDA = re.compile(r"'lambda(\d*)'(?:\([^()]*\))?")
_UNNAMED = re.compile(r"\{unnamed type#(\d+)\}|\[unnamed type \(instance (\d+)\)\]")
_CAST = re.compile(
    r"\((?:(?:un)?signed |long |short )*(?:int|long|short|char|bool|size_t|u?int(?:8|16|32|64)_t)\)"
    r"(?=-?\d)"
)
_LITERAL = re.compile(r"\b(\d+)(?:[uU][lL]{0,2}|[lL]{1,2}[uU]?)\b")
_QUALIFIERS = re.compile(r"\b(?:static|__global__|void)\s+(?=[A-Za-z_])")
_INNER_PARAMETERS = re.compile(r"\([^()]*\)(?=\s*(?:const)?\s*::)")  # of a function around a lambda
_ARRAY = re.compile(r"\b(?:std::array|(?:at::)?detail::Array)(?=<)")
_NAMESPACE = re.compile(r"(?<![$\w])[A-Za-z_]\w*::")
_LITERALS = re.compile(r"\$[a-z]+\d+|(?<![$\w])\d+")
_ELLIPSIS = re.compile(r"(?:\.\.\.|…)$")
_OPEN, _CLOSE = "<({[", ">)}]"

SHORTEST_CUT = 32
"""A name shorter than this is not taken for the beginning of another, unless it says so."""

LEAST_LIKENESS = 0.75
"""Share of words that two spellings of one template must have in common."""


@lru_cache(maxsize=1 << 16)
def normal_name(name: str) -> str:
    """Write a kernel's name in one way, whichever tool spelt it.

    Suffixes, blanks, return type, parameters, unnamed namespaces, casts of literals and the
    spelling of lambdas go; namespaces and template arguments stay. Mangled names stay as they
    are.

    Examples
    --------
    >>> normal_name("void add<float, std::array<char*, 3ul> >(float*, int) [clone .kd]")
    'add<float,Array<char*,3>>'
    >>> normal_name("add<float, at::detail::Array<char *, (int)3>>")
    'add<float,Array<char*,3>>'
    """
    text = _ELLIPSIS.sub("", clean(name))
    if text.startswith("_Z"):
        return text
    for pattern in _LAMBDAS:
        text = pattern.sub(r"$lambda\1", text)
    text = _LLVM_LAMBDA.sub(lambda m: f"$lambda{int(m[1]) + 2 if m[1] else 1}", text)
    text = _UNNAMED.sub(lambda m: f"$unnamed{m[1] or m[2]}", text)
    text = _CAST.sub("", _QUALIFIERS.sub("", text))
    text = _LITERAL.sub(r"\1", _ARRAY.sub("Array", text))
    text = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", text))
    text = _INNER_PARAMETERS.sub("()", text)
    return "".join(_without_parameters(text).split())


def _without_parameters(text: str) -> str:
    depth = 0
    for at, letter in enumerate(text):
        if depth == 0 and letter == "(" and at and not text[:at].rstrip().endswith("operator"):
            return text[:at]
        depth += (letter in _OPEN) - (letter in _CLOSE)
    return text


def _without_namespaces(name: str) -> str:
    return _NAMESPACE.sub("", normal_name(name))


@dataclass(frozen=True)
class SameNames:
    """Numbers of names; equal ones are the same kernel.

    Parameters
    ----------
    counted, traced : list of int
        Number of each name of the two sides.
    similar : frozenset of int
        Numbers whose names agree only in part: one is cut short, or lacks its template.
    """

    counted: list[int]
    traced: list[int]
    similar: frozenset[int]


def same_names(counted: Sequence[str], traced: Sequence[str]) -> SameNames:
    """Tell which counted names are which traced ones.

    The same spelling in normal form decides first, then without namespaces. Of names that are
    left on both sides, one may be the beginning of the other, or have the same base name and a
    template that is not told, or has most words in common.

    Examples
    --------
    >>> found = same_names(["void f<int>(int) [clone .kd]", "g"], ["f<int>", "h"])
    >>> found.counted[0] == found.traced[0], found.counted[1] == found.traced[1]
    (True, False)
    """
    classes = _Classes(counted, traced)
    for spelling in (normal_name, _without_namespaces):
        classes.join_equal(spelling)
    first_similar = classes.count
    classes.join_pairs(_cut(*classes.left()))
    classes.join_pairs(_same_base(*classes.left()))
    similar = frozenset(range(first_similar, classes.count))
    return SameNames(*classes.numbers(), similar)


class _Classes:
    """Names of two sides on their way into classes."""

    def __init__(self, counted: Sequence[str], traced: Sequence[str]) -> None:
        self.sides = (counted, traced)
        self.number: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.count = 0

    def left(self) -> tuple[list[str], list[str]]:
        """Return the names of each side that have no class yet."""
        found = [
            [name for name in dict.fromkeys(side) if name not in known]
            for side, known in zip(self.sides, self.number, strict=True)
        ]
        return found[0], found[1]

    def join_equal(self, spelling: Callable[[str], str]) -> None:
        """Join the names that both sides spell alike."""
        by_text: defaultdict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for side, names in enumerate(self.left()):
            for name in names:
                by_text[spelling(name)][side].append(name)
        for both in by_text.values():
            if all(both):
                self._add(both)

    def join_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Join the names of pairs (counted, traced), and what is joined with either."""
        group: dict[tuple[int, str], tuple[list[str], list[str]]] = {}
        for pair in pairs:
            keys = [(side, name) for side, name in enumerate(pair)]
            known = {id(group[key]): group[key] for key in keys if key in group}
            whole: tuple[list[str], list[str]] = ([], [])
            for part in known.values():
                for side in (0, 1):
                    whole[side].extend(part[side])
            for side, name in keys:
                if name not in whole[side]:
                    whole[side].append(name)
            for side in (0, 1):
                group.update({(side, name): whole for name in whole[side]})
        for both in {id(both): both for both in group.values()}.values():
            self._add(both)

    def _add(self, both: tuple[list[str], list[str]]) -> None:
        for side, names in enumerate(both):
            self.number[side].update(dict.fromkeys(names, self.count))
        self.count += 1

    def numbers(self) -> tuple[list[int], list[int]]:
        """Return the class of each name; names without an equal have one of their own."""
        for side, names in enumerate(self.left()):
            for name in names:
                self.number[side][name] = self.count
                self.count += 1
        found = [
            [known[name] for name in side]
            for side, known in zip(self.sides, self.number, strict=True)
        ]
        return found[0], found[1]


def _cut(counted: list[str], traced: list[str]) -> list[tuple[str, str]]:
    """Pair names of which one is the beginning of the other."""
    pairs = []
    for short, long, swap in ((counted, traced, False), (traced, counted, True)):
        texts = sorted((normal_name(name), name) for name in long)
        for name in short:
            text = normal_name(name)
            if len(text) < SHORTEST_CUT and not _ELLIPSIS.search(name.strip()):
                continue
            at = bisect_left(texts, (text, ""))
            while at < len(texts) and texts[at][0].startswith(text):
                pairs.append((texts[at][1], name) if swap else (name, texts[at][1]))
                at += 1
    return pairs


def _same_base(counted: list[str], traced: list[str]) -> list[tuple[str, str]]:
    """Pair names with the same base name and the likest templates."""
    by_base = defaultdict(list)
    for name in traced:
        by_base[_base(name)].append(name)
    pairs = []
    for name in counted:
        likeness = [(_likeness(name, other), other) for other in by_base.get(_base(name), ())]
        best = max((value for value, _ in likeness), default=0.0)
        if best >= LEAST_LIKENESS:
            pairs += [(name, other) for value, other in likeness if value >= best]
    return pairs


@lru_cache(maxsize=1 << 14)
def _base(name: str) -> str:
    return qualified_name(name).rsplit("::", 1)[-1]


@lru_cache(maxsize=1 << 14)
def _template(name: str) -> tuple[frozenset[str], tuple[str, ...] | None] | None:
    """Return words and literals of a name's template; None if it is not told.

    Of a mangled name only the words are known.
    """
    text = clean(name)
    parts = mangled_parts(text)
    if parts:
        base = _base(name)
        words = list(parts[parts.index(base) + 1 :] if base in parts else parts)
        return _words(words), None
    inside = normal_name(name).partition("<")[2]
    if not inside:
        return None
    words = re.findall(r"(?<![$\w])[A-Za-z_]\w*(?!\w*::)", inside)
    return _words(words), tuple(_LITERALS.findall(inside))


def _words(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower() for word in words if word.strip("_"))


def _likeness(one: str, other: str) -> float:
    """Return the share of template words in common; 1 where a template is not told."""
    mine, theirs = _template(one), _template(other)
    if mine is None or theirs is None:
        return 1.0
    (words, literals), (others, their_literals) = mine, theirs
    both_told = literals is not None and their_literals is not None
    if both_told and literals != their_literals:
        return 0.0
    size = (max if both_told else min)(len(words), len(others))
    return len(words & others) / size if size else 1.0
