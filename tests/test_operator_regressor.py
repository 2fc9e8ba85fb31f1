"""Tests of VectorNetworkOperatorRegressor."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skvn import VectorNetworkOperatorRegressor
from skvn.core.empirical_bayes import conditional, empirical_bayes
from skvn.core.system import Layout, systems
from skvn.datasets import make_nbody
from skvn.systems import pack_systems

SOLVERS = ["ep", "ard", "l1"]


@pytest.fixture(autouse=True)
def _no_convergence_warnings():
    """Fits here are short, and scikit-learn's checks set max_iter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@parametrize_with_checks(
    [
        VectorNetworkOperatorRegressor(),
        VectorNetworkOperatorRegressor(solver="ard"),
        VectorNetworkOperatorRegressor(3, solver="l1", max_iter=20),
        VectorNetworkOperatorRegressor(3, rank=1),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


def _data(n=150, seed=0, noise=0.02, together=False, c=2, Q=2):
    """Systems under one of three laws, or under all of them; c responses."""
    rng = np.random.default_rng(seed)
    laws = np.random.default_rng(99).normal(size=(3, c, 4))
    z, g = rng.normal(size=(n, 6 + Q, 4)), rng.uniform(0.5, 1.5, (n, 3))
    if not together:
        g *= np.eye(3)[rng.integers(3, size=n)]
    a = np.einsum("nk,kcf,nrf->nrc", g, laws, z)
    a = a + noise * rng.normal(size=a.shape)
    return pack_systems(z[:, :6], a[:, :6], z[:, 6:], a[:, 6:]), g, laws


def _model(solver="ep", **options):
    options = {"state_size": 4, "response_size": 2, "random_state": 0} | options
    n_components = options.pop("n_components", 3)
    return VectorNetworkOperatorRegressor(n_components, solver=solver, **options)


@pytest.fixture(scope="module", params=SOLVERS)
def fitted(request):
    """A fitted model and its training data."""
    (X, y), *_ = _data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _model(request.param, max_iter=30).fit(X, y), X, y


def test_combines_laws_that_were_shown_one_at_a_time(fitted):
    model = fitted[0]
    (X, y), g, laws = _data(50, seed=1, together=True)
    alpha = {"transform_alpha": 1e-3} if model.solver == "l1" else {}
    model = clone(model).set_params(**alpha).fit(*fitted[1:])
    error = ((model.predict(X) - y) ** 2).sum() / (y**2).sum()
    assert error < 2e-3
    W = np.einsum("nk,kcf->ncf", g, laws)
    assert ((model.effective_weight(X) - W) ** 2).sum() < 2e-3 * (W**2).sum()


def test_answers_are_the_effective_weight_at_the_queries(fitted):
    model, X, _ = fitted
    W, queries = model.effective_weight(X), X[:, 36:].reshape(len(X), 2, 4)
    answers = np.einsum("ncf,nqf->nqc", W, queries).reshape(len(X), -1)
    assert_allclose(model.predict(X), answers, atol=1e-10)
    composed = np.einsum("nk,kcf->ncf", model.transform(X), model.atoms_)
    assert_allclose(composed, W, atol=1e-12)


def test_rows_do_not_know_each_other(fitted):
    model, X, _ = fitted
    for i in (0, 77, 149):
        assert_allclose(
            model.predict(X[i : i + 1]), model.predict(X)[i : i + 1], atol=1e-10
        )
    small = clone(model).set_params(batch_size=7)
    vars(small).update({k: v for k, v in vars(model).items() if k.endswith("_")})
    small._layout, small._y_is_flat = model._layout, model._y_is_flat
    assert_allclose(small.predict(X), model.predict(X), atol=1e-10)


def test_order_of_observed_rows_changes_nothing(fitted):
    model, X, _ = fitted
    rows = X[:, :36].reshape(-1, 6, 6)[:, [4, 0, 5, 2, 1, 3]]
    moved = np.hstack([rows.reshape(len(X), -1), X[:, 36:]])
    atol = 1e-3 if model.solver == "l1" else 1e-9
    assert_allclose(model.predict(moved), model.predict(X), atol=atol)


def test_missing_rows_are_dropped_rows(fitted):
    model, X, y = fitted
    short = np.hstack([X[:, :24], X[:, 36:]])
    gaps = X.copy()
    gaps[:, 24:30], gaps[:, 35] = np.nan, np.nan
    packed = _model(model.solver, max_iter=3).fit(short, y)
    padded = _model(model.solver, max_iter=3).fit(gaps, y)
    # l1 learns from codes that are settled to a gap of 1e-2.
    atol = 0.1 if model.solver == "l1" else 1e-8
    assert_allclose(padded.predict(gaps), packed.predict(short), atol=atol)


def test_missing_queries_have_no_answer_and_missing_answers_no_weight(fitted):
    model, X, y = fitted
    gone, short = X.copy(), y.copy()
    gone[:40, -1], short[:40, 2:] = np.nan, np.nan
    y_hat = model.predict(gone)
    assert_array_equal(np.isnan(y_hat), np.isnan(short))
    assert_allclose(y_hat[:, :2], model.predict(X)[:, :2], atol=1e-9)
    there = model.predict(X[40:])[:, 3]
    expected = [r2_score(y[:, 0], y_hat[:, 0]), r2_score(y[40:, 3], there)]
    scores = model.score(gone, short)
    assert scores >= min(expected)
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)))
    for other in (gone, X):
        again = clone(model).set_params(max_iter=3).fit(other, short)
        assert again.score(X, y) > 0.9


def test_weight_is_repetition(fitted):
    model, X, y = fitted
    X, y = X[:30], y[:30]
    weight = np.arange(30) % 3
    options = {"max_iter": 5}
    weighted = clone(model).set_params(**options).fit(X, y, sample_weight=weight)
    repeated = clone(model).set_params(**options)
    repeated.fit(X.repeat(weight, axis=0), y.repeat(weight, axis=0))
    assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-7)


def test_pickle_and_clone(fitted):
    model, X, y = fitted
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X), model.predict(X))
    again = clone(model).fit(X, y)
    assert_array_equal(again.predict(X), model.predict(X))
    for value in vars(model).values():
        assert not isinstance(value, torch.Tensor)


def test_float32(fitted):
    model, X, y = fitted
    narrow = clone(model).fit(X.astype(np.float32), y.astype(np.float32))
    X = X.astype(np.float32)
    assert narrow.predict(X).dtype == np.float32
    assert narrow.transform(X).dtype == np.float32
    error = ((narrow.predict(X) - y) ** 2).sum() / (y**2).sum()
    assert error < 2e-3 if model.solver != "l1" else error < 0.01


def test_scale_of_states_and_responses_does_not_matter(fitted):
    model, X, y = fitted
    z, a = 100.0, 1e-3
    big = X.copy()
    big[:, 36:] *= z
    rows = big[:, :36].reshape(-1, 6, 6)
    rows[:, :, :4] *= z
    rows[:, :, 4:] *= a
    other = clone(model).set_params(max_iter=5)
    one = clone(other).fit(X, y).predict(X)
    assert_allclose(other.fit(big, a * y).predict(big), a * one, atol=a * 1e-4)


@pytest.mark.parametrize("solver", ["ep", "ard"])
def test_std_is_calibrated(solver):
    (X, y), *_ = _data(400, noise=0.3)
    model = _model(solver).fit(X, y)
    (X, y), *_ = _data(400, seed=1, noise=0.3)
    y_hat, std = model.predict(X, return_std=True)
    assert_array_equal(y_hat, model.predict(X))
    z = (y - y_hat) / std
    assert abs(np.sqrt((z**2).mean()) - 1) < 0.15
    assert abs((np.abs(z) < 1.96).mean() - 0.95) < 0.03


def test_l1_has_no_std():
    (X, y), *_ = _data(40)
    model = _model("l1", max_iter=2).fit(X, y)
    with pytest.raises(ValueError, match="return_std=True needs the posterior"):
        model.predict(X, return_std=True)


def test_laws_are_found_and_counted():
    (X, y), g, laws = _data(300)
    model = _model(n_components="auto").fit(X, y)
    assert model.n_components_ == 3
    a, b = (m.reshape(3, -1) for m in (model.atoms_, laws))
    cosine = a @ b.T / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)
    assert np.abs(cosine).max(1).min() > 0.999
    owner = np.abs(cosine).argmax(1)
    codes = model.transform(X)
    assert ((np.abs(codes) > 0.1 * np.abs(codes).max()) == (g[:, owner] > 0)).all()
    assert model.get_feature_names_out()[0] == "vectornetworkoperatorregressor0"


@pytest.mark.parametrize("solver", SOLVERS)
def test_rank_limits_atoms(solver):
    (X, y), *_ = _data()
    model = _model(solver, rank=1, n_components=6, max_iter=10).fit(X, y)
    assert (np.linalg.matrix_rank(model.atoms_, tol=1e-8) == 1).all()
    assert model.score(X, y) > 0.8


def test_columns_of_any_scale_with_and_without_whitening():
    (X, y), *_ = _data()
    X = X.copy()
    X[:, :36].reshape(-1, 6, 6)[:, :, 0] *= 1e4
    X[:, 36:].reshape(-1, 2, 4)[:, :, 0] *= 1e4
    plain = _model("l1", whiten=False, max_iter=10).fit(X, y)
    white = _model("l1", max_iter=10).fit(X, y)
    assert white.score(X, y) > 0.99
    assert plain.score(X, y) > 0.9


def test_transform_parameters_act_without_a_new_fit():
    (X, y), *_ = _data(60)
    model = _model("l1", max_iter=5).fit(X, y)
    sizes = [
        np.abs(model.set_params(transform_alpha=a).transform(X)).sum()
        for a in (1e-3, 0.1, 10.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    assert_array_equal(
        model.set_params(transform_alpha=None).predict(X),
        model.set_params(transform_alpha=model.alpha).predict(X),
    )
    model = _model("ep").fit(X, y)
    few = X.copy()
    few[:, 6:36] = np.nan
    low = model.set_params(transform_activity=0.01).transform(few)
    high = model.set_params(transform_activity=0.9).transform(few)
    small = [(np.sort(np.abs(g), 1)[:, 0]).mean() for g in (low, high)]
    assert small[0] < small[1]
    assert np.isfinite(model.set_params(transform_activity=None).predict(few)).all()


def test_constant_state_answers_like_a_gaussian_on_gaussian_data():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(3, 9))
    data = rng.normal(size=(600, 3)) @ mixing + 0.3 * rng.normal(size=(600, 9))
    X, y = data[:, :7], data[:, 7:]
    C = np.cov(data[:400].T)
    best = X[400:] @ np.linalg.solve(C[:7, :7], C[:7, 7:])
    model = VectorNetworkOperatorRegressor(random_state=0).fit(X[:400], y[:400])
    error = ((model.predict(X[400:]) - y[400:]) ** 2).sum()
    assert error < 1.3 * ((best - y[400:]) ** 2).sum()
    assert model.effective_weight(X).shape == (600, 9, 1)
    assert_allclose(model.effective_weight(X)[:, 7:, 0], model.predict(X), atol=1e-10)


def test_cross_validation_pipeline_and_search():
    (X, y), *_ = _data(90)
    assert cross_val_score(_model(max_iter=3), X, y, cv=3).min() > 0.9
    search = GridSearchCV(_model(max_iter=2), {"n_components": [1, 3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"n_components": 3}
    flat = make_pipeline(StandardScaler(), VectorNetworkOperatorRegressor(max_iter=2))
    assert flat.fit(X[:, :5], X[:, 5]).predict(X[:, :5]).shape == (90,)


def test_many_systems_start_from_a_draw(monkeypatch):
    (X, y), *_ = _data(300)
    draw = VectorNetworkOperatorRegressor._start.__globals__["draw_systems"]
    monkeypatch.setattr(
        "skvn._operator.draw_systems", lambda x, w, rng: draw(x, w, rng, 60)
    )
    assert _model().fit(X, y).score(X, y) > 0.99


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state_size": 5}, "which do not hold"),
        ({"response_size": 3}, "multiple of response_size=3"),
        ({"rank": 0}, "'rank' parameter"),
        ({"solver": "auto"}, "'solver' parameter"),
        ({"transform_activity": 1.5}, "'transform_activity' parameter"),
    ],
)
def test_bad_parameters_are_named_and_leave_no_trace(options, message):
    (X, y), *_ = _data(20)
    model = _model(**options)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert vars(model) == before


def test_bad_data():
    (X, y), *_ = _data(20)
    with pytest.raises(ValueError, match="an entry that is not NaN"):
        _model().fit(X, np.full_like(y, np.nan))
    with pytest.raises(ValueError, match="contains infinity"):
        _model().fit(X, np.where(y > 0, np.inf, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        _model().fit(X, y[:-1])
    with pytest.raises(NotFittedError):
        _model().predict(X)
    with pytest.raises(ValueError, match="expecting 44 features"):
        _model(max_iter=1).fit(X, y).predict(X[:, :-1])


def test_verbose_prints_epochs(capsys):
    (X, y), *_ = _data(20)
    _model(verbose=True, max_iter=2, tol=0.0).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("[VectorNetworkOperatorRegressor] epoch 1, loss")


def _empirical_bayes_error(train, test):
    """Error of the linear-Gaussian operator with an exact posterior."""
    layout, scale = Layout(10, 1, 16, 8), np.sqrt(np.mean(train.y**2))
    tensors = [torch.from_numpy(a) for a in (train.X, train.y / scale)]
    part = systems(tensors[0], None, tensors[1], layout)
    eb = empirical_bayes(part, torch.ones(len(train.y)).double(), rounds=60)
    x = torch.from_numpy(test.X)
    part = systems(torch.nan_to_num(x), ~x.isnan(), None, layout)
    z, a = part.states[:, :16], part.responses[:, :16]
    W, _ = conditional(z.mT @ z, (a.mT @ z)[:, 0], eb.covariance, eb.noise)
    y_hat = (part.states[:, 16:] @ W[:, :, None])[:, :, 0].numpy()
    there = ~np.isnan(test.y)
    return ((y_hat - test.y)[there] ** 2).sum() / (test.y[there] ** 2).sum()


def test_beats_the_empirical_bayes_gaussian_on_noisy_forces():
    train = make_nbody(800, noise=0.01, random_state=0)
    model = VectorNetworkOperatorRegressor(state_size=10, random_state=0)
    model.fit(train.X, train.y)
    assert model.n_components_ == 4
    for n_forces, n_bodies, bound in ((1, 4, 0.5), (2, 4, 0.6), (4, 3, 0.7)):
        test = make_nbody(
            300, n_forces=n_forces, n_bodies=n_bodies, noise=0.01, random_state=1
        )
        there = ~np.isnan(test.y)
        r = (model.predict(test.X) - test.y)[there]
        error = (r**2).sum() / (test.y[there] ** 2).sum()
        assert error < bound * _empirical_bayes_error(train, test)
        assert error < 0.02
