"""Quality of the two flat estimators on data that scikit-learn ships (and one task).

    python benchmarks/quality.py [--tasks ...] [--quick] [--out benchmarks/results]

Tasks:

``digits``     accuracy of LogisticRegression on atom codes, PCA and raw pixels (5-fold)
``regression`` R^2 on diabetes and Friedman 1-3 (5-fold)
``halves``     squared error of a hidden half of unseen digits, relative to its energy
               (5-fold)
``functions``  the same for a hidden block of signals that are sums of unseen pairs and
               triples of families; models saw singles and two other pairs (3 seeds)
``alpha``      codes of digits and standardised wine: accuracy against alpha, to see
               whether one grid serves both scales

One row per (task, data, method, fold or seed) goes to quality.csv; nothing is tuned on
test folds: settings are the estimators' defaults unless the row's ``settings`` says so.
"""

import argparse
import platform
import time
import warnings
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
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
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skvn
from skvn import VectorNetworkRegressor, VectorNetworkTransformer
from skvn.__main__ import gaussian_conditional
from skvn.datasets import hide_entries, hide_halves, make_functions

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


def halves(quick):
    """Error of hidden halves of unseen digits."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    cv = StratifiedKFold(2 if quick else 5, shuffle=True, random_state=0)
    for fold, (train, test) in enumerate(islice(cv.split(X, y), 1 if quick else 5)):
        X_missing = hide_halves(X[test], random_state=fold)
        for name, fill in _fillers(X[train], quick).items():
            filled, seconds = timed(fill, X_missing)
            error = _hidden_error(filled, X[test], X_missing)
            yield row("halves", "digits", name, fold, error, seconds, seconds)


def _fillers(X, quick):
    """Functions that fill rows, each fitted on the complete training rows X."""
    repeats = 1 if quick else 3
    inputs = np.concatenate([hide_halves(X, 100 + k) for k in range(repeats)])
    targets = np.concatenate([X] * repeats)
    vn = {"n_components": 128, "random_state": 0}
    regress = {"fit_intercept": False, "learning": "contrastive"}
    return {
        "KNNImputer": lambda Z: (
            KNNImputer(n_neighbors=10, weights="distance").fit(X).transform(Z)
        ),
        "IterativeImputer": lambda Z: IterativeImputer(max_iter=10).fit(X).transform(Z),
        "Gaussian conditional": lambda Z: gaussian_conditional(X, Z),
        "VN transformer, l1": lambda Z: (
            VectorNetworkTransformer(**vn).fit(X).reconstruct(Z)
        ),
        "VN transformer, ard": lambda Z: (
            VectorNetworkTransformer(solver="ard", **vn).fit(X).reconstruct(Z)
        ),
        "VN regressor, contrastive": lambda Z: (
            VectorNetworkRegressor(**vn, **regress).fit(inputs, targets).predict(Z)
        ),
    }


def _hidden_error(filled, true, missing):
    """Squared error of the hidden entries as a share of their energy."""
    hidden = np.isnan(missing)
    return np.square(filled - true)[hidden].sum() / np.square(true)[hidden].sum()


def functions(quick):
    """Hidden block of unseen sums, the task "wide", through the public estimators."""
    n, seeds = (600, 1) if quick else (6000, 3)
    for seed in range(seeds):
        X, _ = make_functions(n, "train", random_state=100 + seed)
        models = {
            "VN transformer, ard": VectorNetworkTransformer(
                n // 4 if quick else 256, solver="ard", random_state=seed
            ),
            "VN transformer, l1": VectorNetworkTransformer(
                n // 4 if quick else 256,
                alpha=0.002,
                positive_code=False,
                random_state=seed,
            ),
        }
        for name, model in models.items():
            _, fit_time = timed(model.fit, X)
            yield from _unseen(name, model.reconstruct, seed, fit_time)
        gauss = partial(gaussian_conditional, X, ridge=1e-6)
        yield from _unseen("Gaussian conditional, ridge 1e-6", gauss, seed, 0.0)


def _unseen(name, fill, seed, fit_time):
    """Errors of one fitted model on every kind of signal."""
    for kind in ("singles", "id_pairs", "pairs", "triples", "nested"):
        _, clean = make_functions(400, kind, random_state=200 + seed)
        missing = hide_entries(clean, "block", random_state=300 + seed)
        filled, seconds = timed(fill, missing)
        error = _hidden_error(filled, clean, missing)
        yield row("functions", kind, name, seed, error, fit_time, seconds)


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


TASKS = {f.__name__: f for f in (digits, regression, halves, functions, alpha)}


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
