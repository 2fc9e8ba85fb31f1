"""Objects in the middle of an image, never shown there in training."""

import numpy as np
from sklearn.utils import Bunch, check_random_state

_CODES = {
    "bump": lambda offset: np.exp(-(offset**2) / 2),
    "onehot": lambda offset: (np.abs(offset) < 0.5).astype(float),
    "ramp": lambda offset: (offset <= 0).astype(float),
}


def _bump(c, r):
    """Round bump of standard deviation 1: rank 1."""
    return np.exp(-(c**2 + r**2) / 2)


def _inverse(c, r):
    """One minus the bump: rank 2."""
    return 1 - _bump(c, r)


def _ellipse(c, r):
    """Ellipse turned by 45 degrees, standard deviations 2.5 and 0.8: full rank."""
    along, across = (c + r) / 2**0.5, (c - r) / 2**0.5
    return np.exp(-((along / 2.5) ** 2 + (across / 0.8) ** 2) / 2)


def _ring(c, r):
    """Ring of radius 3: about rank 4."""
    return np.exp(-(((np.sqrt(c**2 + r**2) - 3) / 0.8) ** 2) / 2)


_SHAPES = {"bump": _bump, "inverse": _inverse, "ellipse": _ellipse, "ring": _ring}


def population_code(position, size, kind="bump"):
    """Code of positions by units that each prefer one place.

    Parameters
    ----------
    position : array-like of shape (n_samples,)
    size : int
        Number of units; unit i prefers position i.
    kind : {"bump", "onehot", "ramp"}, default="bump"
        ``exp(-(i - x)^2 / 2)``, ``1[i = x]`` or ``1[i <= x]``.

    Returns
    -------
    ndarray of shape (n_samples, size)

    Examples
    --------
    >>> from skvn.datasets import population_code
    >>> population_code([2], 5).round(2)
    array([[0.14, 0.61, 1.  , 0.61, 0.14]])
    """
    if kind not in _CODES:
        raise ValueError(f"kind must be one of {sorted(_CODES)}, got {kind!r}.")
    offset = np.arange(size) - np.asarray(position, dtype=float)[:, None]
    return _CODES[kind](offset)


def make_spatial(
    shape="bump",
    *,
    code="bump",
    size=28,
    hole=None,
    mixed=False,
    noise=0.0,
    train_size=0.8,
    random_state=None,
):
    """Images of one object at every position, split by combination of row and column.

    Every row position and every column position occurs in training, but never two
    central ones together: those combinations are the test of composition.

    Parameters
    ----------
    shape : {"bump", "inverse", "ellipse", "ring"}, default="bump"
        The object: a round bump (rank 1), one minus it (rank 2), an ellipse at 45
        degrees (full rank) or a ring (about rank 4).
    code : {"bump", "onehot", "ramp"}, default="bump"
        How X codes a position, see ``population_code``.
    size : int, default=28
        Height and width of the images.
    hole : tuple of int, default=None
        ``(first, last)`` central position. None scales (6, 22) of size 28.
    mixed : bool, default=False
        Turn X by a random orthogonal matrix that mixes the codes of row and column.
    noise : float, default=0.0
        Standard deviation of Gaussian noise on the images of the training rows.
    train_size : float, default=0.8
        Share of the positions outside the hole that are for training.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    Bunch
        X : ndarray of shape (size**2, 2 * size), codes of column and row position
        y : ndarray of shape (size**2, size**2), flattened images
        positions : int ndarray of shape (size**2, 2), column and row of the object:
        the factor table for ``skvn.model_selection.CombinationKFold``
        train, test, ood : int ndarrays, rows of training set, of the test set outside
        the hole, and of the hole

    Examples
    --------
    >>> from skvn.datasets import make_spatial
    >>> data = make_spatial(size=14, random_state=0)
    >>> data.X.shape, data.y.shape
    ((196, 28), (196, 196))
    >>> len(data.train), len(data.test), len(data.ood)
    (92, 23, 81)
    """
    if shape not in _SHAPES:
        raise ValueError(f"shape must be one of {sorted(_SHAPES)}, got {shape!r}.")
    rng = check_random_state(random_state)
    column, row = np.tile(np.arange(size), size), np.repeat(np.arange(size), size)
    positions = np.column_stack([column, row])
    first, last = (
        (round(6 * size / 28), round(22 * size / 28)) if hole is None else hole
    )
    central = ((positions >= first) & (positions <= last)).all(axis=1)
    outside = rng.permutation(np.flatnonzero(~central))
    n_train = round(train_size * len(outside))
    X = np.hstack([population_code(p, size, code) for p in (column, row)])
    if mixed:
        X = X @ np.linalg.qr(rng.standard_normal((2 * size, 2 * size)))[0]
    y = _render(positions, size, shape).reshape(size**2, size**2)
    train = outside[:n_train]
    y[train] += noise * rng.standard_normal((n_train, size**2))
    return Bunch(
        X=X,
        y=y,
        positions=positions,
        train=train,
        test=outside[n_train:],
        ood=np.flatnonzero(central),
    )


def _render(positions, size, shape):
    """Images (n, size, size) of one object each."""
    grid = np.arange(size)
    c = grid[None, None, :] - positions[:, 0, None, None]
    r = grid[None, :, None] - positions[:, 1, None, None]
    return _SHAPES[shape](c, r)


def hide_sides(y, positions, random_state=None):
    """Hide all pixels on one side of a line through the object of each image.

    The side is drawn at random from the four; the line is within a pixel of the centre.

    Parameters
    ----------
    y : ndarray of shape (n_samples, size**2)
        Flattened square images.
    positions : ndarray of shape (n_samples, 2)
        Column and row of each object.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    ndarray of shape (n_samples, size**2)
        A copy with NaN where hidden.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import hide_sides, make_spatial
    >>> data = make_spatial(size=8, random_state=0)
    >>> hidden = np.isnan(hide_sides(data.y, data.positions, random_state=0))
    >>> hidden.shape
    (64, 64)
    """
    rng = check_random_state(random_state)
    n, size = len(y), round(y.shape[1] ** 0.5)
    side = rng.randint(4, size=n)
    x, y_cut = (np.asarray(positions) + rng.randint(-1, 2, size=(n, 2))).T
    grid = np.arange(size)
    visible = np.where(
        (side < 2)[:, None, None],
        _side(grid[None, None, :], x, side % 2),
        _side(grid[None, :, None], y_cut, side % 2),
    )
    return np.where(visible.reshape(n, -1), y, np.nan)


def _side(coordinate, cut, upper):
    """Where the coordinate is on the lower or upper side of each cut."""
    cut, upper = cut[:, None, None], upper[:, None, None]
    return np.where(upper == 1, coordinate >= cut, coordinate <= cut)
