"""Layers in a stack: codes by sweeps to a fixed point of the free energy F."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .block import block_energy, settle_block
from .layer import Layer, message
from .settle_ard import settle_ard

# Most that a row may raise the prior variance of an atom. Without a limit, atoms that
# are nearly hidden make wild guesses; 20 already costs accuracy on hidden entries.
GROWTH = 64.0


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

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import Layer
    >>> from skvn.core.network import Network, settle
    >>> net = Network([Layer(torch.eye(2), torch.eye(2), lam=0.5)])
    >>> settle(net, torch.tensor([[3.0, 0.1]]), tol=1e-6)
    [tensor([[2.5000, 0.0000]])]
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

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import Layer
    >>> from skvn.core.network import Network, free_energy
    >>> net = Network([Layer(torch.eye(2), torch.eye(2), lam=0.5)])
    >>> free_energy(net, torch.tensor([[3.0, 0.0]]), [torch.tensor([[2.0, 0.0]])])
    tensor([1.5000])
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
        Codes to start from: several layers then begin with the sweeps, so that F
        never exceeds its value there.
    tol : float, default=1e-3
        Relative duality gap of a settle and relative fall of F of a sweep.
    max_sweeps : int, default=10

    Returns
    -------
    list of Tensors of shape (n, K_l)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import Layer
    >>> from skvn.core.network import Network, free_energy, settle
    >>> below = Layer(torch.eye(3, 2), torch.eye(2), lam=0.1)
    >>> net = Network([below, Layer(torch.eye(2), torch.eye(2), lam=0.1)])
    >>> x = torch.tensor([[2.0, 0.0, 1.0]])
    >>> settled, upward = settle(net, x), settle(net, x, max_sweeps=0)
    >>> bool(free_energy(net, x, settled) < free_energy(net, x, upward))
    True
    """
    if net.relevance is not None:
        return [settle_relevance(net, x, mask).codes]
    top = {"target": target, "weight": beta} if target is not None else {}
    problem = _Problem(net, mask, top, nudge, tol)
    stacked = len(net.layers) > 1
    if stacked and start is not None:
        codes = [g.clone() for g in start]
    else:
        codes = _upward(problem, x, start)
    if stacked:
        codes = _sweep_to_rest(problem, x, codes, max_sweeps)
    if net.n_nonzero is not None:
        codes[-1] = _keep_largest(problem, inputs(net, x, codes)[-1], codes[-1])
    return codes


def settle_relevance(net, x, mask=None, readout=None):
    """Posterior of a one-layer network's codes (see ``settle_ard``)."""
    prior, noise, floor = net.relevance
    options = {"noise": noise, "floor": floor, "mask": mask, "readout": readout}
    return settle_ard(net.layers[0].S, x, prior, growth=GROWTH, **options)


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
        codes.append(settle_block(net, level, x_l, begin, problem.tol, **terms))
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
        new = settle_block(net, level, x_l, old, problem.tol, **terms)
        block = net, level, x_l
        fell = block_energy(*block, new, **terms) < block_energy(*block, old, **terms)
        codes[level] = torch.where(fell[:, None], new, old)
    return codes


def _keep_largest(problem, x, g):
    """Hard top-k: settle the top code again on its ``n_nonzero`` largest entries."""
    net, level = problem.net, len(problem.net.layers) - 1
    kept = g.abs().topk(min(net.n_nonzero, g.shape[1]), dim=1).indices
    excluded = torch.ones_like(g, dtype=torch.bool).scatter_(1, kept, False)
    terms = problem.terms(level)
    lower, upper = (
        b.expand_as(g).masked_fill(excluded, torch.inf) for b in terms["bounds"]
    )
    terms["bounds"] = lower, upper
    begin = g.masked_fill(excluded, 0)
    return settle_block(net, level, x, begin, problem.tol, **terms)
