"""Output weights from free codes: the delta rule run to its fixed point."""

from typing import NamedTuple

import torch
from torch import Tensor

# Errors this close are the same; the stiffest ridge of them is taken.
_TIE = 1.001
# Residuals below this share of y are not told apart.
_ROUNDING = 1e-10
# Share of the samples that the fit may use up as degrees of freedom.
_MAX_DOF = 0.9
# Ridge strengths tried, as multiples of the mean eigenvalue of the code Gram.
_RIDGES = torch.logspace(-8, 2, 41, dtype=torch.float64)


class CodeStatistics(NamedTuple):
    """Weighted sums over samples from which the readout follows.

    They add up over batches, over ``partial_fit`` calls and over machines.
    """

    n: Tensor  # ()      sum w
    g: Tensor  # (K,)    sum w g
    y: Tensor  # (m,)    sum w y
    gg: Tensor  # (K, K)  sum w g g^T
    yg: Tensor  # (m, K)  sum w y g^T
    yy: Tensor  # (m,)    sum w y^2


class Readout(NamedTuple):
    """y = U g + b and the variance of what is left."""

    U: Tensor  # (m, K)
    b: Tensor  # (m,)
    noise: Tensor  # (m,)


def code_statistics(g, y, weight):
    """Statistics of one batch.

    Parameters
    ----------
    g : Tensor of shape (n, K)
        Free codes: settled without y, as they are at prediction.
    y : Tensor of shape (n, m)
    weight : Tensor of shape (n,)

    Returns
    -------
    CodeStatistics
    """
    wg, wy = weight[:, None] * g, weight[:, None] * y
    return CodeStatistics(
        weight.sum(), wg.sum(0), wy.sum(0), g.T @ wg, y.T @ wg, (y * wy).sum(0)
    )


def add(a, b, keep=1.0):
    """``keep * a + b``, with ``a = None`` for an empty start.

    Parameters
    ----------
    a : CodeStatistics or None
    b : CodeStatistics
    keep : float, default=1.0
        Share of the old statistics that is remembered.

    Returns
    -------
    CodeStatistics
    """
    if a is None:
        return b
    return CodeStatistics(*(keep * p + q for p, q in zip(a, b, strict=True)))


def fit_readout(stats, fit_intercept=True):
    """Ridge regression of y on the codes, from statistics alone.

    ``U = argmin sum_n w_n ||y - b - U g||^2 + ridge ||U||^2``, the fixed point of
    the local rule ``dU = (y - U g) g^T`` with decay. The ridge minimises the
    generalised cross-validation error ``n RSS / (n - dof)^2`` (Golub, Heath and
    Wahba, 1979), summed over outputs, where n is the sum of the weights: a weight
    counts as that many repetitions. Of equally good ridges it is the largest.

    Parameters
    ----------
    stats : CodeStatistics
    fit_intercept : bool, default=True

    Returns
    -------
    Readout

    Examples
    --------
    >>> import torch
    >>> from skvn.core.readout import code_statistics, fit_readout
    >>> g = torch.arange(10.0, dtype=torch.float64)[:, None]
    >>> statistics = code_statistics(g, 2 * g + 1, torch.ones(10))
    >>> U, b, noise = fit_readout(statistics)
    >>> round(float(U), 2), round(float(b), 2)
    (2.0, 1.0)
    """
    dtype = stats.gg.dtype
    stats = CodeStatistics(*(t.double() for t in stats))
    n, g_mean, y_mean, gg, yg, yy = _centred(stats, fit_intercept)
    eigenvalues, Q = torch.linalg.eigh(gg)
    eigenvalues = eigenvalues.clamp(min=0)
    # Below the rounding error of the sums a direction holds nothing.
    held = eigenvalues > torch.finfo(dtype).eps * stats.gg.trace()
    T = held * (yg @ Q)
    ridge, rss, dof = _best_ridge(n, eigenvalues, T, yy, fit_intercept)
    U = (T / (eigenvalues + ridge)) @ Q.T
    noise = rss / (n - dof).clamp(min=1)
    return Readout(*(t.to(dtype) for t in (U, y_mean - U @ g_mean, noise)))


def _centred(stats, fit_intercept):
    """Second moments about the mean (or about zero)."""
    n, g, y, gg, yg, yy = stats
    if not fit_intercept:
        return n, torch.zeros_like(g), torch.zeros_like(y), gg, yg, yy
    g_mean, y_mean = g / n, y / n
    gg = gg - torch.outer(g, g_mean)
    yg = yg - torch.outer(y, g_mean)
    return n, g_mean, y_mean, gg, yg, (yy - y * y_mean).clamp(min=0)


def _best_ridge(n, eigenvalues, T, yy, fit_intercept):
    """Ridge with the lowest GCV error, with its RSS (m,) and dof ()."""
    # Silent codes have no scale; this one squared is still a number.
    scale = eigenvalues.mean().clamp(min=torch.finfo(eigenvalues.dtype).tiny ** 0.5)
    ridge = _RIDGES.to(eigenvalues)[:, None] * scale
    keep = eigenvalues / (eigenvalues + ridge)  # (R, K)
    dof = keep.sum(1) + fit_intercept
    # RSS = sum y^2 - sum_k T_k^2 (2 / (e + r) - e / (e + r)^2)
    explained = (2 - keep) / (eigenvalues + ridge) @ T.square().T  # (R, m)
    rss = (yy - explained).clamp(min=0)
    # A residual this small is rounding: then the stiffer ridge is the better one.
    error = (rss.sum(1) + _ROUNDING * yy.sum()) / (1 - dof / n).square()
    # With nearly as many degrees of freedom as samples the estimate means nothing.
    # If no ridge leaves room (a handful of samples), the stiffest one is taken.
    stiffest = torch.finfo(error.dtype).max * dof / dof.max()
    error = torch.where(dof <= _MAX_DOF * n, error, stiffest)
    best = (error <= _TIE * error.min()).nonzero().max()
    return ridge[best], rss[best], dof[best]
