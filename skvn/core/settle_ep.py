r"""Settling under a mixture prior per atom, by expectation propagation (EP).

Row ``v = D g + noise``; every coefficient has its own prior, a mixture of J Gaussians::

    p(g_k) = sum_j weight_kj N(g_k; mean_kj, variance_kj)

EP replaces each mixture by one Gaussian *site* ``N(h_k / P_k, 1 / P_k)`` and refits it,
round by round, so that the marginal of g_k has the moments it has under the mixture and
the other sites (Minka 2001). Before the first round the sites have the moments of the
prior, which is the Gaussian conditional; an atom that a row does not need then falls
into its narrow component. The noise may be Student's t, one scale for each group of
entries: groups that fit badly count less.
"""

from math import inf, isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from .mixture import Mixture, moments

# Entries of the largest working array of one block of rows; changes no result.
_BLOCK = 2**22
# Site precisions stay within these; eps**-0.57 is 1e9 in float64 and 1e4 in float32.
_LOW, _HIGH_POWER = 1e-3, -0.57
# Cavity precisions and tilted variances are kept above this.
_TINY = 1e-10
# Lift of the unit diagonal of a factorised matrix, in eps: rounding of forming it.
_JITTER = 16


class Posterior(NamedTuple):
    """What settling knows of each row.

    Attributes
    ----------
    codes : Tensor of shape (n, K)
        Posterior mean g.
    covariance : Tensor of shape (n, K, K)
        Posterior covariance Sigma.
    noise : Tensor of shape (n, r / group)
        Noise variance of every group of entries.
    error : Tensor of shape (n, r / group)
        Posterior mean of ``||v - D g||^2`` over the visible entries of every group.
    component : Mixture of Tensors of shape (n, K, J)
        Probability that g_k came from each component, and mean and variance of g_k
        if it did.
    """

    codes: Tensor
    covariance: Tensor
    noise: Tensor
    error: Tensor
    component: Mixture


@torch.no_grad()
def settle_ep(
    design,
    observed,
    prior,
    *,
    noise,
    dof=inf,
    group=1,
    mask=None,
    rounds=12,
    damping=0.5,
):
    """Settle every row under a mixture prior.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
        Design D, shared by all rows or one for each.
    observed : Tensor of shape (n, r)
        Observed values v; whatever stands at masked entries is ignored.
    prior : Mixture
    noise : float
        Noise variance s2 (squared scale, if ``dof`` is finite).
    dof : float, default=inf
        Degrees of freedom nu of Student's t; infinity is Gaussian noise. A group of c
        visible entries gets ``s2 <- (nu s2 + error) / (nu + c)`` in every round.
    group : int, default=1
        So many neighbouring entries share one noise scale.
    mask : bool Tensor of shape (n, r) or None
        True where an entry is visible.
    rounds : int, default=12
        0 is the Gaussian conditional under a prior with the mixture's moments.
    damping : float, default=0.5
        Share of a site that every round renews (its precision geometrically).

    Returns
    -------
    Posterior
        A row with nothing visible has the prior's moments.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.mixture import first_mixture
    >>> from skvn.core.settle_ep import settle_ep
    >>> x = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    >>> prior = first_mixture(2, 1.0, x)
    >>> post = settle_ep(torch.eye(2).to(x), x, prior, noise=1e-3)
    >>> bool((post.codes - x).abs().max() < 0.05)
    True
    """
    n, r = observed.shape
    K = design.shape[-1]
    step = max(1, _BLOCK // max(r * K, K * K))
    options = prior, noise, dof, group, rounds, damping
    parts = []
    for start in range(0, max(n, 1), step):
        rows = slice(start, start + step)
        part = design if design.dim() == 2 else design[rows]
        seen = torch.ones_like(observed[rows])
        values = observed[rows]
        if mask is not None:
            seen = mask[rows].to(seen)
            values = torch.where(mask[rows], values, 0.0)
        parts.append(_settle_block(part, values, seen, *options))
    return _joined(parts)


def gaussian_posterior(gram, pulled, precision, pull=0.0):
    """Mean and covariance of ``exp(-g^T G g / 2 + b^T g)`` times Gaussian sites.

    ``Sigma = (G + diag(P))^{-1}``, ``g = Sigma (b + h)``; factorised with its diagonal
    scaled to 1.

    Parameters
    ----------
    gram : Tensor of shape (n, K, K)
        G, the Gram matrix of the design in units of the noise.
    pulled : Tensor of shape (n, K)
        b, the design times the observed values in units of the noise.
    precision : Tensor of shape (n, K)
        P of every site.
    pull : Tensor of shape (n, K) or float
        h of every site.

    Returns
    -------
    codes : Tensor of shape (n, K)
    covariance : Tensor of shape (n, K, K)
    """
    diagonal = gram.diagonal(dim1=-2, dim2=-1) + precision
    root = diagonal.rsqrt()
    scaled = root[:, :, None] * gram * root[:, None, :]
    lift = _JITTER * torch.finfo(scaled.dtype).eps
    scaled.diagonal(dim1=-2, dim2=-1).copy_(torch.full_like(root, 1 + lift))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(scaled)[0])
    covariance = root[:, :, None] * inverse * root[:, None, :]
    return (covariance @ (pulled + pull)[:, :, None])[:, :, 0], covariance


def weighted_gram(design, values, precision):
    """``D^T diag(precision) D`` and ``D^T diag(precision) v`` of every row.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    values : Tensor of shape (n, r)
    precision : Tensor of shape (n, r)
        0 at masked entries.

    Returns
    -------
    gram : Tensor of shape (n, K, K)
    pulled : Tensor of shape (n, K)
    """
    scaled = (design * precision[:, :, None]).mT
    return scaled @ design, (scaled @ values[:, :, None])[:, :, 0]


def _settle_block(design, values, seen, prior, noise, dof, group, rounds, damping):
    """Posterior of one block of rows; masked values are 0."""
    n, K = len(values), design.shape[-1]
    mean, variance = moments(prior)
    P = (1 / variance).expand(n, K)
    h = (mean / variance).expand(n, K)
    spread = lambda s: seen / s.repeat_interleave(group, 1)  # noqa: E731
    count = seen.unflatten(1, (-1, group)).sum(-1)
    s2 = torch.full_like(count, float(noise))
    G, b = weighted_gram(design, values, spread(s2))
    g, S = gaussian_posterior(G, b, P, h)
    component = _tilt(*_cavity(G, b, S, P, h), prior)
    for _ in range(rounds):
        if isfinite(dof):
            error = _expected_error(design, values, seen, group, g, S)
            s2 = (dof * noise + error) / (dof + count)
            G, b = weighted_gram(design, values, spread(s2))
            g, S = gaussian_posterior(G, b, P, h)
        cavity = _cavity(G, b, S, P, h)
        component = _tilt(*cavity, prior)
        P, h = _renew(P, h, *cavity, component, damping)
        g, S = gaussian_posterior(G, b, P, h)
    error = _expected_error(design, values, seen, group, g, S)
    return Posterior(g, S, s2, error, component)


def _expected_error(design, values, seen, group, g, S):
    """Posterior mean of the squared residual of every group, (n, r / group)."""
    r = values - (design @ g[:, :, None])[:, :, 0]
    spread = ((design @ S) * design).sum(-1)
    return (seen * (r.square() + spread)).unflatten(1, (-1, group)).sum(-1)


def _cavity(G, b, S, P, h):
    """Precision and pull of each marginal without its own site.

    ``1 / S_kk - P_k = (S G)_kk / S_kk`` and
    ``g_k / S_kk - h_k = b_k + sum_{j != k} S_kj (b_j + h_j) / S_kk``: the right-hand
    sides do not cancel.
    """
    variance = S.diagonal(dim1=-2, dim2=-1)
    known = (S * G).sum(-1).clamp_min(0)
    others = S - torch.diag_embed(variance)
    pull = b + (others @ (b + h)[:, :, None])[:, :, 0] / variance
    return (known / variance).clamp_min(_TINY), pull


def _tilt(precision, pull, prior):
    """Each coefficient under its cavity times its mixture."""
    mean, variance = (pull / precision)[..., None], (1 / precision)[..., None]
    total = prior.variance + variance
    fit = prior.weight.log() - (total.log() + (mean - prior.mean) ** 2 / total) / 2
    moved = (prior.variance * mean + variance * prior.mean) / total
    return Mixture(fit.softmax(-1), moved, prior.variance * variance / total)


def _renew(P, h, cavity_precision, cavity_pull, component, damping):
    """Sites that give each marginal the moments of its tilted mixture."""
    weight, means, variances = component
    mean = (weight * means).sum(-1)
    spread = variances + (means - mean[..., None]).square()
    variance = (weight * spread).sum(-1).clamp_min(_TINY**1.2)
    high = torch.finfo(P.dtype).eps ** _HIGH_POWER
    P_new = (1 / variance - cavity_precision).clamp(_LOW, high)
    h_new = mean * (P_new + cavity_precision) - cavity_pull
    return P ** (1 - damping) * P_new**damping, torch.lerp(h, h_new, damping)


def _joined(parts):
    """One Posterior from those of the blocks."""
    *plain, components = zip(*parts, strict=True)
    component = Mixture(*(torch.cat(c) for c in zip(*components, strict=True)))
    return Posterior(*(torch.cat(p) for p in plain), component)
