"""Missing entries, and data that hold next to nothing."""

import re

import numpy as np
import pytest

from skvn import VectorNetworkRegressor, VectorNetworkTransformer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SETTLES = [{"solver": "l1"}, {"solver": "ard"}]
BOTH = [VectorNetworkTransformer, VectorNetworkRegressor]


def make(cls=VectorNetworkTransformer, **options):
    return cls(**({"n_components": 10, "max_iter": 3, "random_state": 0} | options))


def rows(n=60, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 3)) @ rng.random((3, d)) + 0.02 * rng.random((n, d))


def answer(est, X):
    return est.predict(X) if hasattr(est, "predict") else est.transform(X)


def drop(est, column):
    """The same fitted estimator for data without one column."""
    est.components_ = np.delete(est.components_, column, axis=1)
    est.n_features_in_ -= 1
    return est


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", SETTLES)
def test_a_missing_column_is_a_dropped_column(cls, options):
    X = rows()
    est = make(cls, n_components=4, transform_tol=1e-13, **options).fit(X, X[:, 0])
    hidden = X.copy()
    hidden[:, 2] = np.nan
    expected = answer(est, hidden)
    np.testing.assert_allclose(
        answer(drop(est, 2), np.delete(X, 2, axis=1)), expected, atol=1e-6
    )


@pytest.mark.parametrize("options", SETTLES)
def test_hidden_entries_are_filled(options):
    X, rng = rows(300), np.random.default_rng(1)
    est = make(max_iter=30, alpha=0.01, **options).fit(X[:200])
    test = X[200:]
    hidden = rng.random(test.shape) < 0.3
    X_hat = est.reconstruct(np.where(hidden, np.nan, test))
    column_mean = np.broadcast_to(X[:200].mean(0), test.shape)
    error = ((X_hat - test)[hidden] ** 2).mean()
    assert error < 0.4 * ((column_mean - test)[hidden] ** 2).mean()


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", [*SETTLES, {"n_components": (10, 5)}])
def test_fit_with_missing_entries(cls, options):
    X, rng = rows(200), np.random.default_rng(1)
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    est = make(cls, max_sweeps=1, **options)
    assert np.isfinite(answer(est.fit(holes, X.sum(1)), holes)).all()
    if cls is VectorNetworkRegressor and options in SETTLES:
        assert est.score(holes, X.sum(1)) > 0.8
        assert est.score(X, X.sum(1)) > 0.9


@pytest.mark.parametrize("options", [*SETTLES, {"n_components": (10, 5)}])
def test_a_row_with_nothing_observed_has_code_zero(options):
    X = rows()
    est = make(max_sweeps=1, **options).fit(X)
    X[3] = np.nan
    assert not est.transform(X)[3].any()
    assert not est.reconstruct(X)[3].any()
    assert est.transform(X)[2].any()


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", SETTLES)
def test_rows_with_nothing_observed_do_not_move_the_atoms(cls, options):
    X = rows(40)
    empty = np.full((5, 6), np.nan)
    est = make(cls, **options)
    without = est.fit(np.vstack([X, X[:1] * np.nan]), np.ones(41)).components_
    more = est.fit(np.vstack([X, empty]), np.ones(45)).components_
    assert np.isfinite(more).all() and more.shape == without.shape


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", SETTLES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_feature_never_observed_is_named_and_left_at_zero(cls, options, method):
    X = rows()
    X[:, [1, 4]] = np.nan
    message = re.escape("Features [1, 4] have no observed value")
    est = make(cls, **options)
    with pytest.warns(UserWarning, match=message):
        getattr(est, method)(X, np.nansum(X, axis=1))
    assert not est.components_[:, [1, 4]].any()
    np.testing.assert_allclose(np.linalg.norm(est.components_, axis=1), 1)
    if cls is VectorNetworkTransformer:
        assert not est.reconstruct(X)[:, [1, 4]].any()


def test_a_feature_never_observed_is_named_by_its_name():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rows(), columns=list("abcdef")).assign(b=np.nan)
    with pytest.warns(UserWarning, match=re.escape("Features ['b'] have no")):
        make().fit(X)


def test_a_feature_first_observed_later_is_learned_later():
    X = rows()
    first = X.copy()
    first[:, 1] = np.nan
    est = make(solver="l1")
    with pytest.warns(UserWarning, match="no observed value"):
        est.partial_fit(first)
    for _ in range(20):
        est.partial_fit(X)
    assert np.abs(est.components_[:, 1]).max() > 0.1
    assert ((est.reconstruct(X) - X)[:, 1] ** 2).mean() < 0.2 * X[:, 1].var()


def test_a_feature_never_observed_does_not_change_penalty_or_prior():
    X = rows()
    wide = np.hstack([X, np.full((60, 6), np.nan)])
    with pytest.warns(UserWarning, match="no observed value"):
        lambdas = make(solver="l1").fit(wide).lambdas_
    np.testing.assert_allclose(lambdas, make(solver="l1").fit(X).lambdas_)
    with pytest.warns(UserWarning, match="no observed value"):
        prior = make(solver="ard").fit(wide).prior_variance_
    np.testing.assert_allclose(prior, make(solver="ard").fit(X).prior_variance_)


def test_nothing_observed_at_all():
    X = np.full((5, 3), np.nan)
    est = make(solver="l1")
    with pytest.warns(UserWarning, match=re.escape("Features [0, 1, 2]")):
        est.fit(X)
    assert not est.transform(np.ones((2, 3))).any()
    with pytest.raises(ValueError, match="no observed entry to score"):
        est.score(X)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", [*SETTLES, {"n_components": (10, 5)}])
@pytest.mark.parametrize(
    "X",
    [
        np.ones((20, 4)),
        np.zeros((20, 4)),
        np.c_[rows(20, 3), np.full(20, 5.0)],
        np.c_[rows(20, 3), np.zeros(20)],
        rows(1),
        rows(2),
        rows(30, 1),
        np.repeat(rows(1), 20, axis=0),
        np.repeat(rows(2), 10, axis=0),
        -rows(20),
    ],
    ids="ones zeros constant zero-column n=1 n=2 d=1 one-row two-rows negative".split(),
)
def test_poor_data_give_finite_answers(cls, options, X):
    y = np.arange(len(X), dtype=float)
    est = make(cls, max_sweeps=1, **options).fit(X, y)
    assert np.isfinite(answer(est, X)).all()
    assert np.isfinite(est.components_).all()
    assert np.isfinite(est.loss_curve_).all()
    if cls is VectorNetworkRegressor:
        # No features to tell rows apart, or a handful of them: never worse than wild.
        spread = np.ptp(y) + 1
        assert np.abs(est.predict(X) - y.mean()).max() <= 2 * spread


@pytest.mark.parametrize("options", SETTLES)
def test_more_atoms_than_rows(options):
    X = rows(5, 8)
    est = make(n_components=40, max_iter=10, alpha=1e-3, **options).fit(X)
    np.testing.assert_allclose(est.reconstruct(X), X, atol=0.05 * np.abs(X).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", SETTLES)
def test_scales_that_squares_cannot_hold_are_refused(dtype, options):
    est, X = make(**options), rows()
    largest = 1e30 if dtype is np.float32 else 1e170
    for scale in (largest, 1 / largest):
        with pytest.raises(ValueError, match="Rescale X"):
            est.fit((X * scale).astype(dtype))
    inside = 1e12 if dtype is np.float32 else 1e70
    for scale in (inside, 1 / inside):
        codes = est.fit_transform((X * scale).astype(dtype)) / scale
        assert np.abs(codes - est.fit_transform(X.astype(dtype))).mean() < 1e-3
