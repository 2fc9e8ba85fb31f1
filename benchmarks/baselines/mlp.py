"""Multilayer perceptrons: a residual one, and an autoencoder with a narrow code."""

from torch import nn

from .training import WithMask


class Residual(nn.Module):
    """x + MLP(norm(x)), one hidden layer."""

    def __init__(self, width, dropout=0.0):
        super().__init__()
        self.body = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
        )

    def forward(self, x):
        """(n, width) to the same."""
        return x + self.body(x)


class MLP(nn.Sequential):
    """Residual MLP with GELU; with ``masked`` the input may have NaN."""

    def __init__(self, n_in, n_out, width=256, depth=2, *, masked=False, dropout=0.0):
        layers = [WithMask()] if masked else []
        layers += [nn.Linear(2 * n_in if masked else n_in, width)]
        layers += [Residual(width, dropout) for _ in range(depth)]
        super().__init__(*layers, nn.LayerNorm(width), nn.Linear(width, n_out))


class MLPAutoencoder(nn.Sequential):
    """Two MLPs about a code of ``n_code`` numbers."""

    def __init__(self, n_features, n_code, width=256, depth=1):
        super().__init__(
            MLP(n_features, n_code, width, depth),
            MLP(n_code, n_features, width, depth),
        )
