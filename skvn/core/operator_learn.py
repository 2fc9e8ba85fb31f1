"""Learning the operator structure: settle all systems, sum statistics, move the atoms.

``ep`` and ``ard`` alternate a posterior of every code with a joint solve for the atoms
(generalised EM); ``l1`` takes local steps on mini-batches. All three keep atoms at unit
norm and move the scale into the prior.
"""

from dataclasses import dataclass, field, replace
from math import inf

import torch
from torch import Tensor

from .mixture import OFF_VARIANCE, Mixture, first_mixture, mixture_from_sums
from .operator import (
    atom_statistics,
    design,
    limit_rank,
    misfit,
    newton_step,
    norms,
    solve_atoms,
)
from .operator_model import Operators, settle_systems
from .student import DOFS, fit_noise

# The penalty starts at this multiple and falls to 1 in the first part of the epochs.
_ANNEAL, _ANNEAL_PART = 10.0, 0.6
# An atom used less than this, relative to the most used, is dead; none is replaced
# late.
_DEAD, _RESEED_PART = 1e-3, 0.7


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
    return first_mixture(n_atoms, scale, like)


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
            sums = (
                new if sums is None else [a + b for a, b in zip(sums, new, strict=True)]
            )
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
            tiny = OFF_VARIANCE * size.square()
            new = torch.maximum(prior[0] / total * size.square(), tiny)
        self.net = replace(self.net, atoms=A / size[:, None, None], prior=new)

    def _fit_noise(self, error, count, weight):
        """Noise of the observed rows; Student's t if the settle can use it."""
        dofs = DOFS if self.net.solver == "ep" else (inf,)
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
