"""One layer's block of F: its energy and its code, with all other codes fixed."""

from math import sqrt

import torch

from .energy import ACTIVATIONS, energy, prox, residual
from .layer import message
from .settle_l1 import settle_l1

# Backtracking halves a row's step at most this often; 2^-40 is below float32's
# resolution of any step that could still lower the energy.
_MAX_HALVINGS = 40
_PROX_STEPS = 50


def block_energy(net, level, x, g, *, mask=None, target=None, weight=1.0, bounds=None):
    """Energy of one layer's code with everything else fixed (P2 eq. 5).

    ``E(g) = 1/2 ||M (x - S g)||^2 + pen(g) + weight/2 ||target - phi(U g)||^2``

    Parameters
    ----------
    net : Network
    level : int
        Which layer.
    x : Tensor of shape (n, d)
        Its input.
    g : Tensor of shape (n, K)
        Its code.
    mask : bool Tensor of shape (n, d) or None
        True where x is observed.
    target : Tensor of shape (n, m) or None
        What the layer above wants phi(U g) to be.
    weight : float, default=1.0
        Weight of the target term (beta at the top).
    bounds : pair of Tensors or None
        Penalty slopes; the network's own by default.

    Returns
    -------
    Tensor of shape (n,)
        Energy of every row.
    """
    layer = net.layers[level]
    total = energy(layer.S, x, g, *(bounds or net.bounds(level)), mask)
    if target is None:
        return total
    return total + weight / 2 * (target - message(layer, g)).square().sum(1)


def settle_block(net, level, x, start, tol, *, mask, bounds, target=None, weight=1.0):
    """Minimise ``block_energy`` over one layer's code.

    Without a target and with phi the identity the block is convex, and ``settle_l1``
    finds its minimum. Otherwise proximal gradient steps lower the energy from
    ``start``, or from the code settled without the target.

    Parameters
    ----------
    net : Network
    level : int
    x : Tensor of shape (n, d)
        Input of the layer.
    start : Tensor of shape (n, K) or None
    tol : float
        Relative duality gap, or relative fall of the energy in a proximal step.
    mask : bool Tensor of shape (n, d) or None
    bounds : pair of Tensors
        Slopes of the penalty below and above zero.
    target : Tensor of shape (n, m) or None
    weight : float, default=1.0

    Returns
    -------
    Tensor of shape (n, K)
    """
    layer, options = net.layers[level], {"start": start, "tol": tol}
    free = target is None or weight == 0
    if not free and layer.phi == "identity":
        design = torch.cat([layer.S, sqrt(weight) * layer.U])
        observed = torch.cat([x, sqrt(weight) * target], 1)
        mask = None if mask is None else _pad(mask, target.shape[1])
        return settle_l1(design, observed, *bounds, mask=mask, **options).codes
    if free or start is None:
        start = settle_l1(layer.S, x, *bounds, mask=mask, **options).codes
    if free:
        return start
    terms = {"mask": mask, "bounds": bounds, "target": target, "weight": weight}
    return _proximal_descent(net, level, x, start, tol, terms)


def _pad(mask, width):
    """Mask of stacked rows: the target's entries are always observed."""
    return torch.cat([mask, mask.new_ones(len(mask), width)], 1)


def _block_gradient(net, level, x, g, *, mask, target, weight, **_):
    """Gradient of the smooth part of ``block_energy`` in g."""
    layer = net.layers[level]
    phi, slope = ACTIVATIONS[layer.phi]
    r_x = residual(layer.S, x, g, mask)
    a = g @ layer.U.T
    r_h = weight * (target - phi(a)) * slope(a)
    return -(r_x @ layer.S + r_h @ layer.U)


def _proximal_descent(net, level, x, g, tol, terms):
    """Proximal gradient with a step per row, halved until that row's E falls.

    The block with a nonlinear phi is not convex; this finds a stationary point,
    never raises a row's energy, and leaves a row alone once it has come to rest.
    """
    layer = net.layers[level]
    curvature = layer.S.square().sum() + terms["weight"] * layer.U.square().sum()
    # 4 / trace is an optimistic first step; backtracking corrects it per row.
    step = (4 / curvature).expand(len(g)).clone()
    value = block_energy(net, level, x, g, **terms)
    live = torch.ones_like(value, dtype=torch.bool)
    for _ in range(_PROX_STEPS):
        g, fallen, step = _descend(net, level, x, g, value, step, live, terms)
        live = live & (value - fallen > tol * fallen.abs())
        value = fallen
        if not live.any():
            break
        step = step * 2
    return g


def _descend(net, level, x, g, value, step, waiting, terms):
    """One accepted step for every waiting row: shrink it until E does not rise."""
    lower, upper = terms["bounds"]
    slope = _block_gradient(net, level, x, g, **terms)
    g_new, value_new = g, value
    for _ in range(_MAX_HALVINGS):
        t = step[:, None]
        trial = prox(g - t * slope, lower * t, upper * t)
        trial_value = block_energy(net, level, x, trial, **terms)
        fell = waiting & (trial_value <= value)
        g_new = torch.where(fell[:, None], trial, g_new)
        value_new = torch.where(fell, trial_value, value_new)
        waiting = waiting & ~fell
        if not waiting.any():
            break
        step = torch.where(waiting, step / 2, step)
    return g_new, value_new, step
