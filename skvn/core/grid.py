r"""The grid structure: an image as a product of effective weight matrices.

Layer 1 draws columns, layer 2 draws rows, an optional third layer draws colours. Code
unit k owns one atom ``A_lk`` of shape (m, p_l) in every layer: a pattern along that
layer's axis for each of m interface channels. A sample composes ::

    W_l* = sum_k g_lk A_lk                                   (m, p_l)
    Y_hat[i, j] = sum_c W_1*[c, i] W_2*[c, j]                i.e. Y_hat = W_1*^T W_2*

and with colours ``Y_hat[i, j, o] = sum_c W_1*[c, i] W_2*[c, j] W_3*[c, o]``. Row and
column factors therefore recombine. In one layer alone the squared error is quadratic:
with the *message* ``H`` (m, q) of the other layers and the image unfolded to
``T`` (p, q), ``T ~ W*^T H``.

Shapes: codes ``g_l`` (n, K_l); atoms (K_l, m, p_l); effective weights (n, m, p_l);
``Y`` (n, p_1, p_2) or (n, p_1, p_2, p_3); ``weight`` (n,); ``decay`` (m,).
"""

import torch
from torch import Tensor

# Entries of the largest temporary of `gram`: bounds memory, changes no result.
_BLOCK = 2**23
# Conjugate-gradient steps of one ridge solve, and the squared relative residual where
# it stops earlier. 20 steps already end where exact solves end (5 do not); 40 leave so
# little to rounding that a row of weight 2 stays the same as the row twice.
_CG_STEPS, _CG_DONE = 40, 1e-24


def effective(g: Tensor, A: Tensor) -> Tensor:
    """Effective weights ``W* = sum_k g_k A_k`` of every row.

    Parameters
    ----------
    g : Tensor of shape (n, K)
    A : Tensor of shape (K, m, p)

    Returns
    -------
    Tensor of shape (n, m, p)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.grid import effective
    >>> A = torch.eye(2)[:, None, :]
    >>> effective(torch.tensor([[2.0, 0.5]]), A)
    tensor([[[2.0000, 0.5000]]])
    """
    return torch.einsum("nk,kmp->nmp", g, A)


def message(W: list[Tensor]) -> Tensor:
    """Channel-wise outer product of some layers' effective weights.

    Parameters
    ----------
    W : list of Tensors of shape (n, m, p_l)

    Returns
    -------
    Tensor of shape (n, m, product of the p_l)
    """
    H = W[0]
    for V in W[1:]:
        H = (H.unsqueeze(3) * V.unsqueeze(2)).flatten(2)
    return H


def unfold(Y: Tensor, layer: int) -> Tensor:
    """Y with the axis of one layer first and all others flattened.

    Parameters
    ----------
    Y : Tensor of shape (n, p_1, ..., p_L)
    layer : int

    Returns
    -------
    Tensor of shape (n, p_layer, q)
    """
    return Y.movedim(layer + 1, 1).flatten(2)


def answer(W: list[Tensor]) -> Tensor:
    """Image that effective weights draw: ``Y_hat = W_1*^T W_2*`` for two layers.

    Parameters
    ----------
    W : list of Tensors of shape (n, m, p_l)

    Returns
    -------
    Tensor of shape (n, p_1, ..., p_L)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.grid import answer
    >>> columns, rows = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[1.0, 2.0]]])
    >>> answer([columns, rows])
    tensor([[[0., 0.],
             [1., 2.]]])
    """
    flat = W[0].mT @ message(W[1:])
    return flat.reshape(len(flat), *(V.shape[2] for V in W))


def others(items: list, layer: int) -> list:
    """All items but that of one layer."""
    return [item for i, item in enumerate(items) if i != layer]


# --- one layer given the others: a ridge problem --------------------------------------


def gram(g: Tensor, H: Tensor, weight: Tensor) -> Tensor:
    """``G[(k, a), (j, b)] = sum_n w_n g_nk g_nj (H_n H_n^T)_ab``.

    Parameters
    ----------
    g : Tensor of shape (n, K)
    H : Tensor of shape (n, m, q)
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape (K m, K m)
    """
    K, m = g.shape[1], H.shape[1]
    G = g.new_zeros(K * K, m * m)
    for i in torch.arange(len(g), device=g.device).split(max(1, _BLOCK // K**2)):
        gg = (weight[i, None] * g[i]).unsqueeze(2) * g[i].unsqueeze(1)
        G += gg.flatten(1).T @ (H[i] @ H[i].mT).flatten(1)
    return G.reshape(K, K, m, m).transpose(1, 2).reshape(K * m, K * m)


def hebb_sum(g: Tensor, H: Tensor, R: Tensor, weight: Tensor) -> Tensor:
    """Atomic-Hebb update ``dA_k = sum_n w_n g_nk H_n R_n^T``: coefficient x residual.

    Minus the gradient of ``1/2 sum_n w_n ||R_n||^2``.

    Parameters
    ----------
    g : Tensor of shape (n, K)
    H : Tensor of shape (n, m, q)
        Message of the other layers.
    R : Tensor of shape (n, p, q)
        Unfolded residual.
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape (K, m, p)
    """
    return torch.einsum("nk,nmp->kmp", weight[:, None] * g, H @ R.mT)


def ridge(g: Tensor, H: Tensor, T: Tensor, weight: Tensor, decay: Tensor) -> Tensor:
    """Atoms of one layer, exactly, by one factorisation of a (K m)^2 matrix.

    ``argmin_A sum_n w_n ||T_n - W_n*^T H_n||^2 + sum_c decay_c ||A[:, c]||^2``.

    Parameters
    ----------
    g : Tensor of shape (n, K)
    H : Tensor of shape (n, m, q)
    T : Tensor of shape (n, p, q)
    weight : Tensor of shape (n,)
    decay : Tensor of shape (m,)

    Returns
    -------
    Tensor of shape (K, m, p)
    """
    B = hebb_sum(g, H, T, weight)
    G = gram(g, H, weight)
    G.diagonal().add_(decay.repeat(g.shape[1]))
    A = torch.cholesky_solve(B.flatten(0, 1), torch.linalg.cholesky(G))
    return A.reshape(B.shape)


def ridge_by_hebb(
    g: Tensor, H: Tensor, T: Tensor, weight: Tensor, decay: Tensor, A: Tensor
) -> Tensor:
    """The problem of ``ridge`` by conjugate gradients, from ``A``.

    Every product with the Gram matrix is an Atomic-Hebb sum, so that no (K m)^2 matrix
    is formed; the directions are those sums, whitened within each atom.

    Parameters
    ----------
    g, H, T, weight, decay
        As in ``ridge``.
    A : Tensor of shape (K, m, p)
        Where to start.

    Returns
    -------
    Tensor of shape (K, m, p)
    """
    HH = H @ H.mT
    own = torch.einsum("nk,nab->kab", weight[:, None] * g.square(), HH)
    L = torch.linalg.cholesky(own + torch.diag(decay))

    def product(V):
        drive = HH @ effective(g, V)
        GV = torch.einsum("nk,nmp->kmp", weight[:, None] * g, drive)
        return GV + decay[None, :, None] * V

    r = hebb_sum(g, H, T, weight) - product(A)
    z = d = torch.cholesky_solve(r, L)
    rz = rz_start = (r * z).sum((0, 1))  # one independent problem per output line p
    for _ in range(_CG_STEPS):
        if (rz <= _CG_DONE * rz_start).all():
            break
        q = product(d)
        step = _ratio(rz, (d * q).sum((0, 1)))
        A, r = A + step * d, r - step * q
        z = torch.cholesky_solve(r, L)
        rz, rz_old = (r * z).sum((0, 1)), rz
        d = z + _ratio(rz, rz_old) * d
    return A


def _ratio(a, b):
    """``a / b``, and 0 where b is 0 (a problem already solved)."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1), 0)


# --- interface channels ---------------------------------------------------------------


def channel_norms(A: Tensor) -> Tensor:
    """Norm of every interface channel over all atoms of one layer.

    Parameters
    ----------
    A : Tensor of shape (K, m, p)

    Returns
    -------
    Tensor of shape (m,)
    """
    return A.square().sum((0, 2)).sqrt()


def usage(atoms: list[Tensor]) -> Tensor:
    """Use ``t_c`` of every channel: the product of its norms in all layers.

    Parameters
    ----------
    atoms : list of Tensors of shape (K_l, m, p_l)

    Returns
    -------
    Tensor of shape (m,)
    """
    return torch.stack([channel_norms(A) for A in atoms]).prod(0)


def balance(atoms: list[Tensor]) -> list[Tensor]:
    """Give every channel the same norm in all layers; the answer does not change.

    Parameters
    ----------
    atoms : list of Tensors of shape (K_l, m, p_l)

    Returns
    -------
    list of Tensors
    """
    norms = torch.stack([channel_norms(A) for A in atoms])
    mean = norms.log().mean(0).exp()
    scale = torch.where(norms.amin(0) > 0, mean / norms, 1)
    return [A * s[None, :, None] for A, s in zip(atoms, scale, strict=True)]


def keep_used(atoms: list[Tensor], share: float = 1e-6) -> tuple[list[Tensor], Tensor]:
    """Channels whose use is above a share of the largest, most used first.

    Parameters
    ----------
    atoms : list of Tensors of shape (K_l, m, p_l)
    share : float, default=1e-6

    Returns
    -------
    atoms : list of Tensors
        At least one channel stays.
    use : Tensor
        Its use, see ``usage``.
    """
    use, order = usage(atoms).sort(descending=True, stable=True)
    kept = max(1, int((use > share * use[0]).sum()))
    return [A[:, order[:kept]] for A in atoms], use[:kept]
