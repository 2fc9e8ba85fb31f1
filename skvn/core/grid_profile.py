"""Products of a row and a column profile: gain, residual and noise of images."""

from __future__ import annotations

import torch
from torch import Tensor

from .learn import normalise


def unit(v: Tensor) -> Tensor:
    """Rows at unit length; an all-zero row stays zero.

    Parameters
    ----------
    v : Tensor of shape (n, p)

    Returns
    -------
    Tensor of shape (n, p)
    """
    return normalise(v.T).T


def column_mean(X, M):
    """Mean of the observed pixels of every column.

    Parameters
    ----------
    X : Tensor of shape (n, h, w)
    M : bool Tensor of shape (n, h, w) or None

    Returns
    -------
    Tensor of shape (n, w)
    """
    return X.mean(1) if M is None else X.sum(1) / M.sum(1).clamp_min(1)


def gain(X, M, g, f):
    """Least-squares gain of the image ``g f^T`` on the observed pixels, at least 0.

    Parameters
    ----------
    X : Tensor of shape (n, h, w)
    M : bool Tensor of shape (n, h, w) or None
    g, f : Tensor of shape (n, h) and (n, w)

    Returns
    -------
    Tensor of shape (n, 1)
    """
    Y = g.unsqueeze(2) * f.unsqueeze(1)
    power = (Y.square() if M is None else Y.square() * M).sum((1, 2))
    s = (X * Y).sum((1, 2)) / torch.where(power > 0, power, 1)
    return s.clamp_min(0).unsqueeze(1)


def residual(X, M, g, f):
    """``M * (X - g f^T)``.

    Parameters
    ----------
    X : Tensor of shape (n, h, w)
    M : bool Tensor of shape (n, h, w) or None
    g, f : Tensor of shape (n, h) and (n, w)

    Returns
    -------
    Tensor of shape (n, h, w)
    """
    R = X - g.unsqueeze(2) * f.unsqueeze(1)
    return R if M is None else R * M


def noise(X, M, g, f):
    """Root mean squared residual of every row, at the best gain.

    Parameters
    ----------
    X, M, g, f
        As in ``residual``; unit profiles.

    Returns
    -------
    Tensor of shape (n, 1)
    """
    r2 = residual(X, M, gain(X, M, g, f) * g, f).square().sum((1, 2))
    seen = X.shape[1] * X.shape[2] if M is None else M.sum((1, 2)).clamp_min(1)
    return (r2 / seen).sqrt().unsqueeze(1)
