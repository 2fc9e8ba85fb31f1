"""Tasks with held-out combinations of factors."""

from ._functions import hide_entries, make_functions
from ._nbody import make_nbody, nbody_accelerations, nbody_features, nbody_forces
from ._spatial import hide_sides, make_spatial, population_code

__all__ = [
    "hide_entries",
    "hide_sides",
    "make_functions",
    "make_nbody",
    "make_spatial",
    "nbody_accelerations",
    "nbody_features",
    "nbody_forces",
    "population_code",
]
