r"""The energy of a code: its terms, gradient, prox and duality gap.

One row (sample) with observed values ``v``, design ``D``, mask ``m`` and code ``g``::

    E(g) = 1/2 ||m * (v - D g)||^2 + sum_k pen_k(g_k)
    pen_k(g) = upper_k g  for g >= 0,   lower_k (-g)  for g < 0

with ``lower, upper > 0`` and infinity allowed. This form covers the plain l1 penalty
(``lower = upper = lam``), nonnegative codes (``lower = inf``), codes with a restricted
support (both infinite for an excluded atom) and a linear nudge ``-b g``
(``lower = lam + b``, ``upper = lam - b``). A second quadratic term
``beta/2 ||h - U g||^2`` is stacking: ``D = [S; sqrt(beta) U]``,
``v = [x, sqrt(beta) h]``.

Shapes: ``observed`` and ``mask`` (n, r); ``design`` (r, K), shared by all rows, or
(n, r, K), one per row; ``codes``, ``lower`` and ``upper`` broadcast to (n, K).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Activation(NamedTuple):
    """An elementwise function ``phi`` of a message and its derivative."""

    phi: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor], Tensor]


ACTIVATIONS = {
    "identity": Activation(lambda a: a, torch.ones_like),
    "relu": Activation(torch.relu, lambda a: (a > 0).to(a.dtype)),
    "tanh": Activation(torch.tanh, lambda a: 1 - torch.tanh(a).square()),
    "softplus": Activation(torch.nn.functional.softplus, torch.sigmoid),
}


def times(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply each row by a shared matrix, or by its own.

    Parameters
    ----------
    rows : Tensor of shape (n, i)
    matrix : Tensor of shape (i, j) or (n, i, j)

    Returns
    -------
    Tensor of shape (n, j)
    """
    if matrix.dim() == 2:
        return rows @ matrix
    return torch.bmm(rows[:, None], matrix)[:, 0]


def residual(
    design: Tensor, observed: Tensor, codes: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Return ``r = m * (v - D g)``; what stands at a masked entry is never read.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    observed : Tensor of shape (n, r)
    codes : Tensor of shape (n, K)
    mask : bool Tensor of shape (n, r), optional
        True where a value was observed.

    Returns
    -------
    Tensor of shape (n, r)
    """
    r = observed - times(codes, design.mT)
    return r if mask is None else r.masked_fill(~mask, 0.0)


def gradient(
    design: Tensor, observed: Tensor, codes: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Return the gradient of the quadratic term, ``-D^T r``, per row.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    observed : Tensor of shape (n, r)
    codes : Tensor of shape (n, K)
    mask : bool Tensor of shape (n, r), optional
        True where a value was observed.

    Returns
    -------
    Tensor of shape (n, K)
    """
    return -times(residual(design, observed, codes, mask), design)


def prox(v: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return ``argmin_g 1/2 ||g - v||^2 + sum_k pen_k(g_k)``, exactly sparse.

    For ``rho/2 ||g - v||^2`` pass ``lower / rho`` and ``upper / rho``.

    Parameters
    ----------
    v : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)

    Returns
    -------
    Tensor of shape (n, K)
        ``v - clamp(v, -lower, upper)``.
    """
    return v - torch.clamp(v, -lower, upper)


def penalty_terms(codes: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return ``pen_k(g_k)`` elementwise; 0 at ``g_k = 0`` also for an infinite side.

    Parameters
    ----------
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)

    Returns
    -------
    Tensor of shape (n, K)
    """
    terms = torch.where(codes > 0, upper, lower) * codes.abs()
    return terms.masked_fill(codes == 0, 0.0)


def penalty(codes: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return ``sum_k pen_k(g_k)`` of each row.

    Parameters
    ----------
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)

    Returns
    -------
    Tensor of shape (n,)
    """
    return penalty_terms(codes, lower, upper).sum(1)


def energy(
    design: Tensor,
    observed: Tensor,
    codes: Tensor,
    lower: Tensor,
    upper: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Return ``E(g) = 1/2 ||m * (v - D g)||^2 + sum_k pen_k(g_k)`` of each row.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    observed : Tensor of shape (n, r)
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)
    mask : bool Tensor of shape (n, r), optional
        True where a value was observed.

    Returns
    -------
    Tensor of shape (n,)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.energy import energy
    >>> x, g = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    >>> energy(torch.eye(2), x, g, torch.tensor(0.5), torch.tensor(0.5))
    tensor([9.5000])
    """
    r = residual(design, observed, codes, mask)
    return 0.5 * r.square().sum(1) + penalty(codes, lower, upper)


def dual_scaling(
    q: Tensor, r2: Tensor, codes: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """Return the ``s`` for which the dual point ``s r`` is feasible and best.

    The dual asks for ``-lower <= s q <= upper``. The gap is a convex parabola in ``s``
    with its minimum at ``1 + g.q / ||r||^2``, so clipping that to the feasible range
    is optimal.

    Parameters
    ----------
    q : Tensor of shape (n, K)
        ``D^T r``.
    r2 : Tensor of shape (n,)
        ``||r||^2``.
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)

    Returns
    -------
    Tensor of shape (n,)
    """
    best = 1 + (codes * q).sum(1) / r2.clamp_min(torch.finfo(r2.dtype).tiny)
    limit = torch.maximum(q / upper, -q / lower).amax(1).abs().reciprocal()
    return torch.minimum(best.clamp_min(0), limit)


def gap_terms(
    q: Tensor, r2: Tensor, codes: Tensor, lower: Tensor, upper: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the summands of the duality gap, and the energy.

    ``gap = 1/2 (1 - s)^2 ||r||^2 + sum_k (pen_k(g_k) - s q_k g_k)``. This equals
    primal minus dual energy exactly, but no summand is negative, so nothing cancels.

    Parameters
    ----------
    q : Tensor of shape (n, K)
        ``D^T r``.
    r2 : Tensor of shape (n,)
        ``||r||^2``.
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)

    Returns
    -------
    misfit : Tensor of shape (n,)
    atoms : Tensor of shape (n, K)
    primal : Tensor of shape (n,)
    """
    s = dual_scaling(q, r2, codes, lower, upper)
    pen = penalty_terms(codes, lower, upper)
    misfit = 0.5 * (1 - s).square() * r2
    atoms = pen - s[:, None] * (q * codes)
    return misfit, atoms, 0.5 * r2 + pen.sum(1)


def relative_gap(
    q: Tensor, r2: Tensor, codes: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """Return the duality gap of each row divided by its energy (0 where that is 0).

    Parameters
    ----------
    q : Tensor of shape (n, K)
        ``D^T r``.
    r2 : Tensor of shape (n,)
        ``||r||^2``.
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)

    Returns
    -------
    Tensor of shape (n,)
    """
    misfit, atoms, primal = gap_terms(q, r2, codes, lower, upper)
    return (misfit + atoms.sum(1)) / primal.clamp_min(torch.finfo(primal.dtype).tiny)


def duality_gap(
    design: Tensor,
    observed: Tensor,
    codes: Tensor,
    lower: Tensor,
    upper: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return an upper bound of ``E(g) - min E``, and ``E(g)``, for each row.

    Parameters
    ----------
    design : Tensor of shape (r, K) or (n, r, K)
    observed : Tensor of shape (n, r)
    codes : Tensor of shape (n, K)
    lower, upper : Tensor, broadcastable to (n, K)
    mask : bool Tensor of shape (n, r), optional
        True where a value was observed.

    Returns
    -------
    gap, primal : Tensor of shape (n,)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.energy import duality_gap
    >>> x, g = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.5, 3.5]])
    >>> gap, _ = duality_gap(torch.eye(2), x, g, torch.tensor(0.5), torch.tensor(0.5))
    >>> gap  # this code is the minimum
    tensor([0.])
    """
    r = residual(design, observed, codes, mask)
    q = times(r, design)
    misfit, atoms, primal = gap_terms(q, r.square().sum(1), codes, lower, upper)
    return misfit + atoms.sum(1), primal
