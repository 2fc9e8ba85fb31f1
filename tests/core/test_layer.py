"""Tests of a layer's message, effective weight and contributions."""

import pytest
import torch

from skvn.core.layer import Layer, contributions, effective_weight, message

PHI = {
    "identity": lambda a: a,
    "relu": lambda a: a.clamp(min=0),
    "tanh": torch.tanh,
    "softplus": lambda a: torch.log1p(torch.exp(a)),
}


def _normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


@pytest.fixture
def parts():
    """Return S (4, 6), U (3, 6), g (5, 6) and x (5, 4)."""
    g = _normal(5, 6, seed=3)
    return _normal(4, 6, seed=1), _normal(3, 6, seed=2), g * (g > 0), _normal(5, 4)


@pytest.mark.parametrize("phi", PHI)
def test_message_is_phi_of_u_g(parts, phi):
    S, U, g, _ = parts
    expected = torch.stack([PHI[phi](U @ row) for row in g])
    torch.testing.assert_close(message(Layer(S, U, 0.1, phi), g), expected)


def test_effective_weight_is_the_sum_of_weighted_atoms(parts):
    S, U, g, _ = parts
    W = effective_weight(S, U, g)
    for n in range(len(g)):
        atoms = sum(g[n, k] * torch.outer(U[:, k], S[:, k]) for k in range(6))
        torch.testing.assert_close(W[n], atoms)


def test_effective_weight_applied_to_x_gates_every_sensor(parts):
    # W* x = U (g * (S^T x))
    S, U, g, x = parts
    applied = torch.einsum("nmd,nd->nm", effective_weight(S, U, g), x)
    torch.testing.assert_close(applied, (g * (x @ S)) @ U.T)


def test_contributions_add_up_to_the_answer(parts):
    S, U, g, _ = parts
    shares = contributions(U, g)
    assert shares.shape == (5, 6, 3)
    torch.testing.assert_close(shares.sum(1), message(Layer(S, U, 0.1), g))
    torch.testing.assert_close(shares[2, 4], g[2, 4] * U[:, 4])


def test_an_inactive_atom_contributes_nothing(parts):
    S, U, g, _ = parts
    off = g == 0
    assert off.any()
    assert not off.all()
    assert (contributions(U, g)[off] == 0).all()
    moved = U + 7.0
    row, atom = (int(i[0]) for i in off.nonzero(as_tuple=True))
    changed = U.clone()
    changed[:, atom] = moved[:, atom]
    torch.testing.assert_close(
        effective_weight(S, changed, g)[row], effective_weight(S, U, g)[row]
    )


def test_number_of_atoms_and_default_activation(parts):
    S, U, _, _ = parts
    layer = Layer(S, U, 0.1)
    assert (layer.n_atoms, layer.phi) == (6, "identity")
