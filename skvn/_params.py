"""What parameters may be: declared once, checked and worded by scikit-learn."""

from numbers import Integral, Real

import torch
from sklearn.utils._param_validation import Interval, StrOptions

from .core.energy import ACTIVATIONS

_COUNT = Interval(Integral, 1, None, closed="left")
_POSITIVE = Interval(Real, 0, None, closed="neither")

# Shared by all estimators; each adds its own.
CONSTRAINTS = {
    "n_components": [_COUNT, list, tuple, StrOptions({"auto"})],
    "alpha": [_POSITIVE],
    "solver": [StrOptions({"auto", "l1", "ard"})],
    "positive_code": ["boolean"],
    "n_nonzero_coefs": [_COUNT, None],
    "hidden_layer_sizes": [_COUNT, list, tuple, None],
    "activation": [StrOptions(set(ACTIVATIONS))],
    "max_sweeps": [Interval(Integral, 0, None, closed="left")],
    "noise_floor": [_POSITIVE, StrOptions({"auto"})],
    "max_iter": [_COUNT],
    "tol": [Interval(Real, 0, None, closed="left")],
    "n_iter_no_change": [_COUNT],
    "batch_size": [_COUNT, StrOptions({"auto"})],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "transform_tol": [_POSITIVE],
    "warm_start": ["boolean"],
    "random_state": ["random_state"],
    "device": [str, torch.device],
    "verbose": ["verbose"],
}

REGRESSOR_CONSTRAINTS = {
    "learning": [StrOptions({"hebb", "contrastive"})],
    "beta": [Interval(Real, 0, None, closed="left")],
    "fit_intercept": ["boolean"],
}


def layer_sizes(n_components, hidden_layer_sizes, n_features):
    """Atoms per layer and the widths between the layers.

    Parameters
    ----------
    n_components : int, sequence of int or "auto"
        "auto" is one layer of ``min(4 * n_features, 256)`` atoms.
    hidden_layer_sizes : int, sequence of int or None
        None gives every interface as many channels as the layer below has atoms.
    n_features : int

    Returns
    -------
    atoms, widths : list of int

    Raises
    ------
    ValueError
        If the two do not fit together or an entry is not a positive integer.
    """
    if isinstance(n_components, str):
        n_components = min(4 * n_features, 256)
    atoms = _counts("n_components", n_components)
    if not atoms:
        raise ValueError("n_components must hold at least one integer, got none.")
    default = atoms[:-1] if hidden_layer_sizes is None else hidden_layer_sizes
    widths = _counts("hidden_layer_sizes", default)
    if len(widths) != len(atoms) - 1:
        raise ValueError(
            "n_components needs one entry per layer and hidden_layer_sizes one entry "
            f"per interface between layers, i.e. one less; got {len(atoms)} and "
            f"{len(widths)}."
        )
    return atoms, widths


def check_resumable(estimator, atoms, widths):
    """Refuse to go on from a fitted state that the parameters no longer describe.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    atoms, widths : list of int
        Of the fitted state.

    Raises
    ------
    ValueError
        If layer sizes or solver were changed since.
    """
    sizes = estimator.n_components, estimator.hidden_layer_sizes
    asked = layer_sizes(*sizes, estimator.n_features_in_)
    if asked != (atoms, widths):
        raise ValueError(
            f"The fitted state has layers of {atoms} atoms and messages of width "
            f"{widths}, but the parameters ask for {asked[0]} and {asked[1]}. A warm "
            "start and partial_fit keep the sizes: set them back, or call fit with "
            "warm_start=False."
        )
    if estimator.solver not in ("auto", estimator.solver_):
        raise ValueError(
            f"The fitted state uses solver={estimator.solver_!r}, but the parameter is "
            f"now {estimator.solver!r}. A warm start and partial_fit keep the solver: "
            "set it back, or call fit with warm_start=False."
        )


def _counts(name, value):
    """One positive integer or a sequence of them, as a list."""
    values = [value] if isinstance(value, Integral) else list(value)
    for v in values:
        if not isinstance(v, Integral) or isinstance(v, bool) or v < 1:
            raise ValueError(f"{name} must hold integers >= 1, got {v!r}.")
    return [int(v) for v in values]
