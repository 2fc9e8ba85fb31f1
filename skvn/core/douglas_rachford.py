r"""The Douglas-Rachford loop: rows that move, judge and stop one by one.

The state ``y`` of a row holds its code as ``T(y) / rho``, ``T(y) = y - clamp(y)``, and
its multiplier as ``clamp(y)``. Each row owns its ``rho = scale 2^exponent``. Rows are
kept sorted by exponent, so that the quadratic half (see ``quadratic``) can take each
run of equal ``rho`` at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log2

import torch
from torch import Tensor

from .energy import relative_gap
from .factors import RELAX

# rho may move at iterations 10, 30, 60, 100, ...: often enough to find it, and finitely
# often, which convergence needs.
_MAX_MOVES = 8
# One move multiplies rho by (primal / dual residual)^0.7 (0.5 to 0.7 do equally well),
# by a factor of at least 2, because a move costs a factorisation, and at most 2^2,
# because early residuals overshoot.
_MOVE_POWER = 0.7
_LARGEST_MOVE = 2.0
# rho / scale stays within eps^-0.4 and eps^0.4 (2^9 in float32, 2^20 in float64): the
# condition number of G + rho I, at most K scale / rho + 1, stays far from 1 / eps.
_RANGE_POWER = 0.4
# Rows that are done are dropped when they are more than this part of those at work;
# dropping copies the state, which costs about as much as one iteration.
_IDLE = 0.15
# A row whose best gap fell by less than a fifth in this many iterations stagnates ...
_PATIENCE = 30
# ... and stops if its gap is below this many rounding errors (see ``_rounding_floor``).
_FLOOR = 64.0


def iterate(form, part, out, tol, max_iter):
    """Iterate the rows of one block until each has converged; write into ``out``.

    Parameters
    ----------
    form : Gram, Woodbury or Graph
        The quadratic half of the energy.
    part : object with Tensor attributes ``lower``, ``upper`` (n, K) and ``start``
        Penalty slopes, and codes of shape (n, K) to start from, or None.
    out : tuple of Tensor
        ``codes`` (n, K), ``gap`` (n,) and ``n_iter`` (n,), written in place.
    tol : float
        A row stops at this relative duality gap.
    max_iter : int
        Iterations after which a row is written as it stands.
    """
    every = 10 if part.start is None else 5
    state = _begin(form, part)
    form, state, rho = _regroup(form, state)
    if part.start is not None:
        _write_finished(form, state, rho, out, tol, 0, False)
    done, moves, next_move = 0, 0, 10
    while len(state.rows) and done < max_iter:
        steps = min(every, max_iter - done)
        before = _advance(form, state, steps)
        done += steps
        _write_finished(form, state, rho, out, tol, done, done == max_iter)
        if done >= next_move and moves < _MAX_MOVES:
            state.exponents = _within(state.exponents + _balance(state, before))
            moves, next_move = moves + 1, 10 * ceil((1.5 * next_move + 10) / 10)
            form, state, rho = _regroup(form, state, rho)
        elif state.alive.sum() < (1 - _IDLE) * len(state.rows):
            form, state, rho = _regroup(form, state, rho)


def _within(exponents):
    """Return exponents of rho that factorise safely in this precision."""
    limit = floor(-_RANGE_POWER * log2(torch.finfo(exponents.dtype).eps))
    return exponents.clamp(-limit, limit)


def _rounding_floor(form, lower, upper):
    """Return the relative gap that rounding alone can leave, per row.

    The correlations ``q`` are differences of terms as large as those at ``g = 0``; an
    error of q relative to its bound moves the dual scaling, hence the gap, as much.
    """
    q, _ = form.correlate(torch.zeros_like(lower))
    excess = torch.maximum(q / upper, -q / lower).amax(1)
    return _FLOOR * torch.finfo(lower.dtype).eps * excess


@dataclass
class _State:
    """The rows at work, sorted by their exponent of rho."""

    rows: Tensor  # (n,) where they are written in the result
    y: Tensor  # (n, K) Douglas-Rachford state, scaled by rho
    below: Tensor  # (n, K) -lower
    above: Tensor  # (n, K) upper
    exponents: Tensor  # (n,) rho = scale 2^exponents
    alive: Tensor  # (n,) False once written
    best: Tensor  # (n,) gap at the last real progress
    when: Tensor  # (n,) iteration of it
    floor: Tensor  # (n,)

    def take(self, index):
        """Return the state of the rows ``index``."""
        return _State(*(a[index] for a in vars(self).values()))

    def shrink(self):
        """Return ``T(y) = rho g``."""
        return self.y - torch.clamp(self.y, self.below, self.above)


def _multiplier(q, codes, lower, upper):
    """Return the dual variable that belongs to ``codes``: ``q``, made feasible.

    Active atoms sit on their bound, so that ``T(rho g + multiplier) = rho g``.
    """
    dual = torch.clamp(q, -lower, upper)
    dual = torch.where((codes > 0) & upper.isfinite(), upper, dual)
    return torch.where((codes < 0) & lower.isfinite(), -lower, dual)


def _begin(form, part):
    """Return the first state: at 0, or such that ``T(y) / rho`` is the start."""
    n = len(part.observed)
    exponents = part.observed.new_zeros(n)
    y = torch.zeros_like(part.lower)
    if part.start is not None:
        q, _ = form.correlate(part.start)
        form.start(part.start)
        dual = _multiplier(q, part.start, part.lower, part.upper)
        guess = dual.norm(dim=1) / part.start.norm(dim=1) / form.factors.scale
        exponents = _within(torch.log2(guess).round().nan_to_num(0.0, 0.0, 0.0))
        y = form.factors.rho(exponents) * part.start + dual
    return _State(
        torch.arange(n, device=y.device),
        y,
        -part.lower,
        part.upper.clone(),
        exponents,
        torch.ones(n, dtype=torch.bool, device=y.device),
        torch.full_like(exponents, torch.inf),
        torch.zeros_like(exponents),
        _rounding_floor(form, part.lower, part.upper),
    )


def _advance(form, state, steps):
    """Advance the state in place; return it as it was before the last step."""
    y, w = state.y, torch.empty_like(state.y)
    for step in range(steps):
        if step == steps - 1:
            before = y.clone()
        torch.clamp(y, state.below, state.above, out=w)
        torch.sub(y, w, alpha=2, out=w)
        form.advance(y, w)
    return before


def _write_finished(form, state, rho, out, tol, done, last):
    """Judge every row by its own gap and write those that stop now."""
    codes = state.shrink() / rho
    gap = relative_gap(*form.correlate(codes), codes, -state.below, state.above)
    better = gap < 0.8 * state.best
    state.best = torch.where(better, gap, state.best)
    state.when = torch.where(better, done, state.when)
    stuck = (done - state.when >= _PATIENCE) & (gap <= state.floor)
    stop = state.alive & ((gap <= tol) | stuck | last)
    rows = state.rows[stop]
    out.codes[rows], out.gap[rows], out.n_iter[rows] = codes[stop], gap[stop], done
    state.alive &= ~stop


def _balance(state, before):
    """Return by how much each row's exponent of rho moves.

    With ``a`` the prox of the quadratic at ``T(before)``: the primal residual
    ``||a - z|| / max(||a||, ||z||)`` should equal the dual one, the change of ``z``
    relative to the multiplier.
    """
    z = before - torch.clamp(before, state.below, state.above)
    a = z + (state.y - before) / RELAX
    z_new = state.shrink()
    scale = torch.maximum(a.norm(dim=1), z.norm(dim=1))
    primal = (a - z).norm(dim=1) / scale
    dual = (z_new - z).norm(dim=1) / (state.y - z_new).norm(dim=1)
    move = (_MOVE_POWER * torch.log2(primal / dual)).nan_to_num(0.0)
    move = torch.where(move.abs() < 1, 0.0, move.round())
    return move.clamp(-_LARGEST_MOVE, _LARGEST_MOVE)


def _regroup(form, state, old_rho=None):
    """Keep the rows at work, sorted by exponent; scale the state to their rho."""
    order = state.exponents.argsort(stable=True)
    order = order[state.alive[order]]
    state = state.take(order)
    form = form.take(order)
    rho = form.set_rho(state.exponents)
    if old_rho is not None:
        state.y += (rho / old_rho[order] - 1) * state.shrink()
    return form, state, rho
