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
  ``pen(g) + 1/2 ||m (v - p)||^2``, so that rows share factors whatever they mask.
"""

from __future__ import annotations

import copy
from math import log2

import torch
from torch import Tensor

from .energy import times
from .factors import RELAX, Factors

# Weight of the split p = D g relative to the misfit, whose curvature is 1. The best
# value hardly depends on the data, unlike rho, so that it is not adapted. A power of
# two, so that rho / weight is again scale times a power of two.
GRAPH_WEIGHT = 2.0**-2


def _add_times(
    out: Tensor, rows: Tensor, matrix: Tensor, keep: float = 1.0, by: float = 1.0
) -> None:
    """Set ``out <- keep * out + by * rows @ matrix`` in place (see ``times``)."""
    if matrix.dim() == 2:
        out.addmm_(rows, matrix, beta=keep, alpha=by)
    else:
        out[:, None].baddbmm_(rows[:, None], matrix, beta=keep, alpha=by)


class _Form:
    """What the three forms share: arrays with one entry a row, and their selection."""

    per_row: tuple[str, ...] = ("observed",)

    def __init__(self, factors: Factors, observed: Tensor):
        self.factors = factors
        self.observed = observed

    def start(self, codes: Tensor) -> None:
        """Prepare for a start at ``codes``; only the graph form has a state."""

    def correlate(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``q = D^T (v - D g)`` and ``||v - D g||^2``."""
        r = self.observed - times(codes, self.factors.design.mT)
        return times(r, self.factors.design), r.square().sum(1)

    def take(self, index: Tensor):
        """Return the form of the rows ``index``; ``set_rho`` must follow."""
        new = copy.copy(self)
        new.factors = self.factors.take(index)
        for name in self.per_row:
            setattr(new, name, getattr(self, name)[index])
        return new


class Gram(_Form):
    """Rows advanced by one K x K product.

    Parameters
    ----------
    factors : Factors
    observed : Tensor of shape (n, r)
    """

    per_row = ("observed", "drive", "norm2")

    def __init__(self, factors: Factors, observed: Tensor):
        super().__init__(factors, observed)
        self.drive = times(observed, factors.design)
        self.norm2 = observed.square().sum(1)
        # For r > K the residual through G is the cheaper one. For r <= K the explicit
        # one costs little more and loses fewer digits.
        self.tall = factors.design.shape[-2] > factors.design.shape[-1]

    def correlate(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``q = D^T (v - D g)`` and ``||v - D g||^2``."""
        if not self.tall:
            return super().correlate(codes)
        q = self.drive - times(codes, self.factors.gram())
        r2 = self.norm2 - (codes * (self.drive + q)).sum(1)
        return q, r2.clamp_min(0)

    def set_rho(self, exponents: Tensor) -> Tensor:
        """Take ``rho = scale 2^exponents`` into use and return it, shape (n, 1)."""
        self.runs = self.factors.runs(exponents, "symmetric")
        self.push = (RELAX / 2) * self.drive
        for rows, m in self.runs:
            _add_times(self.push[rows], self.drive[rows], m)
        return self.factors.rho(exponents)

    def advance(self, y: Tensor, w: Tensor) -> None:
        """Do one step: ``y <- (1 - RELAX/2) y + w M + RELAX rho (D^T v) R``."""
        for rows, m in self.runs:
            _add_times(y[rows], w[rows], m, keep=1 - RELAX / 2)
        y.add_(self.push)


class Woodbury(_Form):
    """Rows advanced by two r x K products.

    Parameters
    ----------
    factors : Factors
    observed : Tensor of shape (n, r)
    """

    def set_rho(self, exponents: Tensor) -> Tensor:
        """Take ``rho = scale 2^exponents`` into use and return it, shape (n, 1)."""
        self.runs = self.factors.runs(exponents, "rectangular")
        rho = self.factors.rho(exponents)
        self.target = rho * self.observed
        self.work = torch.empty_like(self.target)
        return rho

    def advance(self, y: Tensor, w: Tensor) -> None:
        """Do one step: ``y <- (1-RELAX/2) y + RELAX/2 w + RELAX (rho v - D w) P``."""
        e = self.work.copy_(self.target)
        _add_times(e, w, self.factors.design.mT, by=-1.0)
        y.mul_(1 - RELAX / 2).add_(w, alpha=RELAX / 2)
        for rows, p in self.runs:
            _add_times(y[rows], e[rows], p, by=RELAX)


class Graph(_Form):
    """Rows with masked entries, advanced by three r x K products.

    With ``s`` the weight of the split, the prox of ``1/2 ||m (v - p)||^2`` reflects
    its state ``t = rho (p + multiplier)`` to ``(2 m rho v + (s - m) t) / (s + m)``.
    The prox of the graph is ``g = w_g + P^T (w_p - D w_g)``, ``p = D g``, with the
    factor ``P`` of ``rho / s``.

    Parameters
    ----------
    factors : Factors
        Of a shared design.
    observed : Tensor of shape (n, r)
        Zero where masked.
    mask : bool Tensor of shape (n, r)
    """

    per_row = ("observed", "mask", "rho", "split")

    def __init__(self, factors: Factors, observed: Tensor, mask: Tensor):
        super().__init__(factors, observed)
        self.mask = mask.to(observed.dtype)
        self.rho = observed.new_ones(len(observed), 1)
        self.split = torch.zeros_like(observed)

    def start(self, codes: Tensor) -> None:
        """Put the split where it stands if ``codes`` are the solution."""
        p = times(codes, self.factors.design.mT)
        self.split = p + self.mask * (p - self.observed) / GRAPH_WEIGHT

    def correlate(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``q = D^T m (v - D g)`` and ``||m (v - D g)||^2``."""
        r = self.observed - times(codes, self.factors.design.mT)
        r *= self.mask
        return times(r, self.factors.design), r.square().sum(1)

    def set_rho(self, exponents: Tensor) -> Tensor:
        """Take ``rho = scale 2^exponents`` into use and return it, shape (n, 1)."""
        weight = GRAPH_WEIGHT + self.mask
        self.runs = self.factors.runs(exponents - log2(GRAPH_WEIGHT), "rectangular")
        rho = self.factors.rho(exponents)
        self.split *= rho / self.rho
        self.rho = rho
        self.target = rho * 2 * self.mask * self.observed / weight
        self.slope = (GRAPH_WEIGHT - self.mask) / weight
        return rho

    def advance(self, y: Tensor, w: Tensor) -> None:
        """Do one step on both blocks; ``w`` is overwritten by the prox."""
        w_p = torch.addcmul(self.target, self.slope, self.split)
        e = torch.addmm(w_p, w, self.factors.design.mT, alpha=-1)
        y.mul_(1 - RELAX / 2).sub_(w, alpha=RELAX / 2)
        self.split.mul_(1 - RELAX / 2).sub_(w_p, alpha=RELAX / 2)
        for rows, p in self.runs:
            _add_times(w[rows], e[rows], p)
        y.add_(w, alpha=RELAX)
        self.split.addmm_(w, self.factors.design.mT, alpha=RELAX)
