"""Baselines that infer an operator (or strengths of laws) per system, and ridge.

A layout says how rows of X hold a system. Those with ``effective_weight`` give the
operator itself, (n, 1, F), as the operator Vector Network does.
"""

import numpy as np
from sklearn.linear_model import RidgeCV

ALPHAS = np.logspace(-6, 2, 9)


class PerSystem:
    """One operator per system from whitened states: the frame of two baselines."""

    def __init__(self, layout):
        self.layout = layout

    def fit(self, X, y):
        """Whiten the states; then ``learn``."""
        z, a, q = self.layout.split(np.nan_to_num(X))
        rows = z[np.abs(z).sum(-1) > 0]
        w, v = np.linalg.eigh(rows.T @ rows / len(rows))
        self.P = (v / np.sqrt(w + 1e-3 * w[-1])) @ v.T
        self.learn(z @ self.P, a, q @ self.P, np.nan_to_num(y))
        return self

    def effective_weight(self, X):
        """Operators in the units of the data."""
        z, a, _ = self.layout.split(np.nan_to_num(X))
        z = z @ self.P
        W = self.operators(z.transpose(0, 2, 1) @ z, np.einsum("nrf,nr->nf", z, a))
        return (W @ self.P)[:, None]

    def predict(self, X):
        """Accelerations at the queries."""
        q = self.layout.split(np.nan_to_num(X))[2]
        return np.einsum("nqf,ncf->nq", q, self.effective_weight(X))


class PerSystemRidge(PerSystem):
    """Ridge regression within each system, penalty chosen on the training queries."""

    n_parameters = 1

    def learn(self, z, a, q, y):
        """Nothing is shared between systems but the whitening and the penalty."""
        G, b = z.transpose(0, 2, 1) @ z, np.einsum("nrf,nr->nf", z, a)
        self.alpha = min(ALPHAS, key=lambda alpha: self._error(alpha, G, b, q, y))
        self.budget = f"penalty {self.alpha:g}"

    def _error(self, alpha, G, b, q, y):
        self.alpha = alpha
        y_hat = np.einsum("nqf,nf->nq", q, self.operators(G, b))
        return np.square(y_hat - y).sum()

    def operators(self, G, b):
        """(G + alpha I)^-1 b."""
        G = G + self.alpha * np.eye(G.shape[-1])
        return np.linalg.solve(G, b[..., None])[..., 0]


class EmpiricalBayes(PerSystem):
    """W ~ N(0, C) with C and the noise of window and queries learned by EM."""

    def __init__(self, layout, two_noises, rounds=100):
        super().__init__(layout)
        self.two_noises, self.rounds = two_noises, rounds

    def learn(self, z, a, q, y):
        """EM on window and query rows."""
        F, parts = z.shape[-1], [(z, a), (q, y)]
        self.n_parameters = F * (F + 1) // 2 + 1 + self.two_noises
        grams = [u.transpose(0, 2, 1) @ u for u, _ in parts]
        pulls = [np.einsum("nrf,nr->nf", u, t) for u, t in parts]
        energy = [np.square(t).sum() for _, t in parts]
        size = np.array([t.size for _, t in parts])
        self.C, self.noise = 0.1 * np.eye(F), np.array([0.05, 0.05])
        for _ in range(self.rounds):
            G = sum(g / s for g, s in zip(grams, self.noise, strict=True))
            b = sum(p / s for p, s in zip(pulls, self.noise, strict=True))
            mean, S = self.posterior(G, b)
            second = mean[:, :, None] * mean[:, None] + S
            self.C = second.mean(0)
            error = [
                e - 2 * (mean * p).sum() + (g * second).sum()
                for e, g, p in zip(energy, grams, pulls, strict=True)
            ]
            self.noise = np.maximum(self._variances(np.array(error), size), 1e-8)

    def _variances(self, error, size):
        """Mean squared errors, apart or pooled."""
        return (
            error / size if self.two_noises else np.repeat(error.sum() / size.sum(), 2)
        )

    def posterior(self, G, b):
        """Mean and covariance of every system's operator."""
        w, v = np.linalg.eigh(self.C)
        L = v * np.sqrt(np.maximum(w, 0))
        S = L @ np.linalg.inv(np.eye(len(w)) + L.T @ G @ L) @ L.T
        return np.einsum("nij,nj->ni", S, b), S

    def operators(self, G, b):
        """Posterior means given the window."""
        return self.posterior(G / self.noise[0], b / self.noise[0])[0]


class PooledRidge:
    """One linear model of all systems.

    It reads the query, its products with the mean over observed rows of response times
    state, and in a window the rows of the same body and coordinate.
    """

    def __init__(self, layout):
        self.layout = layout

    def _rows(self, X):
        z, a, q = self.layout.split(np.nan_to_num(X))
        seen = np.maximum((np.abs(z).sum(-1) > 0).sum(1), 1)
        pooled = np.einsum("nrf,nr->nf", z, a) / seen[:, None]
        n, Q, F = q.shape
        products = (q[..., None] * pooled[:, None, None, :]).reshape(n, Q, F * F)
        n_steps = a.shape[1] // Q
        own = np.concatenate([z, a[..., None]], -1)[:, : n_steps * Q]
        own = own.reshape(n, n_steps, Q, F + 1).swapaxes(1, 2)
        own = own.reshape(n, Q, n_steps * (F + 1))
        rows = np.concatenate([q, own, products], -1)
        return rows.reshape(n * Q, rows.shape[-1])

    def fit(self, X, y):
        """Penalty by generalised cross-validation."""
        there = ~np.isnan(y).ravel()
        ridge = RidgeCV(ALPHAS, fit_intercept=False)
        self.ridge = ridge.fit(self._rows(X)[there], y.ravel()[there])
        self.n_parameters = ridge.coef_.size
        self.budget = f"penalty {ridge.alpha_:g}"
        return self

    def predict(self, X):
        """Accelerations at the queries."""
        return self.ridge.predict(self._rows(X)).reshape(len(X), -1)


class TrueLaws:
    """The true laws; ridge estimates of their strengths with the true noise.

    ``strengths(X)`` gives the ridge problem, ``laws(X)`` the accelerations at the
    queries under every law at nominal strength, (n, 4, 8).
    """

    n_parameters = 0

    def __init__(self, observed, laws, penalty):
        self.observed, self.laws, self.penalty = observed, laws, penalty

    def fit(self, X, y):
        """Nothing to learn."""
        return self

    def strengths(self, X):
        """One number per law."""
        D, a = self.observed(X)
        G = D.transpose(0, 2, 1) @ D + self.penalty * np.eye(D.shape[-1])
        return np.linalg.solve(G, np.einsum("nrk,nr->nk", D, a)[..., None])[..., 0]

    def predict(self, X):
        """Accelerations at the queries."""
        return np.einsum("nk,nkq->nq", self.strengths(X), self.laws(X))
