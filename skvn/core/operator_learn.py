"""Learning the operator structure: settle all systems, sum statistics, move the atoms.

``ep`` and ``ard`` alternate a posterior of every code with a joint solve for the atoms
(generalised EM); ``l1`` takes local steps on mini-batches. All three keep atoms at unit
norm and move the scale into the prior.
"""

from dataclasses import dataclass, field, replace
from math import inf, isfinite, lgamma, log
from typing import NamedTuple

import torch
from torch import Tensor

from .grow import noise_floor
from .operator import (
    Layout,
    Systems,
    atom_statistics,
    design,
    limit_rank,
    misfit,
    newton_step,
    norms,
    solve_atoms,
)
from .settle_ard import settle_ard
from .settle_ep import (
    Mixture,
    at_activity,
    gaussian_posterior,
    settle_ep,
    weighted_gram,
)
from .settle_l1 import settle_l1

# EP rounds and damping while learning (the prior still moves) and at prediction.
_LEARN, _PREDICT = (4, 0.7), (12, 0.5)
# ARD rounds: more overfit small systems.
_ARD_ROUNDS = 2
# Relative duality gap of the l1 settle while learning and at prediction.
_GAPS = (1e-2, 1e-6)
# Degrees of freedom tried for Student's t.
_DOFS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, inf)
_DOF_ROUNDS = 30
# Mixture weights of "off" and of every active component, and variances of both kinds,
# stay within these; codes have the size of the responses, which is 1.
_OFF_RANGE, _ACTIVE_SHARE = (0.02, 0.98), 1e-3
_OFF_VARIANCE, _ACTIVE_VARIANCE = 1e-6, 1e-4
# Scale of the first mixture: narrow around 0, and wide around either sign.
_OFF_SPREAD, _ACTIVE_SPREAD = 0.1, 0.5
# The penalty starts at this multiple and falls to 1 in the first part of the epochs.
_ANNEAL, _ANNEAL_PART = 10.0, 0.6
# An atom used less than this, relative to the most used, is dead; none is replaced late.
_DEAD, _RESEED_PART = 1e-3, 0.7


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


def start_prior(solver, n_atoms, scale, like):
    """Prior of the codes before anything was learned.

    Parameters
    ----------
    solver : {"ep", "ard", "l1"}
    n_atoms : int
    scale : float
        Typical size of a code.
    like : Tensor
        Gives dtype and device.

    Returns
    -------
    Mixture, Tensor of shape (K,) or None
    """
    if solver == "l1":
        return None
    if solver == "ard":
        return like.new_full((n_atoms,), scale**2 / 2)
    off, on = (_OFF_SPREAD * scale) ** 2, (_ACTIVE_SPREAD * scale) ** 2
    rows = [[0.5, 0.25, 0.25], [0.0, scale, -scale], [off, on, on]]
    return Mixture(*(like.new_tensor(row).repeat(n_atoms, 1) for row in rows))


@dataclass
class OperatorLearner:
    """An operator structure while it learns.

    Parameters
    ----------
    net : Operators
    rank : int or None
        Largest rank of an atom.
    answer_noise : Tensor of shape (m,) or None
        Mean squared error of the answers after the last epoch.
    """

    net: Operators
    rank: int | None = None
    answer_noise: Tensor | None = None
    usage: Tensor | None = field(default=None, repr=False)

    def em(self, batches):
        """One round of generalised EM over all systems.

        Parameters
        ----------
        batches : iterable of (Systems, weight)

        Returns
        -------
        float
            Mean squared error expected of an observed entry, before the round.
        """
        sums, errors = None, []
        for part, weight in batches:
            new, error = self._posterior_sums(part, weight)
            sums = new if sums is None else [a + b for a, b in zip(sums, new, strict=True)]
            errors.append(error)
        H, N, total, answers, seen, *prior = sums
        error, count, weight = (torch.cat(a) for a in zip(*errors, strict=True))
        loss = float((weight @ error).sum() / (weight @ count).sum())
        A = limit_rank(solve_atoms(H, N), self.rank)
        self.answer_noise = answers / seen.clamp_min(torch.finfo(A.dtype).tiny)
        self._adopt(A, prior, total)
        self._fit_noise(error, count, weight)
        return loss

    def _posterior_sums(self, part, weight):
        """Sums over one batch, and the errors of its observed rows."""
        D = design(self.net.atoms, part.states)
        observed, mask = part.entries()
        post = settle_systems(self.net, D, observed, mask, learning=True)
        H, N = atom_statistics(part, post.codes, post.covariance, weight)
        answers, seen = self._answer_sums(D, part, post, weight)
        if self.net.solver == "ep":
            p, m, V = post.component
            prior = [weight @ a.flatten(1) for a in (p, p * m, p * (V + m.square()))]
        else:
            second = post.codes.square() + post.covariance.diagonal(dim1=1, dim2=2)
            prior = [weight @ second]
        group = mask.unflatten(1, (-1, part.responses.shape[-1])).sum(-1)
        R = max(self.net.layout.n_observed, 1)
        rows = post.error[:, :R], group[:, :R].to(weight), weight
        return [H, N, weight.sum(), answers, seen, *prior], rows

    def _answer_sums(self, D, part, post, weight):
        """Squared errors expected of the answers, and how many there are."""
        observed, mask = part.entries()
        last = slice(observed.shape[1] - self.net.layout.n_answers, None)
        r = observed - (D @ post.codes[:, :, None])[:, :, 0]
        error = r.square() + ((D @ post.covariance) * D).sum(-1)
        seen = mask[:, last].to(error)
        return weight @ (seen * error[:, last]), weight @ seen

    def _adopt(self, A, prior, total):
        """New atoms at unit norm; the prior of the codes takes their scale."""
        size = norms(A)
        if self.net.solver == "ep":
            p, m, V = mixture_from_sums(*(a.reshape(len(A), -1) for a in prior), total)
            new = Mixture(p, m * size[:, None], V * size[:, None].square())
        else:
            tiny = _OFF_VARIANCE * size.square()
            new = torch.maximum(prior[0] / total * size.square(), tiny)
        self.net = replace(self.net, atoms=A / size[:, None, None], prior=new)

    def _fit_noise(self, error, count, weight):
        """Noise of the observed rows; Student's t if the settle can use it."""
        dofs = _DOFS if self.net.solver == "ep" else (inf,)
        noise, dof = fit_noise(error, count, weight, dofs)
        self.net = replace(self.net, noise=noise, dof=dof)

    def hebb(self, part, weight, alpha):
        """Settle one batch under the l1 penalty and take one local step per atom.

        Parameters
        ----------
        part : Systems
        weight : Tensor of shape (n,)
        alpha : float

        Returns
        -------
        float
            Weighted sum of the energies before the step.
        """
        A = self.net.atoms
        D = design(A, part.states)
        g = settle_systems(self.net, D, *part.entries(), alpha, True).codes
        energy = misfit(A, part, g).square().sum((1, 2)) / 2 + alpha * g.abs().sum(1)
        A = limit_rank(newton_step(A, part, g, weight), self.rank)
        self.net = replace(self.net, atoms=A / norms(A)[:, None, None])
        use = weight @ g.square()
        self.usage = use if self.usage is None else self.usage + use
        return float(weight @ energy)

    def reseed(self, operators):
        """Replace dead atoms by the operators of badly explained systems.

        Parameters
        ----------
        operators : callable
            ``operators(count)`` gives that many, (count, c, F).

        Returns
        -------
        int
            How many were dead.
        """
        dead = self.usage < _DEAD * self.usage.max()
        self.usage = None
        if dead.any():
            A = self.net.atoms.clone()
            new = limit_rank(operators(int(dead.sum())), self.rank)
            A[dead] = new / norms(new)[:, None, None]
            self.net = replace(self.net, atoms=A)
        return int(dead.sum())

    def state(self):
        """What to come back to."""
        return self.net, self.answer_noise

    def restore(self, state):
        """Go back to an earlier ``state``."""
        self.net, self.answer_noise = state


def annealed(alpha, progress):
    """Penalty at ``progress`` (0 to 1): from ten times ``alpha`` down to it.

    Parameters
    ----------
    alpha, progress : float

    Returns
    -------
    float
    """
    return alpha * max(1.0, _ANNEAL * (1 - progress / _ANNEAL_PART))


def may_reseed(progress):
    """Whether there is time left for a new atom to learn."""
    return progress < _RESEED_PART


def mixture_from_sums(p, pm, psq, total):
    """Mixture with the moments of the tilted posteriors; the first mean stays 0.

    Parameters
    ----------
    p, pm, psq : Tensor of shape (K, J)
        Sums over systems of each component's probability, and of the probability times
        the mean and the mean square of g_k in it.
    total : Tensor of shape ()
        Sum of the weights.

    Returns
    -------
    Mixture
    """
    p = p + 1e-9 * total
    mean = pm / p
    mean[:, 0] = 0
    variance = psq / p - mean.square()
    floor = torch.full_like(variance, _ACTIVE_VARIANCE)
    floor[:, 0] = _OFF_VARIANCE
    off = (p[:, :1] / total).clamp(*_OFF_RANGE)
    on = (p[:, 1:] / p[:, 1:].sum(1, keepdim=True)).clamp_min(_ACTIVE_SHARE)
    on = (1 - off) * on / on.sum(1, keepdim=True)
    return Mixture(torch.cat([off, on], 1), mean, torch.maximum(variance, floor))


def fit_noise(error, count, weight, dofs=_DOFS):
    """Scale and degrees of freedom that make the rows' errors most likely.

    A row of c entries and squared error e has the density of a c-variate t,
    ``log p = lgamma((nu+c)/2) - lgamma(nu/2) - c/2 log(nu s2) - (nu+c)/2
    log(1 + e / (nu s2))``; each s2 by the fixed point of its EM.

    Parameters
    ----------
    error, count : Tensor of shape (n, R)
        Squared error and number of entries of every row; a row of none does not count.
    weight : Tensor of shape (n,)
    dofs : tuple of float
        Candidates for nu; infinity is the Gaussian.

    Returns
    -------
    noise : float
    dof : float
    """
    floor = noise_floor(error.dtype)
    there = count > 0
    w = weight[:, None].expand_as(error)[there]
    e, c = error[there], count[there]
    if not len(e):
        return floor, inf
    fits = [_fit_scale(e, c, w, nu) for nu in dofs]
    _, s2, dof = max(fits, key=lambda fit: fit[0])
    return max(float(s2), floor), dof


def _fit_scale(e, c, w, nu):
    """Log-likelihood, scale and degrees of freedom for one nu."""
    total = w @ c
    s2 = (w @ e / total).clamp_min(torch.finfo(e.dtype).tiny)
    if not isfinite(nu):
        return float(-(total * (s2.log() + log(2)) + w @ e / s2) / 2), s2, nu
    for _ in range(_DOF_ROUNDS):
        s2 = w @ ((nu + c) / (nu + e / s2) * e) / total
        s2 = s2.clamp_min(torch.finfo(e.dtype).tiny)
    half = (nu + c) / 2
    log_p = torch.lgamma(half) - lgamma(nu / 2) - c / 2 * (nu * s2).log()
    return float(w @ (log_p - half * torch.log1p(e / s2 / nu))), s2, nu


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
