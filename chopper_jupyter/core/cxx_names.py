"""C++ function names taken apart: plain, with template arguments, or mangled by a compiler.

Recordings hold such names in every state: with or without return type and parameters, cut
short, with suffixes of tools. Any text gives an answer; none raises.
"""

from __future__ import annotations

import re
from functools import lru_cache

_SUFFIX = re.compile(r"(\s*\[clone [^\]]*\]|\s*\(\.kd\)|\.kd)+$")
_RETURN_TYPE = re.compile(r"^(?:static |__global__ )*(?:void|std::enable_if::type)\s+")
_LENGTH = re.compile(r"[0-9]{1,4}")
_OPEN, _CLOSE = "<({[", ">)}]"


def clean(name: str) -> str:
    """Drop what tools append to a name (``.kd``, ``[clone .kd]``) and unnamed namespaces."""
    text = _SUFFIX.sub("", name.strip())
    return text.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")


@lru_cache(maxsize=1 << 16)
def qualified_name(name: str) -> str:
    """Return the qualified function name without return type, template and parameters."""
    text = clean(name)
    parts = mangled_parts(text)
    if parts:
        return "::".join(_mangled_head(text, parts))
    kept, depth = [], 0
    for at, letter in enumerate(text):
        if depth == 0 and letter == "(" and not text[:at].endswith("operator"):
            break
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(letter)
    return _RETURN_TYPE.sub("", "".join(kept).strip()) or text


def template_text(text: str) -> str:
    """Return what stands in the first template bracket, mangled names as identifiers."""
    parts = mangled_parts(text)
    if parts:
        return " ".join(parts)
    start = text.find("<")
    if start < 0:
        return ""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "<") - (text[at] == ">")
        if depth == 0:
            return text[start + 1 : at]
    return text[start + 1 :]


def identifiers(text: str) -> list[str]:
    """List the identifiers of a template's text, without namespaces."""
    return re.findall(r"\b[A-Za-z_]\w*\b(?!::)", text)


@lru_cache(maxsize=1 << 12)
def mangled_parts(text: str) -> tuple[str, ...]:
    """List the identifiers of an Itanium-mangled name; empty for any other name."""
    if not text.startswith("_Z"):
        return ()
    parts: list[str] = []
    at = 2
    while at < len(text):
        number = _LENGTH.match(text, at)
        if not number:
            at += 1
            continue
        end = number.end() + int(number[0])
        word = text[number.end() : end]
        is_name = re.fullmatch(r"[A-Za-z_]\w*", word) and len(word) == int(number[0])
        if is_name and text[at - 1] not in "iLjlmS":  # else a literal such as Li128E
            parts.append(word)
            at = end
        else:
            at = number.end()
    return tuple(part for part in parts if not part.startswith("_GLOBAL__"))


def _mangled_head(text: str, parts: tuple[str, ...]) -> list[str]:
    """Return the identifiers before the first template argument."""
    kept = []
    for part in parts:
        kept.append(part)
        after = text.find(part) + len(part)
        if text[after : after + 1] in ("I", "E", ""):
            break
    return kept
