"""Neighbours and imputers of rows with holes, and ridge regression on masked rows."""

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import RidgeCV


class Neighbours:
    """Mean of the ``k`` training rows nearest by seen entries, weighed by 1/distance.

    With y given to ``fit``, the mean of their y.
    """

    def __init__(self, k=5):
        self.k = k

    def fit(self, X, y=None):
        """Remember complete rows."""
        self.X, self.y = X, X if y is None else y
        self.n_parameters = X.size + (0 if y is None else np.size(y))
        return self

    def predict(self, X):
        """In pieces of 500 rows."""
        parts = [X[i : i + 500] for i in range(0, len(X), 500)]
        return np.concatenate([self._predict(x) for x in parts])

    def _predict(self, X):
        seen, x = (~np.isnan(X)).astype(X.dtype), np.nan_to_num(X)
        square = seen @ (self.X**2).T - 2 * x @ self.X.T + (x**2).sum(1)[:, None]
        near = np.argpartition(square, self.k - 1, axis=1)[:, : self.k]
        distance = np.sqrt(np.maximum(np.take_along_axis(square, near, 1), 1e-12))
        weight = 1 / distance
        weight /= weight.sum(1, keepdims=True)
        return np.einsum("nk,nk...->n...", weight, self.y[near])


class Imputer:
    """scikit-learn's ``IterativeImputer`` ("iterative") or ``KNNImputer`` ("knn").

    The iterative one learns from rows with holes, or its rounds would end at once.
    """

    def __init__(self, kind, hide, seed=0, *, max_rows=None, rounds=10):
        self.kind, self.hide, self.seed = kind, hide, seed
        self.max_rows, self.rounds = max_rows, rounds

    def fit(self, X, y=None):
        """On at most ``max_rows`` rows."""
        X = X[: self.max_rows]
        if self.kind == "knn":
            self.model = KNNImputer(n_neighbors=5, weights="distance").fit(X)
            self.n_parameters = X.size
            return self
        self.model = IterativeImputer(max_iter=self.rounds, random_state=self.seed)
        self.model.fit(self.hide(X, self.seed))
        self.n_parameters = X.shape[1] ** 2
        return self

    def predict(self, X):
        """Rows with holes filled."""
        return self.model.transform(X)


class MaskedRidge:
    """Ridge regression from (entries or 0, mask) to the complete row."""

    def __init__(self, hide, seed=0, copies=2):
        self.hide, self.seed, self.copies = hide, seed, copies

    def fit(self, X, y=None):
        """On several masked copies of every row; y defaults to X."""
        y = X if y is None else y
        seeds = range(self.seed, self.seed + self.copies)
        inputs = np.concatenate([_features(self.hide(X, s)) for s in seeds])
        self.model = RidgeCV(np.logspace(-4, 3, 8))
        self.model.fit(inputs, np.concatenate([y] * self.copies))
        self.n_parameters = self.model.coef_.size + np.size(self.model.intercept_)
        return self

    def predict(self, X):
        """Linear answers."""
        return self.model.predict(_features(X))


def _features(X):
    return np.concatenate([np.nan_to_num(X), ~np.isnan(X)], 1)
