"""Mixture priors of codes: every atom is off, or active on either side of 0."""

from typing import NamedTuple

import torch
from torch import Tensor

# Mixture weights of "off" and of every active component, and variances of both kinds,
# stay within these; codes have the size of the responses, which is 1.
_OFF_RANGE, _ACTIVE_SHARE = (0.02, 0.98), 1e-3
OFF_VARIANCE, _ACTIVE_VARIANCE = 1e-6, 1e-4
# Scale of the first mixture: narrow around 0, and wide around either sign.
_OFF_SPREAD, _ACTIVE_SPREAD = 0.1, 0.5
# Smallest variance of a mixture.
_TINY = 1e-10


class Mixture(NamedTuple):
    """Prior of the code: J Gaussians for each atom.

    Attributes
    ----------
    weight, mean, variance : Tensor of shape (K, J)
        By convention the first component is the narrow one of an atom that is off.
    """

    weight: Tensor
    mean: Tensor
    variance: Tensor


def first_mixture(n_atoms, scale, like):
    """Mixture before anything was learned: off half of the time.

    Parameters
    ----------
    n_atoms : int
    scale : float
        Typical size of an active code.
    like : Tensor
        Gives dtype and device.

    Returns
    -------
    Mixture
    """
    off, on = (_OFF_SPREAD * scale) ** 2, (_ACTIVE_SPREAD * scale) ** 2
    rows = [[0.5, 0.25, 0.25], [0.0, scale, -scale], [off, on, on]]
    return Mixture(*(like.new_tensor(row).repeat(n_atoms, 1) for row in rows))


def moments(prior):
    """Mean and variance of every atom's mixture.

    Parameters
    ----------
    prior : Mixture of Tensors of shape (K, J)

    Returns
    -------
    mean, variance : Tensor of shape (K,)
    """
    mean = (prior.weight * prior.mean).sum(-1)
    second = (prior.weight * (prior.variance + prior.mean.square())).sum(-1)
    return mean, (second - mean.square()).clamp_min(_TINY)


def at_activity(prior, activity):
    """The prior with the odds of all atoms scaled until the median one is as active.

    An atom's activity is the weight of all its components but the first. Training may
    show each atom alone and prediction many together; this says how many to expect.

    Parameters
    ----------
    prior : Mixture of Tensors of shape (K, J)
    activity : float
        Between 0 and 1.

    Returns
    -------
    Mixture
    """
    tiny = torch.finfo(prior.weight.dtype).tiny
    off, on = prior.weight[:, :1], prior.weight[:, 1:]
    odds = (1 - off) / off.clamp_min(tiny)
    odds = odds / odds.median() * (activity / (1 - activity))
    active = odds / (1 + odds)
    on = active * on / on.sum(1, keepdim=True).clamp_min(tiny)
    return prior._replace(weight=torch.cat([1 - active, on], 1))


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
    floor[:, 0] = OFF_VARIANCE
    off = (p[:, :1] / total).clamp(*_OFF_RANGE)
    on = (p[:, 1:] / p[:, 1:].sum(1, keepdim=True)).clamp_min(_ACTIVE_SHARE)
    on = (1 - off) * on / on.sum(1, keepdim=True)
    return Mixture(torch.cat([off, on], 1), mean, torch.maximum(variance, floor))
