"""Gaussian models: conditional means of hidden entries, and the Wiener filter."""

import numpy as np
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture


def conditional_mean(mean, covariance, noise, X):
    """E[z | seen entries of X] and their log density, for x = z + white noise.

    z has all entries; rows of X that hide the same entries are solved together. The
    log density is per row, up to a constant that depends on the row's mask alone.
    """
    z, log_density = np.empty_like(X), np.empty(len(X))
    masks, member = np.unique(~np.isnan(X), axis=0, return_inverse=True)
    for k, seen in enumerate(masks):
        rows = np.flatnonzero(member.ravel() == k)
        A = covariance[np.ix_(seen, seen)] + noise * np.eye(seen.sum())
        r = X[np.ix_(rows, seen)] - mean[seen]
        w = np.linalg.solve(A, r.T).T
        z[rows] = mean + w @ covariance[seen]
        log_density[rows] = -0.5 * ((w * r).sum(1) + np.linalg.slogdet(A)[1])
    return z, log_density


class GaussianConditional:
    """Mean of what is hidden given what is seen, under one Gaussian.

    ``ridge`` is a white noise variance, as a share of the mean variance; with
    ``centred=False`` the mean is 0. With nothing hidden this is the Wiener filter.
    """

    def __init__(self, ridge=1e-6, *, centred=True):
        self.ridge, self.centred = ridge, centred

    def fit(self, X, y=None):
        """Mean and covariance of complete rows."""
        self.mean = X.mean(0) if self.centred else np.zeros(X.shape[1])
        self.covariance = (X - self.mean).T @ (X - self.mean) / len(X)
        self.n_parameters = X.shape[1] * (X.shape[1] + 3) // 2
        return self

    def predict(self, X):
        """Rows as the Gaussian explains them."""
        noise = self.ridge * np.trace(self.covariance) / X.shape[1]
        return conditional_mean(self.mean, self.covariance, noise, X)[0]


class MixtureConditional:
    """The same under a mixture of full-covariance Gaussians."""

    def __init__(self, n_components=32, seed=0, ridge=1e-6):
        self.n_components, self.seed, self.ridge = n_components, seed, ridge

    def fit(self, X, y=None):
        """By expectation maximisation."""
        mixture = GaussianMixture(
            self.n_components, reg_covar=self.ridge, random_state=self.seed
        )
        self.mixture = mixture.fit(X)
        d = X.shape[1]
        self.n_parameters = self.n_components * (1 + d * (d + 3) // 2)
        return self

    def predict(self, X):
        """Component means weighed by how well each explains what is seen."""
        mixture, noise = self.mixture, 1e-9
        pairs = zip(mixture.means_, mixture.covariances_, strict=True)
        answers = [conditional_mean(mean, C, noise, X) for mean, C in pairs]
        log = np.array([a[1] for a in answers]) + np.log(mixture.weights_)[:, None]
        weight = np.exp(log - logsumexp(log, axis=0))
        return sum(w[:, None] * a[0] for w, a in zip(weight, answers, strict=True))
