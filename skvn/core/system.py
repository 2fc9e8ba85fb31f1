"""Systems: how rows of X and y become states, responses and what was seen of them."""

from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """How one row of X and one of y hold a system.

    Attributes
    ----------
    state_size : int
        F; 0 is the constant state, where all of X is observed values of one row.
    response_size : int
        c.
    n_observed, n_queries : int
        Rows with a response in X; rows whose response is asked for.
    """

    state_size: int
    response_size: int
    n_observed: int
    n_queries: int

    @property
    def n_answers(self):
        """Number of columns of y."""
        if self.state_size == 0:
            return self.n_queries
        return self.n_queries * self.response_size


class Systems(NamedTuple):
    """Systems as tensors; zeros wherever nothing was seen.

    Attributes
    ----------
    states : Tensor of shape (n, P, F), or (P, F) if all systems share them
    responses : Tensor of shape (n, P, c)
    seen : bool Tensor of shape (n, P, c) or (n, P, 1)
        What codes and atoms may look at.
    """

    states: Tensor
    responses: Tensor
    seen: Tensor

    def entries(self):
        """Observed values and mask of all entries, (n, P c): what settling takes."""
        mask = self.seen.expand_as(self.responses)
        return self.responses.flatten(1), mask.flatten(1)

    def take(self, index):
        """The systems ``index``."""
        states = self.states if self.states.dim() == 2 else self.states[index]
        return Systems(states, self.responses[index], self.seen[index])


def systems(x, mask, y, layout):
    """Systems from the rows of X and y.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        Observed rows ``z_1, a_1, z_2, a_2, ...``, then the states of the queries.
        With the constant state: the observed values.
    mask : bool Tensor of shape (n, d) or None
        A row of a system counts as absent if any of its entries is.
    y : Tensor of shape (n, m) or None
        Answers of the queries, NaN where absent; None leaves all of them unseen.
    layout : Layout

    Returns
    -------
    Systems
    """
    known = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    if y is None:
        y = x.new_full((len(x), layout.n_answers), torch.nan)
    if layout.state_size == 0:
        responses, seen = torch.cat([x, y], 1), torch.cat([known, ~y.isnan()], 1)
        responses = responses.masked_fill(~seen, 0.0)
        return Systems(x.new_ones(1, 1), responses[:, None], seen[:, None])
    states, given, present = _split(x, known, layout)
    answers = y.reshape(len(x), layout.n_queries, layout.response_size)
    responses = torch.cat([given, answers], 1)
    seen = (present & ~responses.isnan().any(-1))[:, :, None]
    return Systems(states, responses.masked_fill(~seen, 0.0), seen)


def _split(x, known, layout):
    """States (n, P, F), observed responses (n, R, c), and which rows are there."""
    F, c, R, _ = layout
    size = F + c
    head, asked = x[:, : R * size].reshape(-1, R, size), x[:, R * size :]
    there = known[:, : R * size].reshape(-1, R, size).all(-1)
    asked = asked.reshape(len(x), -1, F)
    states = torch.cat([head[:, :, :F], asked], 1)
    present = torch.cat([there, answerable(known, layout)], 1)
    return states * present[:, :, None], head[:, :, F:], present


def answerable(known, layout):
    """Which queries have a state, (n, n_queries); all do if the state is constant."""
    F, c, R, Q = layout
    if F == 0:
        return known.new_ones(len(known), Q)
    return known[:, R * (F + c) :].reshape(len(known), Q, F).all(-1)
