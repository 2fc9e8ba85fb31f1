"""Networks for images: autoencoders, denoisers and predictors of the next frame."""

import torch
from torch import nn

from .conv import ConvAutoencoder, conv_denoiser
from .mlp import MLP
from .training import Backprop, WithMask, relative_loss


class Padded(nn.Module):
    """A convolutional network for images whose side is no multiple of 4.

    The images get a margin of zeros, which the answers lose again.
    """

    def __init__(self, net, side, padded):
        super().__init__()
        self.net, self.side, self.padded = net, side, padded
        self.before = (padded - side) // 2

    def forward(self, x):
        """(n, side**2) to the same."""
        first, last = self.before, self.before + self.side
        y = self.net(self._pad(x)).unflatten(1, (self.padded, self.padded))
        return y[:, first:last, first:last].flatten(1)

    def loss(self, x, y):
        """The network's own; the margin is part of the image."""
        if hasattr(self.net, "loss"):
            return self.net.loss(self._pad(x), self._pad(y))
        return relative_loss(self(x), y)

    def _pad(self, x):
        before, after = self.before, self.padded - self.side - self.before
        x = x.unflatten(1, (self.side, self.side))
        return nn.functional.pad(x, (before, after, before, after)).flatten(1)


def padded(make, side):
    """``make(size)`` for the next multiple of 4."""
    size = -(-side // 4) * 4
    return Padded(make(size), side, size)


def mlp_autoencoder(n_features, n_code, width=256):
    """Encoder and decoder with one residual block each; holes allowed."""
    encoder = MLP(2 * n_features, n_code, width, 1)
    return nn.Sequential(WithMask(), encoder, MLP(n_code, n_features, width, 1))


def conv_autoencoder(side, n_code, beta=0.0):
    """Convolutional; variational with ``beta``, the weight of the divergence."""
    return padded(lambda size: ConvAutoencoder(size, n_code, beta), side)


def conv_filler(side):
    """Five 5 x 5 convolutions without a bottleneck."""
    return padded(conv_denoiser, side)


class RefinedLatent(Backprop):
    """An autoencoder whose code is refined on every test row, decoder fixed."""

    def predict(self, X):
        """150 steps of Adam on the code, from the encoder's answer."""
        x = self._tensor(X)
        self.net.eval()
        decoder = self.net[-1].requires_grad_(False)
        code = self.net[:-1](x).detach().requires_grad_()
        adam = torch.optim.Adam([code], lr=0.03 * float(code.detach().std()))
        for _ in range(150):
            adam.zero_grad()
            relative_loss(decoder(code), x).backward()
            adam.step()
        return decoder(code).detach().double().cpu().numpy()


class FrameCNN(nn.Module):
    """Two frames to the next: the last one plus what five 3 x 3 convolutions add."""

    def __init__(self, side, width=24, depth=5):
        super().__init__()
        layers = [nn.Unflatten(1, (2, side, side))]
        for channels in (2, *[width] * (depth - 2)):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        last = nn.Conv2d(width, 1, 3, padding=1)
        self.net = nn.Sequential(*layers, last, nn.Flatten())

    def forward(self, x):
        """(n, 2 side**2) to (n, side**2)."""
        return x.chunk(2, 1)[1] + self.net(x)


def itself(x, generator):
    """(image, image)."""
    return x, x


def random_halves(x, generator):
    """(image with a random half missing, image)."""
    side = round(x.shape[1] ** 0.5)
    row, column = torch.meshgrid(*[torch.arange(side) < side / 2] * 2, indexing="ij")
    halves = torch.stack([row, ~row, column, ~column]).flatten(1).to(x.device)
    which = torch.randint(4, (len(x),), generator=generator, device=x.device)
    return torch.where(halves[which], torch.nan, x), x


def add_noise(x, generator, scale=0.25):
    """(image with white noise, image)."""
    noise = torch.randn(x.shape, generator=generator, device=x.device)
    return x + scale * noise, x
