"""VectorNetworkGridTransformer."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_set_output_transform,
    check_transformer_get_feature_names_out,
    parametrize_with_checks,
)

from skvn import VectorNetworkGridTransformer
from skvn.datasets import hide_sides, make_spatial

SIZE = 14


def fill(**options):
    options = {"n_components": 16, "tol": 1e-2, "n_iter_no_change": 3} | options
    return VectorNetworkGridTransformer((SIZE, SIZE), random_state=0, **options)


@pytest.fixture(scope="module")
def data():
    return make_spatial(size=SIZE, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    return fill().fit(data.y[data.train])


def relative_error(y_hat, y):
    return ((y_hat - y) ** 2).sum() / (y**2).sum()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        VectorNetworkGridTransformer(n_components=4, max_iter=3, max_sweeps=2),
        VectorNetworkGridTransformer(
            n_components=2, alpha=0.3, max_iter=2, max_sweeps=1, random_state=0
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_checks_that_the_suite_leaves_out():
    model = VectorNetworkGridTransformer(n_components=2, max_iter=2, max_sweeps=1)
    check_transformer_get_feature_names_out("grid", model)
    check_set_output_transform("grid", model)


@pytest.mark.parametrize(("kind", "most"), [("noise", 0.05), ("half", 1e-3)])
def test_makes_sense_of_unseen_combinations(data, fitted, kind, most):
    rng = np.random.RandomState(0)
    y, places = data.y[data.ood], data.positions[data.ood]
    noisy = y + 0.1 * rng.standard_normal(y.shape)
    X = noisy if kind == "noise" else hide_sides(y, places, rng)
    assert relative_error(fitted.reconstruct(X), y) < most


def test_codes_are_nonnegative_and_stand_for_the_reconstruction(data, fitted):
    X = hide_sides(data.y, data.positions, 0)[:20]
    codes = fitted.transform(X)
    assert codes.shape == (20, 32) and (codes >= 0).all()
    np.testing.assert_allclose(
        fitted.inverse_transform(codes), fitted.reconstruct(X), atol=1e-12
    )


def test_atoms_are_nonnegative_unit_and_edits_change_the_answer(data, fitted):
    for atoms in (fitted.row_components_, fitted.column_components_):
        assert (atoms >= 0).all()
        norm = np.linalg.norm(atoms, axis=1)
        np.testing.assert_allclose(norm[norm > 0], 1)
    model = pickle.loads(pickle.dumps(fitted))
    codes = fitted.transform(data.y[:5])
    np.testing.assert_array_equal(model.transform(data.y[:5]), codes)
    model.row_components_ = 3 * model.row_components_
    tripled = 3 * fitted.inverse_transform(codes)
    np.testing.assert_allclose(model.inverse_transform(codes), tripled)


def test_order_of_atoms_changes_nothing_but_the_codes(data, fitted):
    model = pickle.loads(pickle.dumps(fitted))
    order = np.random.RandomState(0).permutation(16)
    model.row_components_ = model.row_components_[order]
    model.row_gain_ = model.row_gain_[order]
    X = hide_sides(data.y, data.positions, 0)[:20]
    np.testing.assert_allclose(model.reconstruct(X), fitted.reconstruct(X), atol=1e-6)


def test_a_row_settles_alike_alone_and_among_others(data, fitted):
    X = hide_sides(data.y, data.positions, 0)[:12]
    X[::3] = data.y[:12:3]  # complete images between half-missing ones
    together = fitted.transform(X)
    alone = np.vstack([fitted.transform(row[None]) for row in X])
    np.testing.assert_allclose(alone, together, atol=1e-10)
    small = clone(fitted).set_params(batch_size=7)
    vars(small).update({k: v for k, v in vars(fitted).items() if k.endswith("_")})
    np.testing.assert_allclose(small.transform(X), together, atol=1e-10)


def test_an_image_with_nothing_observed_is_zero(data, fitted):
    X = np.vstack([np.full(SIZE**2, np.nan), data.y[0]])
    assert (fitted.transform(X)[0] == 0).all()
    assert (fitted.reconstruct(X)[0] == 0).all() and fitted.reconstruct(X)[1].any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weight_two_is_the_image_twice(data):
    X = hide_sides(data.y, data.positions, 0)[data.train[:25]]
    weight = np.random.RandomState(0).randint(0, 3, 25)
    a = fill(max_iter=3).fit(X, sample_weight=weight)
    b = fill(max_iter=3).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(a.row_components_, b.row_components_, atol=1e-8)
    score = a.score(X, sample_weight=weight)
    assert score == pytest.approx(b.score(np.repeat(X, weight, axis=0)), abs=1e-9)


def test_score_is_minus_the_error_of_observed_pixels(data, fitted):
    X = hide_sides(data.y, data.positions, 0)[:20]
    error = np.nanmean((fitted.reconstruct(X) - X) ** 2)
    assert fitted.score(X) == pytest.approx(-error)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_float32_is_answered_in_float32(data):
    X = data.y[data.train].astype(np.float32)
    model = fill(max_iter=5).fit(X)
    assert model.row_components_.dtype == model.transform(X).dtype == np.float32
    assert relative_error(model.reconstruct(X), X) < 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scale_of_the_images_only_scales_the_answer(data):
    X = data.y[data.train]
    a, b = fill(max_iter=2).fit(X), fill(max_iter=2).fit(8 * X)
    np.testing.assert_allclose(8 * a.reconstruct(X), b.reconstruct(8 * X), atol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_shape": (3, 4)}, "holds 12 pixels, but the images have 196"),
        ({"image_shape": (14, 14, 1)}, r"must be \(h, w\) in integers"),
        ({"alpha": 0.0}, "alpha"),
    ],
)
def test_what_does_not_fit_is_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        fill().set_params(**options).fit(data.y)


def test_wrong_number_of_codes_is_named(fitted):
    with pytest.raises(ValueError, match="expects 32 codes per row"):
        fitted.inverse_transform(np.zeros((1, 3)))


def test_score_of_a_frame_does_not_warn():
    X = np.random.default_rng(0).random((40, 16))
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(16)])
    model = VectorNetworkGridTransformer((4, 4), n_components=4, random_state=0)
    score = model.fit(frame).score(frame)
    assert score == pytest.approx(model.fit(X).score(X))
