"""With noise, the intervals of overheads hold the truth as often as they say, and are narrow."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from noisy_overheads import noisy

from chopper_jupyter import overheads

SEEDS = 100
GPUS, ITERATIONS = 4, 4
INFERRED = ("utilization", "overlap", "frequency")
PRODUCTS = ("q_proj", "down_proj")


def clock(gpu, iteration):
    return 0.8 - 0.05 * gpu + 0.02 * iteration


def answers(run, seeds):
    """Yield, for each seed, what is found of each op and what is true of it."""
    for seed in range(seeds):
        trace, dur = run.under(seed, noise=0.02, sensor=0.01)
        frame = overheads(trace, "op").set_index("op")
        for op in (*PRODUCTS, "norm"):
            yield op, frame.loc[op], run.truth(dur, op, GPUS * ITERATIONS)


@pytest.fixture(scope="module")
def judged():
    """Count how often intervals hold the truth; collect half-widths over estimates."""
    run = noisy(gpus=GPUS, iterations=ITERATIONS, layers=12, slowdown=0.3, clock=clock)
    hits, widths = Counter(), {}
    for op, row, truth in answers(run, SEEDS):
        for name in ("instruction", *INFERRED, "unexplained"):
            if pd.notna(row[f"{name}_ms"]):
                low, high = row[f"{name}_low_ms"], row[f"{name}_high_ms"]
                hits[op, name] += low - 1e-9 <= truth[name] <= high + 1e-9
                widths.setdefault((op, name), []).append((high - low) / 2 / row[f"{name}_ms"])
    return hits, {key: np.median(values) for key, values in widths.items()}


def test_intervals_hold_the_truth_in_90_to_99_of_100_runs(judged):
    hits, _ = judged
    inferred = [(op, name) for op in PRODUCTS for name in (*INFERRED, "unexplained")]
    inferred += [("norm", "overlap"), ("norm", "unexplained")]
    assert {key: hits[key] for key in inferred if not 90 <= hits[key] <= 99} == {}


def test_what_was_counted_without_noise_is_exact(judged):
    hits, widths = judged
    for op in PRODUCTS:
        assert hits[op, "instruction"] == SEEDS
        assert widths[op, "instruction"] == pytest.approx(0, abs=1e-9)


def test_half_widths_are_at_most_5_percent_of_the_estimate(judged):
    _, widths = judged
    known = [(op, name) for op in PRODUCTS for name in INFERRED]
    known += [("norm", "overlap"), ("norm", "unexplained")]
    assert {key: widths[key] for key in known if widths[key] > 0.05} == {}


def test_overlap_that_goes_with_the_clock_alone_is_not_identifiable():
    """Fast GPUs communicate less, and all their kernels alike: nobody can tell both apart."""
    run = noisy(
        gpus=GPUS, iterations=ITERATIONS, layers=6, slowdown=0.3, clock=clock,
        overlap=lambda gpu, _layer: 0.2 + 0.2 * gpu,
    )  # fmt: skip
    for op, row, truth in answers(run, 5):
        assert pd.isna(row["overlap_ms"])
        assert "not identifiable" in row["note"]
        if op in PRODUCTS:
            for name in ("instruction", "utilization", "frequency"):
                slack = 1.5 * (row[f"{name}_high_ms"] - row[f"{name}_low_ms"])
                assert row[f"{name}_ms"] == pytest.approx(truth[name], abs=slack + 1e-9)


def test_overlap_that_goes_with_the_clock_in_part_is_told_from_it():
    run = noisy(
        gpus=GPUS, iterations=ITERATIONS, layers=12, slowdown=0.3, clock=clock,
        overlap=lambda gpu, layer: 0.2 * gpu + 0.1 * (layer % 4),
    )  # fmt: skip
    for _, row, truth in answers(run, 5):
        half = row["overlap_high_ms"] - row["overlap_ms"]
        assert row["overlap_ms"] == pytest.approx(truth["overlap"], abs=2 * half)
        assert half < 0.3 * row["overlap_ms"]
