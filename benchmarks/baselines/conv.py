"""Convolutional networks for square images whose size is a multiple of 4.

Channels last is the faster layout on a CPU.
"""

import torch
from torch import nn

from .training import WithMask, relative_loss

HALF = {"kernel_size": 4, "stride": 2, "padding": 1}
LAYOUT = {"memory_format": torch.channels_last}


def cnn_decoder(n_inputs, size, width=16):
    """Codes to images by two transposed convolutions, each doubling the size."""
    small = size // 4
    return nn.Sequential(
        nn.Linear(n_inputs, 2 * width * small**2),
        nn.Unflatten(1, (2 * width, small, small)),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, **HALF),
        nn.ReLU(),
        nn.ConvTranspose2d(width, width, **HALF),
        nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
        nn.Flatten(),
    ).to(**LAYOUT)


def cnn_encoder(n_outputs, size, width=16):
    """Images with missing pixels to codes, the mirror image of the decoder."""
    return nn.Sequential(
        WithMask(),
        nn.Unflatten(1, (2, size, size)),
        nn.Conv2d(2, width, **HALF),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, **HALF),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * (size // 4) ** 2, n_outputs),
    ).to(**LAYOUT)


class ConvAutoencoder(nn.Module):
    """Encoder, a few code units, decoder; variational if ``beta`` > 0."""

    def __init__(self, size, n_codes=16, beta=0.0):
        super().__init__()
        self.beta = beta
        self.encoder = cnn_encoder(2 * n_codes, size)
        self.decoder = cnn_decoder(n_codes, size)

    def forward(self, x):
        """The image of the mean code."""
        return self.decoder(self.encoder(x).chunk(2, 1)[0])

    def loss(self, x, y):
        """Relative error, plus beta times the divergence from a normal prior."""
        if not self.beta:
            return relative_loss(self(x), y)
        mean, log_variance = self.encoder(x).chunk(2, 1)
        drawn = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        divergence = (mean**2 + log_variance.exp() - log_variance - 1).sum(1) / 2
        return relative_loss(self.decoder(drawn), y) + self.beta * divergence.mean()


def conv_denoiser(size, width=16, depth=5):
    """Images with missing pixels to images, 5 x 5 filters without a bottleneck."""
    layers = [WithMask(), nn.Unflatten(1, (2, size, size))]
    for channels in (2, *[width] * (depth - 2)):
        layers += [nn.Conv2d(channels, width, 5, padding=2), nn.ReLU()]
    layers += [nn.Conv2d(width, 1, 5, padding=2), nn.Flatten()]
    return nn.Sequential(*layers).to(**LAYOUT)
