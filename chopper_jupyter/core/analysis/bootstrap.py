"""How sure an estimate is, by drawing the evidence again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chopper_jupyter.core.analysis.grouping import Floats, Ints

DRAWS = 400
SEED = 20_251_208
_CELLS = 1 << 22
"""Weights held at once."""


def weights(count: int, draws: int = DRAWS) -> Iterator[Floats]:
    """Draw how often each of ``count`` observations is taken, in blocks of draws.

    Always the same for the same count: an answer does not change when it is asked again.
    """
    rng = np.random.default_rng([SEED, count])
    block = max(1, min(draws, _CELLS // max(count, 1)))
    for first in range(0, draws, block):
        yield rng.multinomial(
            count, np.full(count, 1 / max(count, 1)), size=min(block, draws - first)
        ).astype(np.float64)


def error_of_ratio(above: Floats, below: Floats) -> float:
    """Return the standard error of ``sum(above) / sum(below)``.

    Parameters
    ----------
    above, below : float64 arrays
        Contributions of each observation.

    Returns
    -------
    float
        NaN for fewer than two observations.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(5, 2, 400)
    >>> 0.08 < error_of_ratio(values, np.ones(400)) < 0.12
    True
    """
    if len(above) < 2:  # noqa: PLR2004  a single one says nothing of its spread
        return float("nan")
    found = []
    for drawn in weights(len(above)):
        total = drawn @ below
        good = total != 0
        found.append((drawn @ above)[good] / total[good])
    small = len(above) / (len(above) - 1)  # drawn samples vary less than real ones
    return float(np.sqrt(np.var(np.concatenate(found)) * small))


def quantile(freedom: Ints | float) -> Floats:
    """Return the 97.5 % quantile of Student's t, to three digits from 2 degrees of freedom on.

    Cornish-Fisher expansion; Abramowitz and Stegun, 26.7.5.

    Examples
    --------
    >>> quantile(np.array([5, 30, 10**9])).round(2).tolist()
    [2.57, 2.04, 1.96]
    """
    z = 1.959963984540054
    n = np.maximum(np.asarray(freedom, np.float64), 1.0)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return np.asarray(z + sum(term / n ** (i + 1) for i, term in enumerate(terms)), np.float64)
