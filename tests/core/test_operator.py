"""Tests of the operator structure: systems, designs, updates of the atoms."""

from dataclasses import replace
from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skvn.core.energy import energy
from skvn.core.mixture import first_mixture
from skvn.core.operator import (
    atom_statistics,
    atom_updates,
    design,
    limit_rank,
    misfit,
    newton_step,
    norms,
    operator,
    solve_atoms,
    whitener,
)
from skvn.core.operator_learn import OperatorLearner, annealed, start_prior
from skvn.core.operator_model import Operators, infer, settle_systems
from skvn.core.settle_ard import settle_ard
from skvn.core.settle_ep import settle_ep
from skvn.core.settle_l1 import settle_l1
from skvn.core.system import Layout, Systems, answerable, systems

LAYOUT = Layout(state_size=3, response_size=2, n_observed=4, n_queries=2)
SOLVERS = ["ep", "ard", "l1"]


def _normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _close(first, second, tol=1e-10):
    torch.testing.assert_close(first, second, rtol=tol, atol=tol)


def _systems(n=9, K=3, noise=0.05, seed=0):
    """Systems of LAYOUT whose operators combine K atoms; some rows missing."""
    A = _normal(K, 2, 3, seed=seed)
    A = A / norms(A)[:, None, None]
    states, g = _normal(n, 6, 3, seed=seed + 1), _normal(n, K, seed=seed + 2)
    responses = states @ operator(A, g).mT + noise * _normal(n, 6, 2, seed=seed + 3)
    seen = torch.ones(n, 6, 1, dtype=torch.bool)
    seen[1, 2] = seen[4, 0] = seen[6, 5] = False
    return A, Systems(states * seen, responses * seen, seen)


def _net(A, solver, noise=0.01):
    prior = start_prior(solver, len(A), 1.0, A)
    return Operators(A, LAYOUT, solver, prior, noise)


def _rows(part):
    """x, mask and y of systems of LAYOUT."""
    pairs = torch.cat([part.states, part.responses], 2)[:, :4].flatten(1)
    x = torch.cat([pairs, part.states[:, 4:].flatten(1)], 1)
    there = part.seen.expand(-1, -1, 5)[:, :4].flatten(1)
    mask = torch.cat([there, torch.ones_like(x[:, 20:], dtype=torch.bool)], 1)
    y = part.responses.masked_fill(~part.seen, torch.nan)[:, 4:].flatten(1)
    return x, mask, y


def test_rows_become_systems():
    _, part = _systems()
    x, mask, y = _rows(part)
    found = systems(x, mask, y, LAYOUT)
    _close(found.responses, part.responses)
    _close(found.states[part.seen[..., 0]], part.states[part.seen[..., 0]])
    assert (found.seen == part.seen).all()
    asked = systems(x, mask, None, LAYOUT)
    assert not asked.seen[:, 4:].any()
    assert (asked.responses[:, 4:] == 0).all()


def test_a_row_with_any_missing_entry_is_absent():
    _, part = _systems()
    x, mask, y = _rows(part)
    mask = torch.ones_like(mask)
    mask[0, 6], mask[1, -1] = False, False
    found = systems(x, mask, y, LAYOUT)
    assert not found.seen[0, 1].any()
    assert (found.states[0, 1] == 0).all()
    assert not found.seen[1, 5].any()
    assert answerable(mask, LAYOUT)[:2].tolist() == [[True, True], [True, False]]


def test_constant_state_is_one_row_of_x_and_y():
    x, y = _normal(5, 4), _normal(5, 2, seed=1)
    y[2, 1] = torch.nan
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[0, 3] = False
    part = systems(x, mask, y, Layout(0, 6, 1, 2))
    values, seen = part.entries()
    assert part.states.shape == (1, 1)
    assert seen.sum() == 28
    assert not seen[0, 3]
    assert not seen[2, 5]
    _close(values[seen], torch.cat([x, y], 1)[seen])


def test_design_is_the_operator_on_states():
    A, part = _systems()
    g = _normal(9, 3, seed=5)
    flat = (design(A, part.states) @ g[:, :, None])[:, :, 0]
    _close(flat, (part.states @ operator(A, g).mT).flatten(1))
    shared = design(A, part.states[0])
    _close(shared, design(A, part.states)[0])


@pytest.mark.parametrize("solver", ["l1", "fixed"])
def test_danskin_atom_updates_are_minus_the_gradient(solver):
    A, part = _systems()
    weight = torch.rand(9, generator=torch.Generator().manual_seed(3)).double()
    values, mask = part.entries()
    lam = torch.tensor(0.05, dtype=torch.float64)

    def settled(A):
        if solver == "fixed":
            return _normal(9, 3, seed=8)
        options = {"mask": mask, "tol": 1e-13}
        return settle_l1(design(A, part.states), values, lam, lam, **options).codes

    A = A.clone().requires_grad_()
    g = settled(A.detach())
    E = energy(design(A, part.states), values, g, lam, lam, mask)
    (weight @ E).backward()
    _close(atom_updates(A.detach(), part, g, weight), -A.grad, 1e-12)
    if solver == "l1":  # the settled energy itself, by finite differences
        D, step = _normal(*A.shape, seed=11), 1e-5
        ends = [
            weight @ energy(design(B, part.states), values, settled(B), lam, lam, mask)
            for B in (A.detach() + step * D, A.detach() - step * D)
        ]
        slope = float(ends[0] - ends[1]) / (2 * step)
        assert abs(slope - float((A.grad * D).sum())) < 1e-6 * abs(slope)


def test_constant_state_updates_are_the_hebb_updates_of_the_flat_structure():
    S, U = _normal(4, 3), _normal(2, 3, seed=1)
    A = torch.cat([S, U]).T[:, :, None]
    x, y, g = _normal(7, 4, seed=2), _normal(7, 2, seed=3), _normal(7, 3, seed=4)
    part = systems(x, None, y, Layout(0, 6, 1, 2))
    dA = atom_updates(A, part, g, torch.ones(7).double())[:, :, 0].T
    _close(dA[:4], (x - g @ S.T).T @ g)
    _close(dA[4:], (y - g @ U.T).T @ g)


def test_joint_solve_is_stationary():
    A, part = _systems(n=30)
    weight = torch.rand(30, generator=torch.Generator().manual_seed(3)).double()
    net = _net(A, "ep")
    values, mask = part.entries()
    post = settle_systems(net, design(A, part.states), values, mask)
    H, N = atom_statistics(part, post.codes, post.covariance, weight)
    A = solve_atoms(H, N).requires_grad_()
    D = design(A, part.states)
    r = mask * (values - (D @ post.codes[:, :, None])[:, :, 0])
    spread = mask * ((D @ post.covariance) * D).sum(-1)
    (weight @ (r.square() + spread).sum(1)).backward()
    scale = atom_updates(torch.zeros_like(A), part, post.codes, weight).norm()
    assert A.grad.norm() < 1e-4 * scale


def test_joint_solve_with_entry_masks():
    x, y, g = _normal(40, 4), _normal(40, 2, seed=1), _normal(40, 3, seed=2)
    mask = torch.rand(40, 4, generator=torch.Generator().manual_seed(0)) < 0.7
    part = systems(x * mask, mask, y, Layout(0, 6, 1, 2))
    none = torch.zeros(40, 3, 3, dtype=torch.float64)
    A = solve_atoms(*atom_statistics(part, g, none, torch.ones(40).double()))
    for j in range(4):
        k = mask[:, j]
        _close(A[:, j, 0], torch.linalg.lstsq(g[k], x[k, j]).solution, 1e-4)


def test_newton_steps_lower_the_energy_and_local():
    A, part = _systems(n=60)
    g, weight = _normal(60, 3, seed=5), torch.ones(60).double()
    g[:, 2] = 0
    before = misfit(A, part, g).square().sum()
    moved = newton_step(A, part, g, weight)
    assert misfit(moved, part, g).square().sum() < 0.9 * before
    _close(moved[2], A[2])


@given(st.integers(1, 3), st.integers(0, 5))
def test_limited_rank(rank, seed):
    A = _normal(2, 3, 4, seed=seed)
    low = limit_rank(A, rank)
    assert (torch.linalg.matrix_rank(low) <= rank).all()
    tail = torch.linalg.svdvals(A)[:, rank:].square().sum(1)
    _close((A - low).square().sum((1, 2)), tail)
    assert limit_rank(A, None) is A


def test_whitened_states_have_unit_moment():
    z = _normal(500, 4) @ _normal(4, 4, seed=1)
    P = whitener(z.T @ z / 500)
    white = z @ P
    values = torch.linalg.eigvalsh(white.T @ white / 500)
    assert values.max() <= 1
    assert values.max() > 0.998
    far = torch.tensor([1e4, 1.0, 1e-4, 1.0], dtype=torch.float64)
    scaled = whitener((z * far).T @ (z * far) / 500)
    _close((z * far) @ scaled, white, 1e-8)
    assert torch.isfinite(whitener(torch.zeros(3, 3))).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_constant_state_settles_like_the_flat_structure(solver):
    S, U = _normal(8, 5), _normal(2, 5, seed=1)
    A = torch.cat([S, U]).T[:, :, None]
    x = (_normal(6, 5, seed=2) * (_normal(6, 5, seed=3) > 0)) @ S.T
    x = x + 0.02 * _normal(6, 8, seed=4)
    mask = torch.rand(6, 8, generator=torch.Generator().manual_seed(0)) < 0.8
    net = replace(_net(A, solver), layout=Layout(0, 10, 1, 2))
    part = systems(x * mask, mask, None, net.layout)
    codes, answers, _ = infer(net, part, 0.05)
    if solver == "l1":
        lam = torch.tensor(0.05, dtype=torch.float64)
        flat = settle_l1(S, x, lam, lam, mask=mask, tol=1e-6).codes
    elif solver == "ard":
        options = {"noise": 0.01, "floor": 0.01, "rounds": 2}
        flat = settle_ard(S, x, net.prior, mask=mask, **options).codes
    else:
        flat = settle_ep(S, x, net.prior, noise=0.01, group=8, mask=mask).codes
    _close(codes, flat, 1e-8)
    _close(answers, flat @ U.T, 1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_codes_in_a_batch_alone_and_in_another_order(solver):
    A, part = _systems(n=40)
    net = _net(A, solver)
    codes, answers, _ = infer(net, part, 0.05)
    for i in (0, 1, 39):
        alone = infer(net, part.take([i]), 0.05)
        _close(alone[0][0], codes[i])
        _close(alone[1][0], answers[i])
    order = [3, 1, 0, 2, 4, 5]
    moved = Systems(
        part.states[:, order], part.responses[:, order], part.seen[:, order]
    )
    _close(infer(net, moved, 0.05)[0], codes, 1e-9 if solver != "l1" else 1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_missing_row_is_no_row(solver):
    A, part = _systems(n=40)
    part.seen[:, 2] = False
    part = Systems(part.states * part.seen, part.responses * part.seen, part.seen)
    net = _net(A, solver)
    keep = [0, 1, 3, 4, 5]
    short = Systems(part.states[:, keep], part.responses[:, keep], part.seen[:, keep])
    less = replace(net, layout=LAYOUT._replace(n_observed=3))
    tol = 1e-10 if solver != "l1" else 1e-3
    for one, two in zip(infer(net, part, 0.05), infer(less, short, 0.05), strict=True):
        assert (one is None) == (two is None)
        if one is not None:
            _close(one, two, tol)


@pytest.mark.parametrize("solver", SOLVERS)
def test_permuting_atoms_permutes_codes(solver):
    A, part = _systems()
    order = [2, 0, 1]
    one = infer(_net(A, solver), part, 0.05)
    two = infer(_net(A[order], solver), part, 0.05)
    tol = 1e-9 if solver != "l1" else 1e-3
    _close(two[0], one[0][:, order], tol)
    _close(two[1], one[1], tol)


@pytest.mark.parametrize("solver", ["ep", "ard"])
def test_em_learns(solver):
    _, part = _systems(n=200)
    wrong = _systems(seed=20)[0]
    learner = OperatorLearner(_net(wrong, solver, 1.0))
    weight = torch.ones(200).double()
    losses = [learner.em([(part, weight)]) for _ in range(30)]
    assert losses[-1] < 0.05 * losses[0]
    assert abs(learner.net.noise / 0.05**2 - 1) < 0.5
    _close(norms(learner.net.atoms), torch.ones(3).double())


@pytest.mark.parametrize("solver", ["ep", "ard"])
def test_em_in_batches_is_em_at_once(solver):
    A, part = _systems(n=50)
    weight = torch.rand(50, generator=torch.Generator().manual_seed(0)).double()
    whole, parts = (OperatorLearner(_net(A, solver)) for _ in range(2))
    whole.em([(part, weight)])
    halves = [slice(0, 20), slice(20, 50)]
    parts.em([(part.take(h), weight[h]) for h in halves])
    _close(whole.net.atoms, parts.net.atoms)
    assert abs(whole.net.noise - parts.net.noise) < 1e-12


def test_hebb_steps_learn_and_dead_atoms_are_replaced():
    truth, part = _systems(n=200)
    A = torch.cat([_systems(seed=20)[0], torch.zeros(1, 2, 3).double()])
    learner = OperatorLearner(_net(A, "l1"))
    weight = torch.ones(200).double()
    losses = [learner.hebb(part, weight, 0.03) for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]
    assert learner.reseed(lambda count: 3 * truth[:count]) == 1
    _close(learner.net.atoms[3], truth[0])
    assert learner.usage is None


def test_penalty_is_annealed_to_alpha():
    values = [annealed(0.1, p) for p in (0.0, 0.3, 0.54, 1.0)]
    assert values == pytest.approx([1.0, 0.5, 0.1, 0.1])


def test_outliers_get_student_noise():
    A, part = _systems(n=200, noise=0.02)
    part.responses[::3, 1] += 3
    learner = OperatorLearner(_net(A, "ep"))
    for _ in range(5):
        learner.em([(part, torch.ones(200).double())])
    assert learner.net.dof < inf
    clean = OperatorLearner(_net(A, "ep"))
    _, part = _systems(n=200, noise=0.02)
    for _ in range(5):
        clean.em([(part, torch.ones(200).double())])
    assert clean.net.dof >= 8


def test_first_mixture_scales():
    one, two = (first_mixture(2, s, _normal(1)) for s in (1.0, 3.0))
    _close(two.mean, 3 * one.mean)
    _close(two.variance, 9 * one.variance)
