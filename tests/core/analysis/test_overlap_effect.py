"""The effect of overlap, its interval, and when it cannot be told."""

import numpy as np
import pytest

from chopper_jupyter.core.analysis.bootstrap import DRAWS, error_of_ratio, quantile, weights
from chopper_jupyter.core.analysis.overlap_effect import (
    ALIKE,
    FEW,
    NONE,
    UNCLOCKED,
    WIDE,
    Runs,
    effect_of,
    effects_of,
)


def sample(seed=0, gpus=3, iterations=4, layers=6, slowdown=0.2, noise=0.0, spread=1.0):
    """Instances whose GPUs and iterations differ, overlap confounded with the GPU."""
    rng = np.random.default_rng(seed)
    gpu, iteration, _ = (
        a.ravel() for a in np.meshgrid(range(gpus), range(iterations), range(layers), indexing="ij")
    )
    ratio = np.clip(0.3 * gpu / gpus + spread * rng.uniform(0, 0.6, len(gpu)), 0, 1)
    alone = np.exp(0.3 * gpu - 0.1 * iteration + rng.normal(0, noise, len(gpu)))
    return np.log(alone / (1 - slowdown * ratio)), ratio, gpu, iteration


@pytest.mark.parametrize("slowdown", [0.0, 0.05, 0.3, -0.1])
@pytest.mark.parametrize("layers", [6, 1])
def test_an_exact_effect_is_found_exactly(slowdown, layers):
    found = effect_of(*sample(slowdown=slowdown, layers=layers, gpus=6))
    assert found.slowdown == pytest.approx(slowdown, abs=1e-9)
    assert found.reason == ""


def test_intervals_cover_the_effect_as_often_as_they_say():
    hits = 0
    for seed in range(200):
        found = effect_of(*sample(seed, noise=0.03, gpus=4))
        hits += abs(found.slowdown - 0.2) <= quantile(found.freedom) * found.error
    assert 180 <= hits <= 199


def test_what_cannot_be_told_says_why():
    time, ratio, gpu, iteration = sample()
    assert effect_of(time, 0 * ratio, gpu, iteration).reason == NONE
    assert effect_of(time, 0 * ratio, gpu, iteration).slowdown == 0
    constant = 0.2 + 0.1 * gpu
    assert effect_of(time, constant, gpu, iteration).reason == ALIKE
    assert effect_of(*sample(noise=1.0)).reason == WIDE
    single = sample(layers=1, gpus=6)
    assert effect_of(*single, clock_known=False).reason == UNCLOCKED
    assert effect_of(*sample(), clock_known=False).reason == ""
    few = [a[:6] for a in sample(gpus=6, iterations=1, layers=1)]
    assert effect_of(*few).reason == FEW
    for case in (constant, 0.5 + 0 * ratio):
        assert np.isnan(effect_of(time, case, gpu, iteration).slowdown)


def test_effects_of_several_ops_are_those_of_each():
    few = [a[:6] for a in sample(gpus=6, iterations=1, layers=1)]
    ops = [sample(seed, noise=0.02) for seed in range(3)] + [sample(layers=4), few, sample(noise=1)]
    together = effects_of([Runs(*op) for op in ops])
    assert repr(together) == repr([effect_of(*op) for op in ops])
    assert len({effect.error for effect in together[:3]}) == 3


def test_draws_are_whole_samples_and_always_the_same():
    drawn = np.concatenate(list(weights(7)))
    assert drawn.shape == (DRAWS, 7)
    assert (drawn.sum(axis=1) == 7).all()
    assert (drawn == np.concatenate(list(weights(7)))).all()
    assert len(next(weights(1 << 21))) == 2


def test_error_of_a_mean_is_that_of_theory():
    values = np.random.default_rng(1).normal(3, 2, 500)
    assert error_of_ratio(values, np.ones(500)) == pytest.approx(2 / np.sqrt(500), rel=0.15)
    assert np.isnan(error_of_ratio(values[:1], np.ones(1)))


@pytest.mark.parametrize(
    ("freedom", "value"), [(2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (60, 2.000)]
)
def test_quantiles_of_student(freedom, value):
    assert quantile(freedom) == pytest.approx(value, rel=0.02)
