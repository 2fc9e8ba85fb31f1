"""Graph network over the bodies of a system."""

import torch
from torch import nn

from .hypernet import Rows
from .mlp import MLP


class Messages(nn.Module):
    """One round: messages along all edges, summed, then a residual update."""

    def __init__(self, width, n_edge):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.send, self.receive = nn.Linear(width, width), nn.Linear(width, width)
        self.edge = nn.Linear(n_edge, width)
        self.message = nn.Sequential(nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.update = nn.Sequential(
            nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width)
        )

    def forward(self, h, edges, there):
        """h (n, 2, 4, width), edges (n, 2, 4, 4, n_edge), there (n, 1, 4, 4, 1)."""
        u = self.norm(h)
        m = self.receive(u)[..., :, None, :] + self.send(u)[..., None, :, :]
        m = (self.message(m + self.edge(edges)) * there).sum(-2)
        return h + self.update(torch.cat([u, m], -1))


class GraphNetwork(nn.Module):
    """Nodes are bodies, once per coordinate with the same weights.

    A node starts from its query and the pooled statistics of the window; edges have
    relative position and velocity along the coordinate, and the distance.
    """

    def __init__(self, layout, edges, width=64, rounds=2):
        super().__init__()
        self.rows, self.edges = Rows(layout), edges
        n_query = self.rows.n_query
        self.start = MLP(self.rows.n_pooled + n_query, width, 2 * width, 1)
        self.rounds = nn.ModuleList(Messages(width, 3) for _ in range(rounds))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))
        self.linear = nn.Linear(n_query, 1)

    def forward(self, X):
        """(n, 8)."""
        rows, seen, q = self.rows(X)
        pooled = self.rows.pooled(rows, seen)[:, None].expand(-1, q.shape[1], -1)
        h = self.start(torch.cat([pooled, q], -1))
        h = h.unflatten(1, (-1, 2)).transpose(1, 2)
        edges, there = self.edges(X)
        for messages in self.rounds:
            h = messages(h, edges, there)
        y = self.head(h)[..., 0].transpose(1, 2).flatten(1)
        return y + self.linear(q)[..., 0]


def edges(states):
    """Relative positions and velocities, distances, and which edges are there."""
    x, v, here = states.query_x, states.query_v, states.present
    d, dv = (a[:, None] - a[:, :, None] for a in (x, v))
    r = d.norm(dim=-1, keepdim=True).expand_as(d)
    e = torch.stack([d, dv, r], -1).movedim(3, 1)
    alone = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    there = here[:, None] & here[:, :, None] & ~alone
    return e, there[:, None, :, :, None]
