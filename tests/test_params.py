"""Parameters: which are valid, what a wrong one is told, and layer sizes."""

import re

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skvn import VectorNetworkRegressor, VectorNetworkTransformer
from skvn._params import layer_sizes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((40, 5)))
Y = X @ RNG.standard_normal(5)

WRONG = {
    "n_components": [0, -1, 1.5, None, "many", np.array([3]), range(3)],
    "alpha": [0, -1.0, np.nan, np.inf, "a", None],
    "solver": ["l2", None],
    "positive_code": ["yes", None],
    "n_nonzero_coefs": [0, 1.5, "a"],
    "hidden_layer_sizes": [0, 2.5, "a"],
    "activation": ["sigmoid", None],
    "max_sweeps": [-1, 1.5],
    "noise_floor": [0, -1.0, "a"],
    "max_iter": [0, 1.5],
    "tol": [-1, "a"],
    "n_iter_no_change": [0, 1.5],
    "batch_size": [0, "all", 2.5],
    "early_stopping": ["yes", None],
    "validation_fraction": [0.0, 1.0, 2],
    "transform_tol": [0, -1.0, "a"],
    "warm_start": ["yes"],
    "random_state": ["a", -1, np.random.default_rng(0)],
    "device": [3, None],
    "verbose": ["a", -1],
    "learning": ["backprop", None],
    "beta": [-1, "a"],
    "fit_intercept": ["yes"],
}
PAIRS = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value"), PAIRS)
@pytest.mark.parametrize("cls", [VectorNetworkTransformer, VectorNetworkRegressor])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_parameters_are_named_with_their_value(cls, name, value, method):
    if name not in cls().get_params():
        cls = VectorNetworkRegressor
    est = cls(**{name: value})
    with pytest.raises(ValueError, match=f"The '{name}' parameter of") as error:
        getattr(est, method)(X, Y)
    assert f"Got {value!r}" in str(error.value)
    assert vars(est) == est.get_params()


SIZES = [
    ({"n_components": []}, "n_components must hold at least one integer"),
    ({"n_components": (4, 0)}, "n_components must hold integers >= 1, got 0"),
    ({"n_components": True}, "n_components must hold integers >= 1, got True"),
    ({"n_components": (4, "a")}, "n_components must hold integers >= 1, got 'a'"),
    ({"n_components": (4, 2.0)}, "n_components must hold integers >= 1, got 2.0"),
    ({"hidden_layer_sizes": 3}, "i.e. one less; got 1 and 1"),
    ({"n_components": (4, 3), "hidden_layer_sizes": []}, "got 2 and 0"),
    ({"n_components": (4, 3), "hidden_layer_sizes": (2, 2)}, "got 2 and 2"),
    ({"n_components": (4, 3), "hidden_layer_sizes": [0]}, "hidden_layer_sizes must"),
]
CLASHES = [
    ({"solver": "ard", "n_components": (4, 3)}, "use solver='l1' or give n_comp"),
    ({"solver": "ard", "n_nonzero_coefs": 2}, "n_nonzero_coefs needs solver='l1'"),
]
REGRESSOR_CLASHES = [
    ({"solver": "ard", "learning": "contrastive"}, "use solver='l1', or learning="),
    ({"solver": "ard", "beta": 0.1}, "use solver='l1', or learning="),
]


@pytest.mark.parametrize(("options", "message"), [*SIZES, *CLASHES])
@pytest.mark.parametrize("cls", [VectorNetworkTransformer, VectorNetworkRegressor])
def test_parameters_that_do_not_fit_together(cls, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        cls(**options).fit(X, Y)


@pytest.mark.parametrize(("options", "message"), REGRESSOR_CLASHES)
def test_learning_rules_that_need_the_l1_settle(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        VectorNetworkRegressor(**options).fit(X, Y)


RIGHT = [
    {"n_components": np.int64(3)},
    {"n_components": [np.int32(3)]},
    {"n_components": (3,)},
    {"n_components": (3, 2), "hidden_layer_sizes": np.int64(2)},
    {"alpha": np.float32(0.1)},
    {"alpha": 1},
    {"alpha": 1e6},
    {"alpha": 1e-9},
    {"random_state": np.random.RandomState(0)},
    {"random_state": np.int64(3)},
    {"device": torch.device("cpu")},
    {"device": "cpu"},
    {"batch_size": np.int64(7)},
    {"batch_size": 10**9},
    {"n_nonzero_coefs": 10**6},
    {"max_sweeps": 0, "n_components": (3, 2)},
    {"tol": 0},
    {"early_stopping": np.bool_(True)},
]


@pytest.mark.parametrize("options", RIGHT, ids="_".join)
def test_right_parameters_are_taken_and_kept(options):
    est = VectorNetworkRegressor(**({"n_components": 4, "max_iter": 2} | options))
    before = dict(est.get_params())
    assert np.isfinite(est.fit(X, Y).predict(X)).all()
    assert all(before[name] is value for name, value in est.get_params().items())
    clone(est).fit(X, Y)


def test_layer_sizes():
    assert layer_sizes("auto", None, 10) == ([40], [])
    assert layer_sizes("auto", None, 1000) == ([256], [])
    assert layer_sizes(5, None, 10) == ([5], [])
    assert layer_sizes((5, 4, 3), None, 10) == ([5, 4, 3], [5, 4])
    assert layer_sizes([5, 4], 7, 10) == ([5, 4], [7])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 5},
        {"n_components": (4, 3)},
        {"n_components": "auto"},
        {"solver": "ard"},
    ],
    ids=str,
)
def test_going_on_with_other_layers_or_another_settle_is_refused(method, change):
    est = VectorNetworkRegressor(4, max_iter=2, warm_start=True).fit(X, Y)
    est.set_params(**change)
    with pytest.raises(ValueError, match=r"set (it|them) back, or call fit with warm"):
        getattr(est, method)(X, Y)
    est.set_params(warm_start=False).fit(X, Y)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_going_on_with_another_penalty_uses_it(method):
    est = VectorNetworkTransformer(4, max_iter=2, warm_start=True).fit(X)
    before, codes = est.lambdas_, est.transform(X)
    getattr(est.set_params(alpha=10 * est.alpha), method)(X)
    np.testing.assert_allclose(est.lambdas_, 10 * before)
    assert (est.transform(X) > 0).sum() < (codes > 0).sum()
