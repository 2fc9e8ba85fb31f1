"""One setting of a classical method, chosen by hiding entries of training rows."""

import copy

import numpy as np


class ChosenByHiding:
    """Fits a model, and sets one attribute that only matters at prediction.

    The model is fitted on nine tenths of the rows; the value that fills the hidden
    entries of the others best is kept, and the model fitted again on all rows.

    Parameters
    ----------
    model : object with fit(X) and predict(X)
    name : str
    values : sequence
    hide : callable (X, random_state) -> X with NaN
    seed : int
    max_rows : int
        At most so many held-out rows.
    """

    def __init__(self, model, name, values, hide, seed, max_rows=400):
        self.model, self.name, self.values = model, name, values
        self.hide, self.seed, self.max_rows = hide, seed, max_rows

    def fit(self, X, y=None):
        """Choose, then fit."""
        order = np.random.default_rng(self.seed).permutation(len(X))
        held, train = np.split(order, [max(1, len(X) // 10)])
        held = X[held[: self.max_rows]]
        missing = self.hide(held, self.seed)
        trial = copy.deepcopy(self.model).fit(X[train])
        errors = [self._error(trial, value, held, missing) for value in self.values]
        self.value = self.values[int(np.argmin(errors))]
        setattr(self.model, self.name, self.value)
        self.model.fit(X)
        self.n_parameters = self.model.n_parameters
        low, high = min(self.values), max(self.values)
        count = len(self.values)
        self.budget = f"{self.name} {self.value} ({count} from {low} to {high})"
        return self

    def _error(self, trial, value, held, missing):
        setattr(trial, self.name, value)
        hidden = np.isnan(missing)
        return np.square(trial.predict(missing) - held)[hidden].sum()

    def predict(self, X):
        """Of the model."""
        return self.model.predict(X)
