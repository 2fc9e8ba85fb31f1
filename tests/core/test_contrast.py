"""Tests of the two-phase contrast against finite differences of the loss."""

from itertools import pairwise

import pytest
import torch

from skvn.core.contrast import (
    contrast_updates,
    phases,
    response,
    two_phase_updates,
)
from skvn.core.layer import Layer
from skvn.core.learn import normalise
from skvn.core.network import Network, settle

EXACT = {"tol": 1e-13, "max_sweeps": 100}
STEP = 1e-5


def _normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _task(seed, atoms=(9,), n=6, positive=True):
    """A linear network, and rows x, mask, y, weight."""
    rng = torch.Generator().manual_seed(seed)
    widths = [6, 3] if len(atoms) == 1 else [6, 5, 3]
    layers = [
        Layer(
            normalise(_normal(rng, widths[level], K)),
            _normal(rng, widths[level + 1], K) / 2,
            0.1,
        )
        for level, K in enumerate(atoms)
    ]
    mask = torch.rand(n, 6, generator=rng) < 0.8
    mask[:, 0] = True
    weight = 0.5 + torch.rand(n, generator=rng, dtype=torch.float64)
    rows = _normal(rng, n, 6), mask, _normal(rng, n, 3), weight
    return Network(layers, positive), *rows


def _loss(net, x, mask, y, weight):
    """Weighted sum of 1/2 ||y - U g(x)||^2 over freely settled codes."""
    g = settle(net, x, mask=mask, **EXACT)[-1]
    return (weight * (y - g @ net.layers[-1].U.T).square().sum(1)).sum() / 2


def _moved(net, level, name, way, step):
    layers = [Layer(a.S, a.U, a.lam, a.phi) for a in net.layers]
    setattr(layers[level], name, getattr(layers[level], name) + step * way)
    return Network(layers, net.positive)


def _slope(net, level, name, way, *rows):
    """Central difference of the loss along one direction."""
    up, down = (_loss(_moved(net, level, name, way, s), *rows) for s in (STEP, -STEP))
    return (up - down) / (2 * STEP)


def _elementwise(net, level, name, *rows):
    """Central differences of the loss in every entry of one matrix."""
    A = getattr(net.layers[level], name)
    out = torch.zeros_like(A)
    for i in range(A.numel()):
        way = torch.zeros_like(A)
        way.view(-1)[i] = 1.0
        out.view(-1)[i] = _slope(net, level, name, way, *rows)
    return out


def _free(net, x, mask, y):
    """Free codes and what the answer lacks."""
    codes = settle(net, x, mask=mask, **EXACT)
    return codes, y - codes[-1] @ net.layers[-1].U.T


def _relative(a, b):
    return float((a - b).norm() / b.norm())


# --- response ---------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("positive", [True, False])
def test_response_is_the_derivative_of_a_nudged_settle(masked, positive):
    net, x, mask, _, _ = _task(1, positive=positive)
    mask = mask if masked else None
    pull = _normal(torch.Generator().manual_seed(4), len(x), 9)
    g = settle(net, x, mask=mask, **EXACT)[0]
    up, down = (
        settle(net, x, mask=mask, nudge=s * STEP * pull, start=[g], **EXACT)[0]
        for s in (1, -1)
    )
    assert torch.equal(up != 0, g != 0)
    expected = (up - down) / (2 * STEP)
    a = response(net.layers[0].S, g, pull, mask)
    # The damping of 1e-4 counts where active atoms are nearly dependent.
    assert _relative(a, expected) < 5e-3
    assert (a[g == 0] == 0).all()


def test_response_written_out():
    net, x, mask, _, _ = _task(2)
    pull = _normal(torch.Generator().manual_seed(4), len(x), 9)
    g = settle(net, x, mask=mask)[0]
    a = response(net.layers[0].S, g, pull, mask)
    for n in range(len(x)):
        on = g[n] != 0
        D = net.layers[0].S[mask[n]][:, on]
        gram = D.T @ D + 1e-4 * torch.eye(int(on.sum()), dtype=D.dtype)
        torch.testing.assert_close(a[n, on], torch.linalg.solve(gram, pull[n, on]))


def test_equal_active_atoms_share_the_response():
    S = normalise(_normal(torch.Generator().manual_seed(0), 6, 4))
    S = torch.cat([S, S[:, :1]], 1)
    g = torch.tensor([[0.5, 0, 0.2, 0, 0.5], [0.0, 0, 0, 0, 0]], dtype=S.dtype)
    pull = torch.ones_like(g)
    a = response(S, g, pull)
    torch.testing.assert_close(a[0, 0], a[0, 4])
    single = response(S[:, :4], g[:, :4], pull[:, :4])
    torch.testing.assert_close(a[0, 0] + a[0, 4], single[0, 0], rtol=1e-3, atol=1e-3)
    assert (a[1] == 0).all()
    opposed = response(S, g, torch.tensor([[1.0, 0, 0, 0, -1]] * 2, dtype=S.dtype))
    assert opposed.abs().max() < 1.1e4


def test_response_of_a_row_does_not_depend_on_its_company():
    net, x, mask, _, _ = _task(3)
    pull = _normal(torch.Generator().manual_seed(4), len(x), 9)
    g = settle(net, x, mask=mask)[0]
    a = response(net.layers[0].S, g, pull, mask)
    for n in range(len(x)):
        one = response(net.layers[0].S, g[[n]], pull[[n]], mask[[n]])
        torch.testing.assert_close(one[0], a[n], rtol=0, atol=1e-10)


def test_response_of_rows_that_see_nothing_or_fire_nothing():
    net, x, _, _, _ = _task(3)
    S, pull = net.layers[0].S, torch.ones(2, 9, dtype=x.dtype)
    assert (response(S, torch.zeros_like(pull), pull) == 0).all()
    blind = torch.zeros(2, 6, dtype=torch.bool)
    a = response(S, torch.eye(9, dtype=x.dtype)[:2], pull, blind)
    assert a.isfinite().all()


# --- the contrast of one layer ----------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "positive", "masked"), [(1, True, True), (2, False, False)]
)
def test_contrast_is_minus_the_gradient_of_the_loss(seed, positive, masked):
    net, x, mask, y, weight = _task(seed, (6,), n=4, positive=positive)
    mask = mask if masked else torch.ones_like(mask)
    codes, error = _free(net, x, mask, y)
    args = net.layers[0], x, codes[0], error, weight
    dS, dU = contrast_updates(*args, mask if masked else None)
    rows = x, mask, y, weight
    assert _relative(dS, -_elementwise(net, 0, "S", *rows)) < 2e-3
    assert _relative(dU, -_elementwise(net, 0, "U", *rows)) < 1e-5


def test_contrast_steps_lower_the_loss():
    net, x, mask, y, weight = _task(4)
    losses = []
    for _ in range(5):
        losses.append(float(_loss(net, x, mask, y, weight)))
        codes, error = _free(net, x, mask, y)
        layer = net.layers[0]
        dS, dU = contrast_updates(layer, x, codes[0], error, weight, mask)
        layer.S, layer.U = layer.S + 1e-3 * dS, layer.U + 1e-3 * dU
    assert all(b < a for a, b in pairwise(losses))


def test_a_weight_of_two_is_the_row_twice():
    net, x, mask, y, _ = _task(5)
    weight = torch.tensor([2.0, 1, 1, 0, 1, 3], dtype=x.dtype)
    index = torch.arange(6).repeat_interleave(weight.long())
    codes, error = _free(net, x, mask, y)
    args = x, codes[0], error, weight, mask
    some = contrast_updates(net.layers[0], *args)
    args = [a[index] for a in args]
    args[3] = torch.ones_like(args[3])
    twice = contrast_updates(net.layers[0], *args)
    for a, b in zip(some, twice, strict=True):
        torch.testing.assert_close(a, b)


# --- two phases -------------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_small_phases_are_the_contrast_of_one_layer(masked):
    net, x, mask, y, weight = _task(1)
    mask = mask if masked else None
    codes, error = _free(net, x, mask, y)
    plus, minus, sizes = phases(net, x, codes, error, 1e-4, mask=mask, tol=1e-13)
    ((dS, dU),) = two_phase_updates(net, x, plus, minus, sizes, weight, y, mask)
    args = net.layers[0], x, codes[0], error, weight, mask
    expected = contrast_updates(*args)
    assert _relative(dS, expected[0]) < 2e-3
    assert _relative(dU, expected[1]) < 1e-5


def test_small_phases_are_minus_the_gradient_of_a_two_layer_loss():
    net, x, mask, y, weight = _task(4, (5, 4), n=3)
    codes, error = _free(net, x, mask, y)
    options = {"mask": mask, **EXACT}
    plus, minus, sizes = phases(net, x, codes, error, 1e-4, **options)
    updates = two_phase_updates(net, x, plus, minus, sizes, weight, y, mask)
    rng = torch.Generator().manual_seed(6)
    for level in range(2):
        for name, update in zip("SU", updates[level], strict=True):
            # Along the update itself, so that no component of it can hide.
            way = update / update.norm() + 0.1 * _normal(rng, *update.shape)
            slope = _slope(net, level, name, way, x, mask, y, weight)
            torch.testing.assert_close((update * way).sum(), -slope, rtol=5e-3, atol=0)


def test_phases_move_the_answer_towards_and_away_from_y():
    net, x, mask, y, _ = _task(3, (5, 4))
    codes, error = _free(net, x, mask, y)
    plus, minus, _ = phases(net, x, codes, error, 0.1, mask=mask, tol=1e-7)
    # U g moves along the error: the response is positive semidefinite.
    U = net.layers[-1].U
    along = ((plus[-1] - minus[-1]) @ U.T * error).sum(1)
    assert (along >= 0).all()
    assert (along > 1e-3).any()


def test_a_rows_nudge_stays_below_half_the_penalty():
    net, x, mask, y, _ = _task(2)
    error = y * torch.tensor([0.0, 1e-3, 1, 1, 1, 100], dtype=y.dtype)[:, None]
    codes = settle(net, x, mask=mask)
    plus, minus, sizes = phases(net, x, codes, error, 0.1, mask=mask)
    largest = (sizes[:, None] * error @ net.layers[0].U).abs().amax(1)
    assert (largest <= 0.05 + 1e-12).all()
    assert torch.equal(sizes[:2], torch.full_like(sizes[:2], 0.1))
    torch.testing.assert_close(largest[-1], torch.tensor(0.05, dtype=y.dtype))
    assert all(g.isfinite().all() for g in (*plus, *minus))
