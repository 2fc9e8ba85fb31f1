"""Decoders whose product structure is given by hand and trained by backpropagation."""

from torch import nn


class Factorised(nn.Module):
    """Images ``sum_c g_c f_c^T`` with m channels c, f and g being perceptrons.

    f draws columns and g rows. With ``told`` f sees the first half of the code (the
    column's) and g the second; otherwise both see all of it.
    """

    def __init__(self, size, m, *, told=True, width=128):
        super().__init__()
        self.size, self.m, self.told = size, m, told
        n_inputs = size if told else 2 * size
        self.f, self.g = (
            nn.Sequential(
                nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, m * size)
            )
            for _ in range(2)
        )

    def forward(self, x):
        """(n, 2 size) codes to (n, size^2) images."""
        column, row = x.split(self.size, 1) if self.told else (x, x)
        f = self.f(column).unflatten(1, (self.m, self.size))
        g = self.g(row).unflatten(1, (self.m, self.size))
        return (g.mT @ f).flatten(1)
