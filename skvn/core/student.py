"""Student's t noise: robust to rows that fit badly, one scale for each."""

from math import inf, isfinite, lgamma, log

import torch

# Degrees of freedom tried; infinity is the Gaussian.
DOFS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, inf)
_ROUNDS = 30


def noise_floor(dtype):
    """Smallest noise variance, for responses of unit scale.

    Parameters
    ----------
    dtype : torch.dtype

    Returns
    -------
    float
        1e-7, or what rounding leaves of a posterior in that precision.
    """
    return max(1e-7, 256 * torch.finfo(dtype).eps)


def fit_noise(error, count, weight, dofs=DOFS):
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
    for _ in range(_ROUNDS):
        s2 = w @ ((nu + c) / (nu + e / s2) * e) / total
        s2 = s2.clamp_min(torch.finfo(e.dtype).tiny)
    half = (nu + c) / 2
    log_p = torch.lgamma(half) - lgamma(nu / 2) - c / 2 * (nu * s2).log()
    return float(w @ (log_p - half * torch.log1p(e / s2 / nu))), s2, nu
