"""The grid structure: products, ridge solves, decay, filling."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skvn.core import grid, grid_fill, grid_learn
from skvn.core.settle_l1 import fista

SIZES = {2: [(5, 8), (4, 6)], 3: [(5, 8), (4, 6), (3, 2)]}


def draw(seed, *shape):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=gen, dtype=torch.float64)


def problem(n_layers, m=3, n=7, seed=0):
    """Codes, images, weights and atoms at random."""
    sizes = SIZES[n_layers]
    codes = [draw(seed + i, n, K) for i, (K, _) in enumerate(sizes)]
    Y = draw(seed + 9, n, *(p for _, p in sizes))
    weight = draw(seed + 10, n).abs() + 0.1
    atoms = [draw(seed + 20 + i, K, m, p) for i, (K, p) in enumerate(sizes)]
    return codes, Y, weight, atoms


def weights(codes, atoms):
    return [grid.effective(g, A) for g, A in zip(codes, atoms, strict=True)]


def test_two_layers_are_a_matrix_product():
    codes, _, _, atoms = problem(2)
    W1, W2 = weights(codes, atoms)
    assert torch.allclose(grid.answer([W1, W2]), W1.mT @ W2)


def test_three_layers_are_a_sum_of_outer_products():
    codes, _, _, atoms = problem(3)
    W = weights(codes, atoms)
    expected = torch.einsum("nmi,nmj,nmk->nijk", *W)
    assert torch.allclose(grid.answer(W), expected)


@pytest.mark.parametrize("n_layers", [2, 3])
def test_hebb_sum_is_minus_the_gradient(n_layers):
    codes, Y, weight, atoms = problem(n_layers)
    for A in atoms:
        A.requires_grad_()
    R = Y - grid.answer(weights(codes, atoms))
    (0.5 * (weight @ R.square().flatten(1).sum(1))).backward()
    W = [w.detach() for w in weights(codes, atoms)]
    for layer, A in enumerate(atoms):
        H = grid.message(grid.others(W, layer))
        dA = grid.hebb_sum(codes[layer], H, grid.unfold(R.detach(), layer), weight)
        assert torch.allclose(dA, -A.grad, atol=1e-12)


@pytest.mark.parametrize("n_layers", [2, 3])
@pytest.mark.parametrize("layer", [0, 1])
def test_ridge_solves_balance_decay_and_hebb_sum(n_layers, layer):
    codes, Y, weight, atoms = problem(n_layers)
    decay = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    H = grid.message(grid.others(weights(codes, atoms), layer))
    T = grid.unfold(Y, layer)
    A = grid.ridge(codes[layer], H, T, weight, decay)
    R = T - grid.effective(codes[layer], A).mT @ H
    dA = grid.hebb_sum(codes[layer], H, R, weight)
    assert torch.allclose(dA, decay[None, :, None] * A, atol=1e-12)
    B = grid.ridge_by_hebb(codes[layer], H, T, weight, decay, torch.zeros_like(A))
    assert torch.allclose(A, B, atol=1e-10)


def test_gram_does_not_depend_on_its_blocks(monkeypatch):
    codes, _, weight, atoms = problem(2)
    H = weights(codes, atoms)[1]
    whole = grid.gram(codes[0], H, weight)
    monkeypatch.setattr(grid, "_BLOCK", 60)
    assert torch.allclose(grid.gram(codes[0], H, weight), whole, atol=1e-12)


@given(seed=st.integers(0, 1000), n_layers=st.sampled_from([2, 3]))
def test_balance_keeps_the_answer_and_evens_the_norms(seed, n_layers):
    codes, _, _, atoms = problem(n_layers, seed=seed)
    balanced = grid.balance(atoms)
    before, after = (grid.answer(weights(codes, a)) for a in (atoms, balanced))
    assert torch.allclose(before, after, atol=1e-10)
    norms = torch.stack([grid.channel_norms(A) for A in balanced])
    assert torch.allclose(norms, norms[:1].expand_as(norms))


@given(seed=st.integers(0, 1000))
def test_order_of_code_units_and_channels_changes_nothing(seed):
    codes, _, _, atoms = problem(2, seed=seed)
    gen = torch.Generator().manual_seed(seed)
    expected = grid.answer(weights(codes, atoms))
    channel = torch.randperm(3, generator=gen)
    for layer in range(2):
        unit = torch.randperm(codes[layer].shape[1], generator=gen)
        codes[layer] = codes[layer][:, unit]
        atoms[layer] = atoms[layer][unit][:, channel]
    assert torch.allclose(grid.answer(weights(codes, atoms)), expected, atol=1e-10)


def test_keep_used_drops_unused_channels_and_sorts():
    _, _, _, atoms = problem(2)
    atoms = [A * torch.tensor([1.0, 1e-5, 3.0])[None, :, None] for A in atoms]
    kept, use = grid.keep_used(atoms)
    assert kept[0].shape[1] == 2 and use[0] > use[1]
    assert torch.equal(kept[0][:, 0], atoms[0][:, 2])
    nothing, _ = grid.keep_used([torch.zeros_like(A) for A in atoms])
    assert nothing[0].shape[1] == 1


def low_rank(rank, noise=0.0, n=300):
    """Images of exact rank from codes that drive rows and columns apart."""
    codes, _, _, atoms = problem(2, m=rank, n=n)
    Y = grid.answer(weights(codes, atoms))
    return codes, Y + noise * draw(99, *Y.shape), torch.ones(n, dtype=Y.dtype)


def learn(codes, Y, weight, exact=True, sweeps=70, scale=1.0):
    sizes = [(g.shape[1], p) for g, p in zip(codes, Y.shape[1:], strict=True)]
    generator = torch.Generator().manual_seed(0)
    atoms = [scale * A for A in grid_learn.start_atoms(sizes, 6, generator, Y)]
    learner = grid_learn.GridLearner(codes, Y, weight, atoms, exact)
    for _ in range(sweeps):
        learner.sweep()
    return learner


@pytest.mark.parametrize("exact", [True, False])
def test_learner_finds_the_rank(exact):
    learner = learn(*low_rank(2), exact=exact)
    assert len(grid.keep_used(learner.atoms)[1]) == 2
    assert learner.error() < 1e-6 * learner.Y.square().mean()


def test_noise_does_not_wake_spare_channels():
    codes, Y, weight = low_rank(1, noise=0.5)
    assert len(grid.keep_used(learn(codes, Y, weight).atoms, 1e-3)[1]) == 1


def test_scale_of_codes_and_images_only_scales_the_answer():
    codes, Y, weight = low_rank(2)
    plain = learn(codes, Y, weight, sweeps=30)
    # The start has to scale along: atoms of size sqrt(200) / sqrt(0.1 * 10).
    scaled = [0.1 * codes[0], 10 * codes[1]]
    other = learn(scaled, 200 * Y, weight, sweeps=30, scale=200**0.5)
    assert torch.allclose(200 * plain.error() * 200, other.error(), rtol=1e-3)


@pytest.mark.parametrize("which", ["codes", "images"])
def test_zeros_are_answered_by_zeros(which):
    codes, Y, weight = low_rank(1)
    codes, Y = ([0 * g for g in codes], Y) if which == "codes" else (codes, 0 * Y)
    learner = learn(codes, Y, weight, sweeps=3)
    assert all((A == 0).all() for A in learner.atoms) and learner.annealed


# --- filling --------------------------------------------------------------------------


def images(n=6, h=5, w=7, K=4, seed=0):
    """Nonnegative atoms, images made of them, and masks."""
    A2, A1 = (
        grid_fill.normalise(draw(seed + i, p, K).abs()) for i, p in [(1, h), (2, w)]
    )
    b, a = (draw(seed + i, n, K).relu() + 0.1 for i in (3, 4))
    M = draw(seed + 5, n, h, w) > -0.3
    return grid_fill.render(b, a, A2, A1), M, A2, A1


def test_half_problem_is_the_masked_energy():
    X, M, A2, _ = images()
    f = grid_fill.unit(draw(7, len(X), 7).abs())
    design, observed = grid_fill.half_problem(A2, X * M, M, f)
    values = []
    for codes in (draw(8, len(X), 4), draw(9, len(X), 4)):
        R = grid_fill.residual(X * M, M, codes @ A2.T, f)
        r = observed - (design @ codes.unsqueeze(2)).squeeze(2)
        values.append((R.square().sum((1, 2)) - r.square().sum(1)) / 2)
    assert torch.allclose(*values)  # they differ by a constant per row


def test_settle_side_agrees_with_fista():
    X, M, A2, _ = images()
    f, lam = grid_fill.unit(draw(7, len(X), 7).abs()), torch.full((len(X), 1), 0.05)
    lam = lam.double()
    codes, profile = grid_fill.settle_side(A2, X * M, M, f, lam, None, 1e-10)
    design, observed = grid_fill.half_problem(A2, X * M, M, f)
    options = {"tol": 1e-10, "max_iter": 20_000}
    expected = fista(design, observed, torch.inf, lam, **options).codes
    assert torch.allclose(codes, expected, atol=1e-5)
    assert torch.allclose(profile.norm(dim=1), torch.ones(len(X)).double())


def test_fill_explains_products_and_ignores_hidden_values():
    X, M, A2, A1 = images()
    options = {"adapt": True, "sweeps": 30, "tol": 1e-6}
    b, a, _ = grid_fill.fill(X * M, M, A2, A1, 1e-4, **options)
    error = (grid_fill.render(b, a, A2, A1) - X)[M].square().sum() / X.square().sum()
    assert error < 1e-3 and (b >= 0).all() and (a >= 0).all()
    norms = (b @ A2.T).norm(dim=1), (a @ A1.T).norm(dim=1)
    assert torch.allclose(*norms)


def test_a_row_fills_alike_alone_and_among_others():
    X, M, A2, A1 = images(n=12)
    M[::3] = True  # complete images between others
    options = {"adapt": True, "sweeps": 8, "tol": 1e-3}
    together = grid_fill.fill(X * M, M, A2, A1, 0.05, **options)
    for i in range(len(X)):
        mask = None if M[i].all() else M[i : i + 1]
        alone = grid_fill.fill((X * M)[i : i + 1], mask, A2, A1, 0.05, **options)
        for x, y in zip(alone, together, strict=True):
            assert torch.allclose(x[0], y[i], atol=1e-10)


def test_missing_lines_are_dropped_lines():
    X, M, A2, A1 = images()
    M[:, 2], M[:, :, 3] = False, False
    rows, columns = [0, 1, 3, 4], [0, 1, 2, 4, 5, 6]
    V, N = (Z[:, rows][:, :, columns] for Z in (X, M))
    # Next to no penalty: its units, the profiles' lengths, differ.
    options = {"adapt": False, "sweeps": 15, "tol": 1e-9}
    b, a, _ = grid_fill.fill(X * M, M, A2, A1, 1e-8, **options)
    d, c, _ = grid_fill.fill(V * N, N, A2[rows], A1[columns], 1e-8, **options)
    whole = grid_fill.render(b, a, A2, A1)[:, rows][:, :, columns]
    assert torch.allclose(
        whole[N], grid_fill.render(d, c, A2[rows], A1[columns])[N], atol=1e-3
    )


def energy(X, M, A2, A1, b, a, lam):
    R = M * (X - (b @ A2.T).unsqueeze(2) * (a @ A1.T).unsqueeze(1))
    return 0.5 * R.square().sum() + lam * (a.sum() + b.sum())


def settle_fully(X, M, A2, A1, b, a, lam, turns):
    """Codes at the minimum of the energy, profiles at whatever length suits it."""

    def side(A, X, M, other):
        length = other.norm(dim=1, keepdim=True)
        scaled = X * M, M, other / length, lam / length
        return grid_fill.settle_side(A, *scaled, None, 1e-11)[0] / length

    for _ in range(turns):
        b = side(A2, X, M, a @ A1.T)
        a = side(A1, X.mT, M.mT, b @ A2.T)
        even = (a.sum(1, keepdim=True) / b.sum(1, keepdim=True)).sqrt()
        b, a = b * even, a / even  # the best division of the length
    return b, a


def test_hebb_sums_are_minus_the_gradient_of_the_settled_energy():
    X, M, A2, A1 = images(n=2, seed=3)
    lam, start = 0.02, torch.full((2, 4), 0.5, dtype=X.dtype)
    b, a = settle_fully(X, M, A2, A1, start, start, lam, 40)
    g, f = b @ A2.T, a @ A1.T
    R = grid_fill.residual(X * M, M, g, f)
    d2, d1 = grid_fill.hebb_sums(R, g, f, b, a, torch.ones(2, dtype=X.dtype))
    B2, B1 = A2.clone().requires_grad_(), A1.clone().requires_grad_()
    energy(X, M, B2, B1, b, a, lam).backward()
    assert torch.allclose(d2, -B2.grad, atol=1e-12)
    assert torch.allclose(d1, -B1.grad, atol=1e-12)
    V, step = draw(11, *A2.shape), 1e-4  # Danskin: the codes may be held fixed
    ends = []
    for sign in (1, -1):
        A = A2 + sign * step * V
        ends.append(energy(X, M, A, A1, *settle_fully(X, M, A, A1, b, a, lam, 12), lam))
    slope = (ends[0] - ends[1]) / (2 * step)
    assert torch.allclose(slope, -(d2 * V).sum(), rtol=1e-3)
