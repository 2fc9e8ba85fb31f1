"""Quality of the two flat estimators on tables that scikit-learn ships.

    python benchmarks/quality.py [--tasks ...] [--quick] [--out benchmarks/results]

Tasks:

``digits``     accuracy of LogisticRegression on atom codes, PCA and raw pixels (5-fold)
``regression`` R^2 on diabetes and Friedman 1-3 (5-fold)
``alpha``      codes of digits and standardised wine: accuracy against alpha, to see
               whether one grid serves both scales

One row per (task, data, method, fold) goes to quality.csv; nothing is tuned on
test folds: settings are the estimators' defaults unless the row's ``settings`` says so.
"""

import argparse
import platform
import time
import warnings
from pathlib import Path

import pandas as pd
import sklearn
import torch
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import (
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skvn
from skvn import VectorNetworkRegressor, VectorNetworkTransformer

VERSIONS = (
    f"skvn {skvn.__version__}, scikit-learn {sklearn.__version__}, "
    f"torch {torch.__version__}, Python {platform.python_version()}"
)


def row(task, data, method, fold, error, fit_time, predict_time, settings=""):
    """One line of the results file."""
    return {
        "task": task,
        "data": data,
        "method": method,
        "fold": fold,
        "value": error,
        "fit_time": round(fit_time, 3),
        "predict_time": round(predict_time, 3),
        "settings": settings,
        "versions": VERSIONS,
    }


def timed(function, *args):
    """Result and seconds."""
    start = time.perf_counter()
    return function(*args), time.perf_counter() - start


def cross_validated(task, data, X, y, models, cv):
    """Test score of every model on every fold."""
    for name, model in models.items():
        for fold, (train, test) in enumerate(cv.split(X, y)):
            fitted, fit_time = timed(clone(model).fit, X[train], y[train])
            score, predict_time = timed(fitted.score, X[test], y[test])
            yield row(task, data, name, fold, score, fit_time, predict_time)


def digits(quick):
    """Accuracy on codes, PCA of the same size, raw pixels."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    head = LogisticRegression(C=10, max_iter=5000)
    models = {"raw pixels": head}
    for K in (64,) if quick else (64, 128):
        codes = VectorNetworkTransformer(K, random_state=0)
        models[f"atom codes, K={K}"] = make_pipeline(codes, head)
    models["PCA, 64"] = make_pipeline(PCA(64, random_state=0), head)
    cv = StratifiedKFold(2 if quick else 5, shuffle=True, random_state=0)
    yield from cross_validated("digits", "digits", X, y, models, cv)


def regression(quick):
    """R^2 on four tables."""
    tables = {"diabetes": load_diabetes(return_X_y=True)}
    if not quick:
        tables |= {
            "friedman1": make_friedman1(1000, noise=1.0, random_state=0),
            "friedman2": make_friedman2(1000, noise=50.0, random_state=0),
            "friedman3": make_friedman3(1000, noise=0.1, random_state=0),
        }
    network = MLPRegressor(hidden_layer_sizes=(100,), max_iter=2000, random_state=0)
    network = TransformedTargetRegressor(network, transformer=StandardScaler())
    vn = {
        "VN hebb": VectorNetworkRegressor(random_state=0),
        "VN ard": VectorNetworkRegressor(solver="ard", random_state=0),
        "VN contrastive": VectorNetworkRegressor(
            n_components=100, alpha=0.1, learning="contrastive", random_state=0
        ),
    }
    models = {
        "Ridge": make_pipeline(StandardScaler(), RidgeCV()),
        "MLPRegressor": make_pipeline(StandardScaler(), network),
        "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    }
    models |= {name: make_pipeline(StandardScaler(), m) for name, m in vn.items()}
    cv = KFold(2 if quick else 5, shuffle=True, random_state=0)
    for data, (X, y) in tables.items():
        yield from cross_validated("regression", data, X, y, models, cv)


def alpha(quick):
    """Accuracy on codes against alpha, for data on two scales."""
    tables = {
        "digits / 16": (load_digits().data / 16, load_digits().target),
        "digits x 100": (load_digits().data * 100, load_digits().target),
        "wine, standardised": (
            StandardScaler().fit_transform(load_wine().data),
            load_wine().target,
        ),
    }
    cv = StratifiedKFold(2 if quick else 5, shuffle=True, random_state=0)
    head = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    for data, (X, y) in tables.items():
        for a in (0.03,) if quick else (0.003, 0.01, 0.03, 0.1, 0.3):
            model = make_pipeline(VectorNetworkTransformer(64, alpha=a, random_state=0))
            model = make_pipeline(model, head)
            yield from cross_validated("alpha", data, X, y, {f"alpha={a}": model}, cv)


TASKS = {f.__name__: f for f in (digits, regression, alpha)}


def main():
    """Run the tasks; write one tidy file and print its summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--quick", action="store_true", help="small, writes nothing")
    parser.add_argument("--out", default="benchmarks/results")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for name in args.tasks:
        for r in TASKS[name](args.quick):
            rows.append(r)
            print(f"{r['task']:11s} {r['data']:20s} {r['method']:32s} {r['value']:.4f}")
    results = pd.DataFrame(rows)
    by = ["task", "data", "method"]
    print(results.groupby(by, sort=False)["value"].agg(["mean", "median", "std"]))
    if not args.quick:
        Path(args.out).mkdir(parents=True, exist_ok=True)
        _merge(Path(args.out) / "quality.csv", results)


def _merge(path, results):
    """Replace the tasks that were run, keep the others."""
    if path.exists():
        old = pd.read_csv(path)
        results = pd.concat([old[~old.task.isin(results.task.unique())], results])
    results.to_csv(path, index=False)


if __name__ == "__main__":
    main()
