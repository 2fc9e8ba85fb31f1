r"""Fast inference: the code that minimises a quadratic plus an asymmetric l1 penalty.

``settle_l1`` is over-relaxed Douglas-Rachford with factors shared between rows;
``fista`` is the accelerated proximal gradient it is checked against. Both decide
everything (start, stop, step) per row, from that row alone, so that a code does not
depend on the batch it is computed in.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .douglas_rachford import iterate
from .energy import prox, relative_gap, residual, times
from .factors import Factors, OwnFactors
from .quadratic import Gram, Graph, Woodbury

# Values in the state, or in the factors of rows with their own design, of one block of
# rows on a CPU: its arrays then stay in the cache, and memory is bounded.
_BLOCK = 2**16
# A block has at least this many rows, so that a product is worth its call.
_FEWEST_ROWS = 256
_FEWEST_OWN_ROWS = 16


class Settled(NamedTuple):
    """Codes and how far each row got.

    Attributes
    ----------
    codes : Tensor of shape (n, K)
    gap : Tensor of shape (n,)
        Relative duality gap reached: an upper bound of ``(E - min E) / E``.
    n_iter : Tensor of shape (n,)
        Iterations done, 0 for a row that is zero without any.
    """

    codes: Tensor
    gap: Tensor
    n_iter: Tensor


class _Problem(NamedTuple):
    """The rows that need iterations, with masked entries zeroed."""

    design: Tensor  # (r, K) or (n, r, K)
    observed: Tensor  # (n, r)
    mask: Tensor | None  # (n, r) bool
    lower: Tensor  # (n, K)
    upper: Tensor  # (n, K)
    start: Tensor | None  # (n, K)

    def take(self, index):
        """Return the problem of the rows ``index``."""
        design = self.design if self.design.dim() == 2 else self.design[index]
        rest = (None if a is None else a[index] for a in self[1:])
        return _Problem(design, *rest)


def _prepare(design, observed, lower, upper, mask, start):
    """Return the problem, the result with zero codes, and the rows left to settle."""
    n, n_atoms = len(observed), design.shape[-1]
    if mask is not None:
        observed = observed.masked_fill(~mask, 0.0)
    lower = torch.as_tensor(lower, dtype=observed.dtype, device=observed.device)
    upper = torch.as_tensor(upper, dtype=observed.dtype, device=observed.device)
    lower, upper = lower.expand(n, n_atoms), upper.expand(n, n_atoms)
    c = times(observed, design)
    at_work = ((c > upper) | (c < -lower)).any(1).nonzero()[:, 0]
    settled = Settled(
        torch.zeros_like(c),
        observed.new_zeros(n),
        torch.zeros(n, dtype=torch.long, device=observed.device),
    )
    return _Problem(design, observed, mask, lower, upper, start), settled, at_work


@torch.no_grad()
def settle_l1(
    design: Tensor,
    observed: Tensor,
    lower: Tensor,
    upper: Tensor,
    *,
    mask: Tensor | None = None,
    start: Tensor | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Settled:
    """Minimise ``1/2 ||m (v - D g)||^2 + sum_k pen_k(g_k)`` for every row.

    Over-relaxed Douglas-Rachford (Eckstein and Bertsekas, 1992) with residual
    balancing (Boyd et al., 2011, section 3.4.1) of a ``rho`` per row.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
        ``D``, shared by all rows or one per row.
    observed : Tensor of shape (n, r)
        ``v``; what stands at a masked entry is never read.
    lower, upper : Tensor, broadcastable to (n, K)
        Slopes of the penalty below and above 0; positive, infinity allowed.
    mask : bool Tensor of shape (n, r), optional
        True where a value was observed.
    start : Tensor of shape (n, K), optional
        Codes to start from.
    tol : float, default=1e-3
        A row stops at this relative duality gap.
    max_iter : int, default=1000
        Iterations after which a row is returned as it stands.

    Returns
    -------
    Settled
        Codes are exactly zero where inactive.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.settle_l1 import settle_l1
    >>> x, lam = torch.tensor([[3.0, 0.1]]), torch.tensor(0.5)
    >>> settle_l1(torch.eye(2), x, lam, lam, tol=1e-6).codes
    tensor([[2.5000, 0.0000]])
    """
    problem, settled, at_work = _prepare(design, observed, lower, upper, mask, start)
    factors = Factors(design) if design.dim() == 2 else None
    for rows, hidden in _split_masked(problem, at_work):
        for block in rows.split(_block_rows(problem)) if len(rows) else ():
            part = problem.take(block)
            form = _form(part, factors, hidden)
            out = Settled(*(a[block] for a in settled))
            iterate(form, part, out, tol, max_iter)
            for whole, values in zip(settled, out, strict=True):
                whole[block] = values
    return settled


def _split_masked(problem, rows):
    """Return the rows that need the graph form apart from the others."""
    if problem.mask is None or problem.design.dim() == 3:
        return [(rows, False)]
    hidden = ~problem.mask[rows].all(1)
    return [(rows[~hidden], False), (rows[hidden], True)]


def _block_rows(problem):
    """Return how many rows are worked on together."""
    n, r = problem.observed.shape
    n_atoms = problem.design.shape[-1]
    if problem.observed.device.type != "cpu":
        return max(n, 1)
    if problem.design.dim() == 2:
        return max(_BLOCK // n_atoms, _FEWEST_ROWS)
    return max(_BLOCK // (n_atoms * min(n_atoms, 2 * r)), _FEWEST_OWN_ROWS)


def _form(part, factors, hidden):
    """Return the form of the quadratic half that suits these rows."""
    if hidden:
        return Graph(factors, part.observed, part.mask)
    if factors is None:
        design = part.design
        if part.mask is not None:
            design = design * part.mask[:, :, None]
        factors = OwnFactors(design)
    return (Woodbury if factors.wide else Gram)(factors, part.observed)


@torch.no_grad()
def fista(
    design: Tensor,
    observed: Tensor,
    lower: Tensor,
    upper: Tensor,
    *,
    mask: Tensor | None = None,
    start: Tensor | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
) -> Settled:
    """Minimise the energy of ``settle_l1`` by accelerated proximal gradient.

    FISTA (Beck and Teboulle, 2009) with the exact Lipschitz constant and the gradient
    restart of O'Donoghue and Candes (2015) per row. The reference: simple and slower.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
        ``D``, shared by all rows or one per row.
    observed : Tensor of shape (n, r)
        ``v``; what stands at a masked entry is never read.
    lower, upper : Tensor, broadcastable to (n, K)
        Slopes of the penalty below and above 0; positive, infinity allowed.
    mask : bool Tensor of shape (n, r), optional
        True where a value was observed.
    start : Tensor of shape (n, K), optional
        Codes to start from.
    tol : float, default=1e-3
        A row stops at this relative duality gap.
    max_iter : int, default=1000
        Iterations after which a row is returned as it stands.

    Returns
    -------
    Settled
        Codes are exactly zero where inactive.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.settle_l1 import fista
    >>> x, lam = torch.tensor([[3.0, 0.1]]), torch.tensor(0.5)
    >>> fista(torch.eye(2), x, lam, lam, tol=1e-6).codes
    tensor([[2.5000, 0.0000]])
    """
    problem, settled, rows = _prepare(design, observed, lower, upper, mask, start)
    part = problem.take(rows)
    g = torch.zeros_like(part.lower) if part.start is None else part.start
    y, t = g, g.new_ones(len(rows), 1)
    step = 1 / _curvature(design).expand(len(observed))[rows, None]
    for done in range(1, max_iter + 1):
        g_old, t_old = g, t
        g = y + step * times(_misfit(part, y), part.design)
        g = prox(g, step * part.lower, step * part.upper)
        t = (1 + (1 + 4 * t_old.square()).sqrt()) / 2
        uphill = ((y - g) * (g - g_old)).sum(1, keepdim=True) > 0
        t = torch.where(uphill, 1.0, t)
        y = g + torch.where(uphill, 0.0, (t_old - 1) / t) * (g - g_old)
        if done % 10 and done < max_iter:
            continue
        r = _misfit(part, g)
        q, r2 = times(r, part.design), r.square().sum(1)
        gap = relative_gap(q, r2, g, part.lower, part.upper)
        settled.codes[rows], settled.gap[rows], settled.n_iter[rows] = g, gap, done
        left = (gap > tol).nonzero()[:, 0]
        part, rows, step = part.take(left), rows[left], step[left]
        g, y, t = g[left], y[left], t[left]
        if not len(rows):
            break
    return settled


def _misfit(part, codes):
    """Return the residual of the rows of a problem."""
    return residual(part.design, part.observed, codes, part.mask)


def _curvature(design):
    """Return the largest eigenvalue of ``D^T D``, shape () or (n,)."""
    r, n_atoms = design.shape[-2:]
    small = design if r < n_atoms else design.mT
    return torch.linalg.eigvalsh(small @ small.mT)[..., -1]
