"""A fitted operator structure: settle systems, answer queries."""

from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from .mixture import Mixture, at_activity
from .operator import design
from .settle_ard import settle_ard
from .settle_ep import gaussian_posterior, settle_ep, weighted_gram
from .settle_l1 import settle_l1
from .system import Layout

# EP rounds and damping while learning (the prior still moves) and at prediction.
_LEARN, _PREDICT = (4, 0.7), (12, 0.5)
# ARD rounds: more overfit small systems.
_ARD_ROUNDS = 2
# Relative duality gap of the l1 settle while learning and at prediction.
_GAPS = (1e-2, 1e-6)


@dataclass(frozen=True)
class Operators:
    """A fitted operator structure.

    Parameters
    ----------
    atoms : Tensor of shape (K, c, F)
    layout : Layout
    solver : {"ep", "ard", "l1"}
    prior : Mixture, Tensor of shape (K,) or None
        Of ep, of ard (variances), of l1.
    noise : float
        Noise variance of one observed entry (squared scale, if ``dof`` is finite).
    dof : float
        Degrees of freedom of the noise of a row.
    """

    atoms: Tensor
    layout: Layout
    solver: str
    prior: Mixture | Tensor | None
    noise: float = 1.0
    dof: float = inf


class Settled(NamedTuple):
    """Codes (n, K); covariance (n, K, K), error (n, P) and component unless l1."""

    codes: Tensor
    covariance: Tensor | None = None
    error: Tensor | None = None
    component: Mixture | None = None


def settle_systems(net, D, observed, mask, alpha=None, learning=False):
    """Settle codes with the solver of the structure.

    Parameters
    ----------
    net : Operators
    D : Tensor of shape (r, K) or (n, r, K)
    observed, mask : Tensor of shape (n, r)
    alpha : float or None
        Penalty of the l1 settle.
    learning : bool, default=False
        Settle less tightly.

    Returns
    -------
    Settled
    """
    if net.solver == "l1":
        gap = _GAPS[0 if learning else 1]
        penalty = torch.as_tensor(alpha, dtype=D.dtype, device=D.device)
        return Settled(settle_l1(D, observed, penalty, penalty, mask=mask, tol=gap)[0])
    group = net.atoms.shape[1]
    if net.solver == "ep":
        rounds, damping = _LEARN if learning else _PREDICT
        options = {"rounds": rounds, "damping": damping, "group": group}
        options |= {"noise": net.noise, "dof": net.dof, "mask": mask}
        g, S, _, error, component = settle_ep(D, observed, net.prior, **options)
        return Settled(g, S, error, component)
    return _settle_ard(net, D, observed, mask, group)


def _settle_ard(net, D, observed, mask, group):
    """Codes by relevance determination, with the covariance that goes with them."""
    options = {"noise": net.noise, "floor": net.noise, "rounds": _ARD_ROUNDS}
    post = settle_ard(D, observed, net.prior, mask=mask, **options)
    seen = mask / post.noise[:, None]
    G, b = weighted_gram(D, observed, seen)
    g, S = gaussian_posterior(G, b, 1 / post.gamma)
    off = post.codes == 0
    S = S.masked_fill(off[:, :, None] | off[:, None, :], 0.0)
    error = (observed - (D @ g[:, :, None])[:, :, 0]).square()
    error = mask * (error + ((D @ S) * D).sum(-1))
    return Settled(post.codes, S, error.unflatten(1, (-1, group)).sum(-1))


@torch.no_grad()
def infer(net, part, alpha=None, activity=None):
    """Code, answers and their spread, from what was seen.

    Parameters
    ----------
    net : Operators
    part : Systems
        Queries unseen.
    alpha : float or None
        Penalty of l1.
    activity : float or None
        Of ep: see ``at_activity``; None keeps what was learned.

    Returns
    -------
    codes : Tensor of shape (n, K)
    answers : Tensor of shape (n, m)
    variance : Tensor of shape (n, m) or None
        diag(Q Sigma Q^T), Q the design at the queries; None for l1.
    """
    if net.solver == "ep" and activity is not None:
        net = replace(net, prior=at_activity(net.prior, activity))
    D = design(net.atoms, part.states)
    observed, mask = part.entries()
    cut = D.shape[-2] - net.layout.n_answers
    D, Q = D[..., :cut, :], D[..., cut:, :]
    if part.states.dim() == 2:
        net, mask, observed = _as_one_row(net, D, observed, mask, cut)
    else:
        observed, mask = observed[:, :cut], mask[:, :cut]
    post = settle_systems(net, D, observed, mask, alpha)
    answers = (Q @ post.codes[:, :, None])[:, :, 0]
    if post.covariance is None:
        return post.codes, answers, None
    return post.codes, answers, ((Q @ post.covariance) * Q).sum(-1)


def _as_one_row(net, D, observed, mask, cut):
    """With a constant state the observed entries are one group of their own."""
    atoms = D.T[:, :, None]
    return replace(net, atoms=atoms), mask[:, :cut], observed[:, :cut]
