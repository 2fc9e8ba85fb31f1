"""Data and splits of ``images.py``."""

import numpy as np
from _runner import Task, hidden_error, relative_error
from sklearn.datasets import load_digits

from skvn.datasets import (
    hide_halves,
    load_mnist,
    make_moving_images,
    mix_images,
    move_images,
    pool_images,
)

NOISE = 0.25
SIZES = {"mnist": (2500, 300), "digits": (1200, 597)}
# More than enough of MNIST for every task.
_DRAWN = 6000
# What an object does in the sequences of a split; training is like "id".
MOVES = {"id": ["r", "t", "s"], "rt": ["rt"], "rs": ["rs"], "ts": ["ts"]} | {
    "rts": ["rts"]
}


def images(data, rng, options):
    """Training and test images and their classes, at full size, in random order."""
    if data == "mnist":
        d = load_mnist(options.mnist)
        parts = [(d.X_train, d.y_train), (d.X_test, d.y_test)]
    else:
        X, y = load_digits(return_X_y=True)
        order = rng.permutation(len(y))
        parts = [(X[i], y[i]) for i in np.split(order, [1200])]
    drawn = [rng.permutation(len(y))[:_DRAWN] for _, y in parts]
    brightest = 255 if data == "mnist" else 16
    return [(X[i] / brightest, y[i]) for (X, y), i in zip(parts, drawn, strict=True)]


def load(config, seed, options):
    """The task of a configuration."""
    data, task = config.split("-", 1)
    rng = np.random.RandomState(seed)
    train, test = images(data, rng, options)
    if task == "moving":
        return moving(data, train[0], test[0], rng, options.quick)
    if data == "mnist":
        train, test = [(pool_images(X), y) for X, y in (train, test)]
    n_train, n_test = (200, 40) if options.quick else SIZES[data]
    if task.startswith("classes"):
        return classes(task, train, test, min(n_train, 2000), n_test, rng)
    train, test = [a[:n_train] for a in train], [a[:n_test] for a in test]
    if task == "unmix":
        return unmix(train, [a[:400] for a in test], rng)
    return from_splits(task, train[0], splits(*test, rng), rng)


def splits(X, y, rng):
    """Unseen images and what is made of them."""
    n = len(X)
    signed = lambda a, b, *size: rng.uniform(a, b, size) * rng.choice([-1, 1], size)  # noqa: E731
    return {
        "id": X,
        "sum2": mix_images(X, y, random_state=rng)[0],
        "sum3": mix_images(X, y, 3, random_state=rng)[0],
        "max": mix_images(X, y, how="max", random_state=rng)[0],
        "rt": move_images(X, signed(15, 30, n), signed(0.5, 1, n, 2)),
    }


def from_splits(task, X, tests, rng):
    """Images as they are, with a hidden half, or with noise."""
    spoil = {
        "half": lambda Z: hide_halves(Z, rng),
        "denoise": lambda Z: Z + NOISE * rng.standard_normal(Z.shape),
    }.get(task.split("-")[-1], lambda Z: Z)
    error = hidden_error if "half" in task else relative_error
    return Task((X,), {name: (spoil(Z), Z) for name, Z in tests.items()}, error)


def classes(task, train, test, n_train, n_test, rng):
    """Train on the classes 0 to 4."""
    X = train[0][train[1] < 5][:n_train]
    old, new = test[0][test[1] < 5][:n_test], test[0][test[1] >= 5][:n_test]
    n = min(len(old), len(new))
    tests = {"id": old, "heldout": new, "mixheld": old[:n] + new[:n]}
    return from_splits(task, X, tests, rng)


def unmix(train, test, rng):
    """Sums of two unseen images, with their classes or without."""
    (X, y), (Z, z) = train, test
    mixed, parts = mix_images(Z, z, random_state=rng)
    told, both = z[parts].astype(float), Z[parts].reshape(len(Z), -1)
    known = np.hstack([mixed, told]), both
    unknown = np.hstack([mixed, np.full_like(told, np.nan)]), both
    return Task((X, y), {"known": known, "unknown": unknown}, parts_error)


def parts_error(y_hat, y, X):
    """Error of both parts, in the better order where no class was told."""
    swapped = np.hstack(np.split(y_hat, 2, axis=1)[::-1])
    a, b = (np.square(p - y).sum(1) for p in (y_hat, swapped))
    untold = np.isnan(X[:, -1])
    return float(np.where(untold, np.minimum(a, b), a).sum() / np.square(y).sum())


def moving(data, train, test, rng, quick):
    """Two frames to the next one."""
    if data == "digits":
        train, test = [
            np.kron(X.reshape(-1, 8, 8), np.ones((2, 2))).reshape(len(X), -1)
            for X in (train, test)
        ]
    n_train, n_test = (200, 20) if quick else (4000, 200)
    options = {"random_state": rng}
    fit = make_moving_images(train[:n_train], MOVES["id"], n_train, **options)
    test = test[:300]
    tests = {
        split: make_moving_images(test, moves, n_test, **options)
        for split, moves in MOVES.items()
    }
    tests["mix2"] = make_moving_images(
        test, MOVES["id"], n_test, n_objects=2, **options
    )
    return Task(fit, tests, relative_error)
