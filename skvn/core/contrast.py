"""Two-phase learning: how the answer would change if the code were nudged."""

import torch

from .energy import residual
from .layer import message
from .learn import local_updates
from .network import settle

# Largest nudge as a share of the penalty: keeps the nudged settle convex.
_MAX_NUDGE = 0.5
# Curvature added to the active atoms' Gram (atoms have unit length): two nearly equal
# active atoms would otherwise answer a nudge without bound.
_DAMPING = 1e-4


def response(S, g, pull, mask=None):
    """How the settled code moves per unit of a linear nudge ``-pull . g``.

    On the active atoms A of a row, ``a_A = (S_A^T M S_A + damping I)^-1 pull_A``;
    inactive atoms stay at 0. This is the derivative of the settle wherever the active
    set does not change.

    Parameters
    ----------
    S : Tensor of shape (d, K)
    g : Tensor of shape (n, K)
        Settled codes.
    pull : Tensor of shape (n, K)
    mask : bool Tensor of shape (n, d) or None

    Returns
    -------
    Tensor of shape (n, K)
    """
    active = g != 0
    size = max(int(active.sum(1).max()), 1)
    # The active atoms of every row first, padded with inactive ones to equal number.
    index = active.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :size]
    used = active.gather(1, index).to(g)
    atoms = S.T[index] * used[:, :, None]  # (n, size, d)
    seen = atoms if mask is None else atoms * mask[:, None, :]
    gram = seen @ atoms.mT
    gram.diagonal(dim1=1, dim2=2).add_(_DAMPING)
    wanted = (pull.gather(1, index) * used)[:, :, None]
    a = torch.cholesky_solve(wanted, torch.linalg.cholesky(gram))[:, :, 0]
    return torch.zeros_like(g).scatter_(1, index, a)


def contrast_updates(layer, x, g, error, weight, mask=None):
    """Centred two-phase contrast of one layer in the limit of a small nudge.

    The phases settle ``E +- beta/2 ||y - U g||^2`` from the free code g. For small
    beta they are ``g +- beta a`` with ``a = response(U^T (y - U g))``, so that

    ``dS = sum_n w_n [r(g+) g+^T - r(g-) g-^T] / (2 beta)
    = sum_n w_n (r a^T - M S a g^T)``

    and ``dU = sum_n w_n (y - U g) g^T``: minus the gradient of
    ``1/2 ||y - U g(x)||^2``, without differentiating the settle and without its two
    extra runs.

    Parameters
    ----------
    layer : Layer
    x : Tensor of shape (n, d)
    g : Tensor of shape (n, K)
        Free codes.
    error : Tensor of shape (n, m)
        ``y - U g``.
    weight : Tensor of shape (n,)
    mask : bool Tensor of shape (n, d) or None

    Returns
    -------
    dS, dU : Tensors of the shapes of S and U

    Examples
    --------
    >>> import torch
    >>> from skvn.core.contrast import contrast_updates
    >>> from skvn.core.layer import Layer
    >>> layer = Layer(torch.eye(2), torch.tensor([[1.0, 1.0]]), lam=0.1)
    >>> x, g = torch.tensor([[3.0, 0.0]]), torch.tensor([[2.9, 0.0]])
    >>> error = torch.tensor([[0.5]])  # y - U g
    >>> dS, dU = contrast_updates(layer, x, g, error, torch.ones(1))
    >>> dS.shape, dU
    (torch.Size([2, 2]), tensor([[1.4500, 0.0000]]))
    """
    a = response(layer.S, g, error @ layer.U, mask)
    r = residual(layer.S, x, g, mask)
    moved = a @ layer.S.T
    moved = moved if mask is None else moved * mask
    weighted = weight[:, None]
    dS = r.T @ (weighted * a) - moved.T @ (weighted * g)
    return dS, error.T @ (weighted * g)


def phases(net, x, codes, error, beta, **options):
    """Codes nudged towards and away from y, for any number of layers.

    ``E +- beta/2 ||y - U g||^2`` with the target term linearised at the free code:
    convex for both signs, and the same contrast as beta -> 0.

    Parameters
    ----------
    net : Network
    x : Tensor of shape (n, d)
    codes : list of Tensors
        Free codes.
    error : Tensor of shape (n, m)
        ``y - U_L g_L``.
    beta : float
        Lowered for a row whose nudge would exceed half the penalty.
    **options
        Of ``settle``.

    Returns
    -------
    plus, minus : lists of Tensors
    sizes : Tensor of shape (n,)
        The beta each row got.
    """
    top = net.layers[-1]
    pull = error @ top.U
    sizes = (_MAX_NUDGE * top.lam / pull.abs().amax(1)).clamp(max=beta)
    nudge = sizes[:, None] * pull
    plus = settle(net, x, nudge=nudge, start=codes, **options)
    minus = settle(net, x, nudge=-nudge, start=codes, **options)
    return plus, minus, sizes


def two_phase_updates(net, x, plus, minus, sizes, weight, target, mask=None):
    """Contrast of two nudged phases.

    ``dS_l = sum_n w_n [r_x(g+) g+^T - r_x(g-) g-^T] / (2 beta_n)``, hidden U alike,
    and at the top ``dU = sum_n w_n mean_+- (y - U g+-) g+-^T``.

    Parameters
    ----------
    net : Network
    x : Tensor of shape (n, d)
    plus, minus : lists of Tensors of shape (n, K_l)
    sizes : Tensor of shape (n,)
        beta of every row.
    weight : Tensor of shape (n,)
    target : Tensor of shape (n, m)
    mask : bool Tensor of shape (n, d) or None

    Returns
    -------
    list of (dS, dU)
    """
    share = weight / (2 * sizes)
    up = local_updates(net, x, plus, share, mask=mask)
    down = local_updates(net, x, minus, share, mask=mask)
    updates = [(a - c, b - d) for (a, b), (c, d) in zip(up, down, strict=True)]
    top = net.layers[-1]
    dU = sum(
        (target - message(top, g)).T @ (weight[:, None] * g) / 2
        for g in (plus[-1], minus[-1])
    )
    return [*updates[:-1], (updates[-1][0], dU)]
