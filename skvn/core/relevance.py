"""Scale-free choice of what the sparse-Bayesian settle starts from."""

from dataclasses import replace

import torch

from .network import Relevance, settle_relevance

# All in units of the mean square of an entry of x.
_PRIOR = 0.5
_NOISE = 1e-3
# A lower floor than this makes learning chase single rows.
_LEARNING_FLOOR = 1e-4
_FLOORS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 6e-2, 1e-1)
# Columns are hidden a quarter at a time; two of the four quarters are scored.
_FOLDS, _SCORED = 4, 2


def start_relevance(n_atoms, power, floor, like):
    """Prior, first noise and noise floor.

    Parameters
    ----------
    n_atoms : int
    power : float
        Mean square of an observed entry of x.
    floor : float
        Noise floor as a share of ``power``.
    like : Tensor
        Gives dtype and device.

    Returns
    -------
    Relevance
    """
    power = power or 1.0  # rows of zeros have no scale
    prior = like.new_full((n_atoms,), _PRIOR * power)
    return Relevance(prior, max(_NOISE, floor) * power, floor * power)


def learning_floor(floor):
    """Noise floor to learn with, given the one to predict with."""
    return max(_LEARNING_FLOOR, floor)


def choose_floor(net, batch, power, generator):
    """Noise floor under which hidden columns of training rows are best predicted.

    The same columns are hidden in all rows, so that the choice depends neither on
    the order of the rows nor on whether one is weighted or repeated.

    Parameters
    ----------
    net : Network
        With ``relevance`` set.
    batch : Batch
        Training rows.
    power : float
        Mean square of an observed entry of x.
    generator : torch.Generator

    Returns
    -------
    float
        As a share of ``power``. With a single column nothing can be hidden; then it
        is the middle of the grid.
    """
    d = batch.x.shape[1]
    if d == 1:
        return _NOISE
    quarters = torch.randperm(d, generator=generator).tensor_split(min(_FOLDS, d))
    errors = [
        sum(_hidden_error(net, batch, power, floor, q) for q in quarters[:_SCORED])
        for floor in _FLOORS
    ]
    return _FLOORS[min(range(len(errors)), key=errors.__getitem__)]


def _hidden_error(net, batch, power, floor, hidden):
    """Weighted squared error of the hidden columns under one floor."""
    x, layer = batch.x, net.layers[0]
    seen = torch.ones_like(x, dtype=torch.bool) if batch.mask is None else batch.mask
    visible = seen.clone()
    visible[:, hidden] = False
    trial = replace(net, relevance=start_relevance(layer.n_atoms, power, floor, x))
    g = settle_relevance(trial, x, visible).codes
    r = (seen & ~visible) * (x - g @ layer.S.T)
    return float(batch.weight @ r.square().sum(1))
