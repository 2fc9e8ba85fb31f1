"""Layers in a stack: codes by sweeps to a fixed point of the free energy F."""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from .energy import ACTIVATIONS, energy, prox, residual
from .layer import Layer, message
from .settle_ard import settle_ard
from .settle_l1 import settle_l1

# Backtracking halves a row's step at most this often; 2^-40 is below float32's
# resolution of any step that could still lower the energy.
_MAX_HALVINGS = 40
_PROX_STEPS = 50


class Relevance(NamedTuple):
    """What the sparse-Bayesian settle starts from, in the units of x squared."""

    prior: Tensor  # (K,)  prior variance gamma of every coefficient
    noise: float  # first noise variance s2 of a row
    floor: float  # lower bound of s2


@dataclass
class Network:
    """A stack of layers and the constraints on its codes.

    Parameters
    ----------
    layers : list of Layer
        From the input upward; layer l + 1 reads ``message(layers[l], g_l)``.
    positive : bool, default=True
        Whether codes are nonnegative.
    n_nonzero : int or None, default=None
        Code budget of the top layer: the hard top-k of the paper.
    relevance : Relevance or None, default=None
        If given, the (only) layer settles by ``settle_ard`` instead of ``settle_l1``.
    """

    layers: list[Layer]
    positive: bool = True
    n_nonzero: int | None = None
    relevance: Relevance | None = None

    def bounds(self, level: int) -> tuple[Tensor, Tensor]:
        """Slopes of the penalty below and above zero, each of shape (K,)."""
        layer = self.layers[level]
        upper = layer.S.new_full((layer.n_atoms,), layer.lam)
        lower = torch.full_like(upper, torch.inf) if self.positive else upper
        return lower, upper


def inputs(net: Network, x: Tensor, codes: list[Tensor]) -> list[Tensor]:
    """Input x_l of every layer: x itself, then the messages from below."""
    below = zip(net.layers[:-1], codes[:-1], strict=True)
    return [x, *(message(layer, g) for layer, g in below)]


def reconstruction(layer: Layer, g: Tensor) -> Tensor:
    """S g: what the code says the layer's input is, shape (n, d)."""
    return g @ layer.S.T


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


def free_energy(net, x, codes, *, mask=None, target=None, beta=0.0):
    """Global free energy of every row.

    ``F = sum_l [ 1/2 ||x_l - S_l g_l||^2 + lam_l ||g_l||_1 ]
    + beta/2 ||y - U_L g_L||^2`` with ``x_{l+1} = phi_l(U_l g_l)``.

    Parameters
    ----------
    net : Network
    x : Tensor of shape (n, d)
    codes : list of Tensors of shape (n, K_l)
    mask : bool Tensor of shape (n, d) or None
    target : Tensor of shape (n, m) or None
        y, only while learning.
    beta : float, default=0.0

    Returns
    -------
    Tensor of shape (n,)
    """
    total = x.new_zeros(len(x))
    for level, x_l in enumerate(inputs(net, x, codes)):
        masked = mask if level == 0 else None
        total = total + block_energy(net, level, x_l, codes[level], mask=masked)
    if target is None:
        return total
    answer = message(net.layers[-1], codes[-1])
    return total + beta / 2 * (target - answer).square().sum(1)


def settle(
    net,
    x,
    *,
    mask=None,
    target=None,
    beta=0.0,
    nudge=None,
    start=None,
    tol=1e-3,
    max_sweeps=10,
):
    """Codes of all layers at a fixed point of F.

    An upward pass settles every layer from its input; then sweeps down (every
    layer also sees the target ``S_{l+1} g_{l+1}`` from above) and up follow until
    F of a row falls by less than ``tol`` of its value. A block step is taken only
    by the rows whose F it lowers, and a row that has come to rest is left alone:
    F never rises, and a row never sees its batch-mates.

    Parameters
    ----------
    net : Network
    x : Tensor of shape (n, d)
        Observed rows; missing entries may hold anything finite.
    mask : bool Tensor of shape (n, d) or None
        True where x is observed.
    target : Tensor of shape (n, m) or None
        Clamps the answer towards y with weight ``beta``.
    beta : float, default=0.0
    nudge : Tensor of shape (n, K_L) or None
        Linear term ``-nudge . g`` on the top code; every entry must be smaller
        than that layer's penalty.
    start : list of Tensors or None
        Codes to start from.
    tol : float, default=1e-3
        Relative duality gap of a settle and relative fall of F of a sweep.
    max_sweeps : int, default=10

    Returns
    -------
    list of Tensors of shape (n, K_l)
    """
    if net.relevance is not None:
        return [settle_relevance(net, x, mask).codes]
    top = {"target": target, "weight": beta} if target is not None else {}
    problem = _Problem(net, mask, top, nudge, tol)
    codes = _upward(problem, x, start)
    if len(net.layers) > 1:
        codes = _sweep_to_rest(problem, x, codes, max_sweeps)
    if net.n_nonzero is not None:
        codes[-1] = _keep_largest(problem, inputs(net, x, codes)[-1], codes[-1])
    return codes


def settle_relevance(net, x, mask=None, readout=None):
    """Posterior of a one-layer network's codes (see ``settle_ard``)."""
    prior, noise, floor = net.relevance
    options = {"noise": noise, "floor": floor, "mask": mask, "readout": readout}
    return settle_ard(net.layers[0].S, x, prior, **options)


@dataclass
class _Problem:
    """What stays fixed while the rows of one call settle."""

    net: Network
    mask: Tensor | None
    top: dict
    nudge: Tensor | None
    tol: float

    def rows(self, index):
        """The same problem for some of the rows."""
        pick = lambda t: None if t is None else t[index]  # noqa: E731
        top = {k: v[index] if k == "target" else v for k, v in self.top.items()}
        return _Problem(self.net, pick(self.mask), top, pick(self.nudge), self.tol)

    def terms(self, level, above=None):
        """Mask, penalty slopes and target of one layer's block.

        ``above`` is the code of the next layer, whose ``S g`` is the target.
        """
        layers, last = self.net.layers, level == len(self.net.layers) - 1
        lower, upper = self.net.bounds(level)
        if last and self.nudge is not None:
            lower, upper = lower + self.nudge, upper - self.nudge
        terms = {"mask": self.mask if level == 0 else None, "bounds": (lower, upper)}
        if last:
            return terms | self.top
        if above is None:
            return terms
        return terms | {"target": reconstruction(layers[level + 1], above)}


def _upward(problem, x, start):
    """Settle every layer from its input alone (the top one also from y)."""
    net, codes = problem.net, []
    for level in range(len(net.layers)):
        x_l = x if level == 0 else message(net.layers[level - 1], codes[-1])
        begin = None if start is None else start[level]
        terms = problem.terms(level)
        codes.append(_settle_block(net, level, x_l, begin, problem.tol, **terms))
    return codes


def _sweep_to_rest(problem, x, codes, max_sweeps):
    """Sweep down and up until every row's F has stopped falling."""
    before = _total(problem, x, codes)
    live = torch.arange(len(x), device=x.device)
    for _ in range(max_sweeps):
        part = problem.rows(live)
        moved = _sweep(part, x[live], [g[live] for g in codes])
        fallen = _total(part, x[live], moved)
        for g, g_new in zip(codes, moved, strict=True):
            g[live] = g_new
        resting = before[live] - fallen <= problem.tol * fallen.abs()
        before[live] = fallen
        live = live[~resting]
        if not len(live):
            break
    return codes


def _total(problem, x, codes):
    """F of every row, the target and nudge terms included."""
    target, beta = problem.top.get("target"), problem.top.get("weight", 0.0)
    args = {"mask": problem.mask, "target": target, "beta": beta}
    total = free_energy(problem.net, x, codes, **args)
    if problem.nudge is None:
        return total
    return total - (problem.nudge * codes[-1]).sum(1)


def _sweep(problem, x, codes):
    """One pass down and one pass up over the layers, block by block."""
    net, codes = problem.net, list(codes)
    depth = len(net.layers)
    for level in [*reversed(range(depth)), *range(1, depth)]:
        x_l = inputs(net, x, codes)[level]
        terms = problem.terms(level, codes[level + 1] if level + 1 < depth else None)
        old = codes[level]
        new = _settle_block(net, level, x_l, old, problem.tol, **terms)
        fell = block_energy(net, level, x_l, new, **terms) < block_energy(
            net, level, x_l, old, **terms
        )
        codes[level] = torch.where(fell[:, None], new, old)
    return codes


def _settle_block(net, level, x, start, tol, *, mask, bounds, target=None, weight=1.0):
    """Minimise ``block_energy`` over one layer's code."""
    layer = net.layers[level]
    if target is None or weight == 0:
        design, observed = layer.S, x
    elif layer.phi == "identity":
        design = torch.cat([layer.S, sqrt(weight) * layer.U])
        observed = torch.cat([x, sqrt(weight) * target], 1)
        mask = None if mask is None else _pad(mask, target.shape[1])
    else:
        terms = {"mask": mask, "bounds": bounds, "target": target, "weight": weight}
        return _proximal_descent(net, level, x, start, tol, terms)
    options = {"mask": mask, "start": start, "tol": tol}
    return settle_l1(design, observed, *bounds, **options).codes


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
        live = live & (value - fallen > tol * fallen)
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


def _keep_largest(problem, x, g):
    """Hard top-k: settle the top code again on its ``n_nonzero`` largest entries."""
    net, level = problem.net, len(problem.net.layers) - 1
    kept = g.abs().topk(min(net.n_nonzero, g.shape[1]), dim=1).indices
    excluded = torch.ones_like(g, dtype=torch.bool).scatter_(1, kept, False)
    terms = problem.terms(level)
    lower, upper = (b.expand_as(g).masked_fill(excluded, torch.inf)
                    for b in terms["bounds"])
    terms["bounds"] = lower, upper
    begin = g.masked_fill(excluded, 0)
    return _settle_block(net, level, x, begin, problem.tol, **terms)
