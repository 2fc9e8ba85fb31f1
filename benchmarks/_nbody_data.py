"""Data of the n-body task: systems as rows of numbers, and motion from accelerations.

A row has the packed system (observed rows, then queries, see ``skvn.systems``) and a
tail with the raw states, which the oracle, the edges of the graph network and the
rollouts need. The last number is the horizon: 0 asks for accelerations, h for the
positions after h steps, as what they differ from straight motion.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skvn.datasets import make_nbody, nbody_features, nbody_rollout
from skvn.systems import pack_systems

FIRST_SEED = 10  # the method was developed on seeds 0 to 4
STEP, HORIZON = 0.1, 10
N_BODIES, N_QUERIES = 4, 8
TAIL = 2 * 3 * 8 + 2 * 8 + 2 * N_BODIES + 1
# Split -> forces, bodies.
SPLITS = {
    "id": (1, 4),
    "pairs": (2, 4),
    "triples": (3, 4),
    "all4": (4, 4),
    "nb3": (1, 3),
    "nb2": (1, 2),
    "all4_nb3": (4, 3),
    "all4_nb2": (4, 2),
}


class Layout(NamedTuple):
    """Shape of a packed system with one response per row."""

    n_observed: int
    state_size: int

    @property
    def width(self):
        """Columns."""
        F = self.state_size
        return self.n_observed * (F + 1) + N_QUERIES * F

    def split(self, X):
        """States (n, R, F), responses (n, R), queries (n, 8, F) of an X without NaN."""
        R, F = self
        head, queries = X[:, : R * (F + 1)], X[:, R * (F + 1) : self.width]
        rows = head.reshape(-1, R, F + 1)
        return rows[..., :F], rows[..., F], queries.reshape(-1, N_QUERIES, F)


WINDOW, INDICATOR = Layout(16, 10), Layout(4, 14)


class States(NamedTuple):
    """The window (n, 3, 4, 2), the state to answer at (n, 4, 2), who is there (n, 4),
    and the strengths of the forces (n, 4), for oracles and figures only.
    """

    x: np.ndarray
    v: np.ndarray
    query_x: np.ndarray
    query_v: np.ndarray
    present: np.ndarray
    strength: np.ndarray


def read_states(X):
    """The tail of X."""
    tail, n = X[:, -TAIL:], len(X)
    return States(
        tail[:, :24].reshape(n, 3, N_BODIES, 2),
        tail[:, 24:48].reshape(n, 3, N_BODIES, 2),
        tail[:, 48:56].reshape(n, N_BODIES, 2),
        tail[:, 56:64].reshape(n, N_BODIES, 2),
        tail[:, 64:68] > 0,
        tail[:, 68:72],
    )


def with_tail(packed, states, horizon=0):
    """Packed systems with their states and the horizon behind them."""
    flat = [np.asarray(part, float).reshape(len(packed), -1) for part in states]
    return np.hstack([packed, *flat, np.full((len(packed), 1), float(horizon))])


def blank(a, present):
    """(n, rows, ...) with NaN at the rows of absent bodies."""
    rows = np.repeat(present, 2, axis=1)
    rows = np.tile(rows, (1, a.shape[1] // N_QUERIES))
    return np.where(rows.reshape(*rows.shape, *[1] * (a.ndim - 2)), a, np.nan)


def window_system(states, horizon=0):
    """Two mean accelerations per body and coordinate; queries at the query state."""
    x, v, *query, present, _ = states
    n = len(x)
    z = np.stack([nbody_features(x[:, t], v[:, t], present) for t in range(3)], 1)
    z = ((z[:, 1:] + z[:, :-1]) / 2).reshape(n, -1, z.shape[-1])
    a = ((v[:, 1:] - v[:, :-1]) / STEP).reshape(n, -1, 1)
    queries = nbody_features(*query, present)
    packed = pack_systems(*(blank(part, present) for part in (z, a, queries)))
    return with_tail(packed, states, horizon)


def indicator_system(states):
    """The strengths as four observed rows, whose states are unit vectors."""
    n, F = len(states.x), INDICATOR.state_size
    z = np.broadcast_to(np.eye(F)[-4:], (n, 4, F))
    queries = nbody_features(*states[2:5])
    queries = np.concatenate([queries, np.zeros((n, N_QUERIES, 4))], -1)
    responses = states.strength[..., None]
    packed = pack_systems(z, responses, blank(queries, states.present))
    return with_tail(packed, states)


def advance(x, v, a):
    """State a step later, from the mean acceleration."""
    after = v + STEP * a
    return x + STEP * (v + after) / 2, after


def off_line(x, v, x_end, n_steps, present):
    """Where bodies end, relative to straight motion, (n, 8)."""
    away = x_end - x - n_steps * STEP * v
    return blank(away.reshape(len(x), -1), present)


@lru_cache(maxsize=1)
def make_data(config, seed, quick):
    """Training systems; split -> X and y."""
    sizes = (200, 20) if quick else (4000, 500)
    seed += FIRST_SEED
    train = make_split(config, sizes[0], 1, 4, [seed, 0])["id"]
    tests = {}
    for i, (name, (forces, bodies)) in enumerate(SPLITS.items()):
        parts = make_split(config, sizes[1], forces, bodies, [seed, i + 1])
        tests[name] = parts["id"]
        if "rollout" in parts:
            tests[f"rollout {name}"] = parts["rollout"]
    return train, dict(sorted(tests.items(), key=lambda part: "rollout" in part[0]))


def make_split(config, n, forces, bodies, seed):
    """One split: X and y, and those of the rollouts."""
    noise = 0.01 if "noise" in config else 0.0
    data = make_nbody(
        n, n_forces=forces, n_bodies=bodies, noise=noise, random_state=seed
    )
    window = data.positions, data.velocities
    query = data.query_positions, data.query_velocities
    if config == "forecast":
        query = window[0][:, -1], window[1][:, -1]
    states = States(*window, *query, data.present, data.strength)
    if config == "indicator":
        return {"id": (indicator_system(states), data.y)}
    if config != "forecast":
        return {"id": (window_system(states), data.y)}
    x, v = nbody_rollout(*query, data.strength, data.present, HORIZON)
    y = blank(((v[:, 1] - v[:, 0]) / STEP).reshape(n, -1), data.present)
    end = off_line(*query, x[:, -1], HORIZON, data.present)
    return {
        "id": (window_system(states), y),
        "rollout": (window_system(states, HORIZON), end),
    }
