"""One-dimensional signals that are sums (or compositions) of familiar functions."""

import numpy as np
from sklearn.utils import check_random_state

N_POINTS = 64
FAMILIES = ("sin", "cos", "poly", "gauss")
# Which families a signal of each kind adds up.
COMBINATIONS = {
    "singles": [(f,) for f in FAMILIES],
    "id_pairs": [("sin", "poly"), ("cos", "gauss")],
    "pairs": [("sin", "cos"), ("sin", "gauss"), ("cos", "poly"), ("poly", "gauss")],
    "triples": [tuple(f for f in FAMILIES if f != left) for left in FAMILIES],
}
KINDS = (*COMBINATIONS, "nested")


def make_functions(
    n_samples=400, kind="singles", *, max_frequency=4.0, noise=0.0, random_state=None
):
    """Signals on 64 points of [-1, 1], built from four families of functions.

    A *single* is ``sin(2 pi f t)`` or ``cos(2 pi f t)`` with f in [.5, max_frequency],
    a cubic with coefficients in [-1, 1] divided by its largest value, or a Gaussian
    bump with centre in [-.8, .8] and width in [.05, .3]; times an amplitude in
    [.5, 1.5] and a random sign. All draws are uniform.

    Parameters
    ----------
    n_samples : int, default=400
    kind : {"singles", "id_pairs", "pairs", "triples", "nested", "train"}
        "id_pairs" add sin + poly or cos + gauss, "pairs" the four other pairs across
        these groups, "triples" any three families; "nested" are compositions f(g(t));
        "train" is two thirds singles and one third id_pairs in random order.
    max_frequency : float, default=4.0
    noise : float, default=0.0
        Standard deviation of white noise, as a share of the signals' RMS value.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, 64)
        The signals.
    clean : ndarray of shape (n_samples, 64)
        The same without noise.

    Raises
    ------
    ValueError
        If ``kind`` is not known.

    Examples
    --------
    >>> from skvn.datasets import make_functions
    >>> X, clean = make_functions(10, "pairs", random_state=0)
    >>> X.shape
    (10, 64)
    """
    rng = check_random_state(random_state)
    if kind == "train":
        n_singles = n_samples * 2 // 3
        parts = [("singles", n_singles), ("id_pairs", n_samples - n_singles)]
        rows = [_signals(k, n, max_frequency, rng) for k, n in parts]
        clean = rng.permutation(np.concatenate(rows))
    else:
        clean = _signals(kind, n_samples, max_frequency, rng)
    scale = noise * np.sqrt(np.mean(clean**2)) if len(clean) else 0.0
    return clean + scale * rng.standard_normal(clean.shape), clean


def hide_entries(X, pattern="block", *, random_state=None):
    """Set a quarter of every row in one block, or a random half, to NaN.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    pattern : {"block", "random"}, default="block"
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    ndarray of shape (n_samples, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.datasets import hide_entries
    >>> int(np.isnan(hide_entries(np.ones((1, 64)), random_state=0)).sum())
    16
    """
    rng, (n, d) = check_random_state(random_state), X.shape
    if pattern == "block":
        start = rng.randint(d - d // 4 + 1, size=(n, 1))
        hidden = (np.arange(d) >= start) & (np.arange(d) < start + d // 4)
    elif pattern == "random":
        hidden = rng.uniform(size=(n, d)).argsort(1) < d // 2
    else:
        raise ValueError(f"pattern must be 'block' or 'random', got {pattern!r}.")
    return np.where(hidden, np.nan, X)


def _signals(kind, n, max_frequency, rng):
    """Clean signals of one kind, combinations in equal number."""
    if kind == "nested":
        return _nested(n, rng)
    if kind not in COMBINATIONS:
        raise ValueError(f"kind must be one of {(*KINDS, 'train')}, got {kind!r}.")
    rows = []
    for members, count in _shares(COMBINATIONS[kind], n):
        rows.append(sum(_single(f, count, max_frequency, rng) for f in members))
    return np.concatenate(rows)


def _shares(items, n):
    """Every item with its part of n, as equal as possible."""
    return [
        (item, n // len(items) + (i < n % len(items))) for i, item in enumerate(items)
    ]


def _single(family, n, max_frequency, rng):
    """Signals of one family with random amplitude and sign."""
    t = np.linspace(-1, 1, N_POINTS)
    shape = _base(family, t, n, rng, frequency=(0.5, max_frequency))
    return shape * _amplitude(n, rng)


def _amplitude(n, rng):
    """Uniform in [.5, 1.5] with random sign, (n, 1)."""
    return rng.uniform(0.5, 1.5, (n, 1)) * rng.choice([-1.0, 1.0], (n, 1))


def _base(family, t, n, rng, frequency, centre=(-0.8, 0.8), width=(0.05, 0.3)):
    """Functions of one family, evaluated at t of shape (64,) or (n, 64)."""
    if family in ("sin", "cos"):
        wave = np.sin if family == "sin" else np.cos
        return wave(2 * np.pi * rng.uniform(*frequency, (n, 1)) * t)
    if family == "poly":
        y = sum(rng.uniform(-1, 1, (n, 1)) * t**i for i in range(4))
        return y / np.abs(y).max(1, keepdims=True)
    c, w = rng.uniform(*centre, (n, 1)), rng.uniform(*width, (n, 1))
    return np.exp(-((t - c) ** 2) / (2 * w**2))


def _nested(n, rng):
    """Compositions f(g(t)) of all 16 pairs of families, slower than the singles."""
    t, rows = np.linspace(-1, 1, N_POINTS), []
    pairs = [(f, g) for f in FAMILIES for g in FAMILIES]
    outer = {"frequency": (0.25, 0.75), "centre": (-0.5, 0.5), "width": (0.3, 0.8)}
    for (f, g), count in _shares(pairs, n):
        inner = _base(g, t, count, rng, frequency=(0.5, 1.0))
        inner = inner / np.abs(inner).max(1, keepdims=True)
        rows.append(_base(f, inner, count, rng, **outer) * _amplitude(count, rng))
    return np.concatenate(rows)
