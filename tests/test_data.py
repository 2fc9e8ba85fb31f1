"""What goes in and what comes out: arrays, tensors, frames, devices, bad input."""

import re

import numpy as np
import pytest
import scipy.sparse
import sklearn
import torch
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skvn import VectorNetworkRegressor, VectorNetworkTransformer
from skvn._data import Rows, resolve_device, split_missing, to_output, to_tensor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BOTH = [VectorNetworkTransformer, VectorNetworkRegressor]
CPU = torch.device("cpu")


def make(cls, **options):
    return cls(**({"n_components": 8, "max_iter": 2, "random_state": 0} | options))


def data(n=40, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(10 * rng.random((n, d)))
    return X, X @ rng.standard_normal(d)


def answer(est, X):
    return est.predict(X) if hasattr(est, "predict") else est.transform(X)


# --- kinds of arrays ---------------------------------------------------------------


def read_only(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


WAYS = {
    "int": lambda X, _: X.astype(int),
    "uint8": lambda X, _: X.astype(np.uint8),
    "float16": lambda X, _: X.astype(np.float16),
    "big endian": lambda X, _: X.astype(">f8"),
    "longdouble": lambda X, _: X.astype(np.longdouble),
    "object": lambda X, _: X.astype(object),
    "strings of numbers": lambda X, _: X.astype(str),
    "list": lambda X, _: X.tolist(),
    "fortran": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "negative strides": lambda X, _: np.array(X[::-1, ::-1])[::-1, ::-1],
    "memmap": read_only,
    "tensor": lambda X, _: torch.from_numpy(X),
}


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_array_gives_the_same(cls, way, tmp_path):
    X, y = data()
    expected = answer(make(cls).fit(X, y), X)
    other = WAYS[way](X, tmp_path)
    got = answer(make(cls).fit(other, y), other)
    assert isinstance(got, np.ndarray) and got.dtype == np.float64
    np.testing.assert_array_equal(got, expected)


def test_booleans_are_numbers():
    X, y = data()
    np.testing.assert_array_equal(
        make(VectorNetworkRegressor).fit(X > 5, y > 0).predict(X > 5),
        make(VectorNetworkRegressor).fit((X > 5) * 1.0, (y > 0) * 1.0).predict(X > 5),
    )


@pytest.mark.parametrize("kind", [int, "f4", object, list, str])
def test_every_kind_of_y_gives_the_same(kind):
    X, y = data()
    y = np.round(y)
    expected = make(VectorNetworkRegressor).fit(X, y).predict(X)
    other = y.tolist() if kind is list else y.astype(kind)
    got = make(VectorNetworkRegressor).fit(X, other).predict(X)
    np.testing.assert_array_equal(got, expected)


def test_frames_with_missing_values_and_shuffled_index():
    pd = pytest.importorskip("pandas")
    X, y = data()
    X[3, 2] = np.nan
    expected = make(VectorNetworkRegressor).fit(X, y).predict(X)
    frame = pd.DataFrame(X, columns=list("abcde")).convert_dtypes()
    assert frame["c"].dtype != float
    target = pd.Series(y, index=np.arange(40)[::-1])
    est = make(VectorNetworkRegressor).fit(frame, target)
    np.testing.assert_array_equal(est.predict(frame), expected)
    assert list(est.feature_names_in_) == list("abcde")


@pytest.mark.parametrize("cls", BOTH)
def test_input_is_left_alone(cls):
    X, y = data()
    X[0, 0] = np.nan
    w = np.arange(40.0)
    kept = X.copy(), y.copy(), w.copy()
    est = make(cls).fit(X, y, sample_weight=w)
    answer(est, X)
    est.partial_fit(X, y, sample_weight=w)
    for before, after in zip(kept, (X, y, w), strict=True):
        np.testing.assert_array_equal(before, after)


# --- tensors -----------------------------------------------------------------------


@pytest.fixture
def dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("solver", ["l1", "ard"])
def test_tensors_in_tensors_out(dtype, grad, solver, dispatch):
    X, y = data()
    X[0, 0] = np.nan
    t = torch.from_numpy(X).to(dtype).requires_grad_(grad)
    ty = torch.from_numpy(y).to(dtype).requires_grad_(grad)
    w = torch.arange(40, dtype=dtype).requires_grad_(grad)
    weight = w.detach().numpy()
    X, y = t.detach().numpy(), ty.detach().numpy()

    est = make(VectorNetworkTransformer, solver=solver)
    same(est.fit_transform(t), est.fit_transform(X), dtype)
    same(est.reconstruct(t), est.reconstruct(X), dtype)
    same(est.inverse_transform(est.transform(t)), est.reconstruct(X), dtype, 1e-4)
    same(est.effective_weight(t[:3]), est.effective_weight(X[:3]), dtype)
    assert est.score(t, sample_weight=w) == pytest.approx(
        est.score(X, sample_weight=weight)
    )
    assert isinstance(est.components_, np.ndarray)

    reg = make(VectorNetworkRegressor, solver=solver)
    expected = reg.fit(X, y, sample_weight=weight).predict(X)
    same(reg.fit(t, ty, sample_weight=w).predict(t), expected, dtype)
    expected = reg.partial_fit(X, y, sample_weight=weight).predict(X)
    reg.fit(t, ty, sample_weight=w).partial_fit(t, ty, sample_weight=w)
    same(reg.predict(t), expected, dtype)
    same(reg.contributions(t), reg.contributions(X), dtype)
    detached = ty.detach()
    assert float(reg.score(t, detached)) == pytest.approx(reg.score(X, y), rel=1e-5)
    if solver == "ard":
        _, std = reg.predict(t, return_std=True)
        same(std, reg.predict(X, return_std=True)[1], dtype)


def same(tensor, array, dtype, atol=0.0):
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == dtype and tensor.device == CPU
    assert not tensor.requires_grad
    np.testing.assert_allclose(tensor.numpy(), array, rtol=0, atol=atol)


def test_x_a_tensor_and_y_an_array(dispatch):
    X, y = data()
    expected = make(VectorNetworkRegressor).fit(X, y, np.ones(40)).predict(X)
    est = make(VectorNetworkRegressor)
    got = est.fit(torch.from_numpy(X), y, np.ones(40)).predict(torch.from_numpy(X))
    same(got, expected, torch.float64)


# --- inside other estimators -------------------------------------------------------


def test_in_a_pipeline_after_a_column_transformer():
    pd = pytest.importorskip("pandas")
    X, y = data(60)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(f=list("uvw") * 20)
    columns = ColumnTransformer(
        [
            ("num", StandardScaler(), list("abcde")),
            ("cat", OneHotEncoder(sparse_output=False), ["f"]),
        ]
    )
    pipe = make_pipeline(columns, make(VectorNetworkRegressor, max_iter=20))
    scores = cross_validate(
        pipe, frame, y, cv=3, scoring=["r2", "neg_mean_absolute_error"]
    )
    assert np.isfinite(scores["test_neg_mean_absolute_error"]).all()
    assert scores["test_r2"].mean() > 0.5


def test_one_estimator_per_output():
    X, y = data()
    est = MultiOutputRegressor(make(VectorNetworkRegressor)).fit(X, np.c_[y, -y])
    assert est.predict(X).shape == (40, 2)


# --- bad input ---------------------------------------------------------------------

X_OK, Y_OK = data()
BAD_X = {
    "1-D": (X_OK[0], "Expected 2D array, got 1D array"),
    "3-D": (X_OK[None], "dim 3"),
    "inf": (np.where(X_OK == X_OK[0, 0], np.inf, X_OK), "contains infinity"),
    "no rows": (X_OK[:0], "0 sample"),
    "no columns": (X_OK[:, :0], "0 feature"),
    "words": (np.full((40, 5), "word"), "could not convert string to float"),
    "objects": (np.full((40, 5), {}, dtype=object), "float"),
    "complex": (X_OK + 1j, "Complex data not supported"),
    "sparse": (scipy.sparse.csr_matrix(X_OK), "toarray"),
    "sparse array": (scipy.sparse.csr_array(X_OK), "toarray"),
    "None": (None, "Expected 2D array"),
}
BAD_Y = {
    "None": (None, "requires y"),
    "short": (Y_OK[:-1], "inconsistent numbers of samples"),
    "NaN": (np.where(Y_OK == Y_OK[0], np.nan, Y_OK), "y contains NaN"),
    "inf": (np.where(Y_OK == Y_OK[0], np.inf, Y_OK), "y contains infinity"),
    "words": (np.full(40, "word"), "could not convert string to float"),
    "object words": (np.full(40, "word", dtype=object), "could not convert string"),
    "3-D": (Y_OK[:, None, None], "dim 3"),
    "sparse": (scipy.sparse.csr_matrix(Y_OK[:, None]), "toarray"),
    "complex": (Y_OK + 1j, "Complex data not supported"),
    "overflow": (Y_OK * 1e200, "rescale y"),
}
BAD_WEIGHT = {
    "short": (np.ones(39), "sample_weight.shape"),
    "2-D": (np.ones((40, 1)), "1D array or scalar"),
    "negative": (-np.ones(40), "Negative values"),
    "NaN": (np.full(40, np.nan), "sample_weight contains NaN"),
    "zero": (np.zeros(40), "at least one non-zero"),
}


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("bad", BAD_X)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_x_is_refused_and_changes_nothing(cls, bad, method):
    X, message = BAD_X[bad]
    refused(make(cls), method, (X, Y_OK), {}, message)


@pytest.mark.parametrize("bad", BAD_Y)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_y_is_refused_and_changes_nothing(bad, method):
    y, message = BAD_Y[bad]
    refused(make(VectorNetworkRegressor), method, (X_OK, y), {}, message)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("bad", BAD_WEIGHT)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_weights_are_refused_and_change_nothing(cls, bad, method):
    w, message = BAD_WEIGHT[bad]
    refused(make(cls), method, (X_OK, Y_OK), {"sample_weight": w}, message)


def refused(est, method, args, kwargs, message):
    """The call raises on a new estimator and on a fitted one, and changes neither."""
    with np.errstate(over="ignore"), pytest.raises((ValueError, TypeError)) as error:
        getattr(est, method)(*args, **kwargs)
    assert re.search(message, str(error.value)), str(error.value)
    assert vars(est) == est.get_params()
    est.fit(X_OK, Y_OK)
    unchanged_by(est, method, args, kwargs)


def unchanged_by(est, method, args, kwargs, error=(ValueError, TypeError)):
    before, expected = dict(vars(est)), answer(est, X_OK)
    with np.errstate(over="ignore"), pytest.raises(error):
        getattr(est, method)(*args, **kwargs)
    assert before.keys() == vars(est).keys()
    assert all(before[name] is vars(est)[name] for name in before)
    np.testing.assert_array_equal(answer(est, X_OK), expected)


@pytest.mark.parametrize("cls", BOTH)
def test_failed_fit_on_a_frame_keeps_the_old_feature_names(cls):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X_OK, columns=list("abcde"))
    est = make(cls).fit(frame, Y_OK)
    other = pd.DataFrame(np.c_[X_OK, X_OK], columns=list("qrstuvwxyz"))
    before, names = dict(vars(est)), list(est.feature_names_in_)
    est.set_params(alpha=-1)
    with pytest.raises(ValueError, match="alpha"):
        est.fit(other, Y_OK)
    est.set_params(alpha=0.03)
    with pytest.raises(ValueError, match="infinity"):
        est.fit(other.assign(q=np.inf), Y_OK)
    assert list(est.feature_names_in_) == names and est.n_features_in_ == 5
    assert all(before[name] is vars(est)[name] for name in before if name != "alpha")
    answer(est, frame)


@pytest.mark.parametrize("cls", BOTH)
def test_changed_number_of_features_is_refused(cls):
    est = make(cls).fit(X_OK, Y_OK)
    unchanged_by(est, "partial_fit", (X_OK[:, :3], Y_OK), {})
    for method in ("transform", "effective_weight", "contributions"):
        with pytest.raises(ValueError, match=r"3 features, but .* expecting 5"):
            getattr(est, method)(X_OK[:, :3])
    est.fit(X_OK[:, :3], Y_OK)
    assert est.n_features_in_ == 3


def test_changed_number_of_outputs_is_refused():
    est = make(VectorNetworkRegressor).fit(X_OK, Y_OK)
    with pytest.raises(ValueError, match=r"y has 2 outputs, but .* fitted with 1"):
        est.partial_fit(X_OK, np.c_[Y_OK, Y_OK])
    unchanged_by(est, "partial_fit", (X_OK, np.c_[Y_OK, Y_OK]), {})


def test_codes_of_another_width_are_refused():
    est = make(VectorNetworkTransformer).fit(X_OK)
    with pytest.raises(ValueError, match=r"5 features, but .* expects 8 codes"):
        est.inverse_transform(X_OK)
    with pytest.raises(ValueError, match="Expected 2D array"):
        est.inverse_transform(np.zeros(8))
    with pytest.raises(ValueError, match="NaN"):
        est.inverse_transform(np.full((1, 8), np.nan))


@pytest.mark.parametrize("cls", BOTH)
def test_unfitted_use_says_so(cls):
    calls = ["transform", "effective_weight", "contributions"]
    calls += ["predict"] if cls is VectorNetworkRegressor else ["reconstruct", "score"]
    for name in calls:
        with pytest.raises(NotFittedError, match="Call 'fit'"):
            getattr(make(cls), name)(X_OK)
    with pytest.raises(NotFittedError):
        make(cls).atoms()
    with pytest.raises(NotFittedError):
        make(cls).get_feature_names_out()


def test_early_stopping_needs_rows_to_hold_out():
    with pytest.raises(ValueError, match="n_samples=1"):
        make(VectorNetworkTransformer, early_stopping=True).fit(X_OK[:1])


# --- the pieces --------------------------------------------------------------------


def test_device_names():
    assert resolve_device("cpu", X_OK) == CPU
    assert resolve_device(CPU, X_OK) == CPU
    with pytest.raises(ValueError, match="device='gpu' is unknown; use 'auto'"):
        resolve_device("gpu", X_OK)


def test_auto_device_follows_an_accelerator_tensor():
    meta = torch.empty(2, 2, device="meta")
    assert resolve_device("auto", meta).type == "meta"


def test_auto_device_is_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto", X_OK).type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto", X_OK).type == "cpu"
    with pytest.warns(UserWarning, match="'cuda:1' was asked for but CUDA is not"):
        assert resolve_device("cuda:1", X_OK).type == "cpu"


def test_tensors_are_copies_of_arrays():
    a = np.zeros(3)
    t = to_tensor(a, CPU)
    t += 1
    assert not a.any()
    assert to_tensor(a, CPU, torch.float32).dtype == torch.float32
    assert isinstance(to_output(t, a), np.ndarray)
    assert to_output(t, torch.zeros(1)) is t


def test_split_missing():
    x, mask = split_missing(torch.tensor([[1.0, torch.nan], [2.0, 3.0]]))
    assert x.tolist() == [[1, 0], [2, 3]] and mask.tolist() == [
        [True, False],
        [True] * 2,
    ]
    assert split_missing(torch.ones(2, 2))[1] is None


def test_rows_hand_out_batches():
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)[:, None]
    rows = Rows(X, y, np.ones(10), CPU, shift=np.array([1.0]), scale=2.0)
    sizes = [len(b.x) for b in rows.batches(4)]
    assert len(rows) == 10 and sizes == [4, 4, 2]
    shuffled = torch.cat([b.y for b in rows.batches(4, torch.Generator())])[:, 0]
    plain = torch.cat([b.y for b in rows.batches(4)])[:, 0]
    assert plain.tolist() == ((y[:, 0] - 1) / 2).tolist()
    assert shuffled.tolist() != plain.tolist()
    assert sorted(shuffled.tolist()) == plain.tolist()


def test_positive_rows_have_weights_of_at_least_one_on_average():
    X = np.arange(8.0).reshape(4, 2)
    rows = Rows(X, None, np.array([0.0, 0.1, 0.2, 0.3]), CPU).positive()
    assert rows.X.tolist() == X[1:].tolist()
    np.testing.assert_allclose(rows.weight, [0.5, 1, 1.5])
    rows = Rows(X, None, np.array([0, 1, 2, 3.0]), CPU).positive()
    assert rows.weight.tolist() == [1, 2, 3]


def test_unobserved_columns_are_looked_for_in_all_rows():
    X = np.full((10, 3), np.nan)
    X[9, 1] = 1
    assert Rows(X, None, np.ones(10), CPU).unobserved(size=4) == [0, 2]
    X[0] = 1
    assert Rows(X, None, np.ones(10), CPU).unobserved(size=4) == []
