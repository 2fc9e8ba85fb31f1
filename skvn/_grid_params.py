"""Checks of parameters and data that the grid estimators share."""

from math import prod
from numbers import Integral

import numpy as np


def image_shape(name, shape, n_pixels, dims):
    """Axes of flattened images, checked against their number of pixels.

    Parameters
    ----------
    name : str
        Of the parameter.
    shape : sequence of int or None
        None is one row: ``(1, n_pixels)``.
    n_pixels : int
    dims : tuple of int
        How many axes there may be.

    Returns
    -------
    tuple of int
    """
    if shape is None:
        return 1, n_pixels
    if len(shape) not in dims or not all(
        isinstance(p, Integral) and p >= 1 for p in shape
    ):
        forms = " or ".join(f"({', '.join('hwc'[:d])})" for d in dims)
        raise ValueError(f"{name} must be {forms} in integers >= 1, got {shape!r}.")
    if prod(shape) != n_pixels:
        raise ValueError(
            f"{name}={tuple(shape)} holds {prod(shape)} pixels, but the images have "
            f"{n_pixels}."
        )
    return tuple(int(p) for p in shape)


def column_groups(input_groups, n_layers, n_features):
    """Columns of X that drive each layer.

    Parameters
    ----------
    input_groups : sequence of index arrays or slices, or None
        None: all columns drive all layers.
    n_layers, n_features : int

    Returns
    -------
    list of integer ndarrays
    """
    every = np.arange(n_features)
    if input_groups is None:
        return [every] * n_layers
    if len(input_groups) != n_layers:
        layers = ", ".join(("columns", "rows", "colours")[:n_layers])
        raise ValueError(
            f"input_groups needs one entry per layer ({layers}), {n_layers} in all; "
            f"got {len(input_groups)}."
        )
    try:
        picks = [g if isinstance(g, slice) else np.asarray(g) for g in input_groups]
        groups = [every[pick] for pick in picks]
    except IndexError as error:
        raise ValueError(
            f"input_groups must index the {n_features} columns of X: {error}."
        ) from error
    if any(g.ndim != 1 or g.size == 0 for g in groups):
        raise ValueError("Every entry of input_groups must pick at least one column.")
    return groups


def reject_missing(X, name):
    """Raise if X, which is the code itself, has missing entries.

    Parameters
    ----------
    X : ndarray or Tensor of shape (n, d)
    name : str
        Of the estimator.
    """
    if bool((X != X).any()):  # holds for NaN only, in arrays and tensors alike
        raise ValueError(
            f"Input X contains NaN. {name} takes X itself as the code, so every entry "
            "is needed. Fill X first, for instance with "
            "VectorNetworkTransformer().fit(X).reconstruct(X) or "
            "sklearn.impute.SimpleImputer."
        )
