"""Tests of the start of the operator structure."""

import itertools

import pytest
import torch

from skvn.core.empirical_bayes import conditional, empirical_bayes, ridge_operators
from skvn.core.grow import draw_systems, explained, grow, lines, start_atoms
from skvn.core.system import Layout, Systems, systems


def _normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _close(first, second, tol=1e-10):
    torch.testing.assert_close(first, second, rtol=tol, atol=tol)


def _on_lines(n=120, d=6, K=3, noise=0.02):
    """Operators on K random lines, and the lines."""
    truth = _normal(K, d)
    truth = truth / truth.norm(dim=1, keepdim=True)
    owner = torch.arange(n) % K
    length = 0.5 + torch.rand(n, 1, generator=torch.Generator().manual_seed(2)).double()
    sign = torch.where(_normal(n, 1, seed=3) > 0, 1.0, -1.0)
    return sign * length * truth[owner] + noise * _normal(n, d, seed=4), truth


def _found(atoms, truth):
    return (truth @ atoms.T).abs().amax(1)


def _part(n=300, R=5, noise=0.1, c=2, F=3):
    C = _normal(c * F, c * F, seed=1) / 2
    W = (_normal(n, c * F, seed=2) @ C.T).reshape(n, c, F)
    z = _normal(n, R, F, seed=3)
    a = z @ W.mT + noise * _normal(n, R, c, seed=4)
    return Systems(z, a, torch.ones(n, R, 1, dtype=torch.bool)), C @ C.T


def test_growing_finds_the_lines_and_stops():
    W, truth = _on_lines()
    atoms = grow(W, torch.ones(120).double(), 12)
    assert len(atoms) == 3
    assert _found(atoms, truth).min() > 0.999


def test_growing_without_a_stop_gives_as_many_as_asked():
    W, truth = _on_lines(n=20)
    for n_atoms in (1, 2, 8, 30):
        atoms = grow(W, torch.ones(20).double(), n_atoms, stop=False)
        assert atoms.shape == (n_atoms, 6)
        _close(atoms.norm(dim=1), torch.ones(n_atoms).double())
    assert _found(atoms, truth).min() > 0.99


def test_isolated_systems_do_not_become_atoms():
    W, truth = _on_lines(noise=0.01)
    W[::10] = 0.7 * _normal(12, 6, seed=9)
    atoms = grow(W, torch.ones(120).double(), 3)
    assert _found(atoms, truth).min() > 0.99


def test_growing_does_not_depend_on_order_and_weight_is_repetition():
    W, _ = _on_lines(n=60, noise=0.1)
    weight = 1.0 + torch.arange(60).double() % 3
    index = torch.arange(60).repeat_interleave(weight.long())
    index = index[
        torch.randperm(len(index), generator=torch.Generator().manual_seed(0))
    ]
    one = grow(W, weight, 6)
    _close(grow(W[index], torch.ones(len(index)).double(), 6), one)


def test_scaling_operators_changes_nothing():
    W, _ = _on_lines()
    weight = torch.ones(120).double()
    _close(grow(1e3 * W, weight, 6), grow(W, weight, 6))


def test_lines_never_explain_less():
    W = _normal(80, 5)
    weight = torch.rand(80, generator=torch.Generator().manual_seed(1)).double()
    atoms = W[:3] / W[:3].norm(dim=1, keepdim=True)
    shares = [explained(W, weight, lines(W, weight, atoms, k)) for k in range(6)]
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(shares))


def test_nothing_to_explain_is_no_error():
    atoms = grow(torch.zeros(5, 3).double(), torch.ones(5).double(), 4)
    assert torch.isfinite(atoms).all()


def test_empirical_bayes_recovers_covariance_and_noise():
    part, C = _part(n=3000)
    eb = empirical_bayes(part, torch.ones(3000).double(), rounds=60)
    assert (eb.covariance - C).norm() < 0.1 * C.norm()
    assert abs(float(eb.noise) / 0.01 - 1) < 0.05


def test_conditional_is_the_gaussian_posterior():
    part, C = _part(n=4)
    D = torch.zeros(4, 5, 2, 6).double()
    for i in range(2):
        D[:, :, i, 3 * i : 3 * i + 3] = part.states
    D, v = D.flatten(1, 2), part.responses.flatten(1)
    mean, S = conditional(
        D.mT @ D, (D.mT @ v[:, :, None])[:, :, 0], C, torch.tensor(0.2)
    )
    cov = D @ C @ D.mT + 0.2 * torch.eye(10).double()
    _close(mean, (C @ D.mT @ torch.linalg.solve(cov, v)[:, :, None])[:, :, 0], 1e-8)
    _close(S, C - C @ D.mT @ torch.linalg.solve(cov, D @ C), 1e-8)


def test_empirical_bayes_sees_entry_masks():
    x, y = _normal(200, 3), _normal(200, 1, seed=1)
    mask = torch.rand(200, 3, generator=torch.Generator().manual_seed(0)) < 0.6
    layout, weight = Layout(0, 4, 1, 1), torch.ones(200).double()
    one = empirical_bayes(systems(x, mask, y, layout), weight)
    spoilt = torch.where(mask, x, 9.0)
    two = empirical_bayes(systems(spoilt, mask, y, layout), weight)
    _close(two.operators, one.operators)
    hidden = empirical_bayes(systems(x * mask, None, y, layout), weight)
    assert (hidden.operators - one.operators).abs().max() > 0.1


def test_ridge_operators_solve_their_normal_equations():
    part, _ = _part(n=5)
    W = ridge_operators(part).reshape(5, 2, 3)
    G = part.states.mT @ part.states + 0.5 * torch.eye(3).double()
    _close(W @ G, part.responses.mT @ part.states)


@pytest.mark.parametrize("size", [3, 60])
def test_start_has_unit_atoms_for_small_and_large_operators(size):
    part, _ = _part(n=50, F=size, c=1)
    atoms, scale, noise = start_atoms(part, torch.ones(50).double(), 4, stop=False)
    assert atoms.shape == (4, 1, size)
    _close(atoms.flatten(1).norm(dim=1), torch.ones(4).double())
    assert scale > 0
    assert noise > 0


def test_drawn_systems_are_the_same_for_weights_and_repetitions():
    x = _normal(300, 4)
    weight = (torch.arange(300) % 3).double()
    index = torch.arange(300).repeat_interleave(weight.long())
    draw = lambda x, w: draw_systems(x, w, torch.Generator().manual_seed(0), 100)  # noqa: E731
    one, w = draw(x[weight > 0], weight[weight > 0])
    two, _ = draw(x[index], torch.ones(len(index)).double())
    _close(x[weight > 0][one], x[index][two])
    assert (w == 1).all()
    few, w = draw(x[:50], weight[:50])
    assert len(few) == 50
    assert torch.equal(w, weight[:50])
