"""Gaussian posterior of a batch of rows: solves in an r x r and a K x K form.

Row ``v = D g + noise`` with ``g_k ~ N(0, gamma_k)``, noise variance s2 and
``A = s2 I + D diag(gamma) D^T`` on its visible entries::

    r x r:  w = A^{-1} v,  g = gamma (D^T w),  Sigma = G - G D^T A^{-1} D G
    K x K:  B = I + G^{1/2} D^T D G^{1/2} / s2,  Sigma = G^{1/2} B^{-1} G^{1/2}

with ``G = diag(gamma)``. Both give the same; the smaller matrix is the faster one.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

# Entries of the largest working array of one block of rows: 32 MB in float64, large
# enough for efficient matrix products, small enough for a laptop.
BLOCK_ENTRIES = 2**22
# Largest table of pair products r * r * K worth keeping: 128 MB in float64.
PAIR_ENTRIES = 2**24
# Relative lift of s2, in units of eps * max diag(C): 2e-6 in float32.
JITTER = 16
# Lifts tried when a Cholesky factorisation fails, in units of eps * max diag.
RETRIES = (1e2, 1e4)


class Rows(NamedTuple):
    """A block of rows.

    Attributes
    ----------
    design : Tensor of shape (r, K) or (b, r, K)
        Design D, shared by all rows or one for each.
    values : Tensor of shape (b, r)
        Observed values v, 0 at masked entries.
    seen : Tensor of shape (b, r)
        1 at visible entries, 0 at masked ones.
    pairs : Tensor of shape (r * r, K) or None
        All products of two rows of a shared design, if that table is worth keeping.
    """

    design: torch.Tensor
    values: torch.Tensor
    seen: torch.Tensor
    pairs: torch.Tensor | None


class Solve(NamedTuple):
    """One Gaussian solve.

    Attributes
    ----------
    codes : Tensor of shape (b, K)
        Posterior mean g.
    dual : Tensor of shape (b, r)
        w = A^{-1} v.
    factor : Tensor of shape (b, r, r) or (b, K, K)
        Cholesky factor of A or of B.
    """

    codes: torch.Tensor
    dual: torch.Tensor
    factor: torch.Tensor


def blocks(design, values, seen, readout):
    """Split the rows so that no working array exceeds BLOCK_ENTRIES.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    values : Tensor of shape (n, r)
        Observed values v, 0 at masked entries.
    seen : Tensor of shape (n, r)
        1 at visible entries, 0 at masked ones.
    readout : Tensor of shape (m, K) or None

    Yields
    ------
    Rows
        At least once, also without any row.
    """
    r, K = design.shape[-2:]
    m = 0 if readout is None else len(readout)
    step = max(1, BLOCK_ENTRIES // max(r * K, K * K * (r > K), m * K))
    shared = design.ndim == 2
    pairs = _pairs(design) if shared and r <= K and r * r * K <= PAIR_ENTRIES else None
    for start in range(0, max(len(values), 1), step):
        rows = slice(start, start + step)
        part = design if shared else design[rows]
        yield Rows(part, values[rows], seen[rows], pairs)


def _pairs(design):
    """All products of two design rows, (r * r, K): makes C one matrix product."""
    return (design[:, None, :] * design[None, :, :]).flatten(0, 1)


# The r x r ("dual") form.


def _solve_dual(rows, gamma, s2):
    """Solve for w = A^{-1} v and g = gamma * (D^T w); A has 1 at masked entries."""
    seen = rows.seen
    cov = _covariance(rows, gamma) * (seen[:, :, None] * seen[:, None, :])
    lifted = s2 + _jitter(cov.diagonal(dim1=-2, dim2=-1))
    cov.diagonal(dim1=-2, dim2=-1).add_(lifted[:, None] * seen + (1 - seen))
    factor = _cholesky(cov)
    dual = torch.cholesky_solve(rows.values[:, :, None], factor)[:, :, 0]
    return Solve(gamma * _back(rows.design, dual), dual, factor)


def _leverage_dual(rows, gamma, s2, factor):
    """Compute gamma_k q_k = 1 - Sigma_kk / gamma_k, (b, K), and tr A^{-1}, (b,)."""
    seen = rows.seen
    inverse = torch.cholesky_inverse(factor) * (seen[:, :, None] * seen[:, None, :])
    if rows.pairs is None:
        q = ((inverse @ rows.design) * rows.design).sum(-2)
    else:
        q = inverse.flatten(1) @ rows.pairs
    trace = inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (gamma * q).clamp(0, 1), trace


def _variance_dual(rows, gamma, factor, readout):
    """Diagonal of U (G - G D^T A^{-1} D G) U^T with G = diag(gamma)."""
    cross = (readout * gamma[:, None, :]) @ rows.design.mT
    cross = cross * rows.seen[:, None, :]
    known = torch.linalg.solve_triangular(factor, cross.mT, upper=False)
    prior = gamma @ readout.square().T
    return (prior - known.square().sum(-2)).clamp_min(0)


def _covariance(rows, gamma):
    """C = D diag(gamma) D^T of each row, (b, r, r)."""
    if rows.pairs is None:
        return (rows.design * gamma[:, None, :]) @ rows.design.mT
    r = rows.design.shape[-2]
    return (gamma @ rows.pairs.T).view(-1, r, r)


# The K x K ("primal") form.


def _solve_primal(rows, gamma, s2):
    """Solve with B = I + G^{1/2} D^T D G^{1/2} / s2; Sigma = G^{1/2} B^{-1} G^{1/2}."""
    root, s2 = gamma.sqrt(), _lifted(rows, gamma, s2)[:, None]
    scaled = _gram(rows, root) / s2[:, :, None]
    scaled.diagonal(dim1=-2, dim2=-1).add_(1)
    factor = _cholesky(scaled)
    pulled = root * _back(rows.design, rows.values) / s2
    codes = root * torch.cholesky_solve(pulled[:, :, None], factor)[:, :, 0]
    misfit = rows.values - rows.seen * _forward(rows.design, codes)
    return Solve(codes, misfit / s2, factor)


def _leverage_primal(rows, gamma, s2, factor):
    """Compute 1 - Sigma_kk / gamma_k as diag(B^{-1} (B - I)), free of cancellation."""
    s2 = _lifted(rows, gamma, s2)
    gram = _gram(rows, gamma.sqrt()) / s2[:, None, None]
    share = (torch.cholesky_inverse(factor) * gram).sum(-1).clamp(0, 1)
    count = rows.seen.sum(-1)
    # At worst the fit uses up every entry: then A^{-1} is of order 1 / max diag(A).
    left = (count - share.sum(-1)).clamp_min(torch.finfo(s2.dtype).eps)
    return share, left / s2


def _variance_primal(rows, gamma, factor, readout):
    """Diagonal of U G^{1/2} B^{-1} G^{1/2} U^T."""
    pulled = (readout * gamma.sqrt()[:, None, :]).mT
    spread = torch.linalg.solve_triangular(factor, pulled, upper=False)
    return spread.square().sum(-2)


def _gram(rows, root):
    """G^{1/2} D^T D G^{1/2} over the visible entries of each row, (b, K, K)."""
    scaled = rows.design * root[:, None, :] * rows.seen[:, :, None]
    return scaled.mT @ scaled


def _lifted(rows, gamma, s2):
    """Noise raised by the jitter, as in the r x r form."""
    return s2 + _jitter(_forward(rows.design.square(), gamma) * rows.seen)


# Shared linear algebra.


def _forward(design, codes):
    """D g of each row, (b, r)."""
    if design.ndim == 2:
        return codes @ design.T
    return (design @ codes[:, :, None])[:, :, 0]


def _back(design, values):
    """D^T v of each row, (b, K)."""
    if design.ndim == 2:
        return values @ design
    return (design.mT @ values[:, :, None])[:, :, 0]


def _jitter(diagonal):
    """Rounding error of forming A, (b,), from the diagonal of C, (b, r)."""
    return JITTER * torch.finfo(diagonal.dtype).eps * diagonal.amax(-1)


def _cholesky(matrices):
    """Cholesky factors, (b, p, p); a row that fails is tried again with more lift."""
    factor, failed = torch.linalg.cholesky_ex(matrices)
    for lift in RETRIES:
        bad = failed > 0
        if not bad.any():
            break
        again = matrices[bad]
        diagonal = again.diagonal(dim1=-2, dim2=-1)
        diagonal.add_(lift / JITTER * _jitter(diagonal)[:, None])
        factor[bad], failed[bad] = torch.linalg.cholesky_ex(again)
    return factor


# The two forms.


class Form(NamedTuple):
    """One way to do the linear algebra.

    Attributes
    ----------
    solve : callable
        ``(rows, gamma, s2) -> Solve``.
    leverage : callable
        ``(rows, gamma, s2, factor) -> share, trace``: 1 - Sigma_kk / gamma_k of shape
        (b, K), and tr A^{-1} of shape (b,).
    variance : callable
        ``(rows, gamma, factor, readout) -> diag(U Sigma U^T)`` of shape (b, m).
    """

    solve: Callable
    leverage: Callable
    variance: Callable


DUAL = Form(_solve_dual, _leverage_dual, _variance_dual)
PRIMAL = Form(_solve_primal, _leverage_primal, _variance_primal)
