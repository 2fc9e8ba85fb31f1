"""Planar n-body systems whose forces must be inferred from a short window."""

import numpy as np
from sklearn.utils import Bunch

from ..systems import pack_systems

FORCES = ("gravity", "drag", "lorentz", "spring")
# Strengths that give each force accelerations of RMS 0.6 to 1.0.
_NOMINAL = np.array([1.0, 1.5, 1.3, 0.45])
_STEP, _SUBSTEPS, _MAX_LEAD = 0.1, 5, 5
# Radial bumps of the pair features, the same for every force.
_CENTRES = np.array([0.0, 0.35, 0.7, 1.1, 1.6, 2.2, 3.0])
_WIDTHS = np.array([0.25, 0.25, 0.3, 0.35, 0.45, 0.6, 0.8])
_N_BODIES = 4
# An acceleration of the window is a mean over a step: weights of the three states.
_RULES = {
    "trapezoid": np.array([[1, 1, 0], [0, 1, 1]]) / 2,
    "parabola": np.array([[5, 8, -1], [-1, 8, 5]]) / 12,
}


def make_nbody(
    n_samples=500,
    *,
    n_forces=1,
    n_bodies=4,
    noise=0.0,
    rule="trapezoid",
    random_state=None,
):
    """Systems of up to four bodies, packed for the operator structure.

    Unit masses in the plane move under some of four forces: gravity (softened), drag, a
    Lorentz force of either sign, and springs between all pairs. A system shows three
    states 0.1 apart, hence two mean accelerations per body; the task is to give the
    accelerations of the same system in a fresh state. Which forces act, and how
    strongly, is never told.

    Every body gives two rows per step, one per coordinate: velocity, velocity turned by
    90 degrees, and eight sums over the other bodies of a radial bump times the unit
    vector. The true laws are close to linear in these ten numbers, and rotation
    equivariance is built in.

    Parameters
    ----------
    n_samples : int, default=500
    n_forces : int, default=1
        Forces that act together, 1 to 4, drawn for every system; strength uniform
        between 0.5 and 1.5 of the nominal one.
    n_bodies : int, default=4
        2 to 4. Rows of bodies that are absent are NaN, so that X and y always have the
        same columns.
    noise : float, default=0.0
        Standard deviation of noise on positions and velocities of the window. It makes
        accelerations 14 times as noisy.
    rule : {"trapezoid", "parabola"}, default="trapezoid"
        How features are averaged over a step.
    random_state : int, sequence of int, Generator or None, default=None
        Seed of ``numpy.random.default_rng``.

    Returns
    -------
    Bunch
        Dictionary with the arrays, also as attributes:

        X : (n_samples, 256), 16 observed rows of 10 + 1 numbers, then 8 queries.
        y : (n_samples, 8), accelerations at the queries.
        strength : (n_samples, 4), of every force relative to nominal.
        present : (n_samples, 4), which bodies are there.
        positions, velocities : (n_samples, 3, 4, 2), the window.
        query_positions, query_velocities : (n_samples, 4, 2), the fresh state.

    Examples
    --------
    >>> from skvn.datasets import make_nbody
    >>> data = make_nbody(3, n_forces=2, random_state=0)
    >>> data.X.shape, data.y.shape
    ((3, 256), (3, 8))
    """
    rng = np.random.default_rng(random_state)
    strength = _draw_strength(n_samples, n_forces, rng)
    present = rng.random((n_samples, _N_BODIES)).argsort(1).argsort(1) < n_bodies
    x, v = _window(strength, present, noise, rng)
    qx, qv = _draw_state(n_samples, present, rng)
    z = np.stack([nbody_features(x[:, t], v[:, t], present) for t in range(3)], 1)
    z = np.einsum("st,ntif->nsif", _RULES[rule], z).reshape(n_samples, -1, z.shape[-1])
    a = ((v[:, 1:] - v[:, :-1]) / _STEP).reshape(n_samples, -1, 1)
    answers = nbody_accelerations(qx, qv, strength, present).reshape(n_samples, -1, 1)
    rows = np.repeat(present, 2, axis=1)[:, :, None]
    window = np.concatenate([rows, rows], 1)
    blank = lambda a, there: np.where(there, a, np.nan)  # noqa: E731
    queries = nbody_features(qx, qv, present)
    X, y = pack_systems(
        blank(z, window), blank(a, window), blank(queries, rows), blank(answers, rows)
    )
    truth = {"strength": strength, "present": present}
    window = {"positions": x, "velocities": v}
    query = {"query_positions": qx, "query_velocities": qv}
    return Bunch(X=X, y=y, **truth, **window, **query)


def nbody_features(positions, velocities, present):
    """The ten numbers of every body and coordinate.

    Parameters
    ----------
    positions, velocities : ndarray of shape (n, 4, 2)
    present : bool ndarray of shape (n, 4)

    Returns
    -------
    ndarray of shape (n, 8, 10)

    Examples
    --------
    >>> from skvn.datasets import make_nbody, nbody_features
    >>> data = make_nbody(3, random_state=0)
    >>> state = data.query_positions, data.query_velocities, data.present
    >>> nbody_features(*state).shape
    (3, 8, 10)
    """
    d, r, both = _pairs(positions, present)
    bumps = np.exp(-0.5 * ((r[..., None] - _CENTRES) / _WIDTHS) ** 2)
    tail = np.logaddexp(0.0, r - 3.0)[..., None]
    radial = np.concatenate([bumps, tail], -1) * both[..., None]
    unit = d / np.maximum(r, 1e-9)[..., None]
    pair = np.einsum("nijc,nijb->nicb", unit, radial)
    turned = np.stack([-velocities[..., 1], velocities[..., 0]], -1)
    z = np.concatenate([velocities[..., None], turned[..., None], pair], -1)
    return z.reshape(len(z), 2 * positions.shape[1], -1)


def nbody_forces(positions, velocities, present):
    """Acceleration that every force causes at its nominal strength.

    Parameters
    ----------
    positions, velocities : ndarray of shape (n, 4, 2)
    present : bool ndarray of shape (n, 4)

    Returns
    -------
    ndarray of shape (n, 4, 4, 2)
        Force, body, coordinate.

    Examples
    --------
    >>> from skvn.datasets import make_nbody, nbody_forces
    >>> data = make_nbody(3, random_state=0)
    >>> state = data.query_positions, data.query_velocities, data.present
    >>> nbody_forces(*state).shape
    (3, 4, 4, 2)
    """
    d, r, both = _pairs(positions, present)
    pull = both / (r**2 + 0.25) ** 1.5
    stretch = both * (1.0 - 1.0 / np.sqrt(r**2 + 0.01))
    gravity = (pull[..., None] * d).sum(2)
    spring = (stretch[..., None] * d).sum(2)
    turned = np.stack([-velocities[..., 1], velocities[..., 0]], -1)
    terms = np.stack([gravity, -velocities, turned, spring], 1)
    return terms * _NOMINAL[:, None, None] * present[:, None, :, None]


def nbody_accelerations(positions, velocities, strength, present):
    """Accelerations of all bodies: the sum of the forces that act.

    Parameters
    ----------
    positions, velocities : ndarray of shape (n, 4, 2)
    strength : ndarray of shape (n, 4)
        Relative to nominal.
    present : bool ndarray of shape (n, 4)

    Returns
    -------
    ndarray of shape (n, 4, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import make_nbody, nbody_accelerations
    >>> data = make_nbody(3, random_state=0)
    >>> state = data.query_positions, data.query_velocities, data.strength, data.present
    >>> bool(np.allclose(nbody_accelerations(*state).reshape(3, -1), data.y))
    True
    """
    terms = nbody_forces(positions, velocities, present)
    return np.einsum("nk,nkbc->nbc", strength, terms)


def nbody_rollout(positions, velocities, strength, present, n_steps):
    """True motion from a state, in steps of 0.1 (Runge-Kutta, five parts per step).

    Parameters
    ----------
    positions, velocities : ndarray of shape (n, 4, 2)
    strength : ndarray of shape (n, 4)
        Relative to nominal.
    present : bool ndarray of shape (n, 4)
    n_steps : int

    Returns
    -------
    positions, velocities : ndarray of shape (n, n_steps + 1, 4, 2)
        From the given state on.

    Examples
    --------
    >>> from skvn.datasets import make_nbody, nbody_rollout
    >>> data = make_nbody(3, n_forces=2, random_state=0)
    >>> state = data.positions[:, -1], data.velocities[:, -1]
    >>> x, v = nbody_rollout(*state, data.strength, data.present, 10)
    >>> x.shape
    (3, 11, 4, 2)
    """
    path = [(positions, velocities)]
    for _ in range(n_steps):
        state = path[-1]
        for _ in range(_SUBSTEPS):
            state = _runge_kutta(*state, strength, present, _STEP / _SUBSTEPS)
        path.append(state)
    x, v = zip(*path, strict=True)
    return np.stack(x, 1), np.stack(v, 1)


def _pairs(x, present):
    """Differences x_j - x_i, distances, and which pairs are there."""
    d = x[:, None, :, :] - x[:, :, None, :]
    r = np.sqrt((d * d).sum(-1))
    both = present[:, :, None] & present[:, None, :] & ~np.eye(x.shape[1], dtype=bool)
    return d, r, both


def _draw_strength(n, n_forces, rng):
    """Forces of every system; the Lorentz force has a random sign."""
    rank = rng.random((n, 4)).argsort(1).argsort(1)
    strength = rng.uniform(0.5, 1.5, (n, 4)) * (rank < n_forces)
    strength[:, 2] *= rng.choice([-1.0, 1.0], n)
    return strength


def _draw_state(n, present, rng):
    """Positions N(0, 1), no pair closer than 0.5; velocities N(0, 0.8^2)."""
    x = np.empty((n, _N_BODIES, 2))
    todo = np.arange(n)
    while len(todo):
        x[todo] = rng.normal(size=(len(todo), *x.shape[1:]))
        _, r, both = _pairs(x[todo], present[todo])
        todo = todo[((r < 0.5) & both).any((1, 2))]
    v = rng.normal(scale=0.8, size=x.shape)
    return x * present[..., None], v * present[..., None]


def _window(strength, present, noise, rng):
    """Three states after up to five steps of motion, (n, 3, 4, 2) each."""
    n = len(strength)
    state = _draw_state(n, present, rng)
    lead = rng.integers(0, _MAX_LEAD + 1, n)
    path = nbody_rollout(*state, strength, present, _MAX_LEAD + 2)
    rows, times = np.arange(n)[:, None], lead[:, None] + np.arange(3)
    x, v = (part[rows, times] for part in path)
    seen = present[:, None, :, None]
    x = (x + noise * rng.normal(size=x.shape)) * seen
    return x, (v + noise * rng.normal(size=v.shape)) * seen


def _runge_kutta(x, v, strength, present, h):
    """One classical Runge-Kutta step of length h."""

    def slope(x, v):
        return v, nbody_accelerations(x, v, strength, present)

    x1, v1 = slope(x, v)
    x2, v2 = slope(x + h / 2 * x1, v + h / 2 * v1)
    x3, v3 = slope(x + h / 2 * x2, v + h / 2 * v2)
    x4, v4 = slope(x + h * x3, v + h * v3)
    x = x + h / 6 * (x1 + 2 * x2 + 2 * x3 + x4)
    return x, v + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
