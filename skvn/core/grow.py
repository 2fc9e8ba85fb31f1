r"""Data-based start of the operator structure: estimate operators, then grow atoms.

Every training system gets an operator of its own, the posterior mean under one Gaussian
prior that all systems share and that is learned from them (empirical Bayes). Systems
under one law lie on one line through the origin, so atoms are grown as lines: add the
most promising system, refit all lines (K-lines), and stop when the explained energy
stops rising.

Nothing here depends on the order of the systems, and a weight of 2 is the same as the
system twice.
"""

from typing import NamedTuple

import torch

from .energy import times

# Systems looked at; more would change little.
_START_SYSTEMS = 2000
# Up to this many entries of an operator its prior covariance is learned in so many EM
# rounds; larger operators start from the ridge estimate.
_EB_SIZE, _EB_ROUNDS = 48, 30
# First prior variance of an entry and first noise, for responses of unit scale.
_EB_VARIANCE, _EB_NOISE = 0.1, 0.05
# Smallest noise of a start: less only amplifies rounding.
_EB_FLOOR = 1e-5
# A system is isolated if few others share its direction: its similarity to the nearest
# percent of the systems is among the lowest fifth. Isolated ones do not become atoms.
_NEIGHBOURS, _ISOLATED, _DENSE = 0.01, 0.2, 0.8
# A further atom must explain this much more of the energy; an atom with a smaller share
# of the energy than the best one's is dropped again.
_GAIN, _SMALLEST = 0.02, 0.02
_LINE_ROUNDS, _LAST_ROUNDS = 5, 10
# Similarities closer than this are ties (rounding must not decide).
_TIE = 1e-4


class EmpiricalBayes(NamedTuple):
    """Linear-Gaussian model of operators.

    Attributes
    ----------
    operators : Tensor of shape (n, c F)
        Posterior mean for every system.
    covariance : Tensor of shape (c F, c F)
        Prior covariance.
    noise : Tensor of shape ()
        Variance of one response entry.
    """

    operators: torch.Tensor
    covariance: torch.Tensor
    noise: torch.Tensor


def noise_floor(dtype):
    """Smallest noise variance, for responses of unit scale.

    Parameters
    ----------
    dtype : torch.dtype

    Returns
    -------
    float
        1e-7, or what rounding leaves of a posterior in that precision.
    """
    return max(1e-7, 256 * torch.finfo(dtype).eps)


def empirical_bayes(part, weight, rounds=_EB_ROUNDS):
    """Learn one Gaussian prior ``vec(W) ~ N(0, C)`` and the noise by EM.

    Parameters
    ----------
    part : Systems
    weight : Tensor of shape (n,)
    rounds : int, default=30

    Returns
    -------
    EmpiricalBayes
    """
    gram, pulled, square, count = _operator_statistics(part)
    C = _EB_VARIANCE * torch.eye(pulled.shape[1], dtype=gram.dtype, device=gram.device)
    noise = gram.new_tensor(_EB_NOISE)
    share = weight / weight.sum()
    for _ in range(rounds):
        mean, S = conditional(gram, pulled, C, noise)
        second = mean[:, :, None] * mean[:, None, :] + S
        C = torch.einsum("n,nij->ij", share, second)
        fit = (gram * second).sum((1, 2)) - 2 * (mean * pulled).sum(1)
        noise = share @ (square + fit) / (share @ count).clamp_min(1e-12)
        noise = noise.clamp_min(max(_EB_FLOOR, noise_floor(gram.dtype)))
    return EmpiricalBayes(conditional(gram, pulled, C, noise)[0], C, noise)


def conditional(gram, pulled, C, noise):
    """Posterior of operators under ``N(0, C)``.

    ``S = L (I + L^T G L / s2)^{-1} L^T`` with ``C = L L^T``, ``mean = S b / s2``.

    Parameters
    ----------
    gram : Tensor of shape (n, d, d)
        G of every system.
    pulled : Tensor of shape (n, d)
        b of every system.
    C : Tensor of shape (d, d)
    noise : Tensor of shape ()

    Returns
    -------
    mean : Tensor of shape (n, d)
    S : Tensor of shape (n, d, d)
    """
    w, q = torch.linalg.eigh(C)
    L = q * w.clamp_min(0).sqrt()
    T = L.mT @ (gram / noise) @ L
    T.diagonal(dim1=-2, dim2=-1).add_(1)
    factor = torch.linalg.cholesky_ex(T)[0]
    V = torch.linalg.solve_triangular(factor, L.mT.expand_as(T), upper=False)
    S = V.mT @ V
    return times(pulled / noise, S), S


def _operator_statistics(part):
    """G (n, c F, c F), b (n, c F), squared responses and their number."""
    n, P, c = part.responses.shape
    states = part.states.expand(n, -1, -1)
    seen = part.seen.to(states)
    Z = torch.einsum("npm,npf,npg->nmfg", seen, states, states)
    F = Z.shape[-1]
    gram = Z.new_zeros(n, c, F, c, F)
    gram.diagonal(dim1=1, dim2=3).copy_(Z.expand(-1, c, -1, -1).permute(0, 2, 3, 1))
    pulled = part.responses.mT @ states
    count = part.seen.expand_as(part.responses).sum((1, 2)).to(states)
    square = part.responses.square().sum((1, 2))
    return gram.reshape(n, c * F, c * F), pulled.flatten(1), square, count


def ridge_operators(part):
    """Ridge estimate of every system's operator, component by component.

    Parameters
    ----------
    part : Systems

    Returns
    -------
    Tensor of shape (n, c F)
        The posterior mean under independent entries, with the first noise of EM.
    """
    n = len(part.responses)
    states = part.states.expand(n, -1, -1)
    Z = torch.einsum("npm,npf,npg->nmfg", part.seen.to(states), states, states)
    Z.diagonal(dim1=-2, dim2=-1).add_(_EB_NOISE / _EB_VARIANCE)
    b = part.responses.mT @ states
    return torch.linalg.solve(Z, b[..., None])[..., 0].flatten(1)


def explained(W, weight, atoms):
    """Share of the energy of W that the best line of each system explains.

    Parameters
    ----------
    W : Tensor of shape (n, d)
    weight : Tensor of shape (n,)
    atoms : Tensor of shape (K, d)
        Unit rows.

    Returns
    -------
    float
    """
    best = (W @ atoms.T).square().amax(1)
    total = weight @ W.square().sum(1)
    return float(weight @ best / total.clamp_min(torch.finfo(W.dtype).tiny))


def lines(W, weight, atoms, rounds):
    """K-lines: every system to its most collinear atom, every atom to its systems.

    Parameters
    ----------
    W : Tensor of shape (n, d)
    weight : Tensor of shape (n,)
    atoms : Tensor of shape (K, d)
        Unit rows.
    rounds : int

    Returns
    -------
    Tensor of shape (K, d)
        Each the leading direction of its systems, its largest entry positive.
    """
    atoms = atoms.clone()
    for _ in range(rounds):
        owner = (W @ atoms.T).abs().argmax(1)
        for k in range(len(atoms)):
            own = owner == k
            if own.any():
                moment = (W[own].T * weight[own]) @ W[own]
                atoms[k] = torch.linalg.eigh(moment)[1][:, -1]
    top = atoms.gather(1, atoms.abs().argmax(1, keepdim=True))
    return atoms * torch.where(top < 0, -1, 1)


def grow(W, weight, n_atoms, stop=True):
    """Grow atoms one by one, far from those there are.

    Parameters
    ----------
    W : Tensor of shape (n, d)
        One operator per system.
    weight : Tensor of shape (n,)
    n_atoms : int
        So many at most, or exactly if not ``stop``.
    stop : bool, default=True
        Stop once an atom adds too little, and drop small ones.

    Returns
    -------
    Tensor of shape (K, d)
        Unit rows.
    """
    U = W / W.norm(dim=1, keepdim=True).clamp_min(torch.finfo(W.dtype).tiny)
    energy = W.square().sum(1)
    usable, densest = _density(U, weight)
    first = torch.where(densest, energy, -1.0).argmax()
    atoms = lines(W, weight, U[first][None], 0)
    reached = explained(W, weight, atoms)
    while len(atoms) < n_atoms:
        near = (U @ atoms.T).abs().amax(1)
        farthest = torch.where(usable, near, torch.inf).argmin()
        worst = torch.where(usable, (1 - near.square()) * energy, -1.0).argmax()
        grown = [_with(W, weight, atoms, U[i]) for i in (farthest, worst)]
        scores = [explained(W, weight, a) for a in grown]
        best = int(scores[1] > scores[0])
        if stop and scores[best] - reached < _GAIN:
            break
        atoms, reached = grown[best], scores[best]
    atoms = lines(W, weight, atoms, _LAST_ROUNDS)
    return _large(W, weight, atoms) if stop else atoms


def _with(W, weight, atoms, new):
    """Atoms and one more, refitted."""
    return lines(W, weight, torch.cat([atoms, new[None]]), _LINE_ROUNDS)


def _large(W, weight, atoms):
    """Atoms whose systems have more than a small share of the energy."""
    g = W @ atoms.T
    size, owner = g.square().max(1)
    share = torch.zeros_like(atoms[:, 0]).index_add(0, owner, weight * size)
    return atoms[share >= _SMALLEST * share.max()]


def _density(U, weight):
    """Systems that are not isolated, and those in the densest directions."""
    near, order = (U @ U.T).abs().sort(1, descending=True)
    mass = weight[order].cumsum(1)
    reach = (mass < _NEIGHBOURS * weight.sum()).sum(1, keepdim=True)
    density = near.gather(1, reach.clamp_max(len(U) - 1))[:, 0]
    low, high = (_quantile(density, weight, q) for q in (_ISOLATED, _DENSE))
    return density >= low - _TIE, density >= high - _TIE


def _quantile(values, weight, q):
    """Weighted quantile."""
    order = values.argsort()
    mass = weight[order].cumsum(0)
    place = (mass < q * mass[-1]).sum().clamp_max(len(values) - 1)
    return values[order[place]]


def draw_systems(x, weight, generator, count=_START_SYSTEMS):
    """Indices of systems to start from, and their weights.

    All of them if they are few; else drawn in proportion to their weight, evenly along
    a random direction of x, so that neither order nor repetition matters.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        Finite; only orders the systems.
    weight : Tensor of shape (n,)
    generator : torch.Generator
        On the CPU.
    count : int

    Returns
    -------
    index : Tensor of shape (n',)
    weight : Tensor of shape (n',)
    """
    direction = torch.randn(x.shape[1], generator=generator, dtype=torch.float64)
    if len(x) <= count:
        return torch.arange(len(x), device=x.device), weight
    order = (x @ direction.to(x)).argsort(stable=True)
    mass = weight[order].double().cumsum(0)
    place = (torch.arange(count, device=x.device) + 0.5) / count * mass[-1]
    index = order[torch.searchsorted(mass, place).clamp_max(len(x) - 1)]
    return index, torch.ones_like(weight[index])


def start_atoms(part, weight, n_atoms, stop=True):
    """Atoms to start learning from.

    Parameters
    ----------
    part : Systems
        Responses at about unit scale.
    weight : Tensor of shape (n,)
    n_atoms : int
    stop : bool, default=True

    Returns
    -------
    atoms : Tensor of shape (K, c, F)
        Unit norm.
    scale : float
        Median norm of an operator: the size of a code.
    noise : float
    """
    c, F = part.responses.shape[-1], part.states.shape[-1]
    if c * F <= _EB_SIZE:
        W, _, noise = empirical_bayes(part, weight)
    else:
        W, noise = ridge_operators(part), _EB_NOISE
    atoms = grow(W, weight, n_atoms, stop)
    scale = float(_quantile(W.norm(dim=1), weight, 0.5))
    return atoms.reshape(-1, c, F), scale if scale > 0 else 1.0, float(noise)
