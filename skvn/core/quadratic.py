r"""The quadratic half of Douglas-Rachford settling, in the three forms that pay.

Douglas-Rachford minimises ``1/2 ||v - D g||^2 + pen(g)`` by alternating the prox of
each half. For a state ``y = rho (g + multiplier)`` it repeats ::

    w = 2 T(y) - y                     T(y) = y - clamp(y, -lower, upper)
    y <- y + RELAX (a - T(y))          a = (G + rho I)^-1 rho (D^T v + w),  G = D^T D

(scaling the state by ``rho`` leaves the clamp free of ``rho``). The classes below hold
``n`` rows and advance ``y`` in place, given ``w``:

* ``Gram``: with ``M = RELAX (rho (G + rho I)^-1 - I/2)``, one K x K product.
* ``Woodbury``: through ``(D D^T + rho I)^-1 D``, two r x K products, for wide designs.
* ``Graph``: for rows with masked entries. The pair ``(g, p = D g)`` is split from
  ``pen(g) + 1/2 ||m (v - p)||^2``, so that all rows share the factor whatever they mask.

``rho`` is ``scale * 2^e`` with ``scale`` the mean squared length of the atoms and one
integer ``e`` per row. Rows of a shared design are sorted by ``e`` and each run of
equal ``e`` uses one cached factor.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from .energy import times

# Over-relaxation: 1 is plain Douglas-Rachford, 2 the limit; 1.5 to 1.95 differ little.
RELAX = 1.8
# Weight of the split p = D g relative to the misfit, whose curvature is 1. The best
# value hardly depends on the data, unlike rho, so that it is not adapted.
GRAPH_WEIGHT = 0.3


def _add_times(out: Tensor, rows: Tensor, matrix: Tensor, keep: float = 1.0) -> None:
    """Set ``out <- keep * out + rows @ matrix`` in place, by shared or own matrix."""
    if matrix.dim() == 2:
        out.addmm_(rows, matrix, beta=keep)
    else:
        out[:, None].baddbmm_(rows[:, None], matrix, beta=keep)


def _inverse(gram: Tensor, shift: Tensor) -> Tensor:
    """Return ``(gram + shift I)^-1`` for one matrix or a stack of them."""
    shifted = gram.clone()
    shifted.diagonal(dim1=-2, dim2=-1).add_(shift[..., None])
    return torch.cholesky_inverse(torch.linalg.cholesky(shifted))


class Factors:
    """Factors of ``(G + rho I)`` for one design; those of a shared one are cached.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    """

    def __init__(self, design: Tensor):
        r, n_atoms = design.shape[-2:]
        self.design = design
        self.shared = design.dim() == 2
        # Two products of r x K against one of K x K: equal work at r = K / 2.
        self.wide = 2 * r < n_atoms
        self.small = r < n_atoms
        self.scale = design.square().sum(-2).mean(-1)
        self._cache: dict[object, Tensor] = {}

    def take(self, index: Tensor) -> Factors:
        """Return the factors of the rows ``index``."""
        return self if self.shared else Factors(self.design[index])

    def gram(self, small: bool = False) -> Tensor:
        """Return ``D^T D``, or the ``D D^T`` of the small side."""
        if small not in self._cache:
            a = self.design if small else self.design.mT
            self._cache[small] = a @ a.mT
        return self._cache[small]

    def symmetric(self, rho: Tensor) -> Tensor:
        """Return ``M = RELAX (rho (G + rho I)^-1 - I/2)``."""
        m = _inverse(self.gram(), rho).mul_(RELAX * rho[..., None, None])
        m.diagonal(dim1=-2, dim2=-1).sub_(RELAX / 2)
        return m

    def rectangular(self, shift: Tensor) -> Tensor:
        """Return ``(D D^T + shift I)^-1 D = D (D^T D + shift I)^-1``."""
        inverse = _inverse(self.gram(self.small), shift)
        return inverse @ self.design if self.small else self.design @ inverse

    def runs(self, exponents: Tensor, build, name: str) -> list[tuple[slice, Tensor]]:
        """Return ``(rows, factor)`` for each run of equal exponents.

        Parameters
        ----------
        exponents : int Tensor of shape (n,)
            Sorted where the design is shared.
        build : callable
            Makes a factor from ``rho``.
        name : str
            Name of that factor in the cache.

        Returns
        -------
        list of (slice, Tensor)
        """
        if not self.shared:
            return [(slice(None), build(self.scale * 2.0**exponents))]
        values, counts = torch.unique_consecutive(exponents, return_counts=True)
        runs, start = [], 0
        for e, count in zip(values.tolist(), counts.tolist(), strict=True):
            if (name, e) not in self._cache:
                self._cache[name, e] = build(self.scale * 2.0**e)
            runs.append((slice(start, start + count), self._cache[name, e]))
            start += count
        return runs
