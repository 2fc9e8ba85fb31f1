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
        error = np.square(x - first - second).sum(1) / 2
        return first, second, -error - both.lambdas_[0] * np.abs(codes).sum(1)


class LocalOperator:
    """The filter that moves every pixel's surroundings, inferred from two frames.

    A system is a window about a pixel. Its rows are the window's pixels: the state is
    the patch about such a pixel in the first frame, the response the pixel in the
    second. All obey one filter, a sum of the atoms. The query is the middle pixel's
    patch in the second frame, the answer this pixel in the third.
    """

    def __init__(
        self,
        n_components=6,
        *,
        patch=3,
        window=2,
        n_systems=2000,
        solver="ard",
        **options,
    ):
        self.patch, self.window, self.n_systems = patch, window, n_systems
        self.seed = options["random_state"]
        self.options = {"n_components": n_components, "solver": solver, **options}

    def fit(self, X, y):
        """On windows about random pixels that change."""
        before, now = np.split(X, 2, axis=1)
        self.around = neighbours(y.shape[1], self.patch)
        self.near = neighbours(y.shape[1], self.window)
        changes = np.abs(now - before) + np.abs(y - now) > 0.05
        rng = np.random.RandomState(self.seed)
        frame, pixel = rng.permutation(np.argwhere(changes))[: self.n_systems].T
        size = self.around.shape[1]
        self.model = VectorNetworkOperatorRegressor(state_size=size, **self.options)
        self.model.fit(self._systems(before, now, frame, pixel), y[frame, pixel])
        self.n_parameters = self.model.atoms_.size
        self.budget = f"{self.model.n_iter_} epochs of {len(pixel)} windows"
        return self

    def predict(self, X):
        """In pieces of 20 sequences."""
        parts = [X[i : i + 20] for i in range(0, len(X), 20)]
        return np.concatenate([self._next(*np.split(x, 2, axis=1)) for x in parts])

    def _next(self, before, now):
        frame, pixel = np.divmod(np.arange(now.size), now.shape[1])
        systems = self._systems(before, now, frame, pixel)
        return self.model.predict(systems).reshape(now.shape)

    def _systems(self, before, now, frame, pixel):
        """Windows about pixels of frames, and the query of each."""
        first, second = edged(before), edged(now)
        frame, near = frame[:, None], self.near[pixel]
        states = first[frame[..., None], self.around[near]]
        queries = second[frame, self.around[pixel]][:, None]
        packed = pack_systems(states, second[frame, near], queries)
        return packed.astype(np.float32)


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
    """A transformer with the atoms of two, both of the "l1" settle."""
    both = copy.deepcopy(a)
    both.components_ = np.vstack([a.components_, b.components_])
    both.lambdas_ = (a.lambdas_ + b.lambdas_) / 2
    return both


def count(model):
    """Numbers that a fitted flat network predicts from."""
    parts = [model.components_, *chain.from_iterable(model.hidden_components_)]
    parts += [getattr(model, a, ()) for a in ("output_components_", "intercept_")]
    return int(sum(np.size(p) for p in parts))
