r"""A linear-Gaussian model of operators: the start, and the baseline, of the atoms.

Every system has an operator W of its own, ``vec(W) ~ N(0, C)``, and responses
``a = W z + noise``. C and the noise are learned from all systems (empirical Bayes).
"""

from typing import NamedTuple

import torch

from .energy import times
from .student import noise_floor

# EM rounds, first prior variance of an entry and first noise, for responses of unit
# scale.
_ROUNDS, _VARIANCE, RIDGE_NOISE = 30, 0.1, 0.05
# Smallest noise: less only amplifies rounding.
_FLOOR = 1e-5


class EmpiricalBayes(NamedTuple):
    """Linear-Gaussian model of operators.

    Attributes
    ----------
    operators : Tensor of shape (n, c F)
        Posterior mean for every system.
    covariance : Tensor of shape (c F, c F)
        Prior covariance.
    noise : Tensor of shape ()
        Variance of one response entry.
    """

    operators: torch.Tensor
    covariance: torch.Tensor
    noise: torch.Tensor


def empirical_bayes(part, weight, rounds=_ROUNDS):
    """Learn one Gaussian prior ``vec(W) ~ N(0, C)`` and the noise by EM.

    Parameters
    ----------
    part : Systems
    weight : Tensor of shape (n,)
    rounds : int, default=30

    Returns
    -------
    EmpiricalBayes
    """
    gram, pulled, square, count = _operator_statistics(part)
    C = _VARIANCE * torch.eye(pulled.shape[1], dtype=gram.dtype, device=gram.device)
    noise = gram.new_tensor(RIDGE_NOISE)
    share = weight / weight.sum()
    for _ in range(rounds):
        mean, S = conditional(gram, pulled, C, noise)
        second = mean[:, :, None] * mean[:, None, :] + S
        C = torch.einsum("n,nij->ij", share, second)
        fit = (gram * second).sum((1, 2)) - 2 * (mean * pulled).sum(1)
        noise = share @ (square + fit) / (share @ count).clamp_min(1e-12)
        noise = noise.clamp_min(max(_FLOOR, noise_floor(gram.dtype)))
    return EmpiricalBayes(conditional(gram, pulled, C, noise)[0], C, noise)


def conditional(gram, pulled, C, noise):
    """Posterior of operators under ``N(0, C)``.

    ``S = L (I + L^T G L / s2)^{-1} L^T`` with ``C = L L^T``, ``mean = S b / s2``.

    Parameters
    ----------
    gram : Tensor of shape (n, d, d)
        G of every system.
    pulled : Tensor of shape (n, d)
        b of every system.
    C : Tensor of shape (d, d)
    noise : Tensor of shape ()

    Returns
    -------
    mean : Tensor of shape (n, d)
    S : Tensor of shape (n, d, d)
    """
    w, q = torch.linalg.eigh(C)
    L = q * w.clamp_min(0).sqrt()
    T = L.mT @ (gram / noise) @ L
    T.diagonal(dim1=-2, dim2=-1).add_(1)
    factor = torch.linalg.cholesky_ex(T)[0]
    V = torch.linalg.solve_triangular(factor, L.mT.expand_as(T), upper=False)
    S = V.mT @ V
    return times(pulled / noise, S), S


def _operator_statistics(part):
    """G (n, c F, c F), b (n, c F), squared responses and their number."""
    n, _, c = part.responses.shape
    states = part.states.expand(n, -1, -1)
    seen = part.seen.to(states)
    Z = torch.einsum("npm,npf,npg->nmfg", seen, states, states)
    F = Z.shape[-1]
    gram = Z.new_zeros(n, c, F, c, F)
    gram.diagonal(dim1=1, dim2=3).copy_(Z.expand(-1, c, -1, -1).permute(0, 2, 3, 1))
    pulled = part.responses.mT @ states
    count = part.seen.expand_as(part.responses).sum((1, 2)).to(states)
    square = part.responses.square().sum((1, 2))
    return gram.reshape(n, c * F, c * F), pulled.flatten(1), square, count


def ridge_operators(part):
    """Ridge estimate of every system's operator, component by component.

    Parameters
    ----------
    part : Systems

    Returns
    -------
    Tensor of shape (n, c F)
        The posterior mean under independent entries, with the first noise of EM.
    """
    n = len(part.responses)
    states = part.states.expand(n, -1, -1)
    Z = torch.einsum("npm,npf,npg->nmfg", part.seen.to(states), states, states)
    Z.diagonal(dim1=-2, dim2=-1).add_(RIDGE_NOISE / _VARIANCE)
    b = part.responses.mT @ states
    return torch.linalg.solve(Z, b[..., None])[..., 0].flatten(1)
