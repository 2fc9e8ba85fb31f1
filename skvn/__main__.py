"""The main job on real data: ``python -m skvn``.

Reads handwritten digits through sparse atom codes, then fills a hidden half of
digits it has never seen, beside two standard methods.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from . import VectorNetworkRegressor, VectorNetworkTransformer
from .datasets import hide_halves


def read_digits(X_train, X_test, y_train, y_test, quick):
    """Grid search over alpha and n_components of a Pipeline; returns it fitted."""
    pipeline = make_pipeline(
        MaxAbsScaler(),
        VectorNetworkTransformer(solver="l1", random_state=0),
        LogisticRegression(C=10, max_iter=2000),
    )
    grid = {
        "vectornetworktransformer__alpha": [0.03] if quick else [0.01, 0.03, 0.1],
        "vectornetworktransformer__n_components": [64] if quick else [64, 128],
    }
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(X_train, y_train)
    raw = make_pipeline(MaxAbsScaler(), LogisticRegression(C=10, max_iter=2000))
    raw.fit(X_train, y_train)
    best = {k.split("__")[1]: v for k, v in search.best_params_.items()}
    print(f"  best of {len(search.cv_results_['params'])} settings: {best}")
    print(f"  test accuracy, raw pixels   {raw.score(X_test, y_test):.3f}")
    print(f"  test accuracy, atom codes   {search.score(X_test, y_test):.3f}")
    return search.best_estimator_


def gaussian_conditional(X_train, X_missing, ridge=1e-2):
    """Fill every row with its conditional mean under one Gaussian."""
    mean = X_train.mean(0)
    C = np.cov(X_train.T) + ridge * np.eye(X_train.shape[1])
    filled = X_missing.copy()
    for row in filled:
        hidden, seen = np.isnan(row), ~np.isnan(row)
        r = row[seen] - mean[seen]
        solved = np.linalg.solve(C[np.ix_(seen, seen)], r)
        row[hidden] = mean[hidden] + C[np.ix_(hidden, seen)] @ solved
    return filled


def fillers(X_train, quick):
    """Functions that fill rows, each learning from the complete rows X_train."""
    repeats = 1 if quick else 2
    inputs = np.concatenate([hide_halves(X_train, k) for k in range(repeats)])
    targets = np.concatenate([X_train] * repeats)
    options = {"n_components": 128, "random_state": 0}
    regressor = VectorNetworkRegressor(
        learning="contrastive", fit_intercept=False, max_iter=30, tol=3e-3, **options
    )
    transformer = VectorNetworkTransformer(solver="ard", **options)
    knn = KNNImputer(n_neighbors=10, weights="distance")
    return {
        "KNNImputer": lambda X: knn.fit(X_train).transform(X),
        "Gaussian conditional": lambda X: gaussian_conditional(X_train, X),
        "VectorNetworkTransformer": lambda X: transformer.fit(X_train).reconstruct(X),
        "VectorNetworkRegressor": lambda X: regressor.fit(inputs, targets).predict(X),
    }


def fill_digits(X_train, X_test, quick):
    """Fill hidden halves by each method; prints errors, returns the images."""
    X_missing = hide_halves(X_test, random_state=1)
    hidden = np.isnan(X_missing)
    energy = np.square(X_test[hidden]).sum()
    print("  squared error of the hidden pixels, as a share of their energy")
    for name, fill in fillers(X_train, quick).items():
        start = time.perf_counter()
        X_hat = fill(X_missing)
        error = np.square(X_hat - X_test)[hidden].sum() / energy
        print(f"    {name:25s} {error:.3f}   ({time.perf_counter() - start:.0f} s)")
    return X_missing, np.where(hidden, X_hat, X_test)


def draw(atoms, X_test, X_missing, X_filled, path):
    """Picture of 64 atoms above 16 digits: true, half hidden, filled."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    atoms = atoms / np.abs(atoms).max(1, keepdims=True)
    digits = {"true": X_test, "half hidden": X_missing, "filled": X_filled}
    rows = [("atoms", a, "RdBu_r", -1) for a in np.split(atoms[:64], 4)]
    rows += [(name, X[:16], "gray_r", 0) for name, X in digits.items()]
    figure, axes = plt.subplots(7, 16, figsize=(12, 5.4))
    for (name, images, colours, low), line in zip(rows, axes, strict=True):
        for axis, image in zip(line, images, strict=True):
            axis.imshow(image.reshape(8, 8), cmap=colours, vmin=low, vmax=1)
            axis.set_axis_off()
        line[0].text(-2, 4, name, ha="right", va="center")
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main():
    """Run both jobs and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m skvn", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller grid, seconds")
    parser.add_argument("--out", default="skvn_demo.png", help="picture to write")
    args = parser.parse_args()
    start = time.perf_counter()
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        np.float32(X / 16), y, test_size=1 / 3, random_state=0, stratify=y
    )
    print("1. Reading digits (Pipeline: scaler, atom codes, LogisticRegression)")
    pipeline = read_digits(X_train, X_test, y_train, y_test, args.quick)
    print("2. Filling a hidden half of digits not seen in training")
    X_missing, X_filled = fill_digits(X_train, X_test, args.quick)
    draw(pipeline[1].components_, X_test, X_missing, X_filled, args.out)
    print(f"Picture: {args.out}   ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
