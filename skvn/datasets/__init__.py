"""Tasks with held-out combinations of factors."""

from ._functions import hide_entries, make_functions
from ._images import (
    hide_halves,
    load_mnist,
    make_moving_images,
    mix_images,
    move_images,
    pool_images,
)
from ._nbody import (
    make_nbody,
    nbody_accelerations,
    nbody_features,
    nbody_forces,
    nbody_rollout,
)
from ._spatial import hide_sides, make_spatial, population_code

__all__ = [
    "hide_entries",
    "hide_halves",
    "hide_sides",
    "load_mnist",
    "make_functions",
    "make_moving_images",
    "make_nbody",
    "make_spatial",
    "mix_images",
    "move_images",
    "nbody_accelerations",
    "nbody_features",
    "nbody_forces",
    "nbody_rollout",
    "pool_images",
    "population_code",
]
