"""When a fit stops, which state it keeps, what it prints and warns."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning

from skvn import VectorNetworkRegressor, VectorNetworkTransformer
from skvn._progress import Progress

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BOTH = [VectorNetworkTransformer, VectorNetworkRegressor]


def make(cls, **options):
    return cls(**({"n_components": 8, "max_iter": 3, "random_state": 0} | options))


def data(n=150, seed=0):
    return make_friedman1(n, n_features=5, random_state=seed)


# --- Progress ----------------------------------------------------------------------


def run(values, **options):
    progress = Progress(**({"tol": 0.1, "patience": 2} | options))
    for n, value in enumerate(values, 1):
        if progress.update(value, lambda n=n: n):
            return n, progress
    return None, progress


def test_stops_after_patience_epochs_without_enough_progress():
    assert run([10, 8, 7.9, 7.8])[0] == 4
    assert run([10, 8, 7.9, 6, 5.9, 5.8])[0] == 6
    assert run([10, 8, 6, 4, 2])[0] is None
    assert run([1, 1], patience=1)[0] == 2


def test_negative_values_are_scores():
    assert run([-0.5, -0.6, -0.61, -0.62])[0] == 4
    assert run([0.0, 0.0, 0.0])[0] == 3


def test_without_tolerance_every_improvement_counts():
    assert run([3, 2.999, 2.998, 2.997], tol=0.0)[0] is None


def test_the_best_state_is_kept():
    assert run([3, 1, 2], keep_best=True)[1].best_state == 2
    assert run([3, 1, 2])[1].best_state is None


@given(st.lists(st.floats(-10, 10), min_size=1), st.floats(0, 1), st.integers(1, 4))
def test_best_is_the_minimum_so_far(values, tol, patience):
    stop, progress = run(values, tol=tol, patience=patience, keep_best=True)
    seen = values[:stop]
    assert progress.best == min(seen)
    assert seen[progress.best_state - 1] == min(seen)
    assert stop is None or stop > patience


# --- in fit ------------------------------------------------------------------------


@pytest.mark.parametrize("cls", BOTH)
def test_warns_only_if_max_iter_was_hit(cls):
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="max_iter=2 .* tol=0.001. Increase"):
        make(cls, max_iter=2).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = make(cls, max_iter=200).fit(X, y)
    assert est.n_iter_ < 200


@quiet
@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("options", [{}, {"solver": "ard"}, {"early_stopping": True}])
def test_curves_have_one_entry_per_epoch(cls, options):
    X, y = data()
    est = make(cls, **options).fit(X, y)
    assert est.n_iter_ == len(est.loss_curve_) == 3
    held_out = options.get("early_stopping", False)
    assert hasattr(est, "validation_scores_") == held_out
    if held_out:
        assert len(est.validation_scores_) == 3


@quiet
@pytest.mark.parametrize("cls", BOTH)
def test_a_new_fit_leaves_nothing_of_the_old_one(cls):
    X, y = data()
    est = make(cls, solver="ard", early_stopping=True).fit(X, y)
    est.partial_fit(X, y)
    assert not hasattr(est, "validation_scores_")
    est.set_params(solver="l1", early_stopping=False).fit(X, y)
    assert vars(est).keys() == vars(make(cls, solver="l1").fit(X, y)).keys()


@quiet
def test_the_contrastive_stage_has_its_own_epochs():
    X, y = data()
    est = make(VectorNetworkRegressor, learning="contrastive").fit(X, y)
    assert est.n_iter_ == len(est.loss_curve_) == 6


@quiet
def test_two_phase_steps_lower_the_prediction_loss():
    X, y = data()
    hebb = make(VectorNetworkRegressor, max_iter=8).fit(X, y)
    est = make(VectorNetworkRegressor, learning="contrastive", max_iter=8).fit(X, y)
    first, last = est.loss_curve_[hebb.n_iter_], est.loss_curve_[-1]
    assert last < first
    assert est.score(X, y) > hebb.score(X, y)


@quiet
def test_the_loss_falls():
    X, _ = data()
    curve = make(VectorNetworkTransformer, max_iter=10).fit(X).loss_curve_
    assert curve[-1] < curve[1] < curve[0]


@quiet
@pytest.mark.parametrize("cls", BOTH)
def test_early_stopping_keeps_the_best_state(cls):
    X, y = data()
    options = {"early_stopping": True, "validation_fraction": 0.3, "tol": 0.0}
    est = make(cls, max_iter=8, n_iter_no_change=8, **options).fit(X, y)
    best = int(np.argmax(est.validation_scores_))
    short = make(cls, max_iter=best + 1, n_iter_no_change=8, **options).fit(X, y)
    np.testing.assert_array_equal(est.components_, short.components_)
    assert len(est.validation_scores_) == 8


@quiet
def test_early_stopping_on_a_single_row():
    X, y = data()
    options = {"early_stopping": True, "validation_fraction": 1e-6}
    est = make(VectorNetworkRegressor, **options).fit(X, y)
    assert np.isfinite(est.validation_scores_).all()
    assert min(est.validation_scores_) > -1e9
    assert est.score(X, y) > 0.3


@quiet
@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("solver", ["l1", "ard"])
def test_warm_start_goes_on(cls, solver):
    X, y = data()
    cold = make(cls, solver=solver, max_iter=8).fit(X, y)
    warm = make(cls, solver=solver, max_iter=8, warm_start=True).fit(X, y)
    steps = warm.n_steps_
    warm.fit(X, y)
    assert warm.loss_curve_[0] < 1.1 * cold.loss_curve_[-1]
    assert warm.loss_curve_[0] < cold.loss_curve_[0]
    assert warm.n_steps_ > steps
    again = make(cls, solver=solver, max_iter=8).fit(X, y).fit(X, y)
    np.testing.assert_array_equal(again.components_, cold.components_)


@quiet
@pytest.mark.parametrize("cls", BOTH)
def test_verbose_prints_one_line_per_epoch(cls, capsys):
    X, y = data()
    make(cls).fit(X, y)
    assert capsys.readouterr() == ("", "")
    est = make(cls, verbose=True).fit(X, y)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == est.n_iter_ and not err
    assert lines[0].startswith(f"[{cls.__name__}] epoch 1, loss ")
    assert float(lines[-1].split()[-1]) == pytest.approx(est.loss_curve_[-1], 1e-5)


# --- partial_fit -------------------------------------------------------------------


@quiet
@pytest.mark.parametrize(
    "options", [{}, {"solver": "ard"}, {"learning": "contrastive"}], ids=str
)
def test_a_stream_becomes_about_as_good_as_a_fit(options):
    X, y = data(1200)
    train, test = slice(1000), slice(1000, None)
    options = {"n_components": 10, "max_iter": 10, **options}
    fitted = make(VectorNetworkRegressor, **options).fit(X[train], y[train])
    stream = make(VectorNetworkRegressor, **options)
    for start in range(0, 1000, 50):
        part = slice(start, start + 50)
        stream.partial_fit(X[part], y[part])
    assert stream.n_iter_ == 20 and len(stream.loss_curve_) == 20
    reached = stream.score(X[test], y[test])
    assert reached > fitted.score(X[test], y[test]) - 0.12


@quiet
def test_a_stream_reconstructs_about_as_well_as_a_fit():
    X, _ = data(600)
    fitted = make(VectorNetworkTransformer, max_iter=20).fit(X)
    stream = make(VectorNetworkTransformer)
    for start in range(0, 600, 50):
        stream.partial_fit(X[start : start + 50])
    assert stream.score(X) > 1.5 * fitted.score(X)


@quiet
@pytest.mark.parametrize("cls", BOTH)
def test_fit_forgets_partial_fit(cls):
    X, y = data()
    expected = make(cls).fit(X, y)
    est = make(cls).partial_fit(X, y).fit(X, y)
    np.testing.assert_array_equal(est.components_, expected.components_)
    assert est.n_iter_ == 3 and len(est.loss_curve_) == 3


@quiet
@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("solver", ["l1", "ard"])
def test_partial_fit_goes_on_from_fit(cls, solver):
    X, y = data()
    est = make(cls, solver=solver, max_iter=10).fit(X, y)
    score, steps, epochs = est.score(X, y), est.n_steps_, est.n_iter_
    est.partial_fit(X[:64], y[:64])
    assert est.n_steps_ == steps + 1
    assert len(est.loss_curve_) == est.n_iter_ == epochs + 1
    assert est.score(X, y) > score - 0.15 * abs(score)


@quiet
def test_ard_streams_hide_other_columns_in_every_step():
    X, _ = data(40)
    est = make(VectorNetworkTransformer, solver="ard")
    draws = []
    for _ in range(6):
        draws.append(int(est._generator(getattr(est, "n_steps_", 0)).initial_seed()))
        est.partial_fit(X)
    assert len(set(draws)) == 6
