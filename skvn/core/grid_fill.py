r"""Filling images: nonnegative row and column codes of noisy or half-missing images.

An image is the product of a row profile and a column profile, each made of a few
nonnegative unit-norm atoms, and every row of the data settles its own codes ::

    X ~ (A2 b) (A1 a)^T
    E(a, b) = 1/2 ||M * (X - (A2 b) (A1 a)^T)||^2 + lam (|a|_1 + |b|_1)

by turns, a for fixed b and b for fixed a. With ``f = A1 a`` fixed, E is quadratic in
``A2 b``: pixel row r has the weight ``q_r = sum_c M_rc f_c^2`` and the target
``sum_c M_rc X_rc f_c / q_r``, so ``settle_l1`` answers it. Between the turns the
profile is set to unit length, hence the sweeps follow E but need not lower it.

Shapes: ``X`` (n, h, w), zero where missing; ``M`` (n, h, w) bool, True where observed,
or None; ``A2`` (h, K) rows; ``A1`` (w, K) columns; ``b``, ``a`` (n, K).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .grid_pair import best_pair, misfit
from .grid_profile import column_mean, gain, noise, residual, unit
from .learn import hebb_step, normalise
from .settle_l1 import settle_l1

# Penalty of a row: this many standard deviations of what its codes leave unexplained
# (noise alone passes a threshold of 2 once in 44 times), ...
_NOISE_MARGIN = 2.0
# ... within these multiples of the penalty used for learning. It starts low: a high one
# can hold up the residual that it comes from.
_LOWEST, _START, _HIGHEST = 0.002, 0.1, 2.0
# Settle iterations of one turn; the next turn starts where this one ends.
_MAX_ITER = 100


class Filled(NamedTuple):
    """Codes whose product is the image: both sides carry the same norm.

    Attributes
    ----------
    b, a : Tensor of shape (n, K)
        Row codes and column codes.
    lam : Tensor of shape (n, 1)
        Penalty of every row at the end.
    """

    b: Tensor
    a: Tensor
    lam: Tensor


def half_problem(A, X, M, f):
    """Design and observed values of one side's codes, the other profile fixed.

    ``1/2 ||M * (X - (A b) f^T)||^2 = 1/2 ||v - D b||^2 + const`` with
    ``D = diag(sqrt(q)) A`` and ``v = X f / sqrt(q)``.

    Parameters
    ----------
    A : Tensor of shape (h, K)
    X : Tensor of shape (n, h, w)
    M : bool Tensor of shape (n, h, w) or None
    f : Tensor of shape (n, w)
        Unit length, or zero.

    Returns
    -------
    design : Tensor of shape (h, K) or (n, h, K)
        Shared by all rows if nothing is missing.
    observed : Tensor of shape (n, h)
    """
    p = (X @ f.unsqueeze(2)).squeeze(2)
    if M is None:
        return A, p
    s = (M.to(X) @ f.square().unsqueeze(2)).squeeze(2).sqrt()
    return s.unsqueeze(2) * A, p / torch.where(s > 0, s, 1)


def settle_side(A, X, M, f, lam, start, tol):
    """Codes of one side given the profile of the other, and their own unit profile.

    Parameters
    ----------
    A, X, M, f
        As in ``half_problem``.
    lam : Tensor of shape (n, 1)
    start : Tensor of shape (n, K) or None
    tol : float
        Relative duality gap of every row.

    Returns
    -------
    codes : Tensor of shape (n, K)
    profile : Tensor of shape (n, h)
    """
    problem = half_problem(A, X, M, f)
    options = {"start": start, "tol": tol, "max_iter": _MAX_ITER}
    codes = settle_l1(*problem, torch.inf, lam, **options).codes
    return codes, unit(codes @ A.T)


def fill(X, M, A2, A1, lam, **options):
    """Settle row and column codes of every image; no image looks at another.

    Starts from the mean of each column's observed pixels.

    Parameters
    ----------
    X : Tensor of shape (n, h, w)
    M : bool Tensor of shape (n, h, w) or None
    A2, A1 : Tensor of shape (h, K) and (w, K)
    lam : float
        Penalty used for learning.
    **options
        Keywords, needed but for the last:
    adapt : bool
        Let every row choose its penalty from its own residual.
    typical : Typical or None, default=None
        Gains to expect: prefer one atom a side if that explains the row as well.
    sweeps : int
    tol : float
        Relative duality gap of every settle.

    Returns
    -------
    Filled
    """
    atoms = A2, A1, lam
    if M is None:
        return _fill(X, None, *atoms, **options)
    # Complete images apart, so that they settle alike whatever their batch-mates lack.
    whole = M.all(2).all(1)
    a = _fill(X[whole], None, *atoms, **options)
    b = _fill(X[~whole], M[~whole], *atoms, **options)
    order = torch.cat([whole.nonzero()[:, 0], (~whole).nonzero()[:, 0]]).argsort()
    return Filled(*(torch.cat(pair)[order] for pair in zip(a, b, strict=True)))


def _fill(X, M, A2, A1, lam, *, adapt, sweeps, tol, typical=None):
    """``fill`` of images that are all complete (M is None) or all not."""
    lam_n = X.new_full((len(X), 1), lam * (_START if adapt else 1.0))
    f = unit(column_mean(X, M).clamp_min(0))
    Xt, Mt = X.mT.contiguous(), None if M is None else M.mT.contiguous()
    b = a = None
    for _ in range(sweeps):
        b, g = settle_side(A2, X, M, f, lam_n, b, tol)
        a, f = settle_side(A1, Xt, Mt, g, lam_n, a, tol)
        if adapt:
            rms = noise(X, M, g, f)
            lam_n = (_NOISE_MARGIN * rms).clamp(_LOWEST * lam, _HIGHEST * lam)
    b, a, s = _at_norm(b, A2, 1), _at_norm(a, A1, 1), gain(X, M, g, f)
    if typical is not None and typical.spread > 0:
        v = (lam_n / _NOISE_MARGIN).square()
        b, a, s = plainer(X, M, A2, A1, (b, a, s), v, typical)
    return Filled(s.sqrt() * b, s.sqrt() * a, lam_n)


def plainer(X, M, A2, A1, settled, noise, typical):
    """Codes and gain of the best pair of atoms where its misfit is lower.

    Parameters
    ----------
    X, M, A2, A1
        As in ``fill``.
    settled : tuple (b, a, s)
        Codes of unit profiles, and gain.
    noise : Tensor of shape (n, 1)
        Variance.
    typical : Typical

    Returns
    -------
    b, a, s : Tensor of shape (n, K), (n, K) and (n, 1)
    """
    data, best = (X, M, A2, A1), settled
    free = typical._replace(spread=torch.inf)
    for gains in (typical, free):
        pair = best_pair(*data, noise, gains)
        old, new = (misfit(*data, *v, noise, typical) for v in (best, pair))
        better = (new < old) & (settled[2] > 0)
        best = [torch.where(better, p, v) for p, v in zip(pair, best, strict=True)]
    return best


def _at_norm(codes, A, norm):
    """Codes scaled so that their profile has the given norm."""
    size = (codes @ A.T).norm(dim=1, keepdim=True)
    return codes * norm / torch.where(size > 0, size, 1)


def render(b, a, A2, A1):
    """Images ``(A2 b) (A1 a)^T`` that codes stand for.

    Parameters
    ----------
    b, a : Tensor of shape (n, K)
    A2, A1 : Tensor of shape (h, K) and (w, K)

    Returns
    -------
    Tensor of shape (n, h, w)
    """
    return (b @ A2.T).unsqueeze(2) * (a @ A1.T).unsqueeze(1)


def hebb_sums(R, g, f, b, a, weight):
    """Atomic-Hebb sums ``dA2_k = sum w b_k R f``, ``dA1_k = sum w a_k R^T g``.

    Minus the gradient of ``1/2 sum_n w_n ||R_n||^2`` at fixed codes (Danskin).

    Parameters
    ----------
    R : Tensor of shape (n, h, w)
        Residual.
    g, f : Tensor of shape (n, h) and (n, w)
        Profiles.
    b, a : Tensor of shape (n, K)
    weight : Tensor of shape (n,)

    Returns
    -------
    dA2, dA1 : Tensor of shape (h, K) and (w, K)
    """
    w = weight[:, None]
    d2 = (R @ f.unsqueeze(2)).squeeze(2).T @ (w * b)
    d1 = (R.mT @ g.unsqueeze(2)).squeeze(2).T @ (w * a)
    return d2, d1


def learn_fill(X, M, weight, A2, A1, lam, *, sweeps, tol):
    """Settle a batch and move the atoms one Atomic-Hebb step; keep them nonnegative.

    Parameters
    ----------
    X, M, A2, A1, lam, sweeps, tol
        As in ``fill``.
    weight : Tensor of shape (n,)

    Returns
    -------
    A2, A1 : Tensor of shape (h, K) and (w, K)
    loss : float
        Weighted sum of ``1/2 ||R||^2`` before the step.
    """
    b, a, _ = fill(X, M, A2, A1, lam, adapt=False, sweeps=sweeps, tol=tol)
    g, f = b @ A2.T, a @ A1.T
    R = residual(X, M, g, f)
    d2, d1 = hebb_sums(R, g, f, b, a, weight)
    A2 = normalise(hebb_step(A2, d2, _activity(b, f, weight), 1.0).clamp_min(0))
    A1 = normalise(hebb_step(A1, d1, _activity(a, g, weight), 1.0).clamp_min(0))
    return A2, A1, float(weight @ R.square().sum((1, 2))) / 2


def _activity(code, other, weight):
    """``c_k = sum_n w_n code_k |code|_1 ||other||^2``: bounds the curvature."""
    size = weight * code.sum(1) * other.square().sum(1)
    return size @ code
