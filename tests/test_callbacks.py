"""scikit-learn's callbacks: progress bars, score monitors, stopping, interruptions."""

import numpy as np
import pytest
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skvn import VectorNetworkRegressor, VectorNetworkTransformer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CONFIGURATIONS = [
    (VectorNetworkTransformer, {}),
    (VectorNetworkTransformer, {"solver": "ard"}),
    (VectorNetworkTransformer, {"n_components": (8, 4), "max_sweeps": 1}),
    (VectorNetworkRegressor, {}),
    (VectorNetworkRegressor, {"solver": "ard"}),
    (VectorNetworkRegressor, {"learning": "contrastive"}),
    (VectorNetworkRegressor, {"beta": 0.5}),
]
RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((60, 5)))
Y = X @ RNG.standard_normal(5) + np.abs(X[:, 0] - 1)


class StopAfter:
    """Stops every fit after some epochs."""

    def __init__(self, epochs, error=None):
        self.epochs, self.error, self.attributes = epochs, error, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "epoch" or context.task_id + 1 < self.epochs:
            return False
        if self.error is not None:
            raise self.error
        return True


def make(cls, **options):
    return cls(**({"n_components": 8, "max_iter": 6, "random_state": 0} | options))


def scoring(estimator, X, y):
    return {"score": estimator.score(X, y)}


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_a_score_monitor_sees_every_epoch_and_changes_nothing(cls, options):
    monitor = ScoringMonitor(scoring=scoring)
    plain = make(cls, **options).fit(X, Y)
    watched = make(cls, **options).set_callbacks(monitor).fit(X, Y)
    np.testing.assert_array_equal(plain.components_, watched.components_)
    np.testing.assert_array_equal(plain.transform(X), watched.transform(X))
    assert watched.loss_curve_ == plain.loss_curve_
    log = [row for row in monitor.get_logs().data if row["task_name"] == "epoch"]
    assert len(log) == plain.n_iter_
    if not options.get("early_stopping"):
        assert log[-1]["score"] == pytest.approx(plain.score(X, Y), rel=1e-9)


def test_a_score_monitor_by_name_on_the_regressor():
    monitor = ScoringMonitor(scoring=["r2", "neg_mean_absolute_error"])
    make(VectorNetworkRegressor).set_callbacks(monitor).fit(X, Y)
    assert monitor.get_logs().data[0]["r2"] > 0


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS[2:6], ids=str)
def test_a_progress_bar_runs(cls, options, capsys):
    make(cls, **options).set_callbacks(ProgressBar()).fit(X, Y)
    assert cls.__name__ in capsys.readouterr().out


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_a_callback_stops_the_fit(cls, options):
    est = make(cls, **options).set_callbacks(StopAfter(2)).fit(X, Y)
    assert est.n_iter_ == len(est.loss_curve_) == 2
    if options.get("learning") != "contrastive":
        short = make(cls, **options | {"max_iter": 2}).fit(X, Y)
        assert np.isfinite(est.transform(X)).all()
        assert est.loss_curve_ == pytest.approx(short.loss_curve_)


def test_a_callback_stops_the_two_phase_stage_too():
    hebb = make(VectorNetworkRegressor).fit(X, Y).n_iter_
    est = make(VectorNetworkRegressor, learning="contrastive")
    est.set_callbacks(StopAfter(hebb + 2)).fit(X, Y)
    assert est.n_iter_ == hebb + 2


@pytest.mark.parametrize(
    ("cls", "n_jobs"),
    [(VectorNetworkTransformer, None), (VectorNetworkRegressor, 2)],
)
def test_a_callback_stops_inside_a_pipeline_and_a_grid_search(cls, n_jobs):
    est = make(cls).set_callbacks(StopAfter(2))
    pipe = make_pipeline(StandardScaler(), est).fit(X, Y)
    assert pipe[-1].n_iter_ == 2
    grid = {f"{cls.__name__.lower()}__alpha": [0.01, 0.1]}
    search = GridSearchCV(pipe, grid, cv=2, n_jobs=n_jobs).fit(X, Y)
    assert search.best_estimator_[-1].n_iter_ == 2


@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=str)
def test_nothing_of_a_callback_stays_behind(cls, options):
    est = make(cls, **options).set_callbacks(ScoringMonitor(scoring=scoring))
    est.fit(X, Y).set_callbacks()
    assert vars(est).keys() == vars(make(cls, **options).fit(X, Y)).keys()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS[2:5], ids=str)
def test_an_interrupted_fit_leaves_the_earlier_fit(cls, options, error):
    est = make(cls, **options).fit(X, Y)
    before = dict(vars(est))
    codes = est.transform(X)
    est.set_callbacks(StopAfter(3, error("stop")))
    with pytest.raises(error):
        est.fit(2 * X[:, :3], Y)
    est.set_callbacks()
    assert vars(est).keys() == before.keys()
    assert all(before[name] is vars(est)[name] for name in before)
    np.testing.assert_array_equal(est.transform(X), codes)


def test_an_interrupted_first_fit_leaves_an_unfitted_estimator():
    est = make(VectorNetworkRegressor).set_callbacks(StopAfter(1, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        est.fit(X, Y)
    assert vars(est.set_callbacks()) == est.get_params()
