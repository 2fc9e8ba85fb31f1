"""Vector Networks as the methods of ``images.py``."""

import copy
from itertools import chain

import numpy as np
from _images_data import NOISE
from baselines.unmixing import PairUnmixer
from sklearn.utils import check_random_state

from skvn import (
    VectorNetworkOperatorRegressor,
    VectorNetworkRegressor,
    VectorNetworkTransformer,
    pack_systems,
)


class Reconstructor:
    """A transformer: codes of the rows and back, missing entries filled."""

    def __init__(self, **options):
        self.model = VectorNetworkTransformer(**options)

    def fit(self, X):
        """Atoms of complete rows."""
        self.model.fit(X)
        self.n_parameters = count(self.model)
        self.budget = f"{self.model.n_iter_} epochs"
        return self

    def predict(self, X):
        """Rows as the atoms explain them."""
        return self.model.reconstruct(X)


class Refitted(Reconstructor):
    """The same; the coefficients of the active atoms are a least-squares fit."""

    def predict(self, X):
        """Complete rows only."""
        codes, S = self.model.transform(X), self.model.components_
        b = self.model.n_nonzero_coefs
        active = np.argsort(-np.abs(codes), axis=1, kind="stable")[:, :b]
        atoms = S[active]
        gram = atoms @ atoms.swapaxes(1, 2) + 1e-9 * np.eye(b)
        g = np.linalg.solve(gram, atoms @ X[:, :, None])
        return (g.swapaxes(1, 2) @ atoms)[:, 0]


class Restorer:
    """A regressor from spoilt rows, ``copies`` of each, to the whole ones."""

    def __init__(self, spoil, copies=2, **options):
        self.spoil, self.copies = spoil, copies
        self.model = VectorNetworkRegressor(fit_intercept=False, **options)

    def fit(self, X):
        """Fresh holes or noise in every copy."""
        rng = check_random_state(self.model.random_state)
        spoilt = np.concatenate([self.spoil(X, rng) for _ in range(self.copies)])
        self.model.fit(spoilt, np.concatenate([X] * self.copies))
        self.n_parameters = count(self.model)
        self.budget = f"{self.model.n_iter_} epochs"
        return self

    def predict(self, X):
        """Whole rows."""
        return self.model.predict(X)


def noisy(X, rng):
    """Rows with white noise."""
    return X + NOISE * rng.standard_normal(X.shape)


class Plain:
    """A regressor of whole rows."""

    def __init__(self, **options):
        self.model = VectorNetworkRegressor(**options)

    def fit(self, X, y):
        """As it is."""
        self.model.fit(X, y)
        self.n_parameters = count(self.model)
        self.budget = f"{self.model.n_iter_} epochs"
        return self

    def predict(self, X):
        """As it is."""
        return self.model.predict(X)


class Unmixer(PairUnmixer):
    """One transformer per class; the atoms of two classes explain a sum together."""

    def __init__(self, **options):
        self.options = options

    def fit_class(self, X, label):
        """A transformer of one class."""
        return VectorNetworkTransformer(**self.options).fit(X)

    @staticmethod
    def size(model):
        """Numbers of a model."""
        return count(model)

    def parts(self, x, a, b):
        """The shares of both classes' atoms in the code of the sum."""
        both = joined(self.models[a], self.models[b])
        codes = both.transform(x)
        first, second = np.split(codes, [len(self.models[a].components_)], axis=1)
        first = first @ self.models[a].components_
        second = second @ self.models[b].components_
        energy = np.square(x - first - second).sum(1) / 2
        if both.solver_ == "l1":
            energy += both.lambdas_[0] * np.abs(codes).sum(1)
        return first, second, -energy


class LocalOperator:
    """Every pixel's own operator on the pixels around it, inferred from two frames.

    A system is a window about a pixel. Its rows are the window's pixels: the state is
    the patch about such a pixel in the mean of two frames, the response its change
    from the first frame to the second. The query is the middle pixel, one frame later.
    The operator of a window fills the row of its middle pixel in a matrix M; the third
    frame solves ``f1 - f0 = M (f0 + f1) / 2``, with a small ``ridge`` on the change,
    as M may be far off at frequencies that its window did not show.
    """

    def __init__(
        self,
        n_components=2,
        *,
        patch=3,
        window=2,
        n_systems=2000,
        solver="ard",
        ridge=0.03,
        **options,
    ):
        self.patch, self.window, self.n_systems = patch, window, n_systems
        self.ridge, self.seed = ridge, options["random_state"]
        self.options = {"n_components": n_components, "solver": solver, **options}

    def fit(self, X, y):
        """On windows about random pixels that change."""
        before, now = np.split(X, 2, axis=1)
        self.around = neighbours(y.shape[1], self.patch)
        self.near = neighbours(y.shape[1], self.window)
        changes = np.abs(now - before) + np.abs(y - now) > 0.05
        rng = np.random.RandomState(self.seed)
        frame, pixel = rng.permutation(np.argwhere(changes))[: self.n_systems].T
        query = self._rows(now, y, frame, pixel[:, None])
        observed = self._rows(before, now, frame, self.near[pixel])
        X, y = (a.astype(np.float32) for a in pack_systems(*observed, *query))
        size = self.around.shape[1]
        self.model = VectorNetworkOperatorRegressor(state_size=size, **self.options)
        self.model.fit(X, y)
        self.n_parameters = self.model.atoms_.size
        self.budget = f"{self.model.n_iter_} epochs of {len(X)} windows"
        return self

    def predict(self, X):
        """In pieces of 20 sequences."""
        parts = [X[i : i + 20] for i in range(0, len(X), 20)]
        return np.concatenate([self._next(*np.split(x, 2, axis=1)) for x in parts])

    def _rows(self, first, second, frame, pixels):
        """States (n, rows, patch) and responses (n, rows) of pixels (n, rows)."""
        mean, change = edged(first + second) / 2, edged(second - first)
        frame = frame[:, None]
        return mean[frame[..., None], self.around[pixels]], change[frame, pixels]

    def _next(self, before, now):
        n, d = now.shape
        frame, pixel = np.divmod(np.arange(n * d), d)
        rows = self._rows(before, now, frame, self.near[pixel])
        query = np.full_like(rows[0][:, :1], np.nan)
        X = pack_systems(*rows, query).astype(np.float32)
        M = np.zeros((n, d, d + 1))
        weights = self.model.effective_weight(X).reshape(n, d, -1)
        np.put_along_axis(M, self.around[None, :-1], weights, 2)
        M = M[:, :, :d]
        A = np.eye(d) - M / 2
        G = A.swapaxes(1, 2) @ A + self.ridge * np.eye(d)
        change = np.linalg.solve(G, A.swapaxes(1, 2) @ (M @ now[:, :, None]))
        return now + change[:, :, 0]


def neighbours(d, radius):
    """Pixels around every one of d, (d + 1, (2 radius + 1)^2); pixel d is outside."""
    side, near = round(d**0.5), np.mgrid[-radius : radius + 1, -radius : radius + 1]
    at = np.indices((side, side)).reshape(2, -1, 1) + near.reshape(2, 1, -1)
    inside = ((at >= 0) & (at < side)).all(0)
    index = np.where(inside, at[0] * side + at[1], d)
    return np.vstack([index, np.full(index.shape[1], d)])


def edged(frames):
    """With one more pixel, which is 0."""
    return np.pad(frames, ((0, 0), (0, 1)))


def joined(a, b):
    """A transformer with the atoms of two."""
    both = copy.deepcopy(a)
    both.components_ = np.vstack([a.components_, b.components_])
    both.lambdas_ = (a.lambdas_ + b.lambdas_) / 2
    if both.solver_ == "ard":
        both.prior_variance_ = np.concatenate([a.prior_variance_, b.prior_variance_])
        both.noise_ = (a.noise_ + b.noise_) / 2
    return both


def count(model):
    """Numbers that a fitted flat network predicts from."""
    parts = [model.components_, *chain.from_iterable(model.hidden_components_)]
    parts += [getattr(model, a, ()) for a in ("output_components_", "intercept_")]
    return int(sum(np.size(p) for p in parts))
