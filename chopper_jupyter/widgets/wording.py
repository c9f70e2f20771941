"""Text as the explorer shows it: typeset numbers, clipped names."""

from __future__ import annotations

THIN_SPACE = "\u202f"
"""Between thousands and before a unit; it does not break the line."""

TIMES_SIGN = "\u00d7"

_TYPESET = str.maketrans({",": THIN_SPACE, " ": THIN_SPACE, "-": "\u2212"})


def typeset(number: str) -> str:
    """Set a formatted number with thin spaces and a true minus.

    Examples
    --------
    >>> typeset("1,234 ms") == "1\u202f234\u202fms"
    True
    """
    return number.translate(_TYPESET)


def clip(text: str, longest: int) -> str:
    """Shorten a long name in the middle: names of kernels differ at both ends.

    Examples
    --------
    >>> clip("void gemm_kernel<bf16, 256, 128>", 15)
    'void ge…6, 128>'
    """
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[head + 1 - longest :]}"


def printable(text: str) -> str:
    r"""Replace what no encoding can carry (lone surrogates), so that the text can be shown.

    Examples
    --------
    >>> printable("a\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode("utf-8")
