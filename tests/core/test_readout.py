"""Tests of the output weights: ridge from statistics, its strength by GCV."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from skvn.core.readout import _RIDGES, _TIE, add, code_statistics, fit_readout


def _normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _task(n=60, K=8, m=3, noise=0.5, seed=0):
    """Sparse nonnegative codes, noisy answers with an offset, integer weights."""
    rng = torch.Generator().manual_seed(seed)
    g = _normal(rng, n, K).clamp(min=0)
    U, b = _normal(rng, m, K), _normal(rng, m)
    weight = torch.randint(1, 4, (n,), generator=rng).double()
    return g, g @ U.T + b + noise * _normal(rng, n, m), weight


def _dense(g, y, weight, fit_intercept):
    """GCV of every ridge from hat matrices: the best one's, with its RSS and dof."""
    root = weight.sqrt()[:, None]
    A, total = root * g, weight.sum()
    free = torch.eye(len(g), dtype=g.dtype)
    if fit_intercept:
        free = free - root @ root.T / total
    A, Y = free @ A, free @ (root * y)
    scale = torch.linalg.eigvalsh(A.T @ A).mean()
    eye = torch.eye(g.shape[1], dtype=g.dtype)
    scores = []
    for ridge in _RIDGES * scale:
        hat = A @ torch.linalg.solve(A.T @ A + ridge * eye, A.T)
        rss = (Y - hat @ Y).square().sum(0)
        dof = hat.trace() + fit_intercept
        value = total * rss.sum() / (total - dof) ** 2
        scores.append((float(value) if dof <= 0.9 * total else np.inf, ridge, rss, dof))
    best = min(s[0] for s in scores)
    return [s for s in scores if s[0] <= _TIE * best][-1]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_readout_is_ridge_at_the_strength_gcv_chooses(fit_intercept, seed):
    g, y, weight = _task(seed=seed, n=25, noise=3.0)
    out = fit_readout(code_statistics(g, y, weight), fit_intercept)
    _, ridge, rss, dof = _dense(g, y, weight, fit_intercept)
    model = Ridge(alpha=float(ridge), fit_intercept=fit_intercept)
    model.fit(g.numpy(), y.numpy(), sample_weight=weight.numpy())
    np.testing.assert_allclose(out.U, model.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(out.b, model.intercept_, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(out.noise, rss / (weight.sum() - dof))


def test_more_noise_asks_for_a_stiffer_ridge():
    sizes = []
    for noise in (1e-3, 30.0):
        g, y, weight = _task(noise=noise)
        ones = torch.ones_like(weight)
        full = torch.linalg.lstsq(g - g.mean(0), y - y.mean(0)).solution
        sizes.append(fit_readout(code_statistics(g, y, ones)).U.norm() / full.norm())
    assert sizes[0] > 0.999
    assert sizes[1] < 0.9


def test_noise_is_the_variance_left():
    g, y, weight = _task(n=4000, noise=0.5)
    out = fit_readout(code_statistics(g, y, torch.ones_like(weight)))
    torch.testing.assert_close(
        out.noise, torch.full_like(out.noise, 0.25), rtol=0.1, atol=0
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_weight_is_a_number_of_repetitions(fit_intercept):
    g, y, weight = _task()
    weight[::4] = 0
    index = torch.arange(len(g)).repeat_interleave(weight.long())
    ones = torch.ones(len(index), dtype=g.dtype)
    some = fit_readout(code_statistics(g, y, weight), fit_intercept)
    many = fit_readout(code_statistics(g[index], y[index], ones), fit_intercept)
    for a, b in zip(some, many, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_statistics_are_weighted_sums_that_add_up_over_batches():
    g, y, weight = _task()
    whole = code_statistics(g, y, weight)
    sums = [
        weight.sum(),
        (weight[:, None] * g).sum(0),
        (weight[:, None] * y).sum(0),
        torch.einsum("n,ni,nj->ij", weight, g, g),
        torch.einsum("n,ni,nj->ij", weight, y, g),
        (weight[:, None] * y.square()).sum(0),
    ]
    stats = None
    for rows in torch.arange(len(g)).split(13):
        stats = add(stats, code_statistics(g[rows], y[rows], weight[rows]))
    for a, b, c in zip(whole, sums, stats, strict=True):
        torch.testing.assert_close(a, b)
        torch.testing.assert_close(c, b)


def test_kept_share_discounts_the_old_statistics():
    g, y, weight = _task()
    old = code_statistics(g[:30], y[:30], weight[:30])
    new = code_statistics(g[30:], y[30:], weight[30:])
    discount = torch.where(torch.arange(60) < 30, 0.25, 1.0)
    expected = code_statistics(g, y, weight * discount)
    for a, b in zip(add(old, new, 0.25), expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_more_atoms_than_rows(n, fit_intercept):
    g, y, _ = _task(n=n, K=40)
    ones = torch.ones(n, dtype=g.dtype)
    out = fit_readout(code_statistics(g, y, ones), fit_intercept)
    assert all(t.isfinite().all() for t in out)
    # Never the interpolating fit: at least a tenth of the rows stays free.
    error = (y - out.b - g @ out.U.T).square().sum()
    spread = (y - y.mean(0) if fit_intercept else y).square().sum()
    assert error <= spread * (1 + 1e-9)
    if n > 1:
        assert error > 1e-6 * spread


def test_constant_answers_need_no_atoms():
    g, _, weight = _task()
    y = torch.tensor([2.0, 0.0, -1e3], dtype=g.dtype).expand(len(g), 3)
    out = fit_readout(code_statistics(g, y, weight))
    torch.testing.assert_close(out.U, torch.zeros_like(out.U), rtol=0, atol=1e-8)
    torch.testing.assert_close(out.b, y[0])
    torch.testing.assert_close(
        out.noise, torch.zeros_like(out.noise), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_silent_codes_answer_with_the_mean_or_nothing(fit_intercept):
    _, y, weight = _task()
    g = torch.zeros(60, 4, dtype=y.dtype)
    out = fit_readout(code_statistics(g, y, weight), fit_intercept)
    mean = (weight[:, None] * y).sum(0) / weight.sum()
    assert (out.U == 0).all()
    torch.testing.assert_close(out.b, mean if fit_intercept else 0 * mean)


def test_constant_codes_answer_with_the_mean():
    # What the centred sums hold is rounding alone.
    _, y, weight = _task()
    g = torch.rand(5, generator=torch.Generator().manual_seed(2)).double()
    out = fit_readout(code_statistics(g.expand(60, 5), y, weight))
    assert (out.U == 0).all()
    torch.testing.assert_close(out.b, (weight[:, None] * y).sum(0) / weight.sum())


def test_repeated_atoms_share_the_weight():
    g, y, weight = _task()
    single = fit_readout(code_statistics(g, y, weight))
    double = fit_readout(code_statistics(torch.cat([g, g], 1), y, weight))
    assert double.U.isfinite().all()
    torch.testing.assert_close(double.U[:, :8], double.U[:, 8:], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(
        double.U[:, :8] + double.U[:, 8:], single.U, atol=0.05, rtol=0.05
    )


def test_permuting_atoms_permutes_the_readout():
    g, y, weight = _task()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    some = fit_readout(code_statistics(g, y, weight))
    other = fit_readout(code_statistics(g[:, order], y, weight))
    torch.testing.assert_close(other.U, some.U[:, order])
    torch.testing.assert_close(other.b, some.b)


@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("repeated", [False, True])
def test_float32_follows_float64(noise, repeated):
    g, y, weight = _task(n=500, noise=noise)
    if repeated:
        g = torch.cat([g, g * 1.0001], 1)
    out = fit_readout(code_statistics(g.float(), y.float(), weight.float()))
    exact = fit_readout(code_statistics(g, y, weight))
    assert all(t.dtype == torch.float32 for t in out)
    fit, best = (g @ r.U.double().T + r.b.double() for r in (out, exact))
    assert (fit - best).square().mean().sqrt() < 2e-3 * y.std()
