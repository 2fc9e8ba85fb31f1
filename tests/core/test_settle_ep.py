"""Tests of the EP settle, the mixture priors and the Student noise."""

import itertools
from math import inf

import pytest
import torch
from scipy import stats

from skvn.core.mixture import (
    Mixture,
    at_activity,
    first_mixture,
    mixture_from_sums,
    moments,
)
from skvn.core.settle_ard import settle_ard
from skvn.core.settle_ep import settle_ep
from skvn.core.student import fit_noise


def _rng(seed=0):
    return torch.Generator().manual_seed(seed)


def _normal(*shape, seed=0):
    return torch.randn(*shape, generator=_rng(seed), dtype=torch.float64)


def _close(first, second, tol=1e-9):
    torch.testing.assert_close(first, second, rtol=tol, atol=tol)


def _prior(K, J=3):
    weight = torch.rand(K, J, generator=_rng(1), dtype=torch.float64) + 0.2
    variance = torch.rand(K, J, generator=_rng(2), dtype=torch.float64) + 0.05
    variance[:, 0] = 1e-4
    mean = _normal(K, J, seed=3)
    return Mixture(weight / weight.sum(1, keepdim=True), mean, variance)


def _problem(n=7, r=12, K=3, own=True, seed=0):
    design = _normal(n, r, K, seed=seed) if own else _normal(r, K, seed=seed)
    codes = _normal(n, K, seed=seed + 1)
    values = (design @ codes[:, :, None])[:, :, 0]
    return design, values + 0.1 * _normal(n, r, seed=seed + 2)


def _enumerated(D, v, prior, noise):
    """Exact posterior mean of one row: sum over all choices of components."""
    K, J = prior.mean.shape
    log_weights, means = [], []
    for choice in itertools.product(range(J), repeat=K):
        pick = torch.arange(K), torch.tensor(choice)
        m, V = prior.mean[pick], prior.variance[pick]
        cov = D @ torch.diag(V) @ D.T + noise * torch.eye(len(v), dtype=v.dtype)
        e = v - D @ m
        solved = torch.linalg.solve(cov, e)
        fit = prior.weight[pick].log().sum() - (e @ solved + torch.logdet(cov)) / 2
        log_weights.append(fit)
        means.append(m + V * (D.T @ solved))
    return torch.stack(log_weights).softmax(0) @ torch.stack(means)


def test_one_component_is_the_gaussian_conditional():
    D, v = _problem()
    prior = Mixture(*(a[:, 1:2] for a in _prior(3)))
    prior = prior._replace(weight=torch.ones(3, 1, dtype=torch.float64))
    for rounds in (0, 3):
        post = settle_ep(D, v, prior, noise=0.02, rounds=rounds)
        for i in range(len(v)):
            P = torch.diag(1 / prior.variance[:, 0])
            S = torch.linalg.inv(D[i].T @ D[i] / 0.02 + P)
            mean = S @ (D[i].T @ v[i] / 0.02 + P @ prior.mean[:, 0])
            _close(post.codes[i], mean, 1e-8)
            _close(post.covariance[i], S, 1e-8)


def test_close_to_the_exact_mixture_posterior():
    prior = first_mixture(3, 1.0, _normal(1))
    D, v = _problem(n=30, r=6)
    v = v + 0.3 * _normal(30, 6, seed=9)
    exact = torch.stack([_enumerated(D[i], v[i], prior, 0.1) for i in range(30)])
    start = settle_ep(D, v, prior, noise=0.1, rounds=0).codes
    found = settle_ep(D, v, prior, noise=0.1).codes
    error, before = (found - exact).abs(), (start - exact).abs()
    assert error.median() < 0.003
    assert error.square().mean() < 0.2 * before.square().mean()


def test_one_atom_is_exact():
    prior = _prior(1)
    D, v = _problem(K=1, r=2)
    post = settle_ep(D, v, prior, noise=0.5, rounds=60)
    exact = torch.stack([_enumerated(D[i], v[i], prior, 0.5) for i in range(7)])
    _close(post.codes, exact, 1e-8)


def test_without_rounds_it_is_ard_without_rounds():
    D, v = _problem()
    variance = torch.tensor([[0.5], [1.0], [2.0]], dtype=torch.float64)
    prior = Mixture(torch.ones_like(variance), torch.zeros_like(variance), variance)
    ep = settle_ep(D, v, prior, noise=0.02, rounds=0)
    ard = settle_ard(D, v, variance[:, 0], noise=0.02, floor=0.02, rounds=0)
    _close(ep.codes, ard.codes, 1e-8)


@pytest.mark.parametrize("dof", [inf, 2.0])
def test_shared_design_is_every_row_having_it(dof):
    D, v = _problem(own=False)
    options = {"noise": 0.05, "dof": dof, "group": 3}
    shared = settle_ep(D, v, _prior(3), **options)
    own = settle_ep(D.expand(7, -1, -1), v, _prior(3), **options)
    _close(shared.codes, own.codes, 1e-8)
    _close(shared.noise, own.noise, 1e-8)


@pytest.mark.parametrize("dof", [inf, 2.0])
def test_masked_entries_are_absent(dof):
    D, v = _problem()
    mask = torch.ones_like(v, dtype=torch.bool)
    mask[:, 3:6] = False
    spoilt = torch.where(mask, v, torch.nan)
    options = {"noise": 0.05, "dof": dof, "group": 3}
    masked = settle_ep(D, spoilt, _prior(3), mask=mask, **options)
    keep = [0, 1, 2, *range(6, 12)]
    left = settle_ep(D[:, keep], v[:, keep], _prior(3), **options)
    _close(masked.codes, left.codes, 1e-10)
    _close(masked.noise[:, [0, 2, 3]], left.noise, 1e-10)
    assert (masked.error[:, 1] == 0).all()


@pytest.mark.parametrize("dof", [inf, 2.0])
def test_rows_do_not_know_each_other(dof):
    D, v = _problem(n=40)
    options = {"noise": 1e-3, "dof": dof, "group": 2}
    together = settle_ep(D, v, _prior(3), **options)
    for i in (0, 17, 39):
        alone = settle_ep(D[i : i + 1], v[i : i + 1], _prior(3), **options)
        _close(together.codes[i], alone.codes[0], 1e-10)


def test_blocks_change_nothing(monkeypatch):
    D, v = _problem(n=10)
    whole = settle_ep(D, v, _prior(3), noise=0.05)
    monkeypatch.setattr("skvn.core.settle_ep._BLOCK", 100)
    for a, b in zip(whole[:4], settle_ep(D, v, _prior(3), noise=0.05)[:4], strict=True):
        _close(a, b, 1e-12)


def test_permuting_atoms_permutes_codes():
    D, v = _problem()
    order = torch.tensor([2, 0, 1])
    prior = _prior(3)
    moved = settle_ep(
        D[:, :, order], v, Mixture(*(a[order] for a in prior)), noise=0.05
    )
    _close(moved.codes, settle_ep(D, v, prior, noise=0.05).codes[:, order], 1e-10)


def test_nothing_visible_gives_the_prior():
    D, v = _problem()
    prior = _prior(3)
    post = settle_ep(D, v, prior, noise=0.1, mask=torch.zeros_like(v, dtype=torch.bool))
    mean, variance = moments(prior)
    _close(post.codes, mean.expand(7, -1), 1e-6)
    _close(post.covariance.diagonal(dim1=1, dim2=2), variance.expand(7, -1), 1e-6)


def test_student_rows_shrug_off_an_outlier():
    D, v = _problem(r=24)
    clean = settle_ep(D, v, _prior(3), noise=0.01, dof=2.0, group=2).codes
    v = v.clone()
    v[:, 4:6] += 20
    robust = settle_ep(D, v, _prior(3), noise=0.01, dof=2.0, group=2)
    plain = settle_ep(D, v, _prior(3), noise=0.01, group=2)
    assert (robust.codes - clean).abs().max() < 0.1
    assert (plain.codes - clean).abs().max() > 1
    assert (robust.noise.argmax(1) == 2).all()


def test_float32_is_close_to_float64():
    D, v = _problem()
    wide = settle_ep(D, v, _prior(3), noise=0.05)
    prior = Mixture(*(a.float() for a in _prior(3)))
    narrow = settle_ep(D.float(), v.float(), prior, noise=0.05)
    assert narrow.codes.dtype == torch.float32
    _close(narrow.codes.double(), wide.codes, 2e-3)


def test_moments_of_a_mixture():
    p, m, V = (a[0].numpy() for a in _prior(1))
    mean, variance = moments(_prior(1))
    grid = torch.linspace(-12, 12, 400_001, dtype=torch.float64).numpy()
    density = sum(
        a * stats.norm.pdf(grid, b, c**0.5) for a, b, c in zip(p, m, V, strict=True)
    )
    density /= density.sum()
    assert abs(float(mean) - density @ grid) < 1e-6
    assert abs(float(variance) - (density @ grid**2 - (density @ grid) ** 2)) < 1e-6


def test_activity_sets_the_median_and_keeps_the_odds():
    prior = _prior(5)
    new = at_activity(prior, 0.5)
    odds = lambda p: (1 - p.weight[:, 0]) / p.weight[:, 0]  # noqa: E731
    assert abs(float((1 - new.weight[:, 0]).median()) - 0.5) < 1e-12
    ratio = odds(new) / odds(prior)
    _close(ratio, ratio[:1].expand(5))
    _close(new.weight.sum(1), torch.ones(5, dtype=torch.float64))
    _close(new.weight[:, 1] / new.weight[:, 2], prior.weight[:, 1] / prior.weight[:, 2])


def test_mixture_from_sums_recovers_moments():
    prior = _prior(4)
    prior.mean[:, 0] = 0
    p, m, V = prior
    total = torch.tensor(1000.0, dtype=torch.float64)
    sums = total * p, total * p * m, total * p * (V + m.square())
    for a, b in zip(mixture_from_sums(*sums, total), prior, strict=True):
        _close(a, b, 1e-6)


def test_noise_fit_is_the_best_of_its_grid():
    t = stats.t(4.0)
    draws = torch.from_numpy(t.rvs(4000, random_state=0))
    error = (0.3 * draws).square()[:, None]
    count, weight = torch.ones_like(error), torch.ones(4000, dtype=torch.float64)
    s2, dof = fit_noise(error, count, weight)
    assert dof in (4.0, 8.0)
    assert abs(s2**0.5 - 0.3) < 0.03
    gauss, dof = fit_noise(error, count, weight, dofs=(inf,))
    assert dof == inf
    assert abs(gauss - float(error.mean())) < 1e-12


def test_noise_fit_weight_is_repetition():
    error = _normal(50, 3).square()
    count = torch.ones_like(error)
    weight = torch.arange(50, dtype=torch.float64) % 4
    index = torch.arange(50).repeat_interleave(weight.long())
    weighted = fit_noise(error, count, weight)
    repeated = fit_noise(error[index], count[index], torch.ones(len(index)).double())
    assert weighted[1] == repeated[1]
    assert abs(weighted[0] - repeated[0]) < 1e-12
