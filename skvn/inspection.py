"""How much a fitted network uses its atoms, and what it is without some of them."""

import copy

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ._flat import FlatEstimator
from ._grid_transformer import VectorNetworkGridTransformer
from ._operator import OperatorEstimator
from .core.readout import CodeStatistics

__all__ = ["ablate_atoms", "atom_usage"]


def atom_usage(estimator, X, *, threshold=0.01):
    """How much the codes of the rows of X use every atom.

    Parameters
    ----------
    estimator : fitted estimator of this package that has ``transform``
    X : array-like of shape (n_samples, n_features)
    threshold : float, default=0.01
        A row uses an atom if its coefficient exceeds this share of the largest one of
        the row's layer. The codes of "ard" and "ep" are small rather than 0.

    Returns
    -------
    Bunch
        Dictionary with the arrays, also as attributes. Atoms are in the order of the
        columns of ``transform(X)``.

        frequency : (n_atoms,), share of the rows that use the atom.
        mean_magnitude : (n_atoms,), mean of ``|g_k|``.
        energy_share : (n_atoms,), mean of ``|g_k A_k|^2``, relative to the sum of
        these over the atoms of the same layer.
        n_active : (n_samples,), atoms that the row uses, in all layers.

    Raises
    ------
    TypeError
        If the estimator does not infer codes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvn import VectorNetworkTransformer
    >>> from skvn.inspection import atom_usage
    >>> X, _ = load_digits(return_X_y=True)
    >>> network = VectorNetworkTransformer(32, random_state=0).fit(X)
    >>> usage = atom_usage(network, X)
    >>> usage.frequency.shape, usage.n_active.shape
    ((32,), (1797,))
    """
    layers = dictionaries(estimator)
    ends = np.cumsum([len(atoms) for atoms in layers])[:-1]
    codes = np.split(np.abs(np.asarray(estimator.transform(X))), ends, axis=1)
    used = np.hstack([g > threshold * g.max(1, keepdims=True) for g in codes])
    return Bunch(
        frequency=used.mean(0),
        mean_magnitude=np.hstack(codes).mean(0),
        energy_share=np.concatenate(list(map(_energy_share, codes, layers))),
        n_active=used.sum(1),
    )


def ablate_atoms(estimator, atoms):
    """Copy of a fitted network that does not have some of its atoms.

    The atoms leave the dictionary: codes are inferred without them, and other atoms
    may take over part of what they explained. Nothing is learned anew; the remaining
    atoms, their output vectors and the intercept stay as they are. (To keep the codes
    and silence what atoms say, set their rows of ``output_components_`` or the columns
    of ``transform(X)`` to 0 instead.)

    Parameters
    ----------
    estimator : VectorNetworkTransformer, VectorNetworkRegressor or \
            VectorNetworkOperatorRegressor
        Fitted; it is not changed.
    atoms : array-like of int or bool
        Atoms to remove: columns of ``transform(X)``.

    Returns
    -------
    estimator
        Fitted. Its ``n_components`` is the number of atoms that are left; it can go on
        with ``partial_fit``.

    Raises
    ------
    TypeError
        If the estimator is of another kind.
    ValueError, IndexError
        If no atom would be left in a layer, or there is no such atom.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skvn import VectorNetworkRegressor
    >>> from skvn.inspection import ablate_atoms
    >>> X, y = load_diabetes(return_X_y=True)
    >>> network = VectorNetworkRegressor(n_components=20, random_state=0).fit(X, y)
    >>> ablate_atoms(network, [0, 7]).transform(X).shape
    (442, 18)
    """
    if not isinstance(estimator, FlatEstimator | OperatorEstimator):
        raise TypeError(
            "ablate_atoms takes a VectorNetworkTransformer, VectorNetworkRegressor or "
            f"VectorNetworkOperatorRegressor, got {type(estimator).__name__}."
        )
    sizes = [len(layer) for layer in dictionaries(estimator)]
    keep = np.ones(sum(sizes), dtype=bool)
    keep[np.asarray(atoms, dtype=None if np.size(atoms) else int)] = False
    keep = np.split(keep, np.cumsum(sizes)[:-1])
    if not all(kept.any() for kept in keep):
        raise ValueError("At least one atom has to stay in every layer.")
    ablated = copy.deepcopy(estimator)
    flat = isinstance(estimator, FlatEstimator)
    (_keep_flat if flat else _keep_operators)(ablated, keep)
    return ablated


def dictionaries(estimator):
    """Atoms of every layer, as rows; of a grid, row and column atoms.

    Parameters
    ----------
    estimator : fitted estimator of this package that infers codes

    Returns
    -------
    list of ndarray of shape (n_atoms, n_inputs)
    """
    check_is_fitted(estimator)
    if isinstance(estimator, FlatEstimator):
        return [estimator.components_, *(S for _, S in estimator.hidden_components_)]
    if isinstance(estimator, OperatorEstimator):
        return [estimator.atoms_.reshape(len(estimator.atoms_), -1)]
    if isinstance(estimator, VectorNetworkGridTransformer):
        return [estimator.row_components_, estimator.column_components_]
    raise TypeError(
        f"{type(estimator).__name__} does not infer codes; needed is an estimator of "
        "skvn that has transform."
    )


def _energy_share(g, atoms):
    """Mean of |g_k A_k|^2 as a share of its sum; 0 where nothing is used."""
    energy = (g**2).mean(0) * (atoms**2).sum(1)
    return energy / (energy.sum() or 1)


def _keep_flat(network, keep):
    """Leave the atoms out of all layers, and out of what partial_fit goes on from."""
    pairs = zip(network.hidden_components_, keep[:-1], keep[1:], strict=True)
    network.hidden_components_ = [(U[k], S[above]) for (U, S), k, above in pairs]
    network.components_ = network.components_[keep[0]]
    usage = zip(network._usage, keep, strict=False)  # empty after a reseeding
    network._usage = [u[k] for u, k in usage]
    _keep_rows(network, keep[-1], "output_components_", "prior_variance_")
    counts = [int(k.sum()) for k in keep]
    network.n_components = counts[0] if len(counts) == 1 else counts
    if network.hidden_components_:
        network.hidden_layer_sizes = [U.shape[1] for U, _ in network.hidden_components_]
    if hasattr(network, "_statistics"):
        n, g, y, gg, yg, yy = network._statistics
        top = keep[-1]
        kept = CodeStatistics(n, g[top], y, gg[np.ix_(top, top)], yg[:, top], yy)
        network._statistics, network._adam = list(kept), ([], 0)


def _keep_operators(network, keep):
    """Leave the operators out, with their priors."""
    names = "prior_weight_", "prior_mean_", "prior_variance_"
    _keep_rows(network, keep[0], "atoms_", *names)
    network.n_components = network.n_components_ = int(keep[0].sum())


def _keep_rows(network, keep, *names):
    """Select rows of those of the attributes that there are."""
    for name in names:
        if hasattr(network, name):
            setattr(network, name, getattr(network, name)[keep])
