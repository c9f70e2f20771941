"""How sure an estimate is, by drawing the evidence again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    return errors_of_ratios([(above, below)])[0]


def errors_of_ratios(ratios: Sequence[tuple[Floats, Floats]]) -> list[float]:
    """Return the standard errors of several ratios, each as ``error_of_ratio`` does.

    Drawing takes longest by far, and is done once for all that have as many observations.
    """
    found = [float("nan")] * len(ratios)
    places: dict[int, list[int]] = {}
    for place, (above, _) in enumerate(ratios):
        places.setdefault(len(above), []).append(place)
    for count, alike in places.items():
        if count < 2:  # noqa: PLR2004  a single one says nothing of its spread
            continue
        drawn_ratios: dict[int, list[Floats]] = {place: [] for place in alike}
        for drawn in weights(count):
            for place, so_far in drawn_ratios.items():
                above, below = ratios[place]
                total = drawn @ below
                good = total != 0
                so_far.append((drawn @ above)[good] / total[good])
        small = count / (count - 1)  # drawn samples vary less than real ones
        for place, every in drawn_ratios.items():
            found[place] = float(np.sqrt(np.var(np.concatenate(every)) * small))
    return found


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
