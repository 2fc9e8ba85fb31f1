r"""Learning the grid structure: alternating ridge with decay that use must earn.

A missing block of row x column combinations is determined only if no channel is spare,
and no error on seen combinations shows that. So the decay of a channel ::

    D_c = 1 / (u_c / earned + 1 / unearned),        u_c = t_c / max t

falls from a high start (annealing avoids bad minima) to next to nothing for channels
in use and to a small floor for those that are not, which fade. Noise lifts both: a used
channel gets the ridge of its own signal-to-noise ratio, an unused one a decay that
white residuals cannot overcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .grid import (
    answer,
    balance,
    effective,
    message,
    others,
    ridge,
    ridge_by_hebb,
    unfold,
    usage,
)

# Relative decay: start (by number of layers; three layers started high collapse to
# zero), factor per sweep, and the two values it ends at.
_START = {2: 0.05, 3: 1e-3}
_COOL = 0.8
_EARNED_END, _UNEARNED_END = 5e-8, 5e-5
# Margin over the largest singular value expected of white noise.
_NOISE_MARGIN = 2.0


def start_atoms(sizes, n_channels, generator, like):
    """Small random atoms, ``N(0, (0.3 / sqrt K)^2)``; positive for colours.

    Parameters
    ----------
    sizes : list of (K_l, p_l)
    n_channels : int
    generator : torch.Generator
        On the CPU.
    like : Tensor
        Gives dtype and device.

    Returns
    -------
    list of Tensors of shape (K_l, m, p_l)
    """
    atoms = []
    for layer, (K, p) in enumerate(sizes):
        draw = torch.randn if layer < 2 else torch.rand
        A = draw((K, n_channels, p), generator=generator, dtype=torch.float64)
        size = 0.3 / K**0.5 if len(sizes) == 2 else (0.9 / K**0.5 if layer < 2 else 1.0)
        atoms.append((A * size).to(like))
    return atoms


def decay_unit(codes, Y, weight):
    """Unit of decay: ``n prod_l E|g_l|^2^(1/L) E|Y|^2^(1 - 1/L)``.

    In this unit, rescaling codes or images rescales the answer and nothing else.

    Parameters
    ----------
    codes : list of Tensors of shape (n, K_l)
    Y : Tensor of shape (n, p_1, ..., p_L)
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape ()
    """
    n = weight.sum()
    power = [weight @ v.flatten(1).square().sum(1) / n for v in (*codes, Y)]
    L = len(codes)
    return n * torch.stack(power[:-1]).prod() ** (1 / L) * power[-1] ** (1 - 1 / L)


def birth_decay(codes, Y, weight):
    """Decay, per unit of noise, above which white residuals wake no unused channel.

    A small channel of two layers grows if the operator ``sum_n w_n g_1 (x) g_2 R_n``
    has a singular value above its decay; for white R that is about
    ``sigma (sqrt(p_1 / K_2) + sqrt(p_2 / K_1)) sqrt(sum_n w_n |g_1|^2 |g_2|^2)``.
    With three layers a small channel never grows: 0.

    Parameters
    ----------
    codes : list of Tensors of shape (n, K_l)
    Y : Tensor of shape (n, p_1, ..., p_L)
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape ()
    """
    if len(codes) > 2:
        return weight.new_zeros(())
    g1, g2 = codes
    mass = (weight @ (g1.square().sum(1) * g2.square().sum(1))).sqrt()
    p1, p2 = Y.shape[1:]
    spread = (p1 / g2.shape[1]) ** 0.5 + (p2 / g1.shape[1]) ** 0.5
    return _NOISE_MARGIN * spread * mass


@dataclass
class GridLearner:
    """Atoms while they learn.

    Parameters
    ----------
    codes : list of Tensors of shape (n, K_l)
    Y : Tensor of shape (n, p_1, ..., p_L)
    weight : Tensor of shape (n,)
    atoms : list of Tensors of shape (K_l, m, p_l)
    exact : bool
        Exact ridge solves, or conjugate gradients on Hebb sums.
    n_sweeps : int
    use : Tensor of shape (m,)
        Use of every channel after the last sweep.
    change : float
        How much the last sweep changed it, relative to the largest use; infinite
        while the decay is still being annealed.
    unit, birth : Tensor of shape ()
        See ``decay_unit`` and ``birth_decay``.
    decay : Tensor of shape (m,)
        Of every channel in the next sweep.
    """

    codes: list[Tensor]
    Y: Tensor
    weight: Tensor
    atoms: list[Tensor]
    exact: bool = True
    n_sweeps: int = 0
    use: Tensor = field(init=False)
    change: float = float("inf")
    unit: Tensor = field(init=False)
    birth: Tensor = field(init=False)
    decay: Tensor = field(init=False)

    def __post_init__(self):
        """What depends on the data only."""
        data = self.codes, self.Y, self.weight
        self.unit, self.birth = decay_unit(*data), birth_decay(*data)
        self.use = usage(self.atoms)
        self.decay = (self._rho() * self.unit).expand(self.use.shape)
        if self.unit == 0:  # only zeros to learn from, or to draw: 0 answers that
            self.atoms = [torch.zeros_like(A) for A in self.atoms]

    def sweep(self) -> float:
        """Re-learn every layer in turn, from the rows down; then the decay.

        Returns
        -------
        float
            Weighted mean of ``||Y - Y_hat||^2`` per image after the sweep.
        """
        if self.unit == 0:
            self.change = 0.0
            return float(self.error())
        W = [effective(g, A) for g, A in zip(self.codes, self.atoms, strict=True)]
        for layer in (1, 0, *range(2, len(W))):
            self.atoms[layer] = self._solve(layer, message(others(W, layer)))
            W[layer] = effective(self.codes[layer], self.atoms[layer])
        self.atoms = balance(self.atoms)
        self.n_sweeps += 1
        error = self.error(W)
        self._adapt(error)
        return float(error)

    def error(self, W=None):
        """Weighted mean of ``||Y - Y_hat||^2`` per image."""
        if W is None:
            W = [effective(g, A) for g, A in zip(self.codes, self.atoms, strict=True)]
        r2 = (self.Y - answer(W)).square().flatten(1).sum(1)
        return self.weight @ r2 / self.weight.sum()

    @property
    def annealed(self) -> bool:
        """Whether the decay has come down, so that the use can settle."""
        return self.change < float("inf")

    def _solve(self, layer, H):
        """Atoms of one layer given the message of the others."""
        problem = self.codes[layer], H, unfold(self.Y, layer), self.weight, self.decay
        return (
            ridge(*problem)
            if self.exact
            else (ridge_by_hebb(*problem, self.atoms[layer]))
        )

    def _rho(self):
        """Relative decay of the next sweep."""
        return max(_EARNED_END, _START[len(self.atoms)] * _COOL**self.n_sweeps)

    def _adapt(self, error):
        """Decay of the next sweep, from the use of the channels and the residual."""
        rho, use = self._rho(), usage(self.atoms)
        noise = error / self.Y[0].numel()  # mean squared residual of a pixel
        weights = sum(A[:, 0].numel() for A in self.atoms) / len(self.atoms)
        top = use.max().clamp_min(torch.finfo(use.dtype).tiny)
        earned = torch.maximum(rho * self.unit, weights * noise / top)
        unearned = max(rho, _UNEARNED_END) * self.unit
        unearned = torch.maximum(unearned, self.birth * noise.sqrt())
        self.decay = 1 / (use / top / earned + 1 / unearned)
        moved = float((use - self.use).abs().max() / top)
        self.change = moved if rho <= _EARNED_END else float("inf")
        self.use = use
