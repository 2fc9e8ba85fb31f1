"""Learned parts without a network: sparse coding with holes, NMF, PCA at a budget."""

import numpy as np
from sklearn.decomposition import NMF, PCA, MiniBatchDictionaryLearning


def masked_lasso(D, X, penalty, n_steps=1000, tol=1e-5):
    """argmin 1/2 |M (x - D^T g)|^2 + penalty |g|_1 per row, by FISTA with restarts.

    Stops when no code moves by more than ``tol`` of the largest one.
    """
    seen, x = ~np.isnan(X), np.nan_to_num(X)
    step = 1 / np.linalg.norm(D, 2) ** 2
    g = momentum = np.zeros((len(X), len(D)), X.dtype)
    t = np.ones((len(X), 1), X.dtype)
    for _ in range(n_steps):
        v = momentum + step * ((x - momentum @ D) * seen) @ D.T
        new = np.sign(v) * np.maximum(np.abs(v) - step * penalty, 0)
        move = new - g
        uphill = ((momentum - new) * move).sum(1, keepdims=True) > 0
        t = np.where(uphill, 1, t)
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        momentum = new + np.where(uphill, 0, (t - 1) / t_new) * move
        g, t = new, t_new
        if np.abs(move).max() < tol * np.abs(g).max():
            break
    return g


def masked_omp(D, X, n_nonzero):
    """Orthogonal matching pursuit on the seen entries, all rows at once."""
    seen, x = ~np.isnan(X), np.nan_to_num(X)
    size = np.sqrt(seen @ (D**2).T) + 1e-12
    chosen, residual = np.zeros((len(X), 0), int), x
    for _ in range(n_nonzero):
        score = np.abs(residual @ D.T) / size
        np.put_along_axis(score, chosen, -1, 1)
        chosen = np.concatenate([chosen, score.argmax(1)[:, None]], 1)
        g = refit(D, X, chosen)
        residual = (x - g @ D) * seen
    return g


def refit(D, X, chosen):
    """Least-squares codes of the seen entries on each row's chosen atoms, (n, k)."""
    atoms = D[chosen] * ~np.isnan(X)[:, None]
    gram = atoms @ atoms.swapaxes(1, 2) + 1e-7 * np.eye(chosen.shape[1])
    target = np.einsum("nkd,nd->nk", atoms, np.nan_to_num(X))
    g = np.zeros((len(X), len(D)))
    solved = np.linalg.solve(gram, target[..., None])[..., 0]
    np.put_along_axis(g, chosen, solved, 1)
    return g


class SparseDictionary:
    """scikit-learn's dictionary; ``coder`` is "lasso" or "omp" on the seen entries.

    ``penalty`` is the l1 penalty as a share of the RMS norm of the training rows,
    ``n_nonzero`` the number of atoms per row of "omp".
    """

    def __init__(
        self,
        n_components=256,
        coder="lasso",
        seed=0,
        *,
        penalty=0.003,
        n_nonzero=8,
        alpha=0.1,
        epochs=10,
    ):
        self.n_components, self.coder, self.seed = n_components, coder, seed
        self.penalty, self.n_nonzero = penalty, n_nonzero
        self.alpha, self.epochs = alpha, epochs

    def fit(self, X, y=None):
        """Atoms of complete rows."""
        learner = MiniBatchDictionaryLearning(
            self.n_components,
            alpha=self.alpha,
            max_iter=self.epochs,
            batch_size=250,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            random_state=self.seed,
        )
        atoms = learner.fit(np.asarray(X, float)).components_
        norms = np.linalg.norm(atoms, axis=1, keepdims=True)
        self.atoms_ = (atoms / np.where(norms > 0, norms, 1)).astype(np.float32)
        self.scale = np.sqrt(np.mean(np.sum(X**2, 1)))
        self.n_parameters = self.atoms_.size
        return self

    def predict(self, X):
        """Rows as few atoms explain them."""
        X = np.asarray(X, np.float32)
        parts = np.array_split(X, max(1, len(X) // 400))
        return np.concatenate([self._codes(x) @ self.atoms_ for x in parts])

    def _codes(self, X):
        if self.coder == "omp":
            return masked_omp(self.atoms_, X, self.n_nonzero)
        return masked_lasso(self.atoms_, X, self.penalty * self.scale)


class Projection:
    """PCA or NMF with ``n_code`` components: rows to a code and back."""

    def __init__(self, n_code, kind="pca", seed=0):
        model = PCA if kind == "pca" else NMF
        options = {} if kind == "pca" else {"max_iter": 500, "init": "nndsvda"}
        self.model = model(n_code, random_state=seed, **options)

    def fit(self, X, y=None):
        """Components of complete rows."""
        self.model.fit(X)
        self.n_parameters = self.model.components_.size + X.shape[1]
        return self

    def predict(self, X):
        """Rows as the components explain them."""
        return self.model.inverse_transform(self.model.transform(X))
