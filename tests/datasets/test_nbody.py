"""Tests of the n-body task."""

import numpy as np
import pytest

from skvn.datasets import (
    make_nbody,
    nbody_accelerations,
    nbody_features,
    nbody_forces,
    nbody_rollout,
)
from skvn.datasets._nbody import _runge_kutta
from skvn.systems import unpack_systems


def test_shapes_and_seed():
    data = make_nbody(5, random_state=3)
    assert data.X.shape == (5, 256)
    assert data.y.shape == (5, 8)
    assert data.positions.shape == (5, 3, 4, 2)
    assert data["strength"] is data.strength
    again = make_nbody(5, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(data.X, again.X)
    assert (data.X != make_nbody(5, random_state=4).X).all()


def test_unknown_array_is_an_attribute_error():
    with pytest.raises(AttributeError, match="mass"):
        _ = make_nbody(1, random_state=0).mass


@pytest.mark.parametrize("n_forces", [1, 2, 3, 4])
def test_forces_that_act(n_forces):
    strength = make_nbody(50, n_forces=n_forces, random_state=0).strength
    assert ((strength != 0).sum(1) == n_forces).all()
    size = np.abs(strength[strength != 0])
    assert size.min() >= 0.5
    assert size.max() <= 1.5
    assert (strength[:, [0, 1, 3]] >= 0).all()
    assert (strength[:, 2] < 0).any()


@pytest.mark.parametrize("n_bodies", [2, 3, 4])
def test_absent_bodies_are_missing_rows(n_bodies):
    data = make_nbody(6, n_bodies=n_bodies, random_state=0)
    assert (data.present.sum(1) == n_bodies).all()
    parts = unpack_systems(data.X, data.y, state_size=10)
    assert {len(s) for s in parts.states} == {4 * n_bodies}
    assert {len(q) for q in parts.answers} == {2 * n_bodies}
    assert (np.isnan(data.y) == ~np.repeat(data.present, 2, axis=1)).all()


def test_answers_are_the_true_accelerations():
    data = make_nbody(4, n_forces=4, random_state=0)
    query = data.query_positions, data.query_velocities
    a = nbody_accelerations(*query, data.strength, data.present)
    np.testing.assert_allclose(data.y, a.reshape(4, -1))


def test_window_moves_under_the_forces():
    data = make_nbody(4, n_forces=4, random_state=0)
    x, v = data.positions[:, 0], data.velocities[:, 0]
    for _ in range(50):
        x, v = _runge_kutta(x, v, data.strength, data.present, 0.002)
    np.testing.assert_allclose(x, data.positions[:, 1], atol=1e-5)
    np.testing.assert_allclose(v, data.velocities[:, 1], atol=1e-5)


def test_rollout_goes_through_the_window():
    data = make_nbody(4, n_forces=4, n_bodies=3, random_state=0)
    first = data.positions[:, 0], data.velocities[:, 0]
    x, v = nbody_rollout(*first, data.strength, data.present, 2)
    np.testing.assert_allclose(x, data.positions, atol=1e-12)
    np.testing.assert_allclose(v, data.velocities, atol=1e-12)


def test_the_laws_are_nearly_linear_in_the_features():
    data = make_nbody(300, random_state=0)
    state = data.query_positions, data.query_velocities, data.present
    z = nbody_features(*state).reshape(-1, 10)
    for j, force in enumerate(nbody_forces(*state).transpose(1, 0, 2, 3)):
        a = force.reshape(-1)
        fit = z @ np.linalg.lstsq(z, a, rcond=None)[0]
        assert ((a - fit) ** 2).sum() < 0.01 * (a**2).sum(), j


def test_noise_is_on_the_window_only():
    clean, noisy = (make_nbody(200, noise=s, random_state=1) for s in (0.0, 0.01))
    error = noisy.positions - clean.positions
    assert abs(error.std() - 0.01) < 5e-4
    np.testing.assert_array_equal(clean.strength, noisy.strength)
    a = [d.X[:, :176].reshape(200, 16, 11)[..., 10] for d in (clean, noisy)]
    assert abs((a[1] - a[0]).std() / 0.01 - 200**0.5) < 1


def test_rules_differ_little_on_smooth_paths():
    one, two = (
        make_nbody(50, rule=r, random_state=0) for r in ("trapezoid", "parabola")
    )
    np.testing.assert_array_equal(one.y, two.y)
    step = np.abs(one.X - two.X)
    assert 0 < step.max() < 0.2
    with pytest.raises(KeyError):
        make_nbody(1, rule="left", random_state=0)
