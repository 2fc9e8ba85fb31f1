"""From models of accelerations to answers and motion; the true laws.

A frame hands a model the columns that it reads, answers queries, and moves bodies on if
the horizon says so.
"""

import numpy as np
from _nbody_data import (
    INDICATOR,
    N_QUERIES,
    STEP,
    WINDOW,
    advance,
    blank,
    off_line,
    read_states,
    window_system,
)
from _runner import count_parameters

from skvn.datasets import nbody_features, nbody_forces

# Accelerations that are fed back, so that a rollout that explodes stays a number.
LARGEST = 50.0


class Answering:
    """A model that answers queries of packed systems; the frame of all methods."""

    def __init__(self, model, layout, *, whole=False):
        self.model, self.layout, self.whole = model, layout, whole

    def inputs(self, X):
        """What the model reads: packed systems, or with the raw states as well."""
        return X if self.whole else X[:, : self.layout.width]

    def fit(self, X, y):
        """Fit the model."""
        self.model.fit(self.inputs(X), y)
        self.n_parameters = count_parameters(self.model)
        self.budget = getattr(self.model, "budget", "")
        return self

    def predict(self, X):
        """Accelerations, or where bodies end after the horizon."""
        n_steps = int(X[0, -1])
        if not n_steps:
            return self.answer(X)
        x, v, present = start_of(X)
        return off_line(x, v, self.path(X, n_steps)[:, -1], n_steps, present)

    def answer(self, X):
        """Accelerations asked for."""
        return self.model.predict(self.inputs(X))


class FedBack(Answering):
    """The motion of a model that predicts the next mean acceleration."""

    def path(self, X, n_steps):
        """Positions (n, n_steps + 1, 4, 2)."""
        path, states = [read_states(X).query_x], read_states(X)
        for _ in range(n_steps):
            a = self.answer(window_system(states))
            a = np.nan_to_num(a).clip(-LARGEST, LARGEST).reshape(states.query_x.shape)
            x, v = advance(states.query_x, states.query_v, a)
            window_x = np.concatenate([states.x[:, 1:], x[:, None]], 1)
            window_v = np.concatenate([states.v[:, 1:], v[:, None]], 1)
            states = states._replace(x=window_x, v=window_v, query_x=x, query_v=v)
            path.append(x)
        return np.stack(path, 1)


class Integrated(Answering):
    """The motion under an inferred law, by steps of Heun's method."""

    def fit(self, X, y):
        """A law gives the next mean acceleration at states averaged over the step."""
        x, v, present = start_of(X)
        after = advance(x, v, y.reshape(x.shape))
        q = (nbody_features(x, v, present) + nbody_features(*after, present)) / 2
        X, width = X.copy(), self.layout.width
        X[:, width - q[0].size : width] = q.reshape(len(X), -1)
        return super().fit(X, y)

    def law(self, X):
        """Accelerations (n, 4, 2) as a function of the state."""
        W, present = self.model.effective_weight(self.inputs(X)), read_states(X).present

        def accelerations(x, v):
            a = np.einsum("nqf,ncf->nq", nbody_features(x, v, present), W)
            return a.reshape(x.shape).clip(-LARGEST, LARGEST) * present[..., None]

        return accelerations

    def answer(self, X):
        """The next mean acceleration."""
        x, v, present = start_of(X)
        return blank(heun(self.law(X), x, v).reshape(len(X), -1), present)

    def path(self, X, n_steps):
        """Positions (n, n_steps + 1, 4, 2)."""
        law, (x, v, _) = self.law(X), start_of(X)
        path = [x]
        for _ in range(n_steps):
            x, v = advance(x, v, heun(law, x, v))
            path.append(x)
        return np.stack(path, 1)


class IntegratedTruth(Integrated):
    """The same under the true laws at estimated strengths."""

    def law(self, X):
        """Accelerations (n, 4, 2) as a function of the state."""
        g, present = self.model.strengths(X), read_states(X).present
        return lambda x, v: np.einsum("nk,nkbc->nbc", g, nbody_forces(x, v, present))


def start_of(X):
    """State at the end of the window, and who is there."""
    states = read_states(X)
    return states.query_x, states.query_v, states.present


def heun(law, x, v):
    """Mean acceleration over a step."""
    a = law(x, v)
    return (a + law(*advance(x, v, a))) / 2


class LastAcceleration:
    """The last mean acceleration of the window again."""

    n_parameters = 0

    def fit(self, X, y):
        """Nothing to learn."""
        return self

    def predict(self, X):
        """From the second step of the window."""
        return WINDOW.split(X)[1][:, N_QUERIES:]


def laws_at_queries(X):
    """Accelerations at the queries under every force at nominal strength."""
    return nbody_forces(*start_of(X)).reshape(len(X), 4, -1)


def laws_in_window(X):
    """The same for the mean accelerations of the window, and these."""
    x, v, *_, present, _ = read_states(X)
    f = np.stack([nbody_forces(x[:, t], v[:, t], present) for t in range(3)], 1)
    f = (f[:, 1:] + f[:, :-1]) / 2
    a = (v[:, 1:] - v[:, :-1]) / STEP
    return f.transpose(0, 1, 3, 4, 2).reshape(len(x), -1, 4), a.reshape(len(x), -1)


def given_strengths(X):
    """The strengths as observations of themselves."""
    return np.broadcast_to(np.eye(4), (len(X), 4, 4)), INDICATOR.split(X)[1]
