"""Vector Networks of the n-body task, and what their atoms stand for."""

import numpy as np
import pandas as pd
from _nbody_data import INDICATOR, N_QUERIES, read_states
from _runner import count_parameters, relative_error

from skvn import VectorNetworkOperatorRegressor

L1_GRID = (0.002, 0.01, 0.03, 0.1)


class TunedL1:
    """l1 settle; penalty at prediction chosen on a tenth of the training systems."""

    def __init__(self, n_components=6, grid=L1_GRID, max_iter=40, **options):
        self.model = VectorNetworkOperatorRegressor(
            n_components, solver="l1", max_iter=max_iter, **options
        )
        self.grid = grid

    def fit(self, X, y):
        """Fit, then choose."""
        n = len(X) // 10
        self.model.fit(X[:-n], y[:-n])
        errors = [self._error(alpha, X[-n:], y[-n:]) for alpha in self.grid]
        self._error(self.grid[int(np.argmin(errors))], X[-n:], y[-n:])
        self.n_parameters = count_parameters(self.model)
        self.budget = f"penalty at prediction {self.model.transform_alpha}"
        return self

    def _error(self, alpha, X, y):
        self.model.set_params(transform_alpha=alpha)
        return relative_error(self.predict(X), y)

    def predict(self, X):
        """Accelerations at the queries."""
        return self.model.predict(X)

    def effective_weight(self, X):
        """Operators (n, 1, F)."""
        return self.model.effective_weight(X)


class FlatProducts:
    """A flat regressor, one query a row: strengths, state and their products."""

    def __init__(self, model, max_rows=8000):
        self.model, self.max_rows = model, max_rows

    def _rows(self, X):
        _, c, q = INDICATOR.split(np.nan_to_num(X))
        q = q[..., :-4]
        c = np.broadcast_to(c[:, None], (*q.shape[:2], 4))
        products = (c[..., None] * q[..., None, :]).reshape(*q.shape[:2], -1)
        return np.concatenate([c, q, products], -1).reshape(len(X) * N_QUERIES, -1)

    def fit(self, X, y):
        """On the first rows."""
        n = self.max_rows
        self.model.fit(self._rows(X)[:n], y.ravel()[:n])
        self.n_parameters = count_parameters(self.model)
        return self

    def predict(self, X):
        """Accelerations at the queries."""
        return self.model.predict(self._rows(X)).reshape(len(X), -1)


def atoms_table(X, y, layout, method):
    """Which force owns each atom, and what happens without the atoms of one force.

    ``X``, ``y``: systems under one force each. A method separates forces if deleting
    the atoms of any force loses it and no other.
    """
    vn = getattr(method.model, "model", method.model)
    if not isinstance(vn, VectorNetworkOperatorRegressor):
        return {}
    X_vn, q = method.inputs(X), layout.split(np.nan_to_num(method.inputs(X)))[2]
    codes, force = vn.transform(X_vn), np.abs(read_states(X).strength).argmax(1)
    energy = np.stack([np.square(codes[force == j]).mean(0) for j in range(4)])
    share = energy / np.maximum(energy.sum(0), 1e-30)
    owner, error = share.argmax(0), np.empty((4, 4))
    for i in range(4):
        W = np.einsum("nk,kf->nf", codes * (owner != i), vn.atoms_[:, 0])
        y_hat = np.einsum("nqf,nf->nq", q, W)
        for j in range(4):
            error[i, j] = relative_error(y_hat[force == j], y[force == j])
    own, other = np.diag(error).min(), error[~np.eye(4, dtype=bool)].max()
    table = {
        "n_atoms": vn.n_components_,
        "forces_owned": len(set(owner)),
        "smallest_share": share.max(0).min(),
        "own_error_without": own,
        "largest_other_error_without": other,
        "separated": bool(own > 0.9 and other < 0.1),
    }
    return {"atoms": pd.DataFrame([table])}
