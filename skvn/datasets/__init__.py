"""Tasks with held-out combinations of factors."""

from ._spatial import hide_sides, make_spatial, population_code

__all__ = ["hide_sides", "make_spatial", "population_code"]
