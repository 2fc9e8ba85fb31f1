"""Tests of the energy, its prox, gradient and duality gap."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skvn.core.energy import (
    ACTIVATIONS,
    dual_scaling,
    duality_gap,
    energy,
    gap_terms,
    gradient,
    penalty,
    penalty_terms,
    prox,
    relative_gap,
    residual,
    times,
)
from skvn.core.settle_l1 import fista

INF = math.inf


def _normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _uniform(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=rng, dtype=torch.float64)


def _instance(seed, own=False, masked=False, one_sided=False):
    """Design, observed, lower, upper, mask; every fifth bound infinite on request."""
    n, r, K = 4, 6, 9
    design = _normal(*((n, r, K) if own else (r, K)), seed=seed)
    observed = _normal(n, r, seed=seed + 1)
    lower = 0.05 + _uniform(n, K, seed=seed + 2)
    upper = 0.05 + _uniform(n, K, seed=seed + 3)
    if one_sided:
        lower[:, ::2] = INF
        upper[:, ::5] = INF
    mask = _uniform(n, r, seed=seed + 4) < 0.7 if masked else None
    return design, observed, lower, upper, mask


def test_prox_minimises_its_definition():
    v = torch.linspace(-3, 3, 25, dtype=torch.float64)[None]
    lower, upper = torch.tensor(0.4), torch.tensor(0.9)
    grid = torch.linspace(-4, 4, 160_001, dtype=torch.float64)[:, None]
    value = 0.5 * (grid - v).square() + penalty_terms(grid, lower, upper)
    assert torch.allclose(prox(v, lower, upper)[0], grid[value.argmin(0), 0], atol=1e-4)


def test_prox_is_exactly_zero_within_the_bounds_and_where_both_are_infinite():
    v = torch.tensor([[-0.4, 0.3, 5.0, -5.0, -7.0]], dtype=torch.float64)
    lower = torch.tensor([0.5, 0.5, INF, INF, INF], dtype=torch.float64)
    upper = torch.tensor([0.5, 0.5, INF, INF, 1.0], dtype=torch.float64)
    assert torch.equal(prox(v, lower, upper), torch.zeros_like(v))


def test_penalty_is_asymmetric():
    codes = torch.tensor([[2.0, -3.0, 0.0]])
    lower, upper = torch.tensor([9.0, 5.0, 9.0]), torch.tensor([0.5, 9.0, 9.0])
    assert penalty(codes, lower, upper).tolist() == [1.0 + 15.0]


def test_penalty_at_infinite_bounds():
    codes = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
    lower, upper = torch.tensor([INF, 1.0]), torch.tensor([2.0, INF])
    assert penalty(codes, lower, upper).tolist() == [INF, INF, 0.0]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_is_that_of_autograd(own, masked):
    design, observed, *_, mask = _instance(3, own, masked)
    codes = _normal(4, 9, seed=9).requires_grad_()
    r = residual(design, observed, codes, mask)
    (expected,) = torch.autograd.grad(0.5 * r.square().sum(), codes)
    got = gradient(design, observed, codes.detach(), mask)
    assert torch.allclose(got, expected, atol=1e-12)


def test_energy_by_hand():
    design = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    observed = torch.tensor([[4.0, 3.0]])
    codes = torch.tensor([[1.0, -1.0]])
    # S g = [-1, -1], r = [5, 4]
    lower, upper = torch.tensor(2.0), torch.tensor(0.5)
    assert energy(design, observed, codes, lower, upper).tolist() == [20.5 + 0.5 + 2.0]
    mask = torch.tensor([[True, False]])
    assert energy(design, observed, codes, lower, upper, mask).tolist() == [12.5 + 2.5]


def test_masked_values_are_never_read():
    design, observed, lower, upper, mask = _instance(5, masked=True)
    codes = _normal(4, 9)
    hidden = observed.masked_fill(~mask, math.nan)
    a = energy(design, observed, codes, lower, upper, mask)
    assert torch.equal(a, energy(design, hidden, codes, lower, upper, mask))
    assert (residual(design, hidden, codes, mask)[~mask] == 0).all()


def test_times_by_own_matrix_is_a_loop_over_rows():
    rows, own = _normal(4, 3), _normal(4, 3, 5, seed=1)
    expected = torch.stack([a @ b for a, b in zip(rows, own, strict=True)])
    assert torch.allclose(times(rows, own), expected)


def _dual(design, observed, codes, lower, upper, mask):
    """Dual value ``s v.r - s^2/2 ||r||^2`` and the correlations ``s q``."""
    r = residual(design, observed, codes, mask)
    v = observed if mask is None else observed * mask
    q = times(r, design)
    s = dual_scaling(q, r.square().sum(1), codes, lower, upper)
    return s * (v * r).sum(1) - 0.5 * s**2 * r.square().sum(1), s[:, None] * q


flags = {"own": st.booleans(), "masked": st.booleans(), "one_sided": st.booleans()}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0, 3), **flags)
def test_duality_gap(seed, size, own, masked, one_sided):
    """It is primal minus dual, the dual point is feasible, no summand is negative."""
    design, observed, lower, upper, mask = _instance(seed, own, masked, one_sided)
    codes = prox(size * _normal(4, 9, seed=seed + 5), lower, upper)
    gap, primal = duality_gap(design, observed, codes, lower, upper, mask)
    args = design, observed, codes, lower, upper, mask
    dual, sq = _dual(*args)
    assert (sq <= upper * (1 + 1e-12)).all()
    assert (sq >= -lower * (1 + 1e-12)).all()
    assert torch.allclose(gap, primal - dual, rtol=1e-9, atol=1e-11)
    assert torch.allclose(primal, energy(*args), rtol=1e-12)
    r = residual(design, observed, codes, mask)
    terms = gap_terms(times(r, design), r.square().sum(1), codes, lower, upper)
    assert (terms[0] >= 0).all()
    assert (terms[1] >= -1e-14).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0, 3), **flags)
def test_gap_bounds_the_suboptimality(seed, size, own, masked, one_sided):
    design, observed, lower, upper, mask = _instance(seed, own, masked, one_sided)
    codes = prox(size * _normal(4, 9, seed=seed + 5), lower, upper)
    gap, primal = duality_gap(design, observed, codes, lower, upper, mask)
    best = fista(
        design, observed, lower, upper, mask=mask, tol=1e-10, max_iter=20_000
    ).codes
    excess = primal - energy(design, observed, best, lower, upper, mask)
    assert (gap >= excess - 1e-9 * (1 + primal)).all()


def test_dual_scaling_is_the_best_feasible_one():
    design, observed, lower, upper, _ = _instance(11, one_sided=True)
    codes = prox(_normal(4, 9, seed=2), lower, upper)
    r = residual(design, observed, codes)
    q, r2 = times(r, design), r.square().sum(1)
    s = dual_scaling(q, r2, codes, lower, upper)
    trial = torch.linspace(0, 3, 3001, dtype=torch.float64)[:, None, None]
    feasible = ((trial * q <= upper) & (trial * q >= -lower)).all(2)
    pen = penalty(codes, lower, upper)
    gap = 0.5 * (1 - trial[..., 0]) ** 2 * r2 + pen - trial[..., 0] * (q * codes).sum(1)
    best = gap.masked_fill(~feasible, INF).min(0).values
    got = 0.5 * (1 - s) ** 2 * r2 + pen - s * (q * codes).sum(1)
    assert (got <= best + 1e-12).all()
    assert (got >= best - 1e-2).all()  # the grid is coarse


def test_gap_where_nothing_is_left():
    """A perfect fit, and an all-zero row, divide by nothing."""
    design = torch.eye(2, dtype=torch.float64)
    observed = torch.tensor([[1.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    lam = torch.tensor(0.5, dtype=torch.float64)
    gap, primal = duality_gap(design, observed, observed, lam, lam)
    assert gap.tolist() == primal.tolist() == [1.5, 0.0]
    q = torch.zeros_like(observed)
    assert relative_gap(q, q.sum(1), observed, lam, lam).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activation_derivatives_are_those_of_autograd(name):
    phi, derivative = ACTIVATIONS[name]
    a = torch.linspace(-4, 4, 50, dtype=torch.float64).requires_grad_()
    (expected,) = torch.autograd.grad(phi(a).sum(), a)
    assert torch.allclose(derivative(a.detach()), expected, atol=1e-9)


def test_activation_values():
    a = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    phi = {name: f.phi(a) for name, f in ACTIVATIONS.items()}
    assert phi["identity"].tolist() == [-1, 0, 2]
    assert phi["relu"].tolist() == [0, 0, 2]
    assert torch.allclose(phi["tanh"], 1 - 2 / (1 + (2 * a).exp()))
    assert torch.allclose(phi["softplus"], (1 + a.exp()).log())
