"""VectorNetworkTransformer: its codes are what its attributes say they are."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from skvn import VectorNetworkTransformer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
KINDS = {
    "l1": {},
    "signed": {"positive_code": False},
    "topk": {"n_nonzero_coefs": 2},
    "ard": {"solver": "ard"},
    "deep": {"n_components": (12, 9), "hidden_layer_sizes": 7, "max_sweeps": 1},
    "deep_relu": {"n_components": (12, 9), "activation": "relu", "max_sweeps": 1},
}


def make(**options):
    defaults = {"n_components": 12, "max_iter": 3, "random_state": 0}
    return VectorNetworkTransformer(**(defaults | options))


def rows(n=60, d=8, seed=0):
    """Sums of two of six nonnegative parts, and a little noise."""
    rng = np.random.default_rng(seed)
    parts = rng.random((6, d))
    use = rng.random((n, 6)) * (rng.random((n, 6)) < 0.4)
    return use @ parts + 0.05 * rng.standard_normal((n, d))


@pytest.fixture(params=KINDS)
def fitted(request):
    return make(**KINDS[request.param]).fit(rows())


@pytest.mark.parametrize("positive", [True, False])
def test_codes_are_those_of_sparse_encode(positive):
    X = rows()
    est = make(n_components=5, positive_code=positive, transform_tol=1e-13).fit(X)
    options = {"alpha": est.lambdas_[0], "positive": positive, "max_iter": 100_000}
    expected = sparse_encode(X, est.components_, algorithm="lasso_cd", **options)
    # scikit-learn stops at a relative duality gap of 1e-4.
    np.testing.assert_allclose(est.transform(X), expected, atol=1e-2)
    E = energy(X, est.components_, est.transform(X), est.lambdas_[0])
    E_expected = energy(X, est.components_, expected, est.lambdas_[0])
    assert (E <= E_expected + 1e-12).all()


def energy(X, S, g, lam):
    return 0.5 * ((X - g @ S) ** 2).sum(1) + lam * np.abs(g).sum(1)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("K", [5, 20])
def test_codes_are_those_of_a_tight_lasso(positive, K):
    X = rows(20)
    est = make(n_components=K, positive_code=positive, transform_tol=1e-14).fit(X)
    options = {"positive": positive, "tol": 1e-14, "max_iter": 100_000}
    lasso = Lasso(alpha=est.lambdas_[0] / 8, fit_intercept=False, **options)
    lasso.fit(est.components_.T, X.T)
    np.testing.assert_allclose(est.transform(X), lasso.coef_, atol=1e-6)


def test_codes_of_orthogonal_atoms_are_soft_thresholds():
    est = make(n_components=3, transform_tol=1e-12).fit(rows(d=4))
    est.components_ = np.eye(4)[:3]
    X = rows(d=4, seed=1)
    expected = np.maximum(X[:, :3] - est.lambdas_[0], 0)
    np.testing.assert_allclose(est.transform(X), expected, atol=1e-6)


def test_fit_transform_is_fit_then_transform(fitted):
    X = rows()
    again = fitted.fit_transform(X)
    np.testing.assert_array_equal(again, fitted.transform(X))


def test_inverse_transform_of_codes_is_the_reconstruction(fitted):
    X = rows(seed=3)
    X_hat = fitted.inverse_transform(fitted.transform(X))
    np.testing.assert_allclose(X_hat, fitted.reconstruct(X), atol=1e-12)
    assert X_hat.shape == X.shape


def test_reconstruction_explains_the_data():
    X = rows(400)
    est = make(alpha=0.01, max_iter=50).fit(X)
    assert -est.score(X) < 0.1 * X.var()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_score_is_minus_the_mean_squared_error_of_observed_entries(missing, weighted):
    X, w = rows(seed=4), np.ones(60)
    if missing:
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    if weighted:
        w = np.random.default_rng(1).integers(0, 3, 60)
    est = make().fit(rows())
    seen, error = ~np.isnan(X), (np.nan_to_num(X) - est.reconstruct(X)) ** 2
    expected = -(w[:, None] * seen * error).sum() / (w[:, None] * seen).sum()
    assert est.score(X, sample_weight=w) == pytest.approx(expected, rel=1e-10)


def test_fitted_attributes_have_their_shapes(fitted):
    K = fitted.components_.shape[0]
    assert fitted.components_.shape == (12, 8) and K == 12
    assert fitted.lambdas_.shape == (1 + len(fitted.hidden_components_),)
    assert fitted.transform(rows()).shape == (60, fitted._n_features_out)
    np.testing.assert_allclose(np.linalg.norm(fitted.components_, axis=1), 1)
    for U, S in fitted.hidden_components_:
        np.testing.assert_allclose(np.linalg.norm(U, axis=1), 1)
        np.testing.assert_allclose(np.linalg.norm(S, axis=1), 1)


def test_two_layers_give_the_codes_of_both():
    est = make(**KINDS["deep"]).fit(rows())
    codes = est.transform(rows())
    assert codes.shape == (60, 21)
    ((U, S),) = est.hidden_components_
    assert U.shape == (12, 7) and S.shape == (9, 7)
    assert est.atoms().shape == (9, 7, 7)
    names = est.get_feature_names_out()
    assert list(names[[0, -1]]) == [
        "vectornetworktransformer0",
        "vectornetworktransformer20",
    ]
    # The messages, and with them the codes of the second layer, do not vanish.
    assert (codes[:, 12:] > 0).any(1).mean() > 0.8


def test_set_output_gives_frames_with_the_rows_index():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rows(), columns=list("abcdefgh"), index=np.arange(60)[::-1])
    codes = make().set_output(transform="pandas").fit_transform(X)
    assert list(codes.columns[:1]) == ["vectornetworktransformer0"]
    assert codes.index.equals(X.index)


@pytest.mark.parametrize("kind", ["l1", "signed", "topk"])
def test_code_budget_and_sign_hold(kind):
    codes = make(**KINDS[kind]).fit(rows()).transform(rows(seed=5))
    assert (codes < 0).any() == (kind == "signed")
    if kind == "topk":
        assert (codes != 0).sum(1).max() == 2


def test_auto_takes_ard_for_missing_entries_in_one_layer():
    X = rows()
    X[0, 0] = np.nan
    assert make().fit(rows()).solver_ == "l1"
    assert make().fit(X).solver_ == "ard"
    assert make(n_components=(12, 9), max_sweeps=1).fit(X).solver_ == "l1"
    assert make(n_nonzero_coefs=2).fit(X).solver_ == "l1"


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_never_sees_its_batch_mates(kind):
    options = KINDS[kind] | ({} if "deep" in kind else {"n_components": 128})
    X = rows(24, 20)
    X[::3, ::4] = np.nan
    est = make(max_iter=1, **{**options, "solver": options.get("solver", "l1")}).fit(X)
    codes = est.transform(X)
    order = np.random.default_rng(0).permutation(24)
    np.testing.assert_allclose(est.transform(X[order]), codes[order], atol=1e-10)
    alone = np.concatenate([est.transform(x[None]) for x in X])
    np.testing.assert_allclose(alone, codes, atol=1e-10)
    for size in (7, 24):
        est.set_params(batch_size=size)
        np.testing.assert_allclose(est.transform(X), codes, atol=1e-10)


@pytest.fixture
def restore_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", ["l1", "ard", "deep"])
def test_the_number_of_threads_does_not_matter(kind, restore_threads):
    X = rows(6 if kind == "deep" else 32)
    est = make(**KINDS[kind]).fit(X)
    codes = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        codes.append(est.transform(X))
    np.testing.assert_allclose(*codes, atol=1e-10)


def test_permuted_atoms_permute_the_codes(fitted):
    X, order = rows(seed=6), np.random.default_rng(0).permutation(12)
    fitted.set_params(transform_tol=1e-12)
    codes = fitted.transform(X)
    fitted.components_ = fitted.components_[order]
    fitted.hidden_components_ = [(U[order], S) for U, S in fitted.hidden_components_]
    permuted = fitted.transform(X)
    np.testing.assert_allclose(permuted[:, :12], codes[:, order], atol=1e-5)
    np.testing.assert_allclose(permuted[:, 12:], codes[:, 12:], atol=1e-5)


def test_ablated_atom_is_never_recruited(fitted):
    X = rows(seed=6)
    k = np.abs(fitted.transform(X)[:, :12]).sum(0).argmax()
    fitted.components_[k] = 0
    for U, _ in fitted.hidden_components_:
        U[k] = 0
    codes = fitted.transform(X)
    assert not codes[:, k].any()
    assert codes.any()


def test_effective_weight_and_contributions(fitted):
    X = rows(5, seed=7)
    g = fitted.transform(X)[:, -len(fitted.atoms()) :]
    W = np.einsum("nk,kod->nod", g, fitted.atoms())
    np.testing.assert_allclose(fitted.effective_weight(X), W, atol=1e-12)
    U = fitted.atoms().shape[1]
    shares = fitted.contributions(X)
    assert shares.shape == (5, g.shape[1], U)
    if not fitted.hidden_components_:
        np.testing.assert_allclose(shares.sum(1), fitted.reconstruct(X), atol=1e-12)


def test_integer_weights_are_repetitions(fitted):
    X, w = rows(40), np.random.default_rng(0).integers(0, 3, 40)
    w[0] = 0
    new = rows(seed=8)
    weighted = fitted.fit(X, sample_weight=w).transform(new)
    repeated = fitted.fit(np.repeat(X, w, axis=0)).transform(new)
    np.testing.assert_allclose(weighted, repeated, atol=1e-7)


def test_order_of_the_rows_of_one_batch_does_not_matter(fitted):
    X, new = rows(60), rows(seed=8)
    codes = fitted.fit(X).transform(new)
    np.testing.assert_allclose(fitted.fit(X[::-1]).transform(new), codes, atol=1e-7)


def test_equal_random_state_gives_equal_models(fitted):
    X, before = rows(90), None
    for _ in range(2):
        fitted.fit(X)
        if before is not None:
            np.testing.assert_array_equal(before, fitted.components_)
        before = fitted.components_
    other = make(random_state=1).fit(X)
    assert np.abs(other.components_ - make(random_state=0).fit(X).components_).max() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_float32_stays_and_follows_float64(kind):
    X = rows(60)
    est = make(**KINDS[kind], transform_tol=1e-6)
    wide = est.fit(X).reconstruct(X)
    narrow = est.fit(X.astype(np.float32)).reconstruct(X.astype(np.float32))
    assert wide.dtype == np.float64 and narrow.dtype == np.float32
    assert est.components_.dtype == np.float32
    assert est.transform(X.astype(np.float32)).dtype == np.float32
    assert np.abs(wide - narrow).mean() < 0.01 * X.std()


def test_std_is_larger_where_less_is_seen():
    X = rows(200)
    est = make(solver="ard", max_iter=20).fit(X)
    hidden = X[:50].copy()
    hidden[:, :4] = np.nan
    X_hat, std = est.reconstruct(hidden, return_std=True)
    np.testing.assert_allclose(X_hat, est.reconstruct(hidden), atol=1e-12)
    assert std[:, :4].mean() > 1.5 * std[:, 4:].mean() > 0


def test_penalty_is_alpha_times_the_norm_of_the_rows():
    X = rows()
    norm = np.sqrt((X**2).sum(1).mean())
    assert make(alpha=0.2).fit(X).lambdas_[0] == pytest.approx(0.2 * norm)
    # No atom fires in a row of that norm at alpha = 1.
    est = make(alpha=1.0).fit(X)
    small = X[np.linalg.norm(X, axis=1) < norm]
    assert len(small) and not est.transform(small).any()


def test_scale_of_x_only_scales_the_codes(fitted):
    X = rows()
    codes = fitted.fit(X).transform(X)
    scaled = fitted.fit(1000 * X).transform(1000 * X)
    kept = slice(None) if fitted.activation == "identity" else slice(0)
    np.testing.assert_allclose(scaled[:, kept], 1000 * codes[:, kept], atol=1e-3)


def test_convergence_warning_only_at_max_iter():
    with pytest.warns(ConvergenceWarning, match="max_iter=2 epochs"):
        make(max_iter=2).fit(rows())
