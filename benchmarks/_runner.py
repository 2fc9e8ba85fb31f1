"""What the four task scripts share: options, resumable tables, timing.

A script defines its configurations, how to load the data of one, and its methods, and
calls ``main``. One *cell* is one (configuration, method, seed): fit once, predict every
split. Finished cells are read from the results file and skipped, so that an interrupted
run goes on where it stopped; delete rows (or the file) to run them again.
"""

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
import torch
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

import skvn

VERSIONS = (
    f"skvn {skvn.__version__}, scikit-learn {sklearn.__version__}, "
    f"torch {torch.__version__}, NumPy {np.__version__}, "
    f"Python {platform.python_version()}"
)
KEY = ["config", "method", "seed"]


@dataclass(frozen=True)
class Method:
    """One row of a table: ``make(seed, options)`` gives an unfitted fit/predict object.

    ``family`` is "vn", "neural", "classical" or "reference" (an oracle or a trivial
    answer, never counted as a baseline).
    """

    name: str
    family: str
    make: Callable
    settings: str = ""
    # Whether the task's tables for figures are made
    tables: bool = True


@dataclass(frozen=True)
class Task:
    """Data of one configuration and seed: ``fit(*train)``; split -> (X, y)."""

    train: tuple
    tests: dict
    # error(y_hat, y, X) -> float, or {suffix of the split's name: float}
    error: Callable
    # tables(model) -> {name: DataFrame}: what the figures are drawn from
    tables: Callable | None = field(default=None)


def relative_error(y_hat, y, X=None):
    """Squared error over the energy of y, where y is not NaN; zero has 1."""
    there = ~np.isnan(y)
    return float(np.square(y_hat - y)[there].sum() / np.square(y[there]).sum())


def hidden_error(y_hat, y, X):
    """The same over the entries that are NaN in X."""
    return relative_error(y_hat, np.where(np.isnan(X), y, np.nan))


def clock(device):
    """CPU seconds of this process, or wall seconds with finished kernels."""
    if not str(device).startswith("cuda"):
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def resolve_device(device):
    """ "auto" is CUDA if there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def run_cell(load, config, method, seed, options):
    """Fit, predict all splits: tidy rows, and tables for figures."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    torch.set_num_threads(1)
    task = load(config, seed, options)
    model = method.make(seed, options)
    start = clock(options.device)
    model.fit(*task.train)
    common = {
        "config": config,
        "method": method.name,
        "family": method.family,
        "seed": seed,
        "fit_time": clock(options.device) - start,
        "n_parameters": count_parameters(model),
        "budget": getattr(model, "budget", ""),
        "settings": method.settings,
        "device": options.device,
        "versions": VERSIONS,
    }
    rows = []
    for split, (X, y) in task.tests.items():
        start = clock(options.device)
        y_hat = model.predict(X)
        spent = clock(options.device) - start
        error = task.error(y_hat, y, X)
        errors = error if isinstance(error, dict) else {"": error}
        for suffix, value in errors.items():
            timed = {"split": split + suffix, "error": value, "predict_time": spent}
            rows.append(common | timed)
    wanted = method.tables and task.tables is not None
    tables = task.tables(model) if wanted else {}
    labels = dict(zip(KEY, (config, method.name, seed), strict=True))
    return rows, {name: table.assign(**labels) for name, table in tables.items()}


def count_parameters(model):
    """Numbers that a fitted model predicts from, as far as it says."""
    if hasattr(model, "n_parameters"):
        return model.n_parameters
    names = ["components_", "output_components_", "intercept_", "coef_", "dual_coef_"]
    names += ["column_atoms_", "row_atoms_", "row_components_", "column_components_"]
    names += ["atoms_", "prior_weight_", "prior_mean_", "prior_variance_"]
    names += ["X_fit_", "_fit_X", "_y", "means_", "covariances_", "coefs_"]
    parts = [getattr(model, name, ()) for name in names]
    return int(sum(np.size(a) for p in parts for a in (p if type(p) is list else [p])))


def parse(doc, name, configs):
    """The options that every task script has."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, ...")
    parser.add_argument("--configs", nargs="+", choices=configs, default=list(configs))
    parser.add_argument("--methods", nargs="+", default=["*"], help="name patterns")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time")
    parser.add_argument("--quick", action="store_true", help="tiny; writes nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    if name == "images":
        parser.add_argument("--mnist", type=Path, help="npz; else fetch_openml")
    options = parser.parse_args()
    options.device = resolve_device(options.device)
    return options


def main(doc, name, configs, load, methods):
    """Run the cells that are not done yet and print the medians.

    ``load(config, seed, options)`` gives a Task, ``methods(config, options)`` Methods.
    """
    options = parse(doc, name, configs)
    path = options.out / f"{name}.csv"
    done = set() if options.quick else finished(path)
    cells = [
        (config, method, seed)
        for seed in range(1 if options.quick else options.seeds)
        for config in options.configs
        for method in methods(config, options)
        if any(fnmatch(method.name, pattern) for pattern in options.methods)
        and (config, method.name, seed) not in done
    ]
    jobs = 1 if options.device.startswith("cuda") else options.jobs
    run = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(run_cell)(load, config, method, seed, options)
        for config, method, seed in cells
    )
    results = []
    for rows, tables in tqdm(run, total=len(cells), desc=name):
        results += rows
        if not options.quick:
            append(path, pd.DataFrame(rows))
            for key, table in tables.items():
                append(options.out / f"{name}_{key}.csv", table)
    table = pd.DataFrame(results) if options.quick else pd.read_csv(path)
    print(medians(table).to_string(float_format="{:.3g}".format))


def finished(path):
    """Cells whose rows are in the file."""
    if not path.exists():
        return set()
    return set(pd.read_csv(path)[KEY].itertuples(index=False, name=None))


def append(path, table):
    """Add rows to a CSV file, four digits for every number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    table.to_csv(path, mode="a", header=new, index=False, float_format="%.4g")


def medians(table):
    """Median over seeds: one row per method, one column per split."""
    by = ["config", "family", "method"]
    split = pd.Categorical(table["split"], table["split"].unique())
    table = table.assign(split=split)
    wide = table.pivot_table("error", by, "split", "median", observed=True, sort=False)
    times = table.groupby(by, sort=False)[["fit_time", "n_parameters"]].median()
    return wide.join(times)
