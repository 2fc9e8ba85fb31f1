"""Networks that pool the observed rows of a system: MLP and hypernetwork."""

import torch
from torch import nn

from .mlp import MLP
from .training import Backprop


class Rows(nn.Module):
    """What all networks read: rows of a system, without NaN, and pooled statistics."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        F, self.n_steps = layout.state_size, layout.n_observed // 8
        self.n_pooled = F * (F + 1) // 2 + F + 1
        # Of a query: its state and, in a window, the rows of the same body.
        self.n_query = F + self.n_steps * (F + 1)
        self.upper = tuple(torch.triu_indices(F, F))

    def forward(self, X):
        """Observed rows (n, R, F + 1), which are there, queries (n, 8, n_query)."""
        z, a, q = self.layout.split(torch.nan_to_num(X))
        rows = torch.cat([z, a[..., None]], -1)
        own = rows[:, : 8 * self.n_steps].unflatten(1, (self.n_steps, 8))
        own = own.transpose(1, 2).flatten(2)
        return rows, (z != 0).any(-1), torch.cat([q, own], -1)

    def pooled(self, rows, seen):
        """Second moments of the rows, (n, n_pooled): sufficient for a linear law."""
        z, a = rows[..., :-1], rows[..., -1:]
        count = seen.sum(1).clamp_min(1)[:, None]
        G = (z.mT @ z)[:, *self.upper]
        return torch.cat([G, (z.mT @ a)[..., 0], a.square().sum(1)], 1) / count


class PooledMLP(nn.Module):
    """MLP of pooled statistics and query; a linear path from the query."""

    def __init__(self, layout, width=192, depth=2):
        super().__init__()
        self.rows = Rows(layout)
        n_query = self.rows.n_query
        self.mlp = MLP(self.rows.n_pooled + n_query, 1, width, depth)
        self.linear = nn.Linear(n_query, 1)

    def forward(self, X):
        """(n, 8)."""
        rows, seen, q = self.rows(X)
        pooled = self.rows.pooled(rows, seen)[:, None].expand(-1, q.shape[1], -1)
        return (self.mlp(torch.cat([pooled, q], -1)) + self.linear(q))[..., 0]


class HyperNetwork(nn.Module):
    """Encoded rows are averaged; an MLP of that and the statistics emits W."""

    def __init__(self, layout, width=128, depth=3):
        super().__init__()
        self.rows = Rows(layout)
        F = layout.state_size
        self.encode = nn.Sequential(
            nn.Linear(2 * F + 1, width), nn.GELU(), nn.Linear(width, width), nn.GELU()
        )
        self.emit = MLP(width + self.rows.n_pooled, F, width, depth)

    def operators(self, X):
        """W of every system, (n, F)."""
        rows, seen, _ = self.rows(X)
        products = rows[..., :-1] * rows[..., -1:]
        code = self.encode(torch.cat([rows, products], -1)) * seen[..., None]
        mean = code.sum(1) / seen.sum(1).clamp_min(1)[:, None]
        return self.emit(torch.cat([mean, self.rows.pooled(rows, seen)], 1))

    def forward(self, X):
        """(n, 8)."""
        q = self.rows.layout.split(torch.nan_to_num(X))[2]
        return torch.einsum("nqf,nf->nq", q, self.operators(X))


class HyperBackprop(Backprop):
    """A trained hypernetwork that shows its operators."""

    @torch.no_grad()
    def effective_weight(self, X):
        """(n, 1, F)."""
        self.net.eval()
        return self.net.operators(self._tensor(X))[:, None].double().cpu().numpy()
