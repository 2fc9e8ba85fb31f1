"""Slow learning: local statistics of settled codes and the steps they drive."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .energy import ACTIVATIONS, residual
from .network import inputs, reconstruction

# An atom whose use is below this share of the mean use counts as dead.
_DEAD_SHARE = 1e-4
# At unit scale an update this small is rounding; Adam shall not blow it up.
_QUIET = 1e-4
# Noise on drawn rows, relative to their length: keeps two copies of one row from
# staying equal. More than this is learned slowly away and costs accuracy.
_JITTER = 1e-3


def normalise(A):
    """Columns at unit length; an all-zero column stays zero.

    Parameters
    ----------
    A : Tensor of shape (d, K)

    Returns
    -------
    Tensor of shape (d, K)
    """
    norm = torch.linalg.vector_norm(A, dim=0)
    return A / torch.where(norm > 0, norm, 1)


def local_updates(net, x, codes, weight, *, mask=None, target=None, beta=0.0):
    """Minus the gradient of ``sum_n weight_n F_n`` at fixed codes (Danskin).

    ``dS_l = sum_n w_n r_x g^T`` with ``r_x = M (x_l - S_l g_l)``, and
    ``dU_l = sum_n w_n r_h g^T`` with ``r_h = (target - phi(U g)) phi'(U g)``:
    only what the layer itself sees. Atoms with g_k = 0 do not move.

    Parameters
    ----------
    net : Network
    x : Tensor of shape (n, d)
    codes : list of Tensors of shape (n, K_l)
        Settled codes.
    weight : Tensor of shape (n,)
        Sample weights.
    mask : bool Tensor of shape (n, d) or None
    target : Tensor of shape (n, m) or None
        y; without it the top layer's U does not move.
    beta : float, default=0.0

    Returns
    -------
    list of (dS, dU)
        One pair per layer, summed over the rows.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import Layer
    >>> from skvn.core.learn import local_updates
    >>> from skvn.core.network import Network
    >>> net = Network([Layer(torch.eye(2), torch.eye(2), lam=0.1)])
    >>> x, g = torch.tensor([[3.0, 1.0]]), torch.tensor([[2.0, 0.0]])
    >>> [(dS, _)] = local_updates(net, x, [g], torch.ones(1))
    >>> dS  # the second atom is not in use
    tensor([[2., 0.],
            [2., 0.]])
    """
    updates = []
    for level, x_l in enumerate(inputs(net, x, codes)):
        layer, g = net.layers[level], codes[level]
        r_x = residual(layer.S, x_l, g, mask if level == 0 else None)
        r_h = _message_residual(net, level, codes, target, beta)
        weighted = weight[:, None] * g
        dU = torch.zeros_like(layer.U) if r_h is None else r_h.T @ weighted
        updates.append((r_x.T @ weighted, dU))
    return updates


def _message_residual(net, level, codes, target, beta):
    """r_h of one layer: what its message lacks, times the slope of phi."""
    layer = net.layers[level]
    phi, slope = ACTIVATIONS[layer.phi]
    a = codes[level] @ layer.U.T
    if level + 1 < len(net.layers):
        wanted = reconstruction(net.layers[level + 1], codes[level + 1])
        return (wanted - phi(a)) * slope(a)
    return None if target is None else beta * (target - phi(a)) * slope(a)


def coactivity(g, weight):
    """c_k = sum_n w_n |g_nk| sum_j |g_nj|: keeps steps stable when atoms co-fire.

    Parameters
    ----------
    g : Tensor of shape (n, K)
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape (K,)
    """
    size = g.abs()
    return (weight * size.sum(1)) @ size


def hebb_step(A, dA, c, rate):
    """One Atomic-Hebb step on a set of columns: ``A + rate dA / c``.

    Parameters
    ----------
    A, dA : Tensor of shape (d, K)
        Columns and their summed local update.
    c : Tensor of shape (K,)
        Co-activity; an atom that never fired (c = 0) stays.
    rate : float

    Returns
    -------
    Tensor of shape (d, K)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.learn import hebb_step
    >>> dS, c = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([4.0, 0.0])
    >>> hebb_step(torch.eye(2), dS, c, rate=1.0)
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    return A + rate * dA / torch.where(c > 0, c, 1)


@dataclass
class Adam:
    """Elementwise Adam: every weight keeps its own moments, so it stays local."""

    moments: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    n_steps: int = 0

    def step(self, tensors, updates, rate):
        """Move every tensor along its update (an ascent direction).

        Parameters
        ----------
        tensors, updates : lists of Tensors
            Matching shapes.
        rate : float

        Returns
        -------
        list of Tensors
        """
        if not self.moments:
            self.moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in tensors]
        self.n_steps += 1
        self.moments = [
            (0.9 * m + 0.1 * u, 0.999 * v + 0.001 * u.square())
            for (m, v), u in zip(self.moments, updates, strict=True)
        ]
        unbias = (1 - 0.999**self.n_steps) ** 0.5
        gain = rate * unbias / (1 - 0.9**self.n_steps)
        return [
            t + gain * m / (v.sqrt() + _QUIET * unbias)
            for t, (m, v) in zip(tensors, self.moments, strict=True)
        ]


def draw_rows(x, weight, count, generator):
    """Draw rows with probability in proportion to their weight.

    Rows are ordered along a random direction and picked at evenly spread,
    randomly shifted quantiles of the weight. The draw therefore covers the data,
    does not depend on the order of the rows, and a row of weight 2 is the same as
    the row twice.

    Parameters
    ----------
    x : Tensor of shape (n, d)
    weight : Tensor of shape (n,)
        Nonnegative, with a positive sum.
    count : int
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of shape (count, d)
    """
    options = {"generator": generator, "dtype": torch.float64}
    direction = torch.randn(x.shape[1], **options).to(x)
    shift = torch.rand(count, **options)
    order = torch.argsort(x @ direction, stable=True)
    mass = weight[order].double().cumsum(0).cpu()
    quantile = (torch.arange(count) + shift) / count * mass[-1]
    picked = torch.searchsorted(mass, quantile, right=True).clamp_(max=len(x) - 1)
    return x[order[picked.to(order.device)]]


def atoms_from_rows(x, weight, count, generator):
    """Unit-norm atoms made of drawn rows plus a little noise.

    Parameters
    ----------
    x : Tensor of shape (n, d)
    weight : Tensor of shape (n,)
    count : int
    generator : torch.Generator

    Returns
    -------
    Tensor of shape (d, count)
    """
    rows = normalise(draw_rows(x, weight, count, generator).T)
    noise = torch.randn(rows.shape, generator=generator, dtype=torch.float64).to(rows)
    return normalise(rows + _JITTER * noise / x.shape[1] ** 0.5)


def dead_atoms(usage):
    """Which atoms are (next to) never used.

    Parameters
    ----------
    usage : Tensor of shape (K,)
        Weighted sum of g_k^2.

    Returns
    -------
    bool Tensor of shape (K,)
    """
    return usage <= _DEAD_SHARE * usage.mean()
