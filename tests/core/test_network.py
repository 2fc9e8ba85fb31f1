"""Tests of stacked layers: F, its gradient at settled codes, and the settle."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skvn.core.energy import prox
from skvn.core.layer import Layer, message
from skvn.core.learn import hebb_step, local_updates, normalise
from skvn.core.network import (
    GROWTH,
    Network,
    Relevance,
    block_energy,
    free_energy,
    inputs,
    reconstruction,
    settle,
    settle_relevance,
)
from skvn.core.settle_ard import settle_ard
from skvn.core.settle_l1 import settle_l1

PHIS = ["identity", "relu", "tanh", "softplus"]
# Sweeps converge linearly: an F within 1e-12 means codes within about 1e-6.
TIGHT = {"tol": 1e-12, "max_sweeps": 100}


def _rng(seed):
    return torch.Generator().manual_seed(seed)


def _normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _network(rng, widths, atoms, phi="identity", top_phi="identity", **options):
    """Layers with unit-norm atoms; ``widths`` runs from d to m."""
    layers = []
    for level, K in enumerate(atoms):
        S = normalise(_normal(rng, widths[level], K))
        U = normalise(_normal(rng, widths[level + 1], K))
        last = level + 1 == len(atoms)
        layers.append(Layer(S, U, 0.1 + 0.05 * level, top_phi if last else phi))
    return Network(layers, **options)


def _rows(rng, n, d, m):
    """Rows x, a mask with at least one entry a row, targets y and weights."""
    mask = torch.rand(n, d, generator=rng) < 0.7
    mask[:, 0] = True
    weight = 0.5 + torch.rand(n, generator=rng, dtype=torch.float64)
    return _normal(rng, n, d), mask, _normal(rng, n, m), weight


def _stack(phi, depth, seed=2, n=7, positive=True):
    """A network of one or two layers whose every phi is ``phi``, and rows."""
    rng = _rng(seed)
    widths, atoms = ([6, 3], [9]) if depth == 1 else ([6, 5, 3], [9, 8])
    net = _network(rng, widths, atoms, phi, phi, positive=positive)
    return net, *_rows(rng, n, 6, 3)


# --- the energy -------------------------------------------------------------------


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("positive", [True, False])
def test_free_energy_written_out(phi, positive):
    net, x, mask, y, _ = _stack(phi, 2, positive=positive)
    codes = settle(net, x, mask=mask)
    F = free_energy(net, x, codes, mask=mask, target=y, beta=0.3)
    first, top = net.layers
    for n in range(len(x)):
        seen, (g1, g2) = mask[n], (g[n] for g in codes)
        h1 = message(first, g1[None])[0]
        h2 = message(top, g2[None])[0]
        value = (x[n, seen] - first.S[seen] @ g1).square().sum() / 2
        value = value + (h1 - top.S @ g2).square().sum() / 2
        value = value + first.lam * g1.abs().sum() + top.lam * g2.abs().sum()
        value = value + 0.3 / 2 * (y[n] - h2).square().sum()
        torch.testing.assert_close(F[n], value)


def test_free_energy_has_no_top_term_without_a_target():
    net, x, _, y, _ = _stack("identity", 2)
    codes = settle(net, x)
    plain = free_energy(net, x, codes)
    assert torch.equal(plain, free_energy(net, x, codes, target=y, beta=0.0))
    assert (free_energy(net, x, codes, target=y, beta=1.0) > plain).all()


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("level", [0, 1])
def test_a_blocks_energy_is_f_as_a_function_of_its_code(phi, level):
    net, x, mask, y, _ = _stack(phi, 2)
    codes = settle(net, x, mask=mask)
    other = [g * 0.7 for g in codes]
    moved = [other[i] if i == level else codes[i] for i in range(2)]
    top = {"target": y, "beta": 0.3}
    F = [free_energy(net, x, g, mask=mask, **top) for g in (codes, moved)]
    if level == 0:
        terms = {"mask": mask, "target": reconstruction(net.layers[1], codes[1])}
    else:
        terms = {"target": y, "weight": 0.3}
    x_l = inputs(net, x, codes)[level]
    E = [block_energy(net, level, x_l, g[level], **terms) for g in (codes, moved)]
    torch.testing.assert_close(E[1] - E[0], F[1] - F[0])


# --- Danskin ----------------------------------------------------------------------


def _gradients(net, x, codes, weight, **terms):
    """Autograd gradient of the weighted sum of F in every S and U."""
    leaves = [(a.S.clone(), a.U.clone()) for a in net.layers]
    layers = [
        Layer(S.requires_grad_(), U.requires_grad_(), a.lam, a.phi)
        for (S, U), a in zip(leaves, net.layers, strict=True)
    ]
    F = free_energy(Network(layers, net.positive), x, codes, **terms)
    flat = [t for pair in leaves for t in pair]
    grads = torch.autograd.grad(
        (weight * F).sum(), flat, allow_unused=True, materialize_grads=True
    )
    return list(zip(grads[::2], grads[1::2], strict=True))


@pytest.mark.parametrize("beta", [0.0, 0.4])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("phi", PHIS)
def test_local_updates_are_minus_the_gradient_at_settled_codes(
    phi, depth, masked, beta
):
    net, x, mask, y, weight = _stack(phi, depth)
    terms = {"mask": mask if masked else None, "target": y, "beta": beta}
    codes = settle(net, x, **terms)
    updates = local_updates(net, x, codes, weight, **terms)
    gradients = _gradients(net, x, codes, weight, **terms)
    for update, gradient in zip(updates, gradients, strict=True):
        for a, b in zip(update, gradient, strict=True):
            torch.testing.assert_close(a, -b, rtol=1e-6, atol=1e-10)
    assert (updates[0][0] != 0).any()
    assert (updates[-1][1] != 0).any() == (beta > 0)


def test_without_a_target_the_top_u_does_not_move():
    net, x, mask, _, weight = _stack("tanh", 2)
    updates = local_updates(net, x, settle(net, x, mask=mask), weight, mask=mask)
    assert (updates[1][1] == 0).all()
    assert (updates[0][1] != 0).any()


@pytest.mark.parametrize("depth", [1, 2])
def test_local_updates_are_minus_the_slope_of_the_least_f(depth):
    # Danskin in full: the codes settle anew at the moved atoms.
    net, x, mask, y, weight = _stack("identity", depth, n=4)
    terms = {"mask": mask, "target": y, "beta": 0.4}
    codes = settle(net, x, **terms, **TIGHT)
    updates = local_updates(net, x, codes, weight, **terms)
    rng, step = _rng(5), 1e-4
    ways = [[_normal(rng, *t.shape) for t in (a.S, a.U)] for a in net.layers]

    def least(t):
        layers = [
            Layer(a.S + t * S, a.U + t * U, a.lam)
            for a, (S, U) in zip(net.layers, ways, strict=True)
        ]
        moved = Network(layers)
        codes = settle(moved, x, **terms, **TIGHT)
        return (weight * free_energy(moved, x, codes, **terms)).sum()

    slope = (least(step) - least(-step)) / (2 * step)
    pairs = zip(updates, ways, strict=True)
    expected = -sum((u * w).sum() for p, q in pairs for u, w in zip(p, q, strict=True))
    torch.testing.assert_close(slope, expected, rtol=1e-5, atol=0)


# --- F never rises ----------------------------------------------------------------


def _total(net, x, codes, nudge, **terms):
    value = free_energy(net, x, codes, **terms)
    return value if nudge is None else value - (nudge * codes[-1]).sum(1)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    phi=st.sampled_from(PHIS),
    depth=st.integers(2, 3),
    masked=st.booleans(),
    beta=st.sampled_from([0.0, 0.2, 2.0]),
    nudged=st.booleans(),
    positive=st.booleans(),
    tol=st.sampled_from([1e-1, 1e-3, 1e-8]),
)
def test_f_never_rises_over_sweeps(
    seed, phi, depth, masked, beta, nudged, positive, tol
):
    rng = _rng(seed)
    widths, atoms = [6, 5, 4, 3][-depth - 1 :], [8, 7, 6][:depth]
    net = _network(rng, widths, atoms, phi, positive=positive)
    x, mask, y, _ = _rows(rng, 6, widths[0], 3)
    terms = {"mask": mask if masked else None, "target": y, "beta": beta}
    lam = net.layers[-1].lam
    nudge = lam * 0.9 * torch.tanh(_normal(rng, 6, atoms[-1])) if nudged else None
    values = []
    for sweeps in range(4):
        options = {"tol": tol, "max_sweeps": sweeps, "nudge": nudge}
        codes = settle(net, x, **terms, **options)
        values.append(_total(net, x, codes, nudge, **terms))
    rise = torch.stack(values).diff(dim=0)
    assert (rise <= 1e-12 * values[0].abs().clamp(min=1)).all()
    # A warm start keeps what was reached, and begins from any codes.
    rough = [(0.5 * g).clone() for g in codes]
    kept = [g.clone() for g in rough]
    for start in (codes, rough):
        again = settle(net, x, start=start, nudge=nudge, tol=tol, **terms)
        before = _total(net, x, start, nudge, **terms)
        assert (_total(net, x, again, nudge, **terms) <= before + 1e-12).all()
    assert all(torch.equal(a, b) for a, b in zip(rough, kept, strict=True))


def test_f_does_not_rise_when_a_loose_settle_misses_a_better_start():
    # A settle stops at its gap, which may leave it above an almost perfect start.
    net, x, mask, _, _ = _stack("identity", 2, n=400)
    codes = settle(net, x, mask=mask, tol=1e-4)
    rng = _rng(0)
    for spread in (1e-3, 3e-3, 1e-2):
        start = [g * (1 + spread * _normal(rng, *g.shape)) for g in codes]
        loose = settle(net, x, mask=mask, start=start, tol=1e-2, max_sweeps=1)
        before = free_energy(net, x, start, mask=mask)
        assert (free_energy(net, x, loose, mask=mask) <= before + 1e-12).all()


@pytest.mark.parametrize("phi", PHIS)
def test_sweeps_lower_f_of_a_stack(phi):
    net, x, mask, _, _ = _stack(phi, 2)
    swept = free_energy(net, x, settle(net, x, mask=mask), mask=mask)
    upward = free_energy(net, x, settle(net, x, mask=mask, max_sweeps=0), mask=mask)
    assert (swept < 0.99 * upward).any()


@pytest.mark.parametrize("phi", ["relu", "tanh", "softplus"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_target_above_a_curved_phi_lowers_the_blocks_energy(phi, masked):
    net, x, mask, y, _ = _stack(phi, 1)
    terms = {"mask": mask if masked else None, "target": y, "beta": 2.0}
    free = settle(net, x, mask=terms["mask"])
    clamped = settle(net, x, **terms)
    before = free_energy(net, x, free, **terms)
    after = free_energy(net, x, clamped, **terms)
    assert (after <= before).all()
    assert after.sum() < 0.98 * before.sum()
    again = settle(net, x, start=clamped, **terms)
    assert (free_energy(net, x, again, **terms) <= after).all()


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("depth", [1, 2])
def test_small_hebb_steps_lower_the_settled_f(phi, depth):
    net, x, mask, _, weight = _stack(phi, depth, n=8)
    codes = settle(net, x, mask=mask, **TIGHT)
    values = []
    for _ in range(4):
        values.append(float((weight * free_energy(net, x, codes, mask=mask)).sum()))
        updates = local_updates(net, x, codes, weight, mask=mask)
        for level, (layer, (dS, dU)) in enumerate(
            zip(net.layers, updates, strict=True)
        ):
            one = layer.S.new_ones(layer.n_atoms)
            layer.S = normalise(hebb_step(layer.S, dS, one, 0.01))
            if level + 1 < depth:
                layer.U = normalise(hebb_step(layer.U, dU, one, 0.01))
        codes = settle(net, x, mask=mask, start=codes, **TIGHT)
    assert all(b < a for a, b in pairwise(values))
    assert values[-1] < 0.995 * values[0]


# --- the fixed point --------------------------------------------------------------


def _stationarity(net, x, codes, nudge=None, **terms):
    """Largest change that a unit proximal gradient step on the joint F would make."""
    free = [g.clone().requires_grad_() for g in codes]
    smooth = Network([Layer(a.S, a.U, 0.0, a.phi) for a in net.layers], False)
    F = _total(smooth, x, free, nudge, **terms).sum()
    change = [
        g - prox(g - slope, *net.bounds(level))
        for level, (g, slope) in enumerate(
            zip(codes, torch.autograd.grad(F, free), strict=True)
        )
    ]
    return max(float(c.abs().max()) for c in change)


@pytest.mark.parametrize(("depth", "positive"), [(2, False), (3, True)])
def test_tight_settle_is_stationary(depth, positive):
    rng = _rng(7)
    widths, atoms = [6, 5, 4, 3][-depth - 1 :], [8, 7, 6][:depth]
    net = _network(rng, widths, atoms, positive=positive)
    x, mask, y, _ = _rows(rng, 3, widths[0], 3)
    terms = {"mask": mask, "target": y, "beta": 0.5}
    codes = settle(net, x, **terms, **TIGHT)
    assert _stationarity(net, x, codes, **terms) < 1e-5
    assert _stationarity(net, x, settle(net, x, **terms), **terms) > 1e-4


def test_tight_nudged_settle_is_stationary():
    net, x, mask, _, _ = _stack("identity", 2, n=3)
    nudge = 0.9 * net.layers[1].lam * torch.tanh(_normal(_rng(1), 3, 8))
    start = settle(net, x, mask=mask, **TIGHT)
    assert _stationarity(net, x, start, nudge, mask=mask) > 0.01
    for begin in (None, start):
        codes = settle(net, x, mask=mask, nudge=nudge, start=begin, **TIGHT)
        assert _stationarity(net, x, codes, nudge, mask=mask) < 1e-5


@pytest.mark.parametrize("phi", ["tanh", "softplus"])
def test_tight_settle_is_stationary_for_a_smooth_phi(phi):
    net, x, mask, y, _ = _stack(phi, 2)
    terms = {"mask": mask, "target": y, "beta": 0.5}
    codes = settle(net, x, tol=1e-14, max_sweeps=300, **terms)
    assert _stationarity(net, x, codes, **terms) < 1e-5


@pytest.mark.parametrize("masked", [False, True])
def test_two_linear_layers_are_one_joint_l1_problem(masked):
    # F = 1/2 ||[x; 0] - [[S1, 0], [U1, -S2]] [g1; g2]||^2 + penalties
    net, x, mask, _, _ = _stack("identity", 2, n=4)
    (first, top), n = net.layers, len(x)
    zero = first.S.new_zeros(len(first.S), top.n_atoms)
    design = torch.cat([torch.cat([first.S, zero], 1), torch.cat([first.U, -top.S], 1)])
    observed = torch.cat([x, x.new_zeros(n, 5)], 1)
    bounds = [torch.cat(b) for b in zip(net.bounds(0), net.bounds(1), strict=True)]
    mask = mask if masked else torch.ones_like(mask)
    seen = torch.cat([mask, mask.new_ones(n, 5)], 1)
    joint = settle_l1(design, observed, *bounds, mask=seen, tol=1e-14).codes
    codes = settle(net, x, mask=mask, **TIGHT)
    split = joint.split([first.n_atoms, top.n_atoms], 1)
    torch.testing.assert_close(
        free_energy(net, x, codes, mask=mask),
        free_energy(net, x, list(split), mask=mask),
        rtol=1e-9,
        atol=0,
    )


def test_one_layer_is_the_l1_settle_and_a_target_pulls_the_answer():
    net, x, mask, y, _ = _stack("identity", 1)
    layer = net.layers[0]
    codes = settle(net, x, mask=mask)[0]
    assert torch.equal(codes, settle_l1(layer.S, x, *net.bounds(0), mask=mask).codes)
    errors = [
        (y - message(layer, settle(net, x, mask=mask, target=y, beta=b)[0])).norm()
        for b in (0.0, 0.5, 5.0)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_a_nudge_is_a_linear_term_on_the_top_code():
    net, x, mask, _, _ = _stack("identity", 1, positive=False)
    layer = net.layers[0]
    nudge = 0.08 * torch.tanh(_normal(_rng(1), len(x), layer.n_atoms))
    g = settle(net, x, mask=mask, nudge=nudge, tol=1e-13)[0]
    slope = ((x - g @ layer.S.T) * mask) @ layer.S + nudge
    on = g != 0
    torch.testing.assert_close(slope[on], layer.lam * g[on].sign())
    assert (slope[~on].abs() <= layer.lam + 1e-6).all()


def test_prediction_does_not_see_y_and_ignores_masked_entries():
    net, x, mask, _, _ = _stack("tanh", 2)
    codes = settle(net, x, mask=mask)
    other = settle(net, torch.where(mask, x, 1e3), mask=mask)
    assert all(torch.equal(a, b) for a, b in zip(codes, other, strict=True))


def test_relevance_settles_by_ard():
    net, x, mask, _, _ = _stack("identity", 1)
    net.relevance = Relevance(x.new_full((9,), 0.5), 1e-2, 1e-3)
    layer = net.layers[0]
    options = {"noise": 1e-2, "floor": 1e-3, "mask": mask, "readout": layer.U}
    options["growth"] = GROWTH
    expected = settle_ard(layer.S, x, net.relevance.prior, **options)
    for a, b in zip(settle_relevance(net, x, mask, layer.U), expected, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(settle(net, x, mask=mask)[0], expected.codes)


# --- rows do not see each other ---------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("atoms", "phi"), [([128], "identity"), ([32, 32], "identity"), ([32, 32], "tanh")]
)
def test_a_rows_codes_are_the_same_in_any_company(atoms, phi, masked):
    rng = _rng(11)
    widths = [20, 3] if len(atoms) == 1 else [20, 12, 3]
    net = _network(rng, widths, atoms, phi)
    x, mask, _, _ = _rows(rng, 12, 20, 3)
    mask = mask if masked else torch.ones_like(mask)
    x = x * torch.logspace(-1, 1, 12, dtype=x.dtype)[:, None]
    codes = settle(net, x, mask=mask)
    order = torch.randperm(12, generator=rng)
    groups = [order, *torch.arange(12).split(5), [0], [9]]
    for rows in groups:
        some = settle(net, x[rows], mask=mask[rows])
        for g, g_some in zip(codes, some, strict=True):
            torch.testing.assert_close(g_some, g[rows], rtol=0, atol=1e-10)


@pytest.mark.parametrize("phi", PHIS)
def test_no_rows_are_fine(phi):
    net, x, mask, y, _ = _stack(phi, 2)
    codes = settle(net, x[:0], mask=mask[:0], target=y[:0], beta=0.1)
    assert [tuple(g.shape) for g in codes] == [(0, 9), (0, 8)]


def test_float32_stays_float32():
    net, x, mask, _, _ = _stack("relu", 2)
    layers = [Layer(a.S.float(), a.U.float(), a.lam, a.phi) for a in net.layers]
    single = settle(Network(layers), x.float(), mask=mask)
    for a, b in zip(single, settle(net, x, mask=mask), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.double(), b, rtol=0, atol=5e-2)


# --- permutation and budget -------------------------------------------------------


@pytest.mark.parametrize("phi", ["identity", "tanh"])
def test_permuting_atoms_permutes_codes_and_updates(phi):
    net, x, mask, _, weight = _stack(phi, 2)
    orders = [torch.randperm(a.n_atoms, generator=_rng(2)) for a in net.layers]
    layers = [
        Layer(a.S[:, p], a.U[:, p], a.lam, a.phi)
        for a, p in zip(net.layers, orders, strict=True)
    ]
    codes, moved = (
        settle(some, x, mask=mask, **TIGHT) for some in (net, Network(layers))
    )
    updates = local_updates(net, x, codes, weight, mask=mask)
    changed = local_updates(Network(layers), x, moved, weight, mask=mask)
    for level, p in enumerate(orders):
        torch.testing.assert_close(moved[level], codes[level][:, p], rtol=0, atol=1e-5)
        for a, b in zip(changed[level], updates[level], strict=True):
            torch.testing.assert_close(a, b[:, p], rtol=0, atol=1e-4)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("k", "positive"), [(1, True), (3, False), (50, True)])
def test_the_top_code_keeps_its_budget(depth, k, positive):
    net, x, mask, y, _ = _stack("identity", depth, positive=positive)
    full = settle(net, x, mask=mask, target=y, beta=0.5, tol=1e-10)
    net.n_nonzero = k
    codes = settle(net, x, mask=mask, target=y, beta=0.5, tol=1e-10)
    on = codes[-1] != 0
    assert (on.sum(1) <= k).all()
    # The support lies within the largest entries of the unrestricted code ...
    size = full[-1].abs()
    least = size.topk(min(k, size.shape[1]), dim=1).values[:, -1:]
    assert (size[on] >= least.expand_as(size)[on] - 1e-9).all()
    # ... and the kept entries are optimal among codes with that support.
    layer, x_l = net.layers[-1], inputs(net, x, codes)[-1]
    seen = mask if depth == 1 else torch.ones_like(x_l, dtype=torch.bool)
    g = codes[-1]
    slope = ((x_l - g @ layer.S.T) * seen) @ layer.S + 0.5 * (y - g @ layer.U.T) @ (
        layer.U
    )
    torch.testing.assert_close(slope[on], layer.lam * g[on].sign(), atol=1e-5, rtol=0)
    kept = size >= least
    spare = slope[kept & ~on]
    assert ((spare if positive else spare.abs()) <= layer.lam + 1e-5).all()


def test_a_budget_that_is_not_needed_changes_nothing():
    net, x, mask, _, _ = _stack("identity", 1)
    full = settle(net, x, mask=mask, tol=1e-10)[0]
    net.n_nonzero = 9
    torch.testing.assert_close(settle(net, x, mask=mask, tol=1e-10)[0], full)
