"""VectorNetworkGridRegressor."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from skvn import VectorNetworkGridRegressor
from skvn.datasets import make_spatial, population_code

SIZE = 14
GROUPS = (np.arange(SIZE), np.arange(SIZE, 2 * SIZE))


def relative_error(y_hat, y):
    return ((y_hat - y) ** 2).sum() / (y**2).sum()


@pytest.fixture(scope="module")
def data():
    return make_spatial(size=SIZE, random_state=0)


def grid(**options):
    options = {"random_state": 0, "input_groups": GROUPS} | options
    return VectorNetworkGridRegressor((SIZE, SIZE), **options)


@pytest.fixture(scope="module")
def fitted(data):
    return grid().fit(data.X[data.train], data.y[data.train])


@parametrize_with_checks(
    [
        VectorNetworkGridRegressor(random_state=0),
        VectorNetworkGridRegressor(n_channels=2, fit_intercept=True, random_state=0),
        VectorNetworkGridRegressor(
            n_channels=2, solver="cg", max_iter=62, random_state=0
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "options", [{}, {"input_groups": None}, {"solver": "cg", "n_channels": 3}]
)
def test_draws_bumps_where_none_has_been(data, options):
    model = grid(**options).fit(data.X[data.train], data.y[data.train])
    assert len(model.channel_use_) == 1
    assert relative_error(model.predict(data.X[data.test]), data.y[data.test]) < 1e-6
    assert relative_error(model.predict(data.X[data.ood]), data.y[data.ood]) < 1e-6


def test_draws_rings_where_none_has_been():
    data = make_spatial("ring", size=20, random_state=0)
    groups = (slice(20), slice(20, None))
    model = VectorNetworkGridRegressor((20, 20), input_groups=groups, random_state=0)
    model.fit(data.X[data.train], data.y[data.train])
    assert 1 < len(model.channel_use_) < 8
    assert relative_error(model.predict(data.X[data.ood]), data.y[data.ood]) < 4e-4


def test_noise_is_not_learned():
    data = make_spatial(size=SIZE, noise=0.05, random_state=0)
    truth = make_spatial(size=SIZE, random_state=0).y
    model = grid().fit(data.X[data.train], data.y[data.train])
    assert len(model.channel_use_) == 1
    assert relative_error(model.predict(data.X[data.ood]), truth[data.ood]) < 0.02


def two_objects(data, index, rng, n=150):
    """Pairs of objects: codes side by side in each group, images summed."""
    a, b = rng.choice(index, (2, n))
    X = np.hstack([data.X[a], data.X[b]])
    y = data.y[a] + data.y[b]
    return X, y, a, b


def test_columns_for_each_object_compose(data):
    rng = np.random.RandomState(0)
    groups = [np.concatenate([group, group + 2 * SIZE]) for group in GROUPS]
    X, y, *_ = two_objects(data, data.train, rng, 400)
    model = grid(n_channels=4, input_groups=groups, max_iter=70).fit(X, y)
    X, y, *_ = two_objects(data, data.ood, rng)
    assert relative_error(model.predict(X), y) < 1e-3


def test_objects_are_sums_of_answers_not_answers_to_sums(data, fitted):
    _, y, a, b = two_objects(data, data.ood, np.random.RandomState(0))
    together = fitted.predict(data.X[a]) + fitted.predict(data.X[b])
    ghosts = fitted.predict(data.X[a] + data.X[b])
    assert relative_error(together, y) < 1e-6 and relative_error(ghosts, y) > 0.3


def test_colours_recombine_with_places(data):
    palette = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0.0]])
    n = len(data.X)
    place, colour = np.tile(np.arange(n), 4), np.repeat(np.arange(4), n)
    X = np.hstack([data.X[place], np.eye(4)[colour]])
    y = (data.y[place][:, :, None] * palette[colour][:, None, :]).reshape(len(X), -1)
    left = (colour == 0) & (data.positions[place, 0] < SIZE / 2)  # never red there
    hole = np.isin(place, data.ood)
    train = np.random.RandomState(0).permutation(np.flatnonzero(~left & ~hole))[:250]
    groups = (*GROUPS, np.arange(2 * SIZE, 2 * SIZE + 4))
    options = {"input_groups": groups, "n_channels": 4, "random_state": 0}
    model = VectorNetworkGridRegressor((SIZE, SIZE, 3), **options)
    model.fit(X[train], y[train])
    for unseen in (left & ~hole, hole & ~left, left & hole):
        assert relative_error(model.predict(X[unseen]), y[unseen]) < 1e-5
    W1, W2, W3 = model.effective_weight(X[:5])
    image = np.einsum("nic,ncj,noc->nijo", W2, W1, W3)
    np.testing.assert_allclose(image.reshape(5, -1), model.predict(X[:5]), atol=1e-12)


def test_effective_weights_multiply_to_the_image(data, fitted):
    W1, W2 = fitted.effective_weight(data.X[:5])
    y_hat = fitted.predict(data.X[:5])
    np.testing.assert_allclose((W2 @ W1).reshape(5, -1), y_hat, atol=1e-12)


def test_edited_atoms_change_the_answer(data, fitted):
    model = pickle.loads(pickle.dumps(fitted))
    model.row_atoms_ = 2 * model.row_atoms_
    y_hat = fitted.predict(data.X[:5])
    np.testing.assert_allclose(model.predict(data.X[:5]), 2 * y_hat)


def test_answer_is_the_explicit_sum_over_atoms(data, fitted):
    g1, g2 = data.X[:5, GROUPS[0]], data.X[:5, GROUPS[1]]
    atoms = g1, fitted.column_atoms_, g2, fitted.row_atoms_
    image = np.einsum("nk,kcj,nl,lci->nij", *atoms)
    y_hat = fitted.predict(data.X[:5])
    np.testing.assert_allclose(image.reshape(5, -1), y_hat, atol=1e-12)


def test_a_row_is_drawn_alike_alone_and_among_others(data, fitted):
    together = fitted.predict(data.X)
    alone = np.vstack([fitted.predict(row[None]) for row in data.X])
    np.testing.assert_allclose(alone, together, atol=1e-12)


# Conjugate gradients that are cut short magnify rounding.
@pytest.mark.parametrize(("solver", "atol"), [("ridge", 1e-7), ("cg", 1e-5)])
def test_weight_two_is_the_row_twice(data, solver, atol):
    rows = data.train[:25]
    weight = np.random.RandomState(0).randint(0, 3, 25)
    model = grid(solver=solver, n_channels=2, max_iter=62)
    a = clone(model).fit(data.X[rows], data.y[rows], sample_weight=weight)
    twice = np.repeat(rows, weight)
    b = clone(model).fit(data.X[twice], data.y[twice])
    np.testing.assert_allclose(a.predict(data.X), b.predict(data.X), rtol=0, atol=atol)


def test_order_of_rows_changes_nothing(data):
    rows = data.train
    a = grid().fit(data.X[rows], data.y[rows])
    b = grid().fit(data.X[rows[::-1]], data.y[rows[::-1]])
    np.testing.assert_allclose(a.predict(data.X), b.predict(data.X), atol=1e-7)


def test_float32_is_answered_in_float32(data, fitted):
    X, y = data.X.astype(np.float32), data.y.astype(np.float32)
    model = grid().fit(X[data.train], y[data.train])
    assert model.row_atoms_.dtype == model.predict(X).dtype == np.float32
    np.testing.assert_allclose(model.predict(X), fitted.predict(data.X), atol=1e-3)


def test_outputs_without_a_grid_keep_their_shape():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((80, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 3
    model = VectorNetworkGridRegressor(random_state=0).fit(X, y)
    assert model.predict(X).shape == (80,) and model.score(X, y) > 0.999
    both = VectorNetworkGridRegressor(random_state=0).fit(X, np.c_[y, X[:, 0]])
    assert both.predict(X).shape == (80, 2) and both.n_outputs_ == 2


def test_solver_is_chosen_by_size(data):
    rows = data.train[:10]
    options = {"input_groups": None, "max_iter": 1}
    with pytest.warns(ConvergenceWarning, match="before the decay had come down"):
        assert grid(**options).fit(data.X[rows], data.y[rows]).solver_ == "ridge"
    with pytest.warns(ConvergenceWarning):
        model = grid(n_channels=40, **options).fit(data.X[rows], data.y[rows])
    assert model.solver_ == "cg"


def test_global_random_state_and_parameters_stay_as_they_are(data):
    # The legacy generator is the global one.
    state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    model = grid(random_state=None, max_iter=70)
    before = dict(vars(model))
    model.fit(data.X[data.train], data.y[data.train])
    assert all(vars(model)[name] is value for name, value in before.items())
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_shape": (3, 4)}, "holds 12 pixels, but the images have 196"),
        ({"output_shape": (196,)}, r"\(h, w\) or \(h, w, c\)"),
        ({"output_shape": (14, 14.0)}, "integers >= 1"),
        ({"input_groups": [[0]]}, "one entry per layer"),
        ({"input_groups": [[0], [99]]}, "must index the 28 columns"),
        ({"input_groups": [[0], []]}, "must index|at least one column"),
        ({"n_channels": 0}, "n_channels"),
        ({"solver": "magic"}, "solver"),
    ],
)
def test_what_does_not_fit_is_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        grid().set_params(**options).fit(data.X, data.y)


def test_missing_input_is_refused(data, fitted):
    X = data.X.copy()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN.*takes X itself as the code"):
        grid().fit(X, data.y)
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.predict(X)


def test_encoded_positions_between_the_seen_ones():
    rng = np.random.RandomState(0)
    place = rng.uniform(0, SIZE - 1, (300, 2))
    X = np.hstack([population_code(p, SIZE) for p in place.T])
    line = np.arange(SIZE)
    column, row = (np.exp(-((line - p[:, None]) ** 2) / 2) for p in place.T)
    y = (row[:, :, None] * column[:, None, :]).reshape(300, -1)
    model = grid().fit(X[:200], y[:200])
    assert relative_error(model.predict(X[200:]), y[200:]) < 1e-3
