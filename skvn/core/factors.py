"""Factors of ``G + rho I``, ``G = D^T D``, for Douglas-Rachford settling.

``rho`` is ``scale * 2^e`` with ``scale`` the mean squared length of the atoms and one
integer ``e`` per row. Rows of a shared design are sorted by ``e`` and each run of
equal ``e`` uses one cached factor; rows with their own design have their own factor.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

# Over-relaxation: 1 is plain Douglas-Rachford, 2 the limit; 1.5 to 1.95 differ little.
RELAX = 1.8


def _inverse(gram: Tensor, shift: Tensor) -> Tensor:
    """Return ``(gram + shift I)^-1`` for one matrix or a stack of them."""
    shifted = gram.clone()
    shifted.diagonal(dim1=-2, dim2=-1).add_(shift[..., None])
    return torch.cholesky_inverse(torch.linalg.cholesky(shifted))


class Factors:
    """Factors of ``G + rho I`` for one shared design, cached by the exponent of rho.

    Parameters
    ----------
    design : Tensor of shape (r, K), or (n, r, K) in the subclass
    """

    def __init__(self, design: Tensor):
        r, n_atoms = design.shape[-2:]
        self.design = design
        # Two products of r x K against one of K x K: equal work at r = K / 2.
        self.wide = 2 * r <= n_atoms
        self.small_side = r < n_atoms
        self.scale = design.square().sum(-2).mean(-1)
        self._cache: dict[object, Tensor] = {}

    def take(self, index: Tensor) -> Factors:
        """Return the factors of the rows ``index``: the same ones."""
        return self

    def rho(self, exponents: Tensor) -> Tensor:
        """Return ``scale * 2^exponents``, shape (n, 1)."""
        return (self.scale * 2.0**exponents)[:, None]

    def gram(self, small_side: bool = False) -> Tensor:
        """Return ``D^T D``, or the ``D D^T`` of the small side."""
        if small_side not in self._cache:
            a = self.design if small_side else self.design.mT
            self._cache[small_side] = a @ a.mT
        return self._cache[small_side]

    def symmetric(self, rho: Tensor) -> Tensor:
        """Return ``M = RELAX (rho (G + rho I)^-1 - I/2)``."""
        m = _inverse(self.gram(), rho).mul_(RELAX * rho[..., None, None])
        m.diagonal(dim1=-2, dim2=-1).sub_(RELAX / 2)
        return m

    def rectangular(self, rho: Tensor) -> Tensor:
        """Return ``(D D^T + rho I)^-1 D = D (D^T D + rho I)^-1``."""
        inverse = _inverse(self.gram(self.small_side), rho)
        return inverse @ self.design if self.small_side else self.design @ inverse

    def runs(self, exponents: Tensor, kind: str) -> list[tuple[slice, Tensor]]:
        """Return ``(rows, factor)`` for each run of equal exponents.

        Parameters
        ----------
        exponents : Tensor of shape (n,)
            Integers, sorted.
        kind : {"symmetric", "rectangular"}

        Returns
        -------
        list of (slice, Tensor)
        """
        values, counts = torch.unique_consecutive(exponents, return_counts=True)
        runs, start = [], 0
        for e, count in zip(values.tolist(), counts.tolist(), strict=True):
            if (kind, e) not in self._cache:
                self._cache[kind, e] = getattr(self, kind)(self.scale * 2.0**e)
            runs.append((slice(start, start + count), self._cache[kind, e]))
            start += count
        return runs


class OwnFactors(Factors):
    """Factors of ``G_i + rho_i I`` for rows that each have a design of their own.

    Parameters
    ----------
    design : Tensor of shape (n, r, K)
    """

    def __init__(self, design: Tensor):
        super().__init__(design)
        self._exponents = torch.full_like(self.scale, torch.inf)
        self._factor = design.new_empty(len(design), 0, 0)

    def take(self, index: Tensor) -> OwnFactors:
        """Return the factors of the rows ``index``."""
        new = copy.copy(self)
        new.design, new.scale = self.design[index], self.scale[index]
        new._cache = {key: gram[index] for key, gram in self._cache.items()}
        new._exponents, new._factor = self._exponents[index], self._factor[index]
        return new

    def runs(self, exponents: Tensor, kind: str) -> list[tuple[slice, Tensor]]:
        """Return one run; only rows whose exponent moved are factorised again.

        Parameters
        ----------
        exponents : Tensor of shape (n,)
        kind : {"symmetric", "rectangular"}

        Returns
        -------
        list of (slice, Tensor)
        """
        moved = (exponents != self._exponents).nonzero()[:, 0]
        if len(moved):
            part = self.take(moved)
            factor = getattr(part, kind)(part.scale * 2.0 ** exponents[moved])
            if len(moved) == len(exponents):
                self._factor = factor
            else:
                self._factor[moved] = factor
        self._exponents = exponents.clone()
        return [(slice(None), self._factor)]
