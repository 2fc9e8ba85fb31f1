"""The training step: schedules, start, re-seeding, going back to a state."""

import pytest
import torch

from skvn.core.learn import local_updates, normalise
from skvn.core.network import inputs, settle
from skvn.core.training import (
    Batch,
    Learner,
    build,
    contrast_rate,
    filled,
    hebb_rate,
    mean_square,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(n=40, d=6, m=2, holes=False):
    g = generator(1)
    x = torch.rand(n, d, generator=g, dtype=torch.float64)
    y = x @ torch.randn(d, m, generator=g, dtype=torch.float64)
    mask = torch.rand(n, d, generator=g) > 0.3 if holes else None
    x = x if mask is None else x * mask
    return Batch(x, mask, torch.ones(n, dtype=torch.float64), y)


def network(b, K=(8,), widths=(), alpha=0.1, phi="identity", **options):
    return build(b, list(K), list(widths), alpha, phi, generator(), **options)


def test_hebb_rate_falls_from_one_to_a_tenth():
    rates = [hebb_rate(t) for t in range(200)]
    assert rates[0] == 1 and rates[10] == 0.5 and rates[-1] == 0.1
    assert rates == sorted(rates, reverse=True)


def test_contrast_rate_falls_but_not_to_zero():
    rates = [contrast_rate(p) for p in (0, 0.5, 0.9, 1.0)]
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0
    assert rates[-1] == pytest.approx(rates[0] / 10)


@pytest.mark.parametrize("holes", [False, True])
def test_penalty_is_alpha_times_the_rms_norm(holes):
    b = batch(holes=holes)
    weight = torch.arange(1.0, 41.0, dtype=torch.float64)
    b.weight = weight
    mask = torch.ones_like(b.x) if b.mask is None else b.mask.double()
    columns = (weight @ b.x.square()) / (weight @ mask)
    assert mean_square(b) == pytest.approx(float(columns.mean()))
    assert network(b).layers[0].lam == pytest.approx(0.1 * float(columns.sum()) ** 0.5)


def test_penalty_of_the_second_layer_is_relative_to_its_messages():
    b = batch()
    net = network(b, (8, 5), (4,))
    first, second = net.layers
    alone = type(net)([first], net.positive)
    h = settle(alone, b.x)[0] @ first.U.T
    assert second.lam == pytest.approx(0.1 * float(h.square().sum(1).mean()) ** 0.5)
    assert first.U.shape == (4, 8) and second.S.shape == (4, 5)


def test_penalty_of_the_second_layer_follows_its_messages():
    b, gen = batch(), generator()
    learner = Learner(network(b, (8, 5), (4,)), 0.1)
    second = learner.net.layers[1]
    second.lam *= 100
    for _ in range(120):
        learner.hebb(b, gen)
    _, h = inputs(learner.net, b.x, settle(learner.net, b.x, tol=0.1))
    wanted = 0.1 * float(h.square().sum(1).mean()) ** 0.5
    assert second.lam == pytest.approx(wanted, rel=0.1)


def test_atoms_are_rows_of_the_data():
    b = batch()
    S = network(b).layers[0].S
    cosines = normalise(b.x.T).T @ S
    assert cosines.amax(0).min() > 0.999
    torch.testing.assert_close(S.norm(dim=0), torch.ones(8, dtype=torch.float64))


def test_columns_never_observed_get_no_atoms_and_do_not_count():
    b = batch(holes=True)
    b.mask[:, 2] = False
    b.x[:, 2] = 0
    S = network(b).layers[0].S
    assert not S[2].any()
    torch.testing.assert_close(S.norm(dim=0), torch.ones(8, dtype=torch.float64))
    keep = [0, 1, 3, 4, 5]
    other = Batch(b.x[:, keep], b.mask[:, keep], b.weight)
    assert mean_square(b) == pytest.approx(mean_square(other))
    assert network(b).layers[0].lam == pytest.approx(network(other).layers[0].lam)


def test_filled_holds_the_observed_and_the_column_means():
    b = Batch(
        torch.tensor([[1.0, 0.0], [3.0, 5.0]]),
        torch.tensor([[True, False], [True, True]]),
        torch.tensor([3.0, 1.0]),
    )
    assert filled(b).tolist() == [[1, 5], [3, 5]]
    b = Batch(b.x * torch.tensor([1.0, 0.0]), b.mask.clone(), b.weight)
    b.mask[1, 1] = False
    assert filled(b)[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize("holes", [False, True])
def test_first_hebb_step_is_the_local_update_over_coactivity(holes):
    b = batch(holes=holes)
    learner = Learner(network(b), 0.1)
    layer = learner.net.layers[0]
    S = layer.S.clone()
    g = settle(learner.net, b.x, mask=b.mask, tol=0.1)[0]
    ((dS, _),) = local_updates(learner.net, b.x, [g], b.weight, mask=b.mask)
    c = (b.weight * g.abs().sum(1)) @ g.abs()
    learner.hebb(b, generator())
    expected = S + dS / torch.where(c > 0, c, 1)
    torch.testing.assert_close(layer.S, expected / expected.norm(dim=0))
    assert learner.n_steps == 1
    torch.testing.assert_close(learner.usage[0], b.weight @ g.square())


def test_loss_is_the_energy_before_the_step_and_falls():
    b, gen = batch(), generator()
    learner = Learner(network(b), 0.1)
    losses = [learner.hebb(b, gen) for _ in range(30)]
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.parametrize("holes", [False, True])
def test_dead_atoms_are_replaced_by_rows_and_counted(holes):
    b, gen = batch(holes=holes), generator()
    learner = Learner(network(b), 0.1)
    layer = learner.net.layers[0]
    layer.S[:, [1, 4]] = -1 / 6**0.5  # nonnegative rows never recruit these
    learner.hebb(b, gen)
    others = layer.S[:, [0, 2, 3, 5, 6, 7]].clone()
    assert learner.reseed(b, gen) == 2
    assert learner.usage == []
    torch.testing.assert_close(layer.S[:, [0, 2, 3, 5, 6, 7]], others)
    new = layer.S[:, [1, 4]]
    torch.testing.assert_close(new.norm(dim=0), torch.ones(2, dtype=torch.float64))
    if not holes:
        assert (normalise(b.x.T).T @ new).amax(0).min() > 0.999
    assert learner.reseed(b, gen) == 0
    learner.hebb(b, gen)
    assert (learner.usage[0][[1, 4]] > 0).all()


def test_reseeded_atoms_stay_out_of_columns_never_observed():
    b, gen = batch(holes=True), generator()
    b.mask[:, 2] = False
    b.x[:, 2] = 0
    learner = Learner(network(b), 0.1)
    learner.net.layers[0].S[:, 1] = torch.tensor([-1.0, -1, 0, -1, -1, -1])
    learner.hebb(b, gen)
    assert learner.reseed(b, gen) == 1
    assert not learner.net.layers[0].S[2].any()


def test_a_state_is_a_copy_to_come_back_to():
    b, gen = batch(), generator()
    learner = Learner(network(b, (8, 5), (4,)), 0.1)
    state = learner.state()
    kept = [(a.S.clone(), a.U.clone(), a.lam) for a in state]
    for _ in range(3):
        learner.hebb(b, gen)
    moved = learner.net.layers[0].S
    assert (moved - kept[0][0]).abs().max() > 1e-3
    learner.restore(state)
    for layer, (S, U, lam) in zip(learner.net.layers, kept, strict=True):
        assert torch.equal(layer.S, S) and torch.equal(layer.U, U) and layer.lam == lam


@pytest.mark.parametrize("K", [(8,), (8, 5)])
def test_contrast_steps_lower_the_prediction_loss(K):
    b, gen = batch(12), generator()
    learner = Learner(network(b, K, K[:-1]), 0.1)
    top = learner.net.layers[-1]
    top.U = torch.zeros(2, K[-1], dtype=torch.float64)
    learner.hebb(b, gen)
    learner.read([b], True, 10, 1e-6)
    losses = [learner.contrast(b, contrast_rate(0.5), 10) for _ in range(3)]
    assert losses[-1] < losses[0]
    assert learner.adam.n_steps == 3


def test_read_adds_up_over_batches_and_forgets_on_request():
    b = batch()
    learner = Learner(network(b), 0.1)
    halves = [
        Batch(b.x[s], None, b.weight[s], b.y[s]) for s in (slice(25), slice(25, 40))
    ]
    learner.read(halves, True, 10, 1e-8)
    split = learner.readout
    learner.read([b], True, 10, 1e-8)
    torch.testing.assert_close(learner.readout.U, split.U)
    n = float(learner.stats.n)
    learner.read([b], True, 10, 1e-8, keep=0.5)
    assert float(learner.stats.n) == n / 2 + 40
    learner.read([b], True, 10, 1e-8)
    assert float(learner.stats.n) == 40
