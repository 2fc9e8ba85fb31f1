r"""The operator structure: one code per system, an operator ``W* = sum_k g_k A_k``.

A sample is a *system*: rows of states ``z_p`` (F numbers) and responses ``a_p``
(c numbers), some of them observed and some asked for. The code is settled on the
observed rows and answers at the others::

    E(g) = 1/2 sum_p ||a_p - sum_k g_k A_k z_p||^2 + penalty(g),   a_hat = W* z

so that the design of a system is ``D = [A_1 z_p, ..., A_K z_p]``, one block of c rows
for every p. With a constant state, z = 1, the one row ``[x, y]`` and atoms
``A_k = [s_k, u_k]``, it is the flat structure.

Shapes: states (n, P, F); responses (n, P, c); seen (n, P, c), or (n, P, 1) if rows are
there or not as a whole; atoms A (K, c, F); codes g (n, K); weight (n,).
"""

import torch

# Ridges of a Newton step, relative to the mean curvature and absolute (responses have
# unit scale): an atom that few systems use moves little.
_NEWTON_RIDGE, _NEWTON_FLOOR = 1e-2, 1e-3
# Relative ridge of the joint solve: far below what the data decide.
_SOLVE_RIDGE = 1e-6
# Whitening raises eigenvalues by this share of the largest.
_WHITEN_FLOOR = 1e-3


def design(A, states):
    """``D``: entry (p c, k) is component c of ``A_k z_p``.

    Parameters
    ----------
    A : Tensor of shape (K, c, F)
    states : Tensor of shape (n, P, F) or (P, F)

    Returns
    -------
    Tensor of shape (n, P c, K) or (P c, K)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.operator import design
    >>> atoms = torch.eye(2)[:, None, :]  # a = z_0, and a = z_1
    >>> design(atoms, torch.tensor([[3.0, 4.0]]))
    tensor([[3., 4.]])
    """
    return torch.einsum("kcf,...pf->...pck", A, states).flatten(-3, -2)


def operator(A, g):
    """Effective weight ``W* = sum_k g_k A_k`` of every system.

    Parameters
    ----------
    A : Tensor of shape (K, c, F)
    g : Tensor of shape (n, K)

    Returns
    -------
    Tensor of shape (n, c, F)

    Examples
    --------
    >>> import torch
    >>> from skvn.core.operator import operator
    >>> atoms = torch.eye(2)[:, None, :]
    >>> operator(atoms, torch.tensor([[2.0, 0.5]]))
    tensor([[[2.0000, 0.5000]]])
    """
    return torch.einsum("nk,kcf->ncf", g, A)


def misfit(A, part, g):
    """Residuals ``a_p - W* z_p``, 0 where nothing was seen.

    Parameters
    ----------
    A : Tensor of shape (K, c, F)
    part : Systems
    g : Tensor of shape (n, K)

    Returns
    -------
    Tensor of shape (n, P, c)
    """
    r = part.responses - part.states @ operator(A, g).mT
    return r.masked_fill(~part.seen, 0.0)


def atom_updates(A, part, g, weight):
    """Minus the gradient of ``sum_n weight_n E_n`` at fixed codes (Danskin).

    ``dA_k = sum_n w_n g_nk sum_p (a_p - W* z_p) z_p^T``: atom k's own code, the shared
    residual and the states, nothing else.

    Parameters
    ----------
    A : Tensor of shape (K, c, F)
    part : Systems
    g : Tensor of shape (n, K)
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape (K, c, F)
    """
    r = misfit(A, part, g)
    states = part.states.expand(len(r), -1, -1)
    return torch.einsum("nk,ncf->kcf", weight[:, None] * g, r.mT @ states)


def curvature(part, weight):
    """``Z_m = sum_p seen_pm z_p z_p^T`` of every system, times its weight.

    Parameters
    ----------
    part : Systems
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape (n, c, F, F), or (n, 1, F, F) if rows are seen as a whole
    """
    seen = part.seen * weight[:, None, None]
    states = part.states.expand(len(seen), -1, -1)
    return torch.einsum("npm,npf,npg->nmfg", seen, states, states)


def newton_step(A, part, g, weight):
    """One local step per atom: its update through its own curvature.

    ``A_k + dA_k (P_k + ridge)^{-1} / n_k`` with ``P_k = sum_n w_n g_nk^2 Z_n`` and n_k
    the mean number of active atoms when k is, which keeps the step stable when atoms
    are active together.

    Parameters
    ----------
    A : Tensor of shape (K, c, F)
    part : Systems
    g : Tensor of shape (n, K)
    weight : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape (K, c, F)
    """
    weight = weight / weight.sum()
    dA = atom_updates(A, part, g, weight)
    P = torch.einsum("nk,nmfg->kmfg", g.square(), curvature(part, weight))
    ridge = _NEWTON_RIDGE * P.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    floor = _NEWTON_FLOOR * P.diagonal(dim1=-2, dim2=-1).mean()
    tiny = torch.finfo(A.dtype).tiny
    P.diagonal(dim1=-2, dim2=-1).add_(ridge + floor + tiny)
    on = (g != 0).to(g.dtype)
    company = (weight[:, None] * on).T @ on.sum(1) / (weight @ on).clamp_min(tiny)
    return (
        A
        + torch.linalg.solve(P, dA[..., None])[..., 0]
        / company.clamp_min(1)[:, None, None]
    )


def atom_statistics(part, g, covariance, weight):
    """What the joint solve needs, summed over systems.

    Parameters
    ----------
    part : Systems
    g : Tensor of shape (n, K)
        Posterior mean of the codes.
    covariance : Tensor of shape (n, K, K)
        Posterior covariance.
    weight : Tensor of shape (n,)

    Returns
    -------
    H : Tensor of shape (c or 1, K, F, K, F)
        ``sum_n w_n E[g g^T] x Z_n``.
    N : Tensor of shape (c, K, F)
        ``sum_n w_n g_k sum_p a_p z_p^T``.
    """
    second = g[:, :, None] * g[:, None, :] + covariance
    n, K = g.shape
    Z = curvature(part, weight)
    m, F = Z.shape[1], Z.shape[-1]
    H = second.reshape(n, -1).T @ Z.reshape(n, -1)
    H = H.reshape(K, K, m, F, F).permute(2, 0, 3, 1, 4)
    states = part.states.expand(n, -1, -1)
    B = part.responses.mT @ states
    return H, torch.einsum("nk,ncf->ckf", weight[:, None] * g, B)


def solve_atoms(H, N):
    """Atoms that minimise the expected energy of all systems together.

    Where the local steps on free codes would come to rest, in one solve.

    Parameters
    ----------
    H : Tensor of shape (c or 1, K, F, K, F)
    N : Tensor of shape (c, K, F)

    Returns
    -------
    Tensor of shape (K, c, F)
    """
    c, K, F = N.shape
    H = H.reshape(-1, K * F, K * F).clone()
    diagonal = H.diagonal(dim1=-2, dim2=-1)
    ridge = max(_SOLVE_RIDGE, 16 * torch.finfo(H.dtype).eps)
    floor = torch.finfo(H.dtype).eps * diagonal.mean() + torch.finfo(H.dtype).tiny
    diagonal.mul_(1 + ridge).add_(floor)
    A = torch.linalg.solve(H, N.reshape(c, K * F, 1))
    return A.reshape(c, K, F).transpose(0, 1).contiguous()


def limit_rank(A, rank):
    """The nearest atoms of limited rank: the leading singular triples of each.

    Parameters
    ----------
    A : Tensor of shape (K, c, F)
    rank : int or None
        None leaves the atoms as they are; 1 makes weight atoms ``u s^T``.

    Returns
    -------
    Tensor of shape (K, c, F)
    """
    if rank is None or rank >= min(A.shape[1:]):
        return A
    u, s, v = torch.linalg.svd(A, full_matrices=False)
    return (u[..., :rank] * s[:, None, :rank]) @ v[:, :rank]


def norms(A):
    """Frobenius norm of every atom, 1 where it is 0, (K,)."""
    size = A.flatten(1).norm(dim=1)
    return torch.where(size > 0, size, 1)


def whitener(moment):
    """P such that states ``z P`` have about the second moment 1.

    ``P = R C^{-1/2}``: R scales every entry to unit mean square, C is the second moment
    after that, its eigenvalues raised a little.

    Parameters
    ----------
    moment : Tensor of shape (F, F)
        Second moment of the states.

    Returns
    -------
    Tensor of shape (F, F)
    """
    size = moment.diagonal().sqrt()
    scale = 1 / torch.where(size > 0, size, 1)
    w, q = torch.linalg.eigh(scale[:, None] * moment * scale)
    top = torch.where(w[-1] > 0, w[-1], 1)
    root = (q / (w.clamp_min(0) + _WHITEN_FLOOR * top).sqrt()) @ q.T
    return scale[:, None] * root
