"""Transformers. ``Transformer`` reads a signal as a row of patches, some hidden."""

import torch
from torch import nn

from .hypernet import Rows


class Patches(nn.Module):
    """Signal -> patch tokens -> ``blocks`` -> signal. NaN is 0 with a mask bit of 0.

    Every token has the entries of its patch and their mask bits, which make the mask
    token of a patch that is hidden.
    """

    def __init__(self, n_features, patch, width, blocks):
        super().__init__()
        self.patch = patch
        self.embed = nn.Sequential(
            nn.Linear(2 * patch, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.place = nn.Parameter(0.1 * torch.randn(n_features // patch, width))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, patch))

    def forward(self, x):
        """(n, d) with NaN to (n, d)."""
        x = x.unflatten(1, (-1, self.patch))
        tokens = torch.cat([torch.nan_to_num(x), (~torch.isnan(x)).to(x.dtype)], -1)
        return self.head(self.blocks(self.embed(tokens) + self.place)).flatten(1)


class Block(nn.Module):
    """Pre-norm self-attention and MLP."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )

    def forward(self, x, mask=None):
        """(n, tokens, width) to the same; ``mask`` says what may be looked at."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Transformer(Patches):
    """Self-attention over the patches of a signal."""

    def __init__(self, n_features, patch=4, width=64, depth=3, heads=4):
        blocks = [Block(width, heads) for _ in range(depth)]
        super().__init__(n_features, patch, width, blocks)


class RowTransformer(nn.Module):
    """Observed rows and queries of a system are tokens; see ``hypernet.Rows``.

    All tokens look at the observed rows that are there, and at themselves.
    """

    def __init__(self, layout, width=64, depth=2, heads=4):
        super().__init__()
        self.rows = Rows(layout)
        n_query = self.rows.n_query
        self.observed = nn.Linear(layout.state_size + 1, width)
        self.query = nn.Linear(n_query, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))
        self.linear = nn.Linear(n_query, 1)

    def forward(self, X):
        """(n, 8)."""
        rows, seen, q = self.rows(X)
        x = torch.cat([self.observed(rows), self.query(q)], 1)
        keys = torch.cat([seen, seen.new_zeros(q.shape[:2])], 1)
        mask = keys[:, None] | torch.eye(x.shape[1], dtype=bool, device=x.device)
        for block in self.blocks:
            x = block(x, mask[:, None])
        return (self.head(x[:, -q.shape[1] :]) + self.linear(q))[..., 0]
