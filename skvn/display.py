"""Plots of fitted networks, in the manner of scikit-learn's displays."""

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

from ._flat import FlatEstimator
from ._operator import OperatorEstimator
from .inspection import atom_usage, dictionaries

__all__ = [
    "AtomsDisplay",
    "CodeUsageDisplay",
    "EffectiveWeightDisplay",
    "LossCurveDisplay",
]

_SIGNED = {"cmap": "RdBu_r", "interpolation": "nearest"}


class AtomsDisplay:
    """Atoms, as a sheet of images or as curves above each other.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_inputs)
        Atoms to draw, for instance ``components_`` or ``output_components_``.
    index : array-like of shape (n_atoms,), default=None
        Numbers of the atoms; None counts from 0.
    shape : tuple of int, default=None
        ``(height, width)`` of an atom that is an image; None draws curves.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvn import VectorNetworkTransformer
    >>> from skvn.display import AtomsDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> network = VectorNetworkTransformer(32, random_state=0).fit(X)
    >>> display = AtomsDisplay.from_estimator(network, X, shape=(8, 8))
    >>> display.atoms.shape
    (16, 64)
    """

    def __init__(self, atoms, *, index=None, shape=None):
        self.atoms = atoms
        self.index = np.arange(len(atoms)) if index is None else index
        self.shape = shape

    @classmethod
    def from_estimator(
        cls, estimator, X=None, *, n_atoms=16, shape=None, ax=None, **kwargs
    ):
        """Draw atoms of the first layer of a fitted network.

        Parameters
        ----------
        estimator : flat or operator estimator
            Fitted.
        X : array-like of shape (n_samples, n_features), default=None
            Rows whose codes say which atoms come first: those with the largest share
            of the energy. None takes the atoms in their order.
        n_atoms : int, default=16
            Largest number of atoms.
        shape : tuple of int, default=None
            ``(height, width)`` of an atom that is an image; None draws curves.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``plot``.

        Returns
        -------
        AtomsDisplay
        """
        _check_kind(cls, estimator)
        atoms = dictionaries(estimator)[0]
        index = np.arange(len(atoms))
        if X is not None:
            share = atom_usage(estimator, X).energy_share[: len(atoms)]
            index = np.argsort(-share, kind="stable")
        index = index[:n_atoms]
        return cls(atoms[index], index=index, shape=shape).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw, every atom at its own scale.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``imshow`` (images) or ``plot`` (curves).

        Returns
        -------
        AtomsDisplay
        """
        self.ax_ = _axes(self, ax)
        self.figure_ = self.ax_.figure
        largest = np.abs(self.atoms).max(1, keepdims=True)
        scaled = self.atoms / np.where(largest > 0, largest, 1)
        if self.shape is None:
            self._plot_curves(scaled, kwargs)
        else:
            self._plot_images(scaled, kwargs)
        return self

    def _plot_images(self, atoms, kwargs):
        """A sheet; the gaps show the background."""
        sheet = _sheet(atoms.reshape(-1, *self.shape))
        self.ax_.imshow(sheet, **{**_SIGNED, "vmin": -1, "vmax": 1, **kwargs})
        self.ax_.set_facecolor("0.8")
        self.ax_.set(xticks=[], yticks=[])

    def _plot_curves(self, atoms, kwargs):
        """The first curve on top; a curve has room for its largest value."""
        base = -2.0 * np.arange(len(atoms))
        self.ax_.hlines(base, 0, atoms.shape[1] - 1, color="0.85", linewidth=0.8)
        self.ax_.plot(atoms.T + base, **{"color": "C0", **kwargs})
        self.ax_.set(yticks=base, yticklabels=self.index, ylabel="atom", xlabel="entry")


class CodeUsageDisplay:
    """How many rows use every atom, and how many atoms every row uses.

    Parameters
    ----------
    frequency, mean_magnitude : ndarray of shape (n_atoms,)
    n_active : ndarray of shape (n_samples,)
        See ``skvn.inspection.atom_usage``.

    Attributes
    ----------
    axes_ : ndarray of 2 matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvn import VectorNetworkTransformer
    >>> from skvn.display import CodeUsageDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> network = VectorNetworkTransformer(32, random_state=0).fit(X)
    >>> display = CodeUsageDisplay.from_estimator(network, X)
    >>> display.frequency.shape
    (32,)
    """

    def __init__(self, frequency, mean_magnitude, n_active):
        self.frequency = frequency
        self.mean_magnitude = mean_magnitude
        self.n_active = n_active

    @classmethod
    def from_estimator(cls, estimator, X, *, threshold=0.01, ax=None, **kwargs):
        """Draw the use that the rows of X make of a fitted network.

        Parameters
        ----------
        estimator : estimator of this package that has ``transform``
            Fitted.
        X : array-like of shape (n_samples, n_features)
        threshold : float, default=0.01
            See ``skvn.inspection.atom_usage``.
        ax : sequence of 2 matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``plot``.

        Returns
        -------
        CodeUsageDisplay
        """
        usage = atom_usage(estimator, X, threshold=threshold)
        display = cls(usage.frequency, usage.mean_magnitude, usage.n_active)
        return display.plot(ax, **kwargs)

    def plot(self, ax=None, *, measure="frequency", **kwargs):
        """Draw atoms, the most used one first, and the histogram of rows.

        Parameters
        ----------
        ax : sequence of 2 matplotlib Axes, default=None
            Where to draw; None makes a figure.
        measure : {"frequency", "mean_magnitude"}, default="frequency"
            What is shown of every atom.
        **kwargs : dict
            Passed to ``bar``.

        Returns
        -------
        CodeUsageDisplay
        """
        labels = {"frequency": "share of rows", "mean_magnitude": "mean |g|"}
        if measure not in labels:
            raise ValueError(f"measure must be one of {list(labels)}, got {measure!r}.")
        self.axes_ = _axes(self, ax, 2)
        left, right = self.axes_
        self.figure_ = left.figure
        values = np.sort(getattr(self, measure))[::-1]
        left.bar(np.arange(1, len(values) + 1), values, **{"width": 1.0, **kwargs})
        left.set(xlabel="atom, most used first", ylabel=labels[measure])
        counts = np.bincount(self.n_active)
        right.bar(np.arange(len(counts)), counts, **{"width": 1.0, **kwargs})
        right.set(xlabel="active atoms of a row", ylabel="rows")
        return self


class EffectiveWeightDisplay:
    """Weight matrix that one row composes, and the atoms that make most of it.

    Parameters
    ----------
    weight : ndarray of shape (n_outputs, n_inputs)
        ``W* = sum_k g_k A_k``.
    parts : ndarray of shape (n_atoms, n_outputs, n_inputs)
        ``g_k A_k`` of the largest atoms.
    index : array-like of shape (n_atoms,)
        Numbers of these atoms.

    Attributes
    ----------
    axes_ : ndarray of n_atoms + 2 matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from skvn import VectorNetworkRegressor
    >>> from skvn.display import EffectiveWeightDisplay
    >>> X, y = load_linnerud(return_X_y=True)
    >>> network = VectorNetworkRegressor(6, random_state=0, max_iter=200).fit(X, y)
    >>> display = EffectiveWeightDisplay.from_estimator(network, X[:1], n_atoms=2)
    >>> display.parts.shape
    (2, 3, 3)
    """

    def __init__(self, weight, parts, index):
        self.weight = weight
        self.parts = parts
        self.index = index

    @classmethod
    def from_estimator(cls, estimator, X, *, n_atoms=3, ax=None, **kwargs):
        """Draw the weight matrix of one row.

        Parameters
        ----------
        estimator : flat or operator estimator
            Fitted. Of several layers the top one is shown.
        X : array-like of shape (1, n_features)
        n_atoms : int, default=3
            Atoms that are shown one by one.
        ax : sequence of n_atoms + 2 matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``plot``.

        Returns
        -------
        EffectiveWeightDisplay
        """
        _check_kind(cls, estimator)
        weights = np.asarray(estimator.effective_weight(X))
        if len(weights) != 1:
            raise ValueError(f"X must have one row, got {len(weights)}.")
        sensing = dictionaries(estimator)[-1]
        codes = np.asarray(estimator.transform(X))[0, -len(sensing) :]
        size = np.abs(codes) * _norms(estimator, sensing)
        index = np.argsort(-size, kind="stable")[:n_atoms]
        parts = codes[index, None, None] * _atoms(estimator, sensing, index)
        return cls(weights[0], parts, index).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the whole, its largest parts and the rest, at one scale.

        Parameters
        ----------
        ax : sequence of n_atoms + 2 matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``imshow``.

        Returns
        -------
        EffectiveWeightDisplay
        """
        self.axes_ = _axes(self, ax, len(self.parts) + 2)
        self.figure_ = self.axes_[0].figure
        rest = self.weight - self.parts.sum(0)
        top = np.abs(self.weight).max()
        options = {**_SIGNED, "vmin": -top, "vmax": top, "aspect": "auto", **kwargs}
        titles = ["W*", *(f"atom {k}" for k in self.index), "other atoms"]
        images = [self.weight, *self.parts, rest]
        for axis, image, title in zip(self.axes_, images, titles, strict=True):
            drawn = axis.imshow(image, **options)
            axis.set(title=title, xticks=[], yticks=[], xlabel="inputs")
        self.axes_[0].set_ylabel("outputs")
        self.figure_.colorbar(drawn, ax=list(self.axes_))
        return self


class LossCurveDisplay:
    """Loss of every epoch and, if there was early stopping, the validation score.

    Parameters
    ----------
    loss_curve : sequence of float
    validation_scores : sequence of float, default=None

    Attributes
    ----------
    ax_ : matplotlib Axes
        Of the loss.
    score_ax_ : matplotlib Axes or None
        Of the validation score, on the right-hand side.
    figure_ : matplotlib Figure

    Notes
    -----
    With ``learning="contrastive"`` the curve holds two stages whose losses are not of
    one kind: see ``loss_curve_`` of ``VectorNetworkRegressor``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skvn import VectorNetworkRegressor
    >>> from skvn.display import LossCurveDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> network = VectorNetworkRegressor(n_components=20, random_state=0).fit(X, y)
    >>> display = LossCurveDisplay.from_estimator(network)
    >>> len(display.loss_curve) == network.n_iter_
    True
    """

    def __init__(self, loss_curve, validation_scores=None):
        self.loss_curve = loss_curve
        self.validation_scores = validation_scores

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Draw the curves of a fitted estimator.

        Parameters
        ----------
        estimator : any estimator of this package
            Fitted.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``plot``.

        Returns
        -------
        LossCurveDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "loss_curve_"):
            raise TypeError(f"{type(estimator).__name__} has no loss_curve_.")
        scores = getattr(estimator, "validation_scores_", None)
        return cls(estimator.loss_curve_, scores).plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **kwargs : dict
            Passed to ``plot`` of the loss.

        Returns
        -------
        LossCurveDisplay
        """
        self.ax_, self.score_ax_ = _axes(self, ax), None
        self.figure_ = self.ax_.figure
        epochs = np.arange(1, len(self.loss_curve) + 1)
        self.ax_.plot(epochs, self.loss_curve, **{"color": "C0", **kwargs})
        self.ax_.set(xlabel="epoch", ylabel="training loss")
        if self.validation_scores is not None:
            self.score_ax_ = self.ax_.twinx()
            self.score_ax_.plot(epochs, self.validation_scores, "C1--")
            self.score_ax_.set_ylabel("validation score (dashed)")
        return self


def _check_kind(cls, estimator):
    """Flat or operator, or a TypeError."""
    if not isinstance(estimator, FlatEstimator | OperatorEstimator):
        raise TypeError(
            f"{cls.__name__} draws VectorNetworkTransformer, VectorNetworkRegressor "
            f"and VectorNetworkOperatorRegressor, got {type(estimator).__name__}."
        )


def _axes(display, ax, count=None):
    """The axes given, or new ones: one, or an array of ``count`` side by side."""
    if ax is None:
        check_matplotlib_support(f"{type(display).__name__}.plot")
        import matplotlib.pyplot as plt

        size = None if count is None else (2.5 * max(count, 3), 3)
        _, ax = plt.subplots(1, count or 1, figsize=size, layout="constrained")
    if count is None:
        return ax
    axes = np.asarray(ax, dtype=object).ravel()
    if len(axes) != count:
        raise ValueError(f"ax must hold {count} axes, got {len(axes)}.")
    return axes


def _sheet(images):
    """Images (n, h, w) tiled row by row, with gaps of NaN between them."""
    n, h, w = images.shape
    columns = int(np.ceil(np.sqrt(n)))
    rows = -(-n // columns)
    sheet = np.full((rows * columns, h + 1, w + 1), np.nan)
    sheet[:n, :h, :w] = images
    sheet = sheet.reshape(rows, columns, h + 1, w + 1).swapaxes(1, 2)
    return sheet.reshape(rows * (h + 1), columns * (w + 1))[:-1, :-1]


def _norms(estimator, sensing):
    """Size |A_k| of every atom of the top layer."""
    norms = np.linalg.norm(sensing, axis=1)
    if isinstance(estimator, FlatEstimator):
        norms = norms * np.linalg.norm(estimator._top(), axis=1)
    return norms


def _atoms(estimator, sensing, index):
    """Some atoms A_k of the top layer, (len(index), n_outputs, n_inputs)."""
    if isinstance(estimator, OperatorEstimator):
        return estimator.atoms_[index]
    return estimator._top()[index, :, None] * sensing[index, None, :]
