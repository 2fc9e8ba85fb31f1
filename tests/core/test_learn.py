"""Tests of the slow learning: steps, seeding and a stack that keeps its messages."""

import pytest
import torch
from sklearn.datasets import load_digits

from skvn.core.layer import Layer
from skvn.core.learn import (
    Adam,
    atoms_from_rows,
    coactivity,
    dead_atoms,
    draw_rows,
    hebb_step,
    local_updates,
    normalise,
)
from skvn.core.network import Network, inputs, settle
from skvn.core.training import Batch, Learner, build


def _rng(seed=0):
    return torch.Generator().manual_seed(seed)


def _normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def test_normalise_leaves_zero_columns_alone():
    A = _normal(_rng(), 5, 4)
    A[:, 2] = 0
    B = normalise(A)
    assert (B[:, 2] == 0).all()
    expected = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=A.dtype)
    torch.testing.assert_close(B.norm(dim=0), expected)
    torch.testing.assert_close(B * A.norm(dim=0), A)


def test_coactivity_written_out():
    g, weight = _normal(_rng(), 6, 4), torch.arange(6.0, dtype=torch.float64)
    expected = [
        sum(weight[n] * abs(g[n, k]) * abs(g[n]).sum() for n in range(6))
        for k in range(4)
    ]
    torch.testing.assert_close(coactivity(g, weight), torch.stack(expected))


@pytest.mark.parametrize("masked", [False, True])
def test_full_hebb_step_never_raises_the_misfit_of_fixed_codes(masked):
    # c dominates the Gram of the codes, so a step of up to 2 / c is safe.
    rng = _rng(3)
    g, x = _normal(rng, 30, 6).clamp(min=0), _normal(rng, 30, 5)
    mask = (torch.rand(30, 5, generator=rng) < 0.7) | (not masked)
    weight = torch.rand(30, generator=rng, dtype=torch.float64)
    net = Network([Layer(normalise(_normal(rng, 5, 6)), x.new_zeros(1, 6), 0.1)])

    def misfit(S):
        return (weight * ((x - g @ S.T) * mask).square().sum(1)).sum()

    S = net.layers[0].S
    ((dS, _),) = local_updates(net, x, [g], weight, mask=mask)
    c = coactivity(g, weight)
    assert misfit(hebb_step(S, dS, c, 1.0)) < misfit(S)
    assert misfit(hebb_step(S, dS, c, 2.0)) <= misfit(S)
    assert misfit(hebb_step(S, dS, c, 20.0)) > misfit(S)


def test_hebb_step_moves_only_active_atoms():
    rng = _rng(1)
    net = Network(
        [
            Layer(normalise(_normal(rng, 6, 9)), normalise(_normal(rng, 5, 9)), 0.2),
            Layer(normalise(_normal(rng, 5, 7)), _normal(rng, 3, 7), 0.2),
        ]
    )
    x, weight = _normal(rng, 2, 6), torch.ones(2, dtype=torch.float64)
    codes = settle(net, x)
    updates = local_updates(net, x, codes, weight)
    for level, g in enumerate(codes):
        active = (g != 0).any(0)
        assert active.any()
        assert not active.all()
        layer, c = net.layers[level], coactivity(g, weight)
        moves = [(layer.S, updates[level][0])]
        moves += [(layer.U, updates[level][1])] if level == 0 else []
        for A, dA in moves:
            B = hebb_step(A, dA, c, 0.5)
            assert torch.equal((A != B).any(0), active)
            torch.testing.assert_close((B - A)[:, active], 0.5 * (dA / c)[:, active])


def test_weights_are_repetitions_for_a_hebb_step():
    rng = _rng(2)
    net = Network([Layer(normalise(_normal(rng, 6, 9)), _normal(rng, 3, 9), 0.2)])
    x, weight = _normal(rng, 5, 6), torch.tensor([1.0, 2, 0, 3, 1]).double()
    index = torch.arange(5).repeat_interleave(weight.long())
    steps = []
    for rows, w in ((x, weight), (x[index], torch.ones(7).double())):
        codes = settle(net, rows)
        ((dS, _),) = local_updates(net, rows, codes, w)
        steps.append(hebb_step(net.layers[0].S, dS, coactivity(codes[0], w), 1.0))
    torch.testing.assert_close(*steps)


def test_adam_is_torchs_adam():
    rng = _rng()
    start = [_normal(rng, 4, 3), _normal(rng, 2, 5)]
    theirs = [t.clone().requires_grad_() for t in start]
    optimiser = torch.optim.Adam(theirs, lr=1e-2, maximize=True, eps=1e-4)
    ours, adam = start, Adam()
    for step in range(20):
        # Tiny updates too, where the 1e-8 matters; and one that stays 0.
        updates = [_normal(rng, *t.shape) * 10.0 ** (-step % 10) for t in start]
        updates[0][0] = 0
        for t, u in zip(theirs, updates, strict=True):
            t.grad = u.clone()
        optimiser.step()
        ours = adam.step(ours, updates, 1e-2)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b.detach(), rtol=1e-12, atol=1e-12)
    assert torch.equal(ours[0][0], start[0][0])


@pytest.mark.parametrize("draw", [draw_rows, atoms_from_rows])
def test_drawing_ignores_row_order_and_repeats_by_weight(draw):
    rng = _rng(4)
    x, weight = _normal(rng, 20, 5), torch.randint(0, 4, (20,), generator=rng).double()
    drawn = draw(x, weight, 12, _rng(7))
    order = torch.randperm(20, generator=rng)
    assert torch.equal(draw(x[order], weight[order], 12, _rng(7)), drawn)
    index = torch.arange(20).repeat_interleave(weight.long())
    ones = torch.ones(len(index), dtype=x.dtype)
    assert torch.equal(draw(x[index], ones, 12, _rng(7)), drawn)
    assert not torch.equal(draw(x, weight, 12, _rng(8)), drawn)


def test_rows_are_drawn_in_proportion_to_their_weight():
    x = _normal(_rng(4), 4, 5)
    weight = torch.tensor([0.0, 1.0, 2.0, 5.0])
    drawn = draw_rows(x, weight, 800, _rng(1))
    counts = (drawn[:, None] == x).all(2).sum(0)
    assert counts[0] == 0
    assert ((counts - 100 * weight).abs() <= 2).all()


def test_more_atoms_than_rows_are_distinct_unit_vectors_near_the_rows():
    x = _normal(_rng(4), 3, 5).float()
    A = atoms_from_rows(x, torch.ones(3), 9, _rng(1))
    assert A.shape == (5, 9)
    assert A.dtype == torch.float32
    torch.testing.assert_close(A.norm(dim=0), torch.ones(9))
    assert (torch.cdist(A.T, A.T) + torch.eye(9)).min() > 1e-4
    assert ((A.T @ normalise(x.T)).amax(1) > 0.97).all()


def test_atoms_from_zero_rows_are_unit_vectors():
    A = atoms_from_rows(torch.zeros(3, 5), torch.ones(3), 4, _rng(1))
    torch.testing.assert_close(A.norm(dim=0), torch.ones(4))


def test_dead_atoms():
    usage = torch.tensor([1.0, 0.0, 1e-5, 1e-3, 2.0])
    assert dead_atoms(usage).tolist() == [False, True, True, False, False]
    assert torch.equal(dead_atoms(1e6 * usage), dead_atoms(usage))
    assert dead_atoms(torch.zeros(3)).all()
    assert not dead_atoms(torch.ones(3)).any()


# --- a stack keeps its messages ---------------------------------------------------


def _trained_on_digits(depth, phi, alpha):
    """Rows, and a stack after 30 Hebb steps on them."""
    x = torch.from_numpy(load_digits().data / 16.0)[:200]
    weight = torch.ones(200, dtype=x.dtype)
    batch = Batch(x, None, weight)
    net = build(batch, [48] * depth, [32] * (depth - 1), alpha, phi, _rng())
    learner, order = Learner(net, alpha), torch.randperm(200, generator=_rng(1))
    for step in range(30):
        rows = order[torch.arange(50) + 50 * (step % 4)]
        learner.hebb(Batch(x[rows], None, weight[rows]), _rng(), max_sweeps=3)
    return x, net


@pytest.mark.parametrize("alpha", [0.02, 0.1])
@pytest.mark.parametrize("phi", ["identity", "relu"])
@pytest.mark.parametrize(("depth", "least"), [(2, 0.25), (3, 0.1)])
def test_messages_do_not_vanish(depth, least, phi, alpha):
    x, net = _trained_on_digits(depth, phi, alpha)
    codes = settle(net, x)
    messages = inputs(net, x, codes)
    size = x.norm(dim=1).mean()
    assert all(h.norm(dim=1).mean() > least * size for h in messages)
    for layer, x_l, g in zip(net.layers, messages, codes, strict=True):
        assert (g != 0).any(1).double().mean() > 0.9
        left = (x_l - g @ layer.S.T).square().sum()
        assert left < 0.1 * x_l.square().sum()
