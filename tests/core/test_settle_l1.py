"""Tests of l1 settling: Douglas-Rachford in its forms, and FISTA."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import sparse_encode

from skvn.core.energy import energy, gradient
from skvn.core.settle_l1 import fista, settle_l1

INF = math.inf
TIGHT = {"tol": 1e-12, "max_iter": 20_000}
# r >= K/2: Gram form (r <= K and r > K differ in the residual); r <= K/2: Woodbury form
SHAPES = [(20, 30), (40, 24), (10, 30)]


def _rng(seed):
    return torch.Generator().manual_seed(seed)


def _normal(*shape, seed=0):
    return torch.randn(*shape, generator=_rng(seed), dtype=torch.float64)


def _mask(*shape, seed=0, observed=0.6):
    return torch.rand(*shape, generator=_rng(seed)) < observed


def _tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def _problem(r, K, n=12, seed=0, coherence=0.3):
    """Unit atoms that overlap, sparse sums of them with noise, and a penalty."""
    design = _normal(r, K, seed=seed) + coherence * _normal(r, 1, seed=seed + 1)
    design = design / design.norm(dim=0)
    codes = _normal(n, K, seed=seed + 2) * _mask(n, K, seed=seed + 3, observed=0.15)
    noise = 0.1 * _normal(n, r, seed=seed + 4) / math.sqrt(r)
    observed = codes @ design.T + noise
    return design, observed, 0.05 * observed.square().sum(1).mean().sqrt()


def _own(n, r, K, seed=0):
    design = _normal(n, r, K, seed=seed) / math.sqrt(r)
    observed = design[:, :, :3].sum(2) + 0.1 * _normal(n, r, seed=seed + 1)
    return design, observed, _tensor(0.1)


def _assert_kkt(design, observed, codes, lower, upper, mask=None, atol=1e-7):
    q = -gradient(design, observed, codes, mask)
    lower, upper = lower.expand_as(q), upper.expand_as(q)
    assert torch.allclose(q[codes > 0], upper[codes > 0], atol=atol, rtol=0)
    assert torch.allclose(q[codes < 0], -lower[codes < 0], atol=atol, rtol=0)
    assert (q <= upper + atol).all()
    assert (q >= -lower - atol).all()


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_equals_scikit_learn(seed, positive):
    design, observed, lam = _problem(*[(20, 30), (30, 20)][seed % 2], seed=10 * seed)
    expected = sparse_encode(
        observed.numpy(),
        np.ascontiguousarray(design.numpy().T),
        algorithm="lasso_cd",
        alpha=float(lam),
        positive=positive,
        max_iter=100_000,
    )
    lower = _tensor(INF) if positive else lam
    got = settle_l1(design, observed, lower, lam, **TIGHT)
    assert np.abs(got.codes.numpy() - expected).max() < 1e-6
    assert (got.gap <= 1e-12).all()


@pytest.mark.parametrize("r, K", SHAPES)
@pytest.mark.parametrize("masked", [False, True])
def test_kkt_with_a_penalty_per_row_and_atom(r, K, masked):
    design, observed, lam = _problem(r, K)
    lower = lam * (0.5 + _normal(12, K, seed=7).abs())
    upper = lam * (0.5 + _normal(12, K, seed=8).abs())
    upper[:, 3] = INF
    mask = _mask(12, r) if masked else None
    got = settle_l1(design, observed, lower, upper, mask=mask, **TIGHT)
    assert (got.gap <= 1e-12).all()
    assert (got.codes != 0).any(1).all()
    _assert_kkt(design, observed, got.codes, lower, upper, mask)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from(SHAPES),
    masked=st.booleans(),
    own=st.booleans(),
    tol=st.sampled_from([1e-1, 1e-2, 1e-4]),
)
def test_gap_bounds_the_suboptimality_and_meets_tol(seed, shape, masked, own, tol):
    n, (r, K) = 5, shape
    make = _own(n, r, K, seed) if own else _problem(r, K, n, seed)
    design, observed, lam = make
    mask = _mask(n, r, seed=seed) if masked else None
    got = settle_l1(design, observed, lam, lam, mask=mask, tol=tol)
    best = fista(design, observed, lam, lam, mask=mask, tol=1e-9, max_iter=20_000)
    value = energy(design, observed, got.codes, lam, lam, mask)
    least = energy(design, observed, best.codes, lam, lam, mask)
    assert (got.gap <= tol).all()
    assert (value - least <= got.gap * value + 1e-8 * value).all()


@pytest.mark.parametrize("r, K", SHAPES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_equals_fista(r, K, masked, own):
    design, observed, lam = _own(12, r, K) if own else _problem(r, K)
    mask = _mask(12, r) if masked else None
    a = settle_l1(design, observed, lam, 2 * lam, mask=mask, **TIGHT)
    b = fista(design, observed, lam, 2 * lam, mask=mask, **TIGHT)
    assert (a.gap <= 1e-12).all()
    assert (b.gap <= 1e-12).all()
    assert torch.allclose(a.codes, b.codes, atol=1e-6)
    assert (a.n_iter > 0).all()


@pytest.mark.parametrize("r, K", SHAPES)
def test_masked_row_is_the_row_without_those_design_rows(r, K):
    design, observed, lam = _problem(r, K)
    mask = _mask(12, r)
    mask[0] = True
    hidden = observed.masked_fill(~mask, math.nan)
    got = settle_l1(design, hidden, lam, lam, mask=mask, **TIGHT).codes
    for row, m in enumerate(mask):
        alone = settle_l1(design[m], observed[row : row + 1, m], lam, lam, **TIGHT)
        assert torch.allclose(got[row], alone.codes[0], atol=1e-6)


def test_an_unmasked_row_does_not_notice_that_others_are_masked():
    design, observed, lam = _problem(20, 30)
    mask = torch.ones(12, 20, dtype=torch.bool)
    mask[::2, :5] = False
    got = settle_l1(design, observed, lam, lam, mask=mask).codes
    plain = settle_l1(design, observed, lam, lam).codes
    assert torch.allclose(got[1::2], plain[1::2], atol=1e-12)
    assert not torch.allclose(got[::2], plain[::2], atol=1e-3)


@pytest.mark.parametrize("r, K", [*SHAPES, (3, 40)])
def test_design_per_row_is_a_loop_over_shared_designs(r, K):
    design, observed, lam = _own(20, r, K)
    got = settle_l1(design, observed, lam, INF)
    for row in range(20):
        alone = settle_l1(design[row], observed[row : row + 1], lam, INF)
        assert torch.allclose(got.codes[row], alone.codes[0], atol=1e-10)
        assert got.n_iter[row] == alone.n_iter[0]


@pytest.mark.parametrize("masked", [False, True])
def test_excluded_atoms_are_exactly_zero(masked):
    design, observed, lam = _problem(20, 30)
    mask = _mask(12, 20) if masked else None
    allowed = _mask(12, 30, seed=5, observed=0.5)
    bound = torch.where(allowed, lam, INF)
    got = settle_l1(design, observed, bound, bound, mask=mask, **TIGHT).codes
    assert (got[~allowed] == 0).all()
    assert (got[allowed] != 0).any()
    for row in range(12):
        k = allowed[row]
        m = None if mask is None else mask[row : row + 1]
        x = observed[row : row + 1]
        alone = settle_l1(design[:, k], x, lam, lam, mask=m, **TIGHT)
        assert torch.allclose(got[row, k], alone.codes[0], atol=1e-6)


def test_a_nudge_is_a_pair_of_bounds():
    """min 1/2 ||v - D g||^2 + lam |g| - b g over a fine grid of two atoms."""
    design = _tensor([[1.0, 0.6], [0.2, 0.9]])
    observed, lam, b = _tensor([[0.5, -0.4]]), 0.3, _tensor([0.2, -0.25])
    got = settle_l1(design, observed, lam + b, lam - b, **TIGHT).codes[0]
    axis = torch.linspace(-1.5, 1.5, 1501, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    fit = 0.5 * (observed - grid @ design.T).square().sum(1)
    value = fit + lam * grid.abs().sum(1) - grid @ b
    assert (got - grid[value.argmin()]).abs().max() < 2e-3


def test_a_second_quadratic_term_is_stacked():
    """A large weight on 1/2 ||h - U g||^2 makes the message follow its target."""
    design, observed, lam = _problem(20, 30)
    U, h, beta = _normal(2, 30, seed=9), _normal(12, 2, seed=10), 1e4
    stacked = torch.cat([design, math.sqrt(beta) * U])
    target = torch.cat([observed, math.sqrt(beta) * h], 1)
    got = settle_l1(stacked, target, lam, lam, **TIGHT).codes
    q = (observed - got @ design.T) @ design + beta * (h - got @ U.T) @ U
    assert (q.abs() <= lam + 1e-5).all()
    assert torch.allclose(got @ U.T, h, atol=1e-3)


FORMS = [(200, None), (100, None), (64, None), (48, None), (64, 0.5), (200, 0.5)]


@pytest.mark.parametrize("r, seen", [*FORMS, (200, 0.9)])
def test_a_row_does_not_depend_on_its_batch(r, seen):
    """Random order, alone and in pieces: the same codes up to rounding."""
    n, K = 600, 128  # more rows than one block
    design, observed, lam = _problem(r, K, n)
    mask = None if seen is None else _mask(n, r, observed=seen)

    def settle(rows):
        m = None if mask is None else mask[rows]
        return settle_l1(design, observed[rows], lam, lam, mask=m)

    whole = settle(torch.arange(n))
    order = torch.randperm(n, generator=_rng(1))
    shuffled = settle(order)
    assert torch.allclose(shuffled.codes, whole.codes[order], atol=1e-10, rtol=0)
    assert torch.equal(shuffled.n_iter, whole.n_iter[order])
    pieces = torch.cat([settle(rows).codes for rows in torch.arange(n).split(77)])
    assert torch.allclose(pieces, whole.codes, atol=1e-10, rtol=0)
    for row in range(0, n, 60):
        alone = settle(torch.tensor([row])).codes[0]
        assert torch.allclose(alone, whole.codes[row], atol=1e-10, rtol=0)


def test_a_row_does_not_depend_on_its_batch_with_own_designs_and_a_start():
    n, K = 90, 40
    for r in (8, 30):
        design, observed, lam = _own(n, r, K)
        start = settle_l1(design, observed, lam, lam, tol=0.3).codes
        whole = settle_l1(design, observed, lam, lam, start=start).codes
        for row in range(0, n, 10):
            k = slice(row, row + 1)
            alone = settle_l1(design[k], observed[k], lam, lam, start=start[k]).codes
            assert torch.allclose(alone[0], whole[row], atol=1e-10, rtol=0)


@pytest.mark.parametrize("masked", [False, True])
def test_equal_and_zero_atoms(masked):
    design, observed, lam = _problem(20, 30)
    design[:, 1] = design[:, 0]
    design[:, 2] = 0.0
    mask = _mask(12, 20) if masked else None
    a = settle_l1(design, observed, lam, lam, mask=mask, tol=1e-10, max_iter=20_000)
    b = fista(design, observed, lam, lam, mask=mask, tol=1e-10, max_iter=20_000)
    assert (a.codes[:, 2] == 0).all()
    e = [energy(design, observed, c.codes, lam, lam, mask) for c in (a, b)]
    assert torch.allclose(*e, rtol=1e-9)
    _assert_kkt(design, observed, a.codes, lam, lam, mask, atol=1e-5)


def test_scaling_the_design_scales_the_codes():
    design, observed, lam = _problem(20, 30)
    a = settle_l1(design, observed, lam, lam)
    b = settle_l1(1000 * design, observed, 1000 * lam, 1000 * lam)
    assert torch.allclose(a.codes, 1000 * b.codes, atol=1e-9)
    assert torch.equal(a.n_iter, b.n_iter)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("r, K", SHAPES)
def test_single_precision_reaches_its_floor_and_stops(r, K, masked):
    design, observed, lam = (a.float() for a in _problem(r, K))
    mask = _mask(12, r) if masked else None
    got = settle_l1(design, observed, lam, lam, mask=mask, tol=1e-12, max_iter=5000)
    assert got.codes.dtype == got.gap.dtype == torch.float32
    assert (got.gap < 1e-4).all()
    assert (got.n_iter < 1500).all()
    a, b = (a.double() for a in (design, observed))
    best = settle_l1(a, b, lam, lam, mask=mask, **TIGHT).codes
    value = energy(a, b, got.codes.double(), lam, lam, mask)
    assert torch.allclose(value, energy(a, b, best, lam, lam, mask), rtol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_a_warm_start_needs_fewer_iterations(masked):
    design, observed, lam = _problem(40, 80, n=50)
    mask = _mask(50, 40) if masked else None
    cold = settle_l1(design, observed, lam, lam, mask=mask)
    again = settle_l1(design, observed, lam, lam, mask=mask, start=cold.codes)
    assert (again.n_iter == 0).all()
    assert torch.allclose(again.codes, cold.codes, atol=1e-12)
    moved = design + 0.01 * _normal(40, 80, seed=5) / math.sqrt(40)
    warm = settle_l1(moved, observed, lam, lam, mask=mask, start=cold.codes)
    fresh = settle_l1(moved, observed, lam, lam, mask=mask)
    assert warm.n_iter.sum() < 0.8 * fresh.n_iter.sum()
    assert (warm.gap <= 1e-3).all()


@pytest.mark.parametrize("solver", [settle_l1, fista])
@pytest.mark.parametrize("masked", [False, True])
def test_the_start_does_not_change_the_solution(solver, masked):
    design, observed, lam = _problem(30, 20)
    mask = _mask(12, 30) if masked else None
    options = {"mask": mask, **TIGHT}
    start = _normal(12, 20, seed=3)  # its negative codes are infeasible
    start[4:] = 0.0
    kept = start.clone()
    cold = solver(design, observed, INF, lam, **options).codes
    warm = solver(design, observed, INF, lam, start=start, **options).codes
    assert torch.allclose(warm, cold, atol=1e-6)
    assert torch.equal(start, kept)


@pytest.mark.parametrize("solver", [settle_l1, fista])
def test_rows_that_are_zero_take_no_iterations(solver):
    design, observed, lam = _problem(20, 30)
    observed[0] = 0.0
    observed[1] *= 0.9 * lam / (observed[1] @ design).abs().max()
    mask = torch.ones(12, 20, dtype=torch.bool)
    mask[2] = False
    got = solver(design, observed, lam, lam, mask=mask)
    assert (got.codes[:3] == 0).all()
    assert got.gap[:3].tolist() == [0, 0, 0]
    assert got.n_iter[:3].tolist() == [0, 0, 0]
    assert (got.codes[3:] != 0).any(1).all()


@pytest.mark.parametrize("solver", [settle_l1, fista])
def test_no_rows_at_all(solver):
    got = solver(_normal(5, 7), _normal(0, 5), _tensor(0.1), _tensor(0.1))
    assert got.codes.shape == (0, 7)
    assert got.gap.shape == got.n_iter.shape == (0,)


@pytest.mark.parametrize("solver", [settle_l1, fista])
def test_the_cap_returns_the_gap_as_it_stands(solver):
    design, observed, lam = _problem(20, 30)
    got = solver(design, observed, lam, lam, tol=1e-9, max_iter=13)
    assert (got.n_iter == 13).all()
    assert (got.gap > 1e-9).any()
    more = solver(design, observed, lam, lam, tol=1e-9, max_iter=2000)
    assert (more.gap <= 1e-9).all()


def test_design_with_gradient_is_a_constant():
    design, observed, lam = _problem(20, 30)
    got = settle_l1(design.requires_grad_(), observed, lam, lam)
    assert not got.codes.requires_grad


@pytest.mark.parametrize("shape, lam", [((20, 30), 1e-3), ((40, 24), 1e-4)])
def test_tiny_penalties(shape, lam):
    """The exponent of rho travels far, in both precisions, and stays factorisable."""
    design, observed, _ = _problem(*shape)
    double = settle_l1(design, observed, lam, lam, max_iter=5000)
    single = settle_l1(design.float(), observed.float(), lam, lam, max_iter=5000)
    assert (double.gap <= 1e-3).all()
    a = energy(design, observed, double.codes, _tensor(lam), _tensor(lam))
    b = energy(design, observed, single.codes.double(), _tensor(lam), _tensor(lam))
    assert torch.allclose(a, b, rtol=1e-3)  # though rounding leaves a larger gap


def test_bounds_keep_the_factors_of_single_precision_definite():
    """Coherent atoms and the smallest rho: still a Cholesky factorisation."""
    design = 1 + 0.01 * _normal(64, 512).float()
    observed = design[:, :6].sum(1)[None] + _normal(3, 64).float()
    got = settle_l1(design, observed, 1e-6, 1e-6, max_iter=700)
    assert got.codes.isfinite().all()
    assert (got.gap > 0).all()
