"""Taking a sum of two images apart: rows are [sum, class, class], NaN if not told.

The answer is the two parts side by side. What the parts leave of the sum is split
equally between them.
"""

from itertools import combinations

import numpy as np
import torch
from sklearn.decomposition import NMF
from torch import nn

from .gaussian import GaussianConditional
from .mlp import MLP
from .training import Backprop


class PairUnmixer:
    """Base: parts of every pair of classes, the likeliest pair if none is told.

    A subclass gives ``fit_class(X, label)`` and
    ``parts(x, a, b) -> (part, part, log likelihood)``.
    """

    def fit(self, X, y):
        """One model per class of single images."""
        self.models = {c: self.fit_class(X[y == c], c) for c in np.unique(y)}
        self.n_parameters = sum(self.size(m) for m in self.models.values())
        return self

    def predict(self, X):
        """(n, 2 d); the pair that was found is kept in ``pairs_``."""
        x, told = X[:, :-2], X[:, -2:]
        best = np.full(len(X), -np.inf)
        answer = np.zeros((len(X), 2 * x.shape[1]))
        self.pairs_ = np.zeros((len(X), 2))
        for pair in combinations(self.models, 2):
            for a, b in (pair, pair[::-1]):
                rows = self._candidates(told, a, b)
                if not len(rows):
                    continue
                first, second, score = self.parts(x[rows], a, b)
                rest = (x[rows] - first - second) / 2
                better = score > best[rows]
                keep = rows[better]
                both = np.hstack([first + rest, second + rest])
                answer[keep], best[keep] = both[better], score[better]
                self.pairs_[keep] = a, b
        return answer

    @staticmethod
    def _candidates(told, a, b):
        """Rows whose parts may be (a, b), in this order; untold ones once."""
        open_ = np.isnan(told[:, 0]) & (a < b)
        return np.flatnonzero(open_ | ((told[:, 0] == a) & (told[:, 1] == b)))


class GaussianUnmixer(PairUnmixer):
    """One Gaussian per class; ``ridge`` is a share of its mean variance."""

    def __init__(self, ridge=0.03):
        self.ridge = ridge

    def fit_class(self, X, label):
        """Mean and covariance."""
        model = GaussianConditional().fit(X)
        d = X.shape[1]
        model.covariance += self.ridge * np.trace(model.covariance) / d * np.eye(d)
        return model

    @staticmethod
    def size(model):
        """Numbers of a model."""
        return model.n_parameters

    def parts(self, x, a, b):
        """Wiener separation."""
        a, b = self.models[a], self.models[b]
        C = a.covariance + b.covariance
        r = x - a.mean - b.mean
        w = np.linalg.solve(C, r.T).T
        score = -0.5 * ((w * r).sum(1) + np.linalg.slogdet(C)[1])
        return a.mean + w @ a.covariance, b.mean + w @ b.covariance, score


class NMFUnmixer(PairUnmixer):
    """Nonnegative parts of every class."""

    def __init__(self, n_parts=20, seed=0):
        self.n_parts, self.seed = n_parts, seed

    def fit_class(self, X, label):
        """The parts."""
        model = NMF(self.n_parts, init="nndsvda", max_iter=400, random_state=self.seed)
        return model.fit(X).components_

    @staticmethod
    def size(model):
        """Numbers of a model."""
        return model.size

    def parts(self, x, a, b):
        """Nonnegative least squares over the parts of both classes."""
        atoms = np.vstack([self.models[a], self.models[b]])
        both = NMF(len(atoms), init="custom", max_iter=400, random_state=self.seed)
        both.n_components_, both.components_ = len(atoms), atoms
        codes = both.transform(np.maximum(x, 0))
        first = codes[:, : self.n_parts] @ self.models[a]
        second = codes[:, self.n_parts :] @ self.models[b]
        return first, second, -np.square(x - first - second).sum(1)


class MixtureMLP(nn.Module):
    """[sum, class, class] to the two parts; in any order where no class is told."""

    def __init__(self, n_features, n_classes=10, width=256):
        super().__init__()
        self.n_classes = n_classes
        self.net = MLP(n_features + 2 * n_classes, 2 * n_features, width, 2)

    def forward(self, x):
        """(n, d + 2) to (n, 2 d)."""
        x, told = x[:, :-2], x[:, -2:]
        known = ~torch.isnan(told)
        hot = nn.functional.one_hot(torch.nan_to_num(told).long(), self.n_classes)
        return self.net(torch.cat([x, (hot * known[:, :, None]).flatten(1)], 1))

    def loss(self, x, y):
        """Relative error; of the better order where no class is told."""
        y_hat = self(x)
        direct = (y_hat - y).square().sum(1)
        swapped = (y_hat - torch.cat(y.chunk(2, 1)[::-1], 1)).square().sum(1)
        untold = torch.isnan(x[:, -1])
        error = torch.where(untold, torch.minimum(direct, swapped), direct)
        return error.sum() / y.square().sum()


class MixtureTrained(Backprop):
    """``MixtureMLP`` trained on fresh sums of two training images."""

    def fit(self, X, y):
        """Every batch makes new pairs; a class is told in half of them."""
        rows = np.hstack([X, np.asarray(y)[:, None]])
        return super().fit(rows)

    @torch.no_grad()
    def _held_out(self, net, held):
        net.eval()
        return float(net.loss(*held))


def sums_of_two(rows, generator):
    """Pairs of rows [image, class] to ([sum, class, class], both images)."""
    x, y = rows[:, :-1], rows[:, -1]
    other = torch.randperm(len(x), generator=generator, device=x.device)
    differ = y != y[other]
    a, b, told = x[differ], x[other][differ], torch.stack([y, y[other]], 1)[differ]
    hide = torch.rand(len(a), 1, generator=generator, device=x.device) < 0.5
    told = torch.where(hide, torch.nan, told)
    return torch.cat([a + b, told], 1), torch.cat([a, b], 1)
