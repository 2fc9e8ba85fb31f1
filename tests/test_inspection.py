"""Use of atoms, and networks without some of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.callback import ScoringMonitor

from skvn import (
    VectorNetworkGridRegressor,
    VectorNetworkGridTransformer,
    VectorNetworkOperatorRegressor,
    VectorNetworkRegressor,
    VectorNetworkTransformer,
)
from skvn.inspection import ablate_atoms, atom_usage

RNG = np.random.default_rng(0)
PARTS = np.abs(RNG.standard_normal((6, 10)))
X = (RNG.random((80, 6)) * (RNG.random((80, 6)) < 0.4)) @ PARTS
Y = X @ RNG.standard_normal((10, 2))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted(cls, n_components=8, **options):
    return cls(n_components, max_iter=3, random_state=0, **options).fit(X, Y)


def operators():
    z = RNG.normal(size=(60, 5, 3))
    a = np.einsum("nf,nrf->nr", np.eye(3)[RNG.integers(3, size=60)], z)[..., None]
    seen = np.concatenate([z, a], 2)[:, :4].reshape(60, -1)
    X = np.hstack([seen, z[:, 4]])
    return VectorNetworkOperatorRegressor(3, state_size=3).fit(X, a[:, 4]), X


NETWORKS = [
    (VectorNetworkTransformer, {}),
    (VectorNetworkTransformer, {"solver": "ard"}),
    (VectorNetworkTransformer, {"n_components": (8, 6), "hidden_layer_sizes": 5}),
    (VectorNetworkRegressor, {}),
    (VectorNetworkRegressor, {"solver": "ard"}),
    (VectorNetworkRegressor, {"n_components": (8, 6)}),
    (VectorNetworkRegressor, {"learning": "contrastive"}),
]


def test_usage_is_what_the_codes_say():
    network = fitted(VectorNetworkTransformer)
    codes = network.transform(X)
    usage = atom_usage(network, X, threshold=0.0)
    assert_allclose(usage.frequency, (codes != 0).mean(0))
    assert_array_equal(usage.n_active, (codes != 0).sum(1))
    assert_allclose(usage.mean_magnitude, np.abs(codes).mean(0))
    energy = [
        (np.outer(codes[:, k], network.components_[k]) ** 2).sum() for k in range(8)
    ]
    assert_allclose(usage.energy_share, energy / np.sum(energy))


def test_a_threshold_leaves_small_coefficients_out():
    network = fitted(VectorNetworkTransformer, solver="ard")
    every, large = (atom_usage(network, X, threshold=t).n_active for t in (0.0, 0.5))
    assert (large[X.any(1)] >= 1).all()
    assert large.sum() < every.sum()


def test_energy_shares_sum_to_one_in_every_layer():
    usage = atom_usage(fitted(VectorNetworkTransformer, (8, 6)), X)
    assert len(usage.frequency) == 14
    assert usage.energy_share[:8].sum() == pytest.approx(1)
    assert usage.energy_share[8:].sum() == pytest.approx(1)


def test_rows_of_zeros_use_nothing():
    usage = atom_usage(fitted(VectorNetworkTransformer), np.zeros((3, 10)))
    assert not usage.n_active.any()
    assert not usage.energy_share.any()


def test_usage_of_operators_and_grids():
    network, systems = operators()
    usage = atom_usage(network, systems)
    energy = (network.transform(systems) ** 2).mean(0) * (network.atoms_**2).sum((1, 2))
    assert_allclose(usage.energy_share, energy / energy.sum())
    images = np.abs(X[:, :9])
    grid = VectorNetworkGridTransformer((3, 3), n_components=4, max_iter=3).fit(images)
    assert atom_usage(grid, images).frequency.shape == (8,)


def test_estimators_without_codes_are_refused():
    grid = VectorNetworkGridRegressor(max_iter=70).fit(X, Y)
    with pytest.raises(TypeError, match="does not infer codes"):
        atom_usage(grid, X)
    with pytest.raises(TypeError, match="VectorNetworkGridRegressor"):
        ablate_atoms(grid, [0])


@pytest.mark.parametrize(("cls", "options"), NETWORKS, ids=str)
def test_atoms_that_are_not_used_can_go(cls, options):
    """An atom of zeros explains nothing: without it all answers are the same."""
    network = fitted(cls, **options).set_params(transform_tol=1e-5)
    top = network.hidden_components_[-1][1] if network.hidden_components_ else None
    sensing = network.components_ if top is None else top
    sensing[2] = 0
    column = 2 if top is None else 8 + 2
    ablated = ablate_atoms(network, [column])
    kept = np.delete(network.transform(X[:20]), column, axis=1)
    assert_allclose(ablated.transform(X[:20]), kept, atol=5e-3)
    answer = "predict" if hasattr(network, "predict") else "reconstruct"
    expected = getattr(network, answer)(X[:20])
    assert_allclose(getattr(ablated, answer)(X[:20]), expected, atol=5e-3)


@pytest.mark.parametrize(("cls", "options"), NETWORKS, ids=str)
def test_the_original_stays_as_it_is(cls, options):
    network = fitted(cls, **options)
    codes, parameters = network.transform(X), network.get_params()
    ablated = ablate_atoms(network, [0, 3])
    ablated.partial_fit(X, Y)
    assert ablated.transform(X).shape[1] == codes.shape[1] - 2
    assert_array_equal(network.transform(X), codes)
    assert network.get_params() == parameters


def test_codes_are_inferred_anew_without_the_atom():
    network = fitted(VectorNetworkRegressor)
    most = int(np.argmax(atom_usage(network, X).frequency))
    ablated = ablate_atoms(network, most)
    rest = np.delete(network.transform(X), most, axis=1)
    assert np.abs(ablated.transform(X) - rest).max() > 1e-3
    expected = ablated.transform(X) @ np.delete(network.output_components_, most, 0)
    assert_allclose(ablated.predict(X), expected + network.intercept_)


def test_masks_negative_numbers_and_no_atoms():
    network = fitted(VectorNetworkTransformer)
    last = np.arange(8) == 7
    assert_array_equal(ablate_atoms(network, last).components_, network.components_[:7])
    assert_array_equal(ablate_atoms(network, -1).components_, network.components_[:7])
    assert_array_equal(ablate_atoms(network, []).components_, network.components_)


def test_operators_go_with_their_priors():
    network, systems = operators()
    ablated = ablate_atoms(network, [1])
    assert ablated.transform(systems).shape == (60, 2)
    assert_array_equal(ablated.prior_mean_, network.prior_mean_[[0, 2]])
    codes = ablated.transform(systems)
    W = np.einsum("nk,kcf->ncf", codes, network.atoms_[[0, 2]])
    assert_allclose(ablated.effective_weight(systems), W, atol=1e-10)


def test_what_cannot_be_removed():
    network = fitted(VectorNetworkTransformer, (8, 6))
    with pytest.raises(ValueError, match="in every layer"):
        ablate_atoms(network, np.arange(8, 14))
    with pytest.raises(IndexError):
        ablate_atoms(network, [14])


def test_callbacks_are_no_obstacle():
    network = VectorNetworkTransformer(8, max_iter=2, random_state=0)
    network.set_callbacks(
        ScoringMonitor(scoring={"score": lambda network, X, y: network.score(X)})
    ).fit(X)
    assert len(ablate_atoms(network, [0]).components_) == 7
