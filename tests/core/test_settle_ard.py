"""Tests of the sparse-Bayesian settle."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skvn.core import settle_ard as module
from skvn.core.settle_ard import evidence, settle_ard

SHAPES = [(12, 20), (20, 12)]  # r < K (r x r form) and r > K (K x K form)


def _problem(r, K, n=8, seed=0, visible=0.7):
    """Rows that are sparse sums of unit-norm atoms, with some noise and a mask."""
    rng = torch.Generator().manual_seed(seed)
    design = torch.randn(r, K, generator=rng, dtype=torch.float64)
    design = design / design.norm(dim=0)
    used = torch.rand(n, K, generator=rng) < 0.2
    codes = used * torch.randn(n, K, generator=rng, dtype=torch.float64)
    noise = torch.randn(n, r, generator=rng, dtype=torch.float64)
    mask = torch.rand(n, r, generator=rng) < visible
    mask[:, 0] = True
    prior = 0.1 + torch.rand(K, generator=rng, dtype=torch.float64)
    return design, codes @ design.T + 0.05 * noise, mask, prior


def _dense(design, values, gamma, s2):
    """Posterior mean and covariance of one row, written out."""
    left = design @ torch.diag(gamma)
    total = left @ design.T + s2 * torch.eye(len(design), dtype=design.dtype)
    mean = left.T @ torch.linalg.solve(total, values)
    return mean, torch.diag(gamma) - left.T @ torch.linalg.solve(total, left)


def _close(first, second, tol=1e-9):
    torch.testing.assert_close(first, second, rtol=tol, atol=tol)


OPTIONS = {"noise": 1e-2, "floor": 1e-4}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_rounds_is_the_gaussian_conditional(shape):
    design, observed, mask, prior = _problem(*shape)
    readout = torch.randn(5, shape[1], dtype=torch.float64)
    out = settle_ard(
        design, observed, prior, mask=mask, rounds=0, readout=readout, **OPTIONS
    )
    for i, seen in enumerate(mask):
        mean, cov = _dense(design[seen], observed[i, seen], prior, 1e-2)
        _close(out.codes[i], mean)
        _close(out.variance[i], (readout @ cov @ readout.T).diagonal())
    _close(out.gamma, prior.expand_as(out.gamma), 0)
    _close(out.noise, torch.full_like(out.noise, 1e-2), 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_codes_and_variance_belong_to_the_returned_gamma(shape):
    design, observed, mask, prior = _problem(*shape)
    eye = torch.eye(shape[1], dtype=torch.float64)
    out = settle_ard(design, observed, prior, mask=mask, readout=eye, **OPTIONS)
    for i, seen in enumerate(mask):
        mean, cov = _dense(design[seen], observed[i, seen], out.gamma[i], out.noise[i])
        on = out.codes[i] != 0
        _close(out.codes[i, on], mean[on])
        assert mean[~on].abs().max(initial=0) < 1e-6 if on.all() else True
        _close(out.variance[i], cov.diagonal())


@pytest.mark.parametrize("shape", SHAPES)
def test_one_mackay_round_written_out(shape):
    design, observed, _, prior = _problem(*shape)
    out = settle_ard(design, observed, prior, rounds=1, **OPTIONS)
    for i, values in enumerate(observed):
        mean, cov = _dense(design, values, prior, 1e-2)
        well = 1 - cov.diagonal() / prior
        full = values.square().sum()
        expected = (mean.square() / well).clamp(1e-9 * full, 0.5 * full)
        _close(out.gamma[i], expected, 1e-8)
        misfit = (values - design @ mean).square().sum()
        s2 = (1e-2 * misfit / (len(values) - well.sum())).sqrt()
        _close(out.noise[i], s2.clamp(1e-4, full / len(values)), 1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_em_round_written_out(shape):
    design, observed, _, prior = _problem(*shape)
    out = settle_ard(design, observed, prior, rounds=1, rule="em", **OPTIONS)
    for i, values in enumerate(observed):
        mean, cov = _dense(design, values, prior, 1e-2)
        full = values.square().sum()
        expected = mean.square() + cov.diagonal()
        _close(out.gamma[i], expected.clamp(1e-9 * full, 0.5 * full))
        misfit = (values - design @ mean).square().sum()
        s2 = (misfit + (design @ cov @ design.T).trace()) / len(values)
        _close(out.noise[i], s2.clamp(1e-4, full / len(values)))
