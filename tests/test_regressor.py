"""VectorNetworkRegressor: answers are sums of the atoms' shares."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge

from skvn import VectorNetworkRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
KINDS = {
    "l1": {},
    "clamped": {"beta": 0.5},
    "contrastive": {"learning": "contrastive"},
    "mixed": {"positive_code": False, "n_nonzero_coefs": 3, "fit_intercept": False},
    "ard": {"solver": "ard"},
    "deep": {"n_components": (12, 9), "hidden_layer_sizes": 7, "max_sweeps": 1},
}


def make(**options):
    defaults = {"n_components": 12, "max_iter": 3, "random_state": 0}
    return VectorNetworkRegressor(**(defaults | options))


def data(n=60, d=6, m=None, seed=0):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((n, d)))
    W = np.random.default_rng(99).standard_normal((d, m or 1))
    y = 3 + np.maximum(X @ W - 0.5, 0) + 0.1 * rng.standard_normal((n, m or 1))
    return X, y[:, 0] if m is None else y


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("m", [None, 1, 3])
def test_answers_have_the_shape_of_y(kind, m):
    X, y = data(m=m)
    est = make(**KINDS[kind]).fit(X, y)
    assert est.predict(X).shape == y.shape
    assert est.output_components_.shape == (9 if kind == "deep" else 12, m or 1)
    assert est.intercept_.shape == est.noise_variance_.shape == (m or 1,)
    assert est.n_outputs_ == (m or 1)
    if m == 1:
        np.testing.assert_array_equal(
            est.predict(X)[:, 0], clone(est).fit(X, y[:, 0]).predict(X)
        )


def test_contributions_sum_to_the_answer(kind):
    X, y = data(m=2)
    est = make(**KINDS[kind]).fit(X, y)
    shares = est.contributions(X)
    top = est.hidden_components_[-1][1] if kind == "deep" else est.components_
    assert shares.shape == (60, len(top), 2)
    np.testing.assert_allclose(
        shares.sum(1), est.predict(X) - est.intercept_, atol=1e-10
    )
    g = est.transform(X)[:, -len(top) :]
    np.testing.assert_allclose(shares, g[:, :, None] * est.output_components_)
    W = np.einsum("km,nk,kd->nmd", est.output_components_, g, top)
    np.testing.assert_allclose(est.effective_weight(X), W, atol=1e-10)
    atoms = np.einsum("km,kd->kmd", est.output_components_, top)
    np.testing.assert_allclose(est.atoms(), atoms)


def test_output_weights_are_a_ridge_fit_to_the_free_codes():
    X, y = data(m=2)
    est = make().fit(X, y)
    g = est.transform(X)
    errors = []
    for alpha in np.geomspace(1e-6, 1e4, 201):
        ridge = Ridge(alpha=alpha * np.var(g)).fit(g, y)
        errors.append(np.abs(ridge.coef_.T - est.output_components_).max())
    assert min(errors) < 0.02 * np.abs(est.output_components_).max()


def test_a_row_with_nothing_observed_gets_the_intercept(kind):
    X, y = data(m=2)
    est = make(**KINDS[kind]).fit(X, y)
    answer = est.predict(np.vstack([X[:2], np.full(6, np.nan)]))
    np.testing.assert_allclose(answer[2], est.intercept_)
    assert not est.transform(np.full((1, 6), np.nan)).any()
    assert (est.intercept_ == 0).all() == (kind == "mixed")


def test_ablating_an_atom_takes_its_share_away():
    X, y = data()
    est = make(transform_tol=1e-10).fit(X, y)
    k = est.transform(X).sum(0).argmax()
    whole, share = est.predict(X), est.contributions(X)[:, k, 0]
    est.output_components_[k] = 0
    np.testing.assert_allclose(est.predict(X), whole - share, atol=1e-12)
    # Without its sensing vector the other atoms take over.
    est.components_[k] = 0
    assert not est.transform(X)[:, k].any()
    assert np.abs(est.predict(X) - (whole - share)).max() > 0.01


def test_permuted_atoms_give_the_same_answers(kind):
    X, y = data()
    est = make(**KINDS[kind], transform_tol=1e-12).fit(X, y)
    answer = est.predict(X)
    order = np.random.default_rng(0).permutation(12)
    est.components_ = est.components_[order]
    if kind == "deep":
        est.hidden_components_ = [(U[order], S) for U, S in est.hidden_components_]
    else:
        est.output_components_ = est.output_components_[order]
    np.testing.assert_allclose(est.predict(X), answer, atol=1e-5)


def test_integer_weights_are_repetitions(kind):
    (X, y), w = data(30), np.random.default_rng(0).integers(0, 3, 30)
    est = make(**KINDS[kind])
    weighted = est.fit(X, y, sample_weight=w).predict(X)
    repeated = est.fit(np.repeat(X, w, 0), np.repeat(y, w)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-7)


def test_zero_weight_removes_a_row_whatever_it_holds(kind):
    X, y = data(40)
    est = make(**KINDS[kind])
    removed = est.fit(X[5:], y[5:]).predict(X[5:])
    X[:5], y[:5] = 1e6, -1e6
    w = np.r_[np.zeros(5), np.ones(35)]
    answer = est.fit(X, y, sample_weight=w).predict(X[5:])
    np.testing.assert_array_equal(answer, removed)


def test_order_of_the_rows_of_one_batch_does_not_matter(kind):
    X, y = data()
    est = make(**KINDS[kind])
    answer = est.fit(X, y).predict(X)
    turned = est.fit(X[::-1], y[::-1]).predict(X)
    np.testing.assert_allclose(turned, answer, atol=1e-7)


def test_weights_below_one_on_average_are_relative():
    (X, y), w = data(), np.random.default_rng(0).random(60) + 0.5
    est = make()
    shares = est.fit(X, y, sample_weight=w / w.sum()).predict(X)
    np.testing.assert_allclose(
        shares, est.fit(X, y, sample_weight=w / w.mean()).predict(X), atol=1e-7
    )
    assert est.fit(X, y, sample_weight=np.full(60, 1e-3)).score(X, y) > 0.5


def test_y_may_have_any_unit(kind):
    X, y = data(m=2)
    est = make(**KINDS[kind])
    answer = est.fit(X, y).predict(X)
    scaled = est.fit(X, 1e9 * y).predict(X)
    np.testing.assert_allclose(scaled, 1e9 * answer, rtol=1e-6)
    if est.fit_intercept and kind != "contrastive":
        shifted = est.fit(X, y - 1e3).predict(X)
        np.testing.assert_allclose(shifted, answer - 1e3, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_constant_y_is_answered_exactly(kind, value):
    X, _ = data()
    answer = make(**KINDS[kind]).fit(X, np.full(60, value)).predict(X)
    if kind != "mixed":
        np.testing.assert_allclose(answer, value, rtol=1e-12)
    assert np.isfinite(answer).all()


def test_equal_random_state_gives_equal_models(kind):
    X, y = data(70)
    one, two = (make(**KINDS[kind]).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.output_components_, two.output_components_)


def test_float32_stays_and_follows_float64(kind):
    X, y = data()
    est = make(**KINDS[kind], transform_tol=1e-6)
    wide, narrow = est.fit(X, y), clone(est).fit(X.astype("f"), y.astype("f"))
    answer = narrow.predict(X.astype("f"))
    assert wide.predict(X).dtype == np.float64 and answer.dtype == np.float32
    assert np.abs(answer - wide.predict(X)).mean() < 0.02 * y.std()


def test_rows_do_not_depend_on_each_other(kind):
    X, y = data(12)
    X[::4, ::3] = np.nan
    est = make(**KINDS[kind]).fit(X, y)
    answer = est.predict(X)
    alone = np.concatenate([est.predict(x[None]) for x in X])
    np.testing.assert_allclose(alone, answer, atol=1e-10)
    small = est.set_params(batch_size=3).predict(X[::-1])[::-1]
    np.testing.assert_allclose(small, answer, atol=1e-10)


def test_std_is_posterior_and_noise_together():
    X, y = data(m=2)
    est = make(solver="ard").fit(X, y)
    X[:, 4:] = np.nan
    mean, std = est.predict(X, return_std=True)
    np.testing.assert_allclose(mean, est.predict(X), atol=1e-12)
    for row in range(3):
        variance = posterior_variance(est, X[row])
        expected = np.sqrt(variance + est.noise_variance_)
        np.testing.assert_allclose(std[row], expected, rtol=1e-6)


def posterior_variance(est, x):
    """diag(U Sigma U^T) with Sigma = (D^T D / s2 + diag(1 / gamma))^-1."""
    from skvn.core.network import GROWTH
    from skvn.core.settle_ard import settle_ard

    tensor = lambda a: torch.from_numpy(np.array(a))  # noqa: E731
    seen = ~np.isnan(x)
    post = settle_ard(
        tensor(est.components_.T),
        tensor(np.nan_to_num(x))[None],
        tensor(est.prior_variance_),
        noise=est.noise_,
        floor=est.noise_floor_,
        mask=tensor(seen)[None],
        growth=GROWTH,
    )
    D, U = est.components_[:, seen].T, est.output_components_
    gamma, s2 = post.gamma[0].numpy(), float(post.noise[0])
    Sigma = np.linalg.inv(D.T @ D / s2 + np.diag(1 / gamma))
    return np.diag(U.T @ Sigma @ U)


def test_std_covers_what_is_left_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 8))
    X += 0.1 * rng.standard_normal(X.shape)
    y = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(400)
    est = make(solver="ard", max_iter=20).fit(X[:200], y[:200])
    mean, std = est.predict(X[200:], return_std=True)
    inside = np.abs(mean - y[200:]) < 1.645 * std
    assert 0.75 < inside.mean() < 0.99


def test_std_needs_a_posterior():
    X, y = data()
    with pytest.raises(ValueError, match=r"return_std=True needs .* solver='ard'"):
        make().fit(X, y).predict(X, return_std=True)


@pytest.mark.parametrize("options", [{}, {"solver": "ard"}])
def test_better_than_a_linear_model_where_y_is_not_linear(options):
    X, y = make_friedman1(500, n_features=5, noise=0.5, random_state=0)
    est = VectorNetworkRegressor(random_state=0, **options).fit(X[:400], y[:400])
    linear = Ridge().fit(X[:400], y[:400]).score(X[400:], y[400:])
    assert est.score(X[400:], y[400:]) > linear
