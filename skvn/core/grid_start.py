"""First atoms of row and column codes: profiles of the images, far from one another."""

from __future__ import annotations

import torch

from .grid_profile import column_mean, unit
from .learn import normalise

# Size of the noise on a drawn profile; it keeps every entry of an atom alive.
_JITTER = 1e-3
# Least distance, so that more atoms than there are distinct profiles can be drawn.
_CLOSEST = 1e-6


def spread_rows(V, weight, count, generator):
    """Draw rows in proportion to their squared distance from those drawn before.

    Neither the order of the rows nor whether one is there twice or of weight 2 matters.

    Parameters
    ----------
    V : Tensor of shape (n, p)
        Rows at unit length, or zero (drawn only if there is nothing else).
    weight : Tensor of shape (n,)
    count : int
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of shape (count, p)
    """
    options = {"generator": generator, "dtype": torch.float64}
    order = torch.argsort(V @ torch.randn(V.shape[1], **options).to(V), stable=True)
    V, weight = V[order], weight[order].double()
    size = V.square().sum(1)
    distance, drawn = size, []
    for level in torch.rand(count, **options).tolist():
        mass = (weight * distance).cumsum(0)
        pick = torch.searchsorted(mass, level * mass[-1:], right=True)
        drawn.append(V[pick.clamp_max(len(V) - 1)])
        distance = distance.minimum(size - V @ drawn[-1][0]).clamp_min(_CLOSEST)
    return torch.cat(drawn)


def start_profiles(X, M, weight, count, generator):
    """Row and column atoms from the mean profiles of images.

    Parameters
    ----------
    X : Tensor of shape (n, h, w)
        Zero where missing.
    M : bool Tensor of shape (n, h, w) or None
    weight : Tensor of shape (n,)
    count : int
    generator : torch.Generator

    Returns
    -------
    A2, A1 : Tensor of shape (h, count) and (w, count)
        Positive, at unit length.
    """
    sides = (X.mT, None if M is None else M.mT), (X, M)
    return tuple(_start_side(*side, weight, count, generator) for side in sides)


def _start_side(X, M, weight, count, generator):
    """Atoms of the columns."""
    V = spread_rows(unit(column_mean(X, M).clamp_min(0)), weight, count, generator).T
    noise = torch.rand(V.shape, generator=generator, dtype=torch.float64).to(V)
    return normalise(V + _JITTER * noise / len(V) ** 0.5)
