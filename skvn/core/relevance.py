"""Scale-free choice of what the sparse-Bayesian settle starts from."""

import torch

from .network import Network, Relevance, settle_relevance

# In units of the mean square of an entry of x (see settle_ard for the updates).
_PRIOR = 0.5
_NOISE = 1e-3
_TRAIN_FLOOR = 1e-4
_FLOORS = (1e-5, 1e-4, 1e-3, 1e-2, 3e-2)
# Share of the entries hidden, and rows looked at, to choose the floor.
_HIDDEN = 0.25
_FLOOR_ROWS = 500


def start_relevance(n_atoms, power, floor, like):
    """Prior, noise and floor before anything has been learned.

    Parameters
    ----------
    n_atoms : int
    power : float
        Mean square of an observed entry of x.
    floor : float or None
        Noise floor as a share of ``power``; None for the one used while learning.
    like : Tensor
        Gives dtype and device.

    Returns
    -------
    Relevance
    """
    prior = like.new_full((n_atoms,), _PRIOR * power)
    floor = _TRAIN_FLOOR if floor is None else floor
    return Relevance(prior, max(_NOISE, floor) * power, floor * power)


def choose_floor(net, batch, power):
    """Noise floor that best predicts hidden entries of training rows.

    Parameters
    ----------
    net : Network
        With ``relevance`` set.
    batch : Batch
        Training rows.
    power : float

    Returns
    -------
    float
        As a share of ``power``.
    """
    x, mask = batch.x, batch.mask
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    generator = torch.Generator().manual_seed(0)
    hide = torch.rand(x.shape, generator=generator).to(x.device) < _HIDDEN
    scored = batch.weight[:, None] * (seen & hide)
    errors = []
    for floor in _FLOORS:
        relevance = start_relevance(net.layers[0].n_atoms, power, floor, x)
        trial = Network(net.layers, relevance=relevance)
        g = settle_relevance(trial, x, seen & ~hide).codes
        r = x - g @ net.layers[0].S.T
        errors.append(float((scored * r.square()).sum()))
    return _FLOORS[min(range(len(errors)), key=errors.__getitem__)]
