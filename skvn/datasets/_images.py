"""Images that are mixtures of familiar ones, or moves of them in new combinations."""

import numpy as np
from scipy.ndimage import affine_transform
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch, check_random_state

_ARRAYS = ("X_train", "y_train", "X_test", "y_test")
_MIXTURES = {"sum": np.sum, "max": np.max}
# Smallest and largest speed per frame: degrees, shares of the side, log scale.
_ROTATION, _TRANSLATION, _SCALING = (5, 15), (1 / 56, 1 / 14), (0.05, 0.15)


def load_mnist(path=None):
    """The MNIST digits, from a file or from OpenML.

    Parameters
    ----------
    path : str, path-like, file or None, default=None
        An ``.npz`` file with the arrays ``X_train``, ``y_train``, ``X_test`` and
        ``y_test``. None fetches "mnist_784" from OpenML, which scikit-learn keeps in
        its data folder.

    Returns
    -------
    Bunch
        X_train : uint8 ndarray of shape (60000, 784), 0 is background
        y_train : uint8 ndarray of shape (60000,)
        X_test : uint8 ndarray of shape (10000, 784)
        y_test : uint8 ndarray of shape (10000,)

    Raises
    ------
    ValueError
        If an array is not in the file.
    OSError
        If there is no such file, or OpenML cannot be reached.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from skvn.datasets import load_mnist
    >>> file, images = io.BytesIO(), np.zeros((2, 28, 28), np.uint8)
    >>> np.savez(file, X_train=images, y_train=[0, 1], X_test=images, y_test=[1, 0])
    >>> _ = file.seek(0)
    >>> load_mnist(file).X_train.shape
    (2, 784)
    """
    if path is None:
        X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
        arrays = X[:60000], y[:60000], X[60000:], y[60000:]
        arrays = dict(zip(_ARRAYS, arrays, strict=True))
    else:
        with np.load(path) as file:
            missing = sorted(set(_ARRAYS) - set(file.files))
            if missing:
                raise ValueError(f"{path} does not hold {', '.join(missing)}.")
            arrays = {name: file[name] for name in _ARRAYS}
    flat = lambda a: a.reshape(len(a), -1) if a.ndim > 1 else a  # noqa: E731
    return Bunch(**{name: flat(a.astype(np.uint8)) for name, a in arrays.items()})


def pool_images(X):
    """Halve the side of square images by averaging 2 x 2 pixels.

    Parameters
    ----------
    X : array-like of shape (n_samples, side**2)
        The side is even.

    Returns
    -------
    ndarray of shape (n_samples, side**2 / 4)

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import pool_images
    >>> pool_images(np.arange(16.0)[None])
    array([[ 2.5,  4.5, 10.5, 12.5]])
    """
    images = _square(X)
    n, side, _ = images.shape
    if side % 2:
        raise ValueError(f"The side of the images must be even, got {side}.")
    blocks = images.reshape(n, side // 2, 2, side // 2, 2)
    return blocks.mean((2, 4)).reshape(n, -1)


def mix_images(X, y, n_parts=2, *, how="sum", random_state=None):
    """Lay every image over others of different classes.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Classes. The parts of a mixture are of different classes.
    n_parts : int, default=2
    how : {"sum", "max"}, default="sum"
        How pixels of the parts combine.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    mixed : ndarray of shape (n_samples, n_features)
    parts : int ndarray of shape (n_samples, n_parts)
        Rows of X in each mixture, the first being its own.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import mix_images
    >>> mixed, parts = mix_images(np.eye(3), [0, 1, 2], 3, random_state=0)
    >>> mixed
    array([[1., 1., 1.],
           [1., 1., 1.],
           [1., 1., 1.]])
    """
    X, y, rng = np.asarray(X), np.asarray(y), check_random_state(random_state)
    if how not in _MIXTURES:
        raise ValueError(f"how must be one of {sorted(_MIXTURES)}, got {how!r}.")
    members = {c: np.flatnonzero(y == c) for c in np.unique(y)}
    if not 1 <= n_parts <= len(members):
        raise ValueError(
            f"n_parts must be between 1 and the {len(members)} classes, got {n_parts}."
        )
    parts = np.array(
        [[i, *_partners(c, members, n_parts, rng)] for i, c in enumerate(y)]
    )
    return _MIXTURES[how](X[parts], axis=1), parts


def _partners(own, members, n_parts, rng):
    """One row of each of ``n_parts - 1`` random other classes."""
    others = [c for c in members if c != own]
    return [rng.choice(members[c]) for c in rng.permutation(others)[: n_parts - 1]]


def hide_halves(X, random_state=None):
    """Hide a random half of every square image: top, bottom, left or right.

    Parameters
    ----------
    X : array-like of shape (n_samples, side**2)
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    ndarray of shape (n_samples, side**2)
        A copy with NaN where hidden.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import hide_halves
    >>> hide_halves(np.eye(4)[:1], random_state=0)
    array([[nan, nan,  0.,  0.]])
    """
    X = np.asarray(X)
    side = _square(X).shape[1]
    row, column = np.indices((side, side)).reshape(2, -1) < side / 2
    halves = np.array([row, ~row, column, ~column])
    which = check_random_state(random_state).randint(4, size=len(X))
    return np.where(halves[which], np.nan, X)


def move_images(X, angle=0.0, shift=(0.0, 0.0), scale=1.0):
    """Turn, scale and shift square images about their centre.

    Parameters
    ----------
    X : array-like of shape (n_samples, side**2)
    angle : float or array-like of shape (n_samples,), default=0.0
        Degrees, from the first axis (rows) towards the second (columns).
    shift : array-like of shape (2,) or (n_samples, 2), default=(0.0, 0.0)
        Pixels along rows and columns; applied last.
    scale : float or array-like of shape (n_samples,), default=1.0

    Returns
    -------
    ndarray of shape (n_samples, side**2)
        Linear interpolation; zero comes in from outside.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import move_images
    >>> image = np.array([[0.0, 0, 0, 1, 2, 0, 0, 0, 0]])
    >>> move_images(image, shift=(1, 0)).reshape(3, 3)
    array([[0., 0., 0.],
           [0., 0., 0.],
           [1., 2., 0.]])
    """
    images = _square(X)
    n, side, _ = images.shape
    angle, scale = np.deg2rad(angle) + np.zeros(n), scale + np.zeros(n)
    shift = np.zeros((n, 2)) + shift
    # Where a pixel of the result comes from: the inverse of turning and scaling.
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    back = np.moveaxis(turn, -1, 0) / scale[:, None, None]
    centre = (side - 1) / 2
    offset = centre - np.einsum("nij,nj->ni", back, centre + shift)
    each = zip(images, back, offset, strict=True)
    moved = [affine_transform(*one, order=1) for one in each]
    return np.reshape(moved, (n, -1))


def make_moving_images(
    X, moves=("r", "t", "s"), n_samples=1000, *, n_objects=1, random_state=None
):
    """Three frames of images in motion: two are given, the third is asked for.

    Every object starts within 10 degrees and 1/28 of the side of its place and moves at
    constant speed, drawn uniformly with a random sign: rotation ("r") by 5 to 15
    degrees per frame, translation ("t") by 1/56 to 1/14 of the side along either axis,
    scaling ("s") by a factor of exp(.05) to exp(.15).

    Parameters
    ----------
    X : array-like of shape (n_images, side**2)
        Images to draw from.
    moves : sequence of str, default=("r", "t", "s")
        What an object may do, one drawn for each: "rt" turns and shifts at once.
    n_samples : int, default=1000
    n_objects : int, default=1
        Images added up in a frame, each moving for itself.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, side**2 / 2)
        Frames -1 and 0, each pooled to half the side, one after the other.
    y : ndarray of shape (n_samples, side**2 / 4)
        Frame 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvn.datasets import make_moving_images
    >>> digits = load_digits().data / 16
    >>> X, y = make_moving_images(digits, ["rt"], 5, random_state=0)
    >>> X.shape, y.shape
    ((5, 32), (5, 16))
    """
    X, rng = np.asarray(X, dtype=float), check_random_state(random_state)
    side = _square(X).shape[1]
    frames = np.zeros((3, n_samples, X.shape[1]))
    for _ in range(n_objects):
        images = X[rng.randint(len(X), size=n_samples)]
        start = rng.uniform(-1, 1, (n_samples, 3)) * [10, side / 28, side / 28]
        r, t, s = _speeds(moves, n_samples, side, rng)
        for k, frame in zip((-1, 0, 1), frames, strict=True):
            pose = start[:, 0] + k * r, start[:, 1:] + k * t, np.exp(k * s)
            frame += move_images(images, *pose)
    before, now, after = map(pool_images, frames)
    return np.hstack([before, now]), after


def _speeds(moves, n, side, rng):
    """Rotation (n,), translation (n, 2) and log scale (n,) per frame."""
    unknown = set("".join(moves)) - set("rts")
    if unknown:
        raise ValueError(f"moves are made of r, t and s, got {sorted(unknown)}.")
    which = rng.randint(len(moves), size=n)
    on = np.array([[kind in move for kind in "rts"] for move in moves])[which]
    signed = lambda *size: rng.uniform(*size) * rng.choice([-1, 1], size[2])  # noqa: E731
    r, s = signed(*_ROTATION, n) * on[:, 0], signed(*_SCALING, n) * on[:, 2]
    t = signed(*_TRANSLATION, (n, 2)) * side * on[:, 1:2]
    return r, t, s


def _square(X):
    """Rows as images, (n, side, side)."""
    X = np.asarray(X, dtype=float)
    side = round(X.shape[1] ** 0.5)
    if side**2 != X.shape[1]:
        raise ValueError(f"Rows of {X.shape[1]} pixels are not square images.")
    return X.reshape(len(X), side, side)
