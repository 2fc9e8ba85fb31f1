r"""Data-based start of the operator structure: estimate operators, then grow atoms.

Every training system gets an operator of its own, the posterior mean under one Gaussian
prior that all systems share and that is learned from them (empirical Bayes). Systems
under one law lie on one line through the origin, so atoms are grown as lines: add the
most promising system, refit all lines (K-lines), and stop when the explained energy
stops rising.

Nothing here depends on the order of the systems, and a weight of 2 is the same as the
system twice.
"""

import torch

from .empirical_bayes import RIDGE_NOISE, empirical_bayes, ridge_operators

# Systems looked at; more would change little.
_START_SYSTEMS = 2000
# Up to this many entries of an operator its prior covariance is learned; larger
# operators start from the ridge estimate.
_EB_SIZE = 48
# A system is isolated if few others share its direction: its similarity to the nearest
# percent of the systems is among the lowest fifth. Isolated ones do not become atoms.
_NEIGHBOURS, _ISOLATED, _DENSE = 0.01, 0.2, 0.8
# A further atom must explain this much more of the energy; an atom with a smaller share
# of the energy than the best one's is dropped again.
_GAIN, _SMALLEST = 0.02, 0.02
_LINE_ROUNDS, _LAST_ROUNDS = 5, 10
# Similarities closer than this are ties (rounding must not decide).
_TIE = 1e-4


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
        W, noise = ridge_operators(part), RIDGE_NOISE
    atoms = grow(W, weight, n_atoms, stop)
    scale = float(_quantile(W.norm(dim=1), weight, 0.5))
    return atoms.reshape(-1, c, F), scale if scale > 0 else 1.0, float(noise)
