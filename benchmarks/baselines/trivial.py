"""Answers that cost nothing, and the Wiener filter at a known noise."""

import numpy as np

from .gaussian import GaussianConditional


class Given:
    """The last ``n`` columns of X; all of them by default."""

    n_parameters = 0

    def __init__(self, n=None):
        self.n = n

    def fit(self, X, y=None):
        """Nothing to learn."""
        return self

    def predict(self, X):
        """As given."""
        return X if self.n is None else X[:, -self.n :]


class HalfOfTheSum(Given):
    """Both parts are half of what is given, which ends with two classes."""

    def predict(self, X):
        """(n, 2 d)."""
        return np.tile(X[:, :-2] / 2, 2)


class Wiener(GaussianConditional):
    """The mean of a Gaussian given noisy rows; ``noise`` is a standard deviation."""

    def __init__(self, noise, *, centred=True):
        super().__init__(centred=centred)
        self.noise = noise

    def fit(self, X, y=None):
        """On clean rows."""
        super().fit(X)
        self.ridge = self.noise**2 * X.shape[1] / np.trace(self.covariance)
        return self
