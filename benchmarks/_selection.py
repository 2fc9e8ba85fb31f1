"""Choosing a setting on held-out training rows: ordinary folds or combinations."""

import numpy as np
from _runner import count_parameters, relative_error
from sklearn.model_selection import GroupKFold

from skvn.model_selection import CombinationKFold


class Chosen:
    """The candidate with the least error on held-out training rows, fitted on all."""

    def __init__(self, candidates, splitter, groups, folds=None):
        self.candidates, self.splitter = candidates, splitter
        self.groups, self.folds = groups, folds

    def fit(self, X, y):
        """Compare on (the first of) the folds, then fit the best."""
        folds = list(self.splitter.split(X, y, self.groups(X, y)))[: self.folds]
        errors = {
            label: np.mean([self._error(make, X, y, *fold) for fold in folds])
            for label, make in self.candidates.items()
        }
        best = min(errors, key=errors.get)
        self.model = self.candidates[best]().fit(X, y)
        self.n_parameters = count_parameters(self.model)
        self.budget = f"{best} chosen; {getattr(self.model, 'budget', '')}"
        return self

    def predict(self, X):
        """Of the chosen model."""
        return self.model.predict(X)

    def _error(self, make, X, y, train, held):
        model = make().fit(X[train], y[train])
        return relative_error(model.predict(X[held]), y[held])


def levels(X, y):
    """Column and row level of every code."""
    halves = np.hsplit(X, 2)
    return np.column_stack(
        [np.unique(h, axis=0, return_inverse=True)[1] for h in halves]
    )


def images(X, y):
    """Number of the clean image of every row."""
    return np.unique(y, axis=0, return_inverse=True)[1].ravel()


def tuned(candidates, n_splits=5):
    """The candidate that ordinary cross-validation chooses; an image is in one fold."""
    splitter = GroupKFold(n_splits, shuffle=True, random_state=0)
    return Chosen(candidates, splitter, images)


def on_combinations(candidates, n_splits=3, folds=None):
    """The candidate that held-out combinations of training positions choose."""
    splitter = CombinationKFold(n_splits, contiguous=True, random_state=0)
    return Chosen(candidates, splitter, levels, folds)
