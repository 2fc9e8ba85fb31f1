r"""The plainest reading of an image: one row atom, one column atom, a typical gain.

A line of a half-hidden object fits a dim object near by as well as the bright one that
it is part of. What decides is how bright objects usually are: the images learned from
say that the gain ``s`` of ``s g f^T`` is about ``m = (row gain of g) (column gain of
f)``, give or take a share ``t``. A reading has the misfit ::

    J = ||M * (X - s g f^T)||^2 / (2 v) - log p(s) + k / 2 log N

with noise variance ``v``, k active atoms and N pixels seen (the Bayesian information
criterion). ``p`` is normal about m but for one image in a hundred, which may have any
gain. The settled codes are kept unless a pair of atoms has a lower misfit: the best
pair if the gain is typical, or if it is free.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .grid_profile import residual

# Entries of the table of all pairs of a block of images.
_BLOCK = 2**22
# Codes below this share of the largest count as zero.
_ACTIVE = 1e-3
# Iterations for the gains of atoms, and the weight of the mean among the images.
_ITERATIONS, _PRIOR = 100, 1e-7
_LEAST_SPREAD = 0.01
# Share of images that may have any gain, and the highest of a pair in units of the
# typical one: an object far brighter than any, but nearly all hidden, fits most things.
_ODD, _BRIGHTEST = 0.01, 3.0
_TINY = 1e-30


class Typical(NamedTuple):
    """How bright images are.

    Attributes
    ----------
    row, column : Tensor of shape (K,)
        Factors of the gain.
    spread : float
        Standard deviation, as a share of the gain.
    """

    row: Tensor
    column: Tensor
    spread: float

    def of(self, b, a):
        """Typical gain of images with these codes, (n, 1)."""
        return share(b) @ self.row[:, None] * (share(a) @ self.column[:, None])


def share(codes):
    """Codes that sum to one; zeros stay.

    Parameters
    ----------
    codes : Tensor of shape (n, K)

    Returns
    -------
    Tensor of shape (n, K)
    """
    total = codes.sum(1, keepdim=True)
    return codes / torch.where(total > 0, total, 1)


def typical_gain(b, a, gain, weight):
    """Factors of the gain of every atom, by alternating ratios of sums.

    Parameters
    ----------
    b, a : Tensor of shape (n, K)
    gain : Tensor of shape (n,)
    weight : Tensor of shape (n,)

    Returns
    -------
    Typical
    """
    q, p = share(b), share(a)
    weight = weight * (gain > 0)
    total = (weight * gain).sum()
    row, column = torch.ones_like(b[0]), torch.ones_like(a[0])
    for _ in range(_ITERATIONS):
        row = _ratio(q, weight * gain, weight * (p @ column))
        column = _ratio(p, weight * gain, weight * (q @ row))
    model = torch.where(weight > 0, (q @ row) * (p @ column), 1)
    far = torch.where(weight > 0, gain / model - 1, 0)
    spread = (weight @ far.square() / weight.sum().clamp_min(_TINY)).sqrt()
    return Typical(row, column, max(float(spread), _LEAST_SPREAD) if total > 0 else 0.0)


def _ratio(q, above, below):
    """Weighted ratio of sums of every atom; the overall one for an unused atom."""
    above, below = (v @ q + _PRIOR * v.sum() for v in (above, below))
    return above / torch.where(below > 0, below, 1)


def misfit(X, M, A2, A1, b, a, s, noise, typical):
    """``J`` of a reading.

    Parameters
    ----------
    X : Tensor of shape (n, h, w)
    M : bool Tensor of shape (n, h, w) or None
    A2, A1 : Tensor of shape (h, K) and (w, K)
    b, a : Tensor of shape (n, K)
        With profiles at unit length.
    s, noise : Tensor of shape (n, 1)
    typical : Typical

    Returns
    -------
    Tensor of shape (n, 1)
    """
    n_seen = X.new_full((len(X),), X.shape[1] * X.shape[2])
    if M is not None:
        n_seen = M.sum((1, 2)).clamp_min(1).to(X)
    count = sum((c > _ACTIVE * c.amax(1, keepdim=True)).sum(1) for c in (b, a))
    r2 = residual(X, M, s * (b @ A2.T), a @ A1.T).square().sum((1, 2))
    z = (s / typical.of(b, a).clamp_min(_TINY) - 1) / typical.spread
    odd = -((-(z**2) / 2).exp() + _ODD * typical.spread).log()
    return r2[:, None] / noise / 2 + odd + (count * n_seen.log() / 2)[:, None]


def best_pair(X, M, A2, A1, noise, typical):
    """Codes of the best pair of atoms if the gain is normal about the typical one.

    Parameters
    ----------
    X, M, A2, A1, noise, typical
        As in ``misfit``; the gain is free, within bounds, if the spread is infinite.

    Returns
    -------
    b, a : Tensor of shape (n, K)
        One-hot.
    s : Tensor of shape (n, 1)
    """
    size = max(1, _BLOCK // (A2.shape[1] * A1.shape[1]))
    images = X.split(size)
    masks = [None] * len(images) if M is None else M.split(size)
    blocks = zip(images, masks, noise.split(size), strict=True)
    found = [_best_pair(x, m, A2, A1, v, typical) for x, m, v in blocks]
    return tuple(torch.cat(part) for part in zip(*found, strict=True))


def _best_pair(X, M, A2, A1, noise, typical):
    """``best_pair`` of a block: completes the square in s for all pairs."""
    match = A2.T @ X @ A1
    seen = X.new_ones(1, *X.shape[1:]) if M is None else M.to(X)
    power = A2.square().T @ seen @ A1.square()
    mean = typical.row[:, None] * typical.column
    trust = noise[:, :, None] / (typical.spread * mean).square()
    s = ((match + trust * mean) / (power + trust).clamp_min(_TINY)).clamp_min(0)
    s = s.minimum(_BRIGHTEST * mean)
    J = s * (s * power / 2 - match) + trust * (s - mean).square() / 2
    pick = J.flatten(1).argmin(1, keepdim=True)
    K = A1.shape[1]
    b, a = (X.new_zeros(len(X), A.shape[1]) for A in (A2, A1))
    return (
        b.scatter_(1, pick // K, 1),
        a.scatter_(1, pick % K, 1),
        s.flatten(1).gather(1, pick),
    )
