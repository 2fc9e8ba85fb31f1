"""Signals with holes, their errors, and the curves that the figure draws."""

from functools import partial

import numpy as np
import pandas as pd
import torch
from _runner import Task, relative_error
from sklearn.utils import check_random_state

from skvn.datasets import hide_entries, make_functions

N_POINTS = 64
KINDS = ("singles", "id_pairs", "pairs", "triples", "nested")
PATTERNS = ("block", "random")
# config -> arguments of make_functions, training rows
CONFIGS = {
    "wide": ({}, 6000),
    "noise": ({"noise": 0.1}, 6000),
    "narrow": ({"max_frequency": 1.5}, 6000),
    "n500": ({}, 500),
    "reconstruction 8": ({}, 6000),
    "reconstruction 16": ({}, 6000),
}


def load(config, seed, options):
    """Training rows; every kind of signal with every pattern of holes."""
    settings, n_train = CONFIGS[config]
    n_train, n_test = (120, 8) if options.quick else (n_train, 400)
    make = partial(make_functions, **settings)
    X, _ = make(n_train, "train", random_state=1000 + seed)
    signals = {kind: make(n_test, kind, random_state=2000 + seed) for kind in KINDS}
    if config.startswith("reconstruction"):
        return Task((X,), signals, pooled_and_median)
    tests = {
        f"{pattern} {kind}": (hide_entries(X, pattern, random_state=3000 + seed), clean)
        for kind, (X, clean) in signals.items()
        for pattern in PATTERNS
    }
    drawn = (config, seed) == ("wide", 0)
    curves = partial(filled_curves, tests=tests) if drawn else None
    return Task((X,), tests, pooled_and_median, curves)


def pooled_and_median(y_hat, y, X):
    """Errors over the hidden entries, or over all entries if none is hidden."""
    if np.isnan(X).any():
        y = np.where(np.isnan(X), y, np.nan)
    error = np.nansum(np.square(y_hat - y), axis=1)
    energy = np.maximum(np.nansum(np.square(y), axis=1), 1e-3)
    median = float(np.median(error / energy))
    return {"": relative_error(y_hat, y), ", median": median}


def filled_curves(model, tests, count=3):
    """True, seen and filled values of a few signals of the OOD splits."""
    tables = []
    for split in ("block pairs", "block triples", "block nested"):
        X, y = tests[split]
        pick = np.linspace(0, len(X) - 1, count + 2).astype(int)[1:-1]
        columns = {
            "split": split,
            "signal": np.repeat(pick, N_POINTS),
            "t": np.tile(np.linspace(-1, 1, N_POINTS), count),
            "true": y[pick].ravel(),
            "seen": X[pick].ravel(),
            "filled": model.predict(X[pick]).ravel(),
        }
        tables.append(pd.DataFrame(columns))
    return {"curves": pd.concat(tables)}


def hide_either(X, random_state):
    """Every row with one of the two patterns of holes, drawn equally."""
    rng = check_random_state(random_state)
    block, random = (hide_entries(X, p, random_state=rng) for p in PATTERNS)
    return np.where(rng.uniform(size=(len(X), 1)) < 0.5, block, random)


def hidden_targets(x, generator):
    """A batch with holes, and what is hidden there (NaN elsewhere)."""
    draw = torch.randint(2**31, (), generator=generator, device=generator.device)
    missing = torch.as_tensor(hide_either(x.cpu().numpy(), int(draw)), device=x.device)
    return missing, torch.where(missing.isnan(), x, torch.nan)
