"""A Mamba-style selective state-space network, read in both directions.

Every head h has a state of shape (channels, n_state) that follows
``state_t = a_t state_(t-1) + d_t x_t b_t^T`` and answers ``y_t = state_t c_t``; the
step d_t, the decay a_t = exp(-d_t A_h), b_t and c_t are read from the token
(selection). The recurrence is unrolled into one lower triangular matrix per head,
``y_t = sum_(s<=t) (c_t . b_s) exp(-A_h sum_(s<r<=t) d_r) d_s x_s``, which is exact and
fast for short signals (the dual form of Mamba-2).
"""

import math

import torch
from torch import nn

from .transformer import Patches


def selective_scan(x, step, decay, b, c):
    """y of the recurrence, shape (n, h, t, p).

    x (n, h, t, p), step (n, h, t), decay (h,), b and c (n, t, s).
    """
    total = (step * decay[:, None]).cumsum(-1)
    log = total[..., None, :] - total[..., :, None]
    later = torch.ones(log.shape[-2:], dtype=torch.bool, device=x.device).tril()
    kernel = torch.where(later, log, -math.inf).exp()
    kernel = kernel * (c @ b.transpose(1, 2))[:, None]
    return kernel @ (x * step[..., None])


class Scan(nn.Module):
    """Short causal convolution, then a gated selective scan, in one direction."""

    def __init__(self, width, heads, n_state):
        super().__init__()
        self.heads, self.sizes = heads, (width, width, n_state, n_state, heads)
        self.project = nn.Linear(width, sum(self.sizes))
        self.taps = nn.Parameter(torch.randn(3, width) / math.sqrt(3))
        self.log_decay = nn.Parameter(torch.linspace(-2, 2, heads))
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        """(n, tokens, width) to the same."""
        x, gate, b, c, step = self.project(x).split(self.sizes, -1)
        x = (
            nn.functional.silu(self._convolve(x))
            .unflatten(-1, (self.heads, -1))
            .transpose(1, 2)
        )
        step = nn.functional.softplus(step - 1).transpose(1, 2)
        y = selective_scan(x, step, self.log_decay.exp(), b, c)
        y = y + self.skip[:, None, None] * x
        return self.out(
            self.norm(y.transpose(1, 2).flatten(2)) * nn.functional.silu(gate)
        )

    def _convolve(self, x):
        """Each channel with its three taps, looking back."""
        past = nn.functional.pad(x, (0, 0, 2, 0))
        n = x.shape[1]
        return sum(tap * past[:, i : i + n] for i, tap in enumerate(self.taps))


class Block(nn.Module):
    """x + scan(norm(x)) + reversed scan of the reversed norm(x)."""

    def __init__(self, width, heads, n_state):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ahead, self.back = (Scan(width, heads, n_state) for _ in range(2))

    def forward(self, x):
        """(n, tokens, width) to the same."""
        z = self.norm(x)
        return x + self.ahead(z) + self.back(z.flip(1)).flip(1)


class SelectiveSSM(Patches):
    """Bidirectional selective scans over the patches of a signal."""

    def __init__(self, n_features, patch=4, width=64, depth=3, heads=8, n_state=16):
        blocks = [Block(width, heads, n_state) for _ in range(depth)]
        super().__init__(n_features, patch, width, blocks)
