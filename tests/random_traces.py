"""Traces drawn by hypothesis: any mixture of levels, nulls, kinds and times."""

from __future__ import annotations

from builders import trace_of
from hypothesis import strategies as st

from chopper_jupyter.core.schema import KERNEL_KINDS, PHASES

NAMES = ("mm<é>", 'add "x"', "<b>copy</b>")
LAYERS = ("layers.0", "layers.2", "layers.10")
HUGE_NS = 2**53
"""Sums of a few of these no longer fit a float exactly."""


@st.composite
def kernel_rows(draw, smallest: int = 0) -> list[dict]:
    """Draw kernels; starts are distinct, so that time orders them in one way."""
    count = draw(st.integers(smallest, 12))
    starts = draw(st.permutations(range(count)))
    times = st.integers(0, 1000) | st.integers(HUGE_NS, HUGE_NS + 3)
    return [
        {
            "kernel_id": i,
            "gpu": draw(st.integers(0, 2)),
            "stream": draw(st.sampled_from((0, 7))),
            "name": draw(st.sampled_from(NAMES)),
            "kind": draw(st.sampled_from(KERNEL_KINDS)),
            "start_ns": 10 * starts[i],
            "dur_ns": draw(times),
            "iteration": draw(st.sampled_from((None, 0, 1, 2))),
            "phase": draw(st.sampled_from((None, *PHASES))),
            "layer": draw(st.sampled_from((None, *LAYERS))),
            "op": draw(st.sampled_from((None, "q_proj", "up"))),
            "overlap_ns": draw(st.integers(0, 50)),
            "busy_ns": draw(times),
            "idle_ns": draw(times),
        }
        for i in range(count)
    ]


def traces(smallest: int = 0):
    """Draw whole traces of such kernels."""
    return kernel_rows(smallest).map(trace_of)
