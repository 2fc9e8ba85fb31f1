"""Copies, pickles, other devices, other processes, and global state."""

import copy
import io
import pickle
import random

import joblib
import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvn import VectorNetworkRegressor, VectorNetworkTransformer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BOTH = [VectorNetworkTransformer, VectorNetworkRegressor]
CONFIGURATIONS = [
    (VectorNetworkTransformer, {}),
    (VectorNetworkTransformer, {"solver": "ard"}),
    (VectorNetworkTransformer, {"n_components": (8, 4), "max_sweeps": 1}),
    (VectorNetworkRegressor, {}),
    (VectorNetworkRegressor, {"solver": "ard"}),
    (VectorNetworkRegressor, {"learning": "contrastive"}),
]
RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((100, 5)))
Y = X @ RNG.standard_normal(5)


def make(cls, **options):
    return cls(**({"n_components": 8, "max_iter": 3, "random_state": 0} | options))


def answer(est, X):
    return est.predict(X) if hasattr(est, "predict") else est.transform(X)


def by_joblib(est):
    file = io.BytesIO()
    joblib.dump(est, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {
    "pickle": lambda est: pickle.loads(pickle.dumps(est)),
    "joblib": by_joblib,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_a_copy_answers_and_goes_on_like_the_original(way, cls, options):
    est = make(cls, **options).fit(X, Y)
    twin = COPIES[way](est)
    np.testing.assert_array_equal(answer(twin, X), answer(est, X))
    est.partial_fit(X[:30], Y[:30])
    twin.partial_fit(X[:30], Y[:30])
    np.testing.assert_array_equal(answer(twin, X), answer(est, X))
    twin.components_[:] = 0
    assert est.components_.any()


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_a_clone_is_unfitted_and_fits_alike(cls, options):
    est = make(cls, **options).fit(X, Y)
    twin = clone(est)
    assert vars(twin) == est.get_params()
    with pytest.raises(NotFittedError):
        twin.transform(X)
    np.testing.assert_array_equal(twin.fit(X, Y).components_, est.components_)


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_fitted_state_is_small_and_holds_no_tensors(cls, options):
    few = make(cls, **options).fit(X, Y)
    many = clone(few).fit(np.tile(X, (30, 1)), np.tile(Y, 30))
    for est in (few, many):
        assert not any(isinstance(v, torch.Tensor) for v in vars(est).values())
    sizes = len(pickle.dumps(few)), len(pickle.dumps(many))
    assert sizes[1] < sizes[0] + 200
    assert b"torch" not in pickle.dumps(few)


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_fitted_on_cuda_answers_on_a_cpu_with_one_warning(cls, options):
    est = make(cls, **options).fit(X, Y)
    expected = answer(est, X)
    est.set_params(device="cuda")
    est.device_ = "cuda:0"
    loaded = pickle.loads(pickle.dumps(est))
    calls = [lambda: answer(loaded, X), lambda: loaded.score(X, Y)]
    calls += [lambda: loaded.partial_fit(X, Y), lambda: loaded.fit(X, Y)]
    np.testing.assert_array_equal(warned_once(calls[0]), expected)
    for call in calls[1:]:
        warned_once(call)
    assert loaded.device == "cuda" and loaded.device_ == "cpu"
    assert clone(loaded).device == "cuda"


def warned_once(call):
    with pytest.warns(UserWarning) as caught:
        result = call()
    messages = [w for w in caught if w.category is UserWarning]
    assert len(messages) == 1
    assert "CUDA is not available; computing on the CPU" in str(messages[0].message)
    return result


def methods(est):
    """Every public method that computes, as calls."""
    codes = est.fit(X, Y).transform(X)
    yield lambda: est.fit(X, Y, sample_weight=np.ones(100))
    yield lambda: est.partial_fit(X, Y)
    yield lambda: est.fit_transform(X, Y)
    yield lambda: est.score(X, Y)
    for name in ("transform", "effective_weight", "contributions"):
        yield lambda name=name: getattr(est, name)(X)
    yield est.atoms
    yield est.get_feature_names_out
    if hasattr(est, "predict"):
        yield lambda: est.predict(X)
    else:
        yield lambda: est.reconstruct(X)
        yield lambda: est.inverse_transform(codes)


@pytest.mark.parametrize(
    ("cls", "options", "seed"),
    [(*c, 0) for c in CONFIGURATIONS] + [(BOTH[1], {}, None)],
)
def test_global_random_state_is_left_alone(cls, options, seed):
    if options.get("learning"):
        options = options | {"early_stopping": True}
    for call in methods(make(cls, **options | {"random_state": seed})):
        # random_state=None means NumPy's global state, by scikit-learn's convention.
        before = global_state(numpy=seed is not None)
        call()
        assert global_state(numpy=seed is not None) == before


def global_state(numpy):
    state = random.getstate(), torch.get_rng_state().numpy().tobytes()
    legacy = pickle.dumps(np.random.get_state())  # noqa: NPY002
    return (*state, legacy if numpy else None)


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_inference_changes_no_attribute(cls, options):
    est = make(cls, **options).fit(X, Y)
    before = joblib.hash(vars(est))
    answer(est, X)
    est.transform(X[:3])
    est.contributions(X)
    est.score(X, Y)
    assert joblib.hash(vars(est)) == before


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # what a worker has
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("cls", BOTH)
def test_two_processes_give_what_one_gives(cls, one_thread):
    est = make(cls)
    serial, parallel = (cross_val_score(est, X, Y, cv=3, n_jobs=n) for n in (None, 2))
    np.testing.assert_array_equal(serial, parallel)
    grid = {"alpha": [0.01, 0.1], "n_components": [4, 8]}
    serial, parallel = (
        GridSearchCV(est, grid, cv=2, n_jobs=n).fit(X, Y) for n in (None, 2)
    )
    for name in ("mean_test_score", "params"):
        np.testing.assert_array_equal(
            serial.cv_results_[name], parallel.cv_results_[name]
        )
    np.testing.assert_array_equal(
        answer(serial.best_estimator_, X), answer(parallel.best_estimator_, X)
    )


@pytest.mark.parametrize("cls", BOTH)
def test_sample_weight_is_routed_through_a_pipeline(cls):
    w = np.r_[np.zeros(50), np.ones(50)]
    expected = make(cls).fit(X[50:], Y[50:])
    with sklearn.config_context(enable_metadata_routing=True):
        est = make(cls).set_fit_request(sample_weight=True)
        scale = StandardScaler(with_mean=False, with_std=False)
        scale.set_fit_request(sample_weight=False)
        pipe = make_pipeline(scale, est).fit(X, Y, sample_weight=w)
    np.testing.assert_array_equal(pipe[-1].components_, expected.components_)


@pytest.mark.parametrize("cls", BOTH)
def test_showing_an_estimator_computes_nothing(cls, monkeypatch):
    est = make(cls).fit(X, Y)

    def fail(*args, **kwargs):
        raise AssertionError("computed while shown")

    for name in ("atoms", "effective_weight", "contributions", "transform"):
        monkeypatch.setattr(cls, name, fail)
    monkeypatch.setattr("skvn._flat.settle", fail)
    html = est._repr_html_()
    assert "components_" in html and cls.__name__ in html
    assert cls.__name__ in repr(est)
