"""Operator structure against other methods: forces in unseen combinations.

Training shows 4000 systems of four bodies under one force each; the splits combine
forces or remove bodies. Writes one line per (noise, split, method, seed), and one per
(noise, method, seed) on what the atoms stand for. Run on one thread::

    OMP_NUM_THREADS=1 python benchmarks/structures_operator.py --seeds 5

The error is ``sum (y_hat - y)^2 / sum y^2`` over the bodies that are there: zero has 1.
All methods see the same features and infer one operator per system. Seeds start at 10:
the method was developed on seeds 0 to 4. No setting is chosen on a test split.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.exceptions import ConvergenceWarning

import skvn
from skvn import VectorNetworkOperatorRegressor
from skvn.datasets import make_nbody, nbody_forces

FIRST_SEED = 10
F, ROWS, QUERIES, STEP = 10, 16, 8, 0.1
# Split -> forces, bodies.
SPLITS = {
    "id": (1, 4),
    "pairs": (2, 4),
    "triples": (3, 4),
    "all4": (4, 4),
    "nb3": (1, 3),
    "nb2": (1, 2),
    "all4_nb3": (4, 3),
    "all4_nb2": (4, 2),
}
FIELDS = ["noise", "split", "method", "seed", "error", "fit_time", "predict_time"]
FIELDS += ["n_parameters", "settings", "versions"]
ATOM_FIELDS = ["noise", "method", "seed", "n_atoms", "forces_owned", "smallest_share"]
ATOM_FIELDS += ["own_error_without", "largest_other_error_without", "separated"]
VERSIONS = " ".join(f"{m.__name__}={m.__version__}" for m in (skvn, sklearn, torch, np))
L1_GRID = (0.002, 0.01, 0.03, 0.1)


def relative_error(y_hat, y):
    """Normalised squared error over present answers; predicting zero has 1."""
    there = ~np.isnan(y)
    return float(((y_hat - y)[there] ** 2).sum() / (y[there] ** 2).sum())


def split_rows(X):
    """Observed states (n, 16, 10) and responses (n, 16); query states (n, 8, 10)."""
    head, queries = X[:, : ROWS * (F + 1)], X[:, ROWS * (F + 1) :]
    pairs = np.nan_to_num(head.reshape(-1, ROWS, F + 1))
    return pairs[..., :F], pairs[..., F], np.nan_to_num(queries.reshape(-1, QUERIES, F))


class PerSystem:
    """One operator per system from whitened states: the frame of two baselines."""

    def fit(self, X, y):
        """Whiten the states; then ``learn``."""
        z, a, q = split_rows(X)
        rows = z[np.abs(z).sum(-1) > 0]
        w, v = np.linalg.eigh(rows.T @ rows / len(rows))
        self.P = (v / np.sqrt(w + 1e-3 * w[-1])) @ v.T
        self.learn(z @ self.P, a, q @ self.P, np.nan_to_num(y))
        return self

    def predict(self, X):
        """Accelerations at the queries."""
        z, a, q = split_rows(X)
        z = z @ self.P
        W = self.operators(z.transpose(0, 2, 1) @ z, np.einsum("nrf,nr->nf", z, a))
        return np.einsum("nqf,nf->nq", q @ self.P, W)


class Ridge(PerSystem):
    """Ridge regression within each system."""

    def __init__(self, alpha):
        self.alpha, self.n_parameters = alpha, 1

    def learn(self, z, a, q, y):
        """Nothing is shared between systems but the whitening."""

    def operators(self, G, b):
        """(G + alpha I)^-1 b."""
        return np.linalg.solve(G + self.alpha * np.eye(F), b[..., None])[..., 0]


class EmpiricalBayes(PerSystem):
    """W ~ N(0, C) with C and the noise of window and queries learned by EM."""

    n_parameters = F * (F + 1) // 2 + 2

    def __init__(self, two_noises, rounds=100):
        self.two_noises, self.rounds = two_noises, rounds

    def learn(self, z, a, q, y):
        """EM on window and query rows."""
        parts = [(z, a), (q, y)]
        grams = [u.transpose(0, 2, 1) @ u for u, _ in parts]
        pulls = [np.einsum("nrf,nr->nf", u, t) for u, t in parts]
        self.C, self.noise = 0.1 * np.eye(F), np.array([0.05, 0.05])
        for _ in range(self.rounds):
            G = sum(g / s for g, s in zip(grams, self.noise, strict=True))
            b = sum(p / s for p, s in zip(pulls, self.noise, strict=True))
            mean, S = self.posterior(G, b)
            second = mean[:, :, None] * mean[:, None] + S
            self.C = second.mean(0)
            error = np.array(
                [
                    (t**2).sum() - 2 * (mean * p).sum() + (g * second).sum()
                    for (_, t), g, p in zip(parts, grams, pulls, strict=True)
                ]
            )
            size = np.array([t.size for _, t in parts])
            if not self.two_noises:
                error, size = error.sum().repeat(2), size.sum().repeat(2)
            self.noise = np.maximum(error / size, 1e-8)

    def posterior(self, G, b):
        """Mean and covariance of every system's operator."""
        w, v = np.linalg.eigh(self.C)
        L = v * np.sqrt(np.maximum(w, 0))
        S = L @ np.linalg.inv(np.eye(F) + L.T @ G @ L) @ L.T
        return np.einsum("nij,nj->ni", S, b), S

    def operators(self, G, b):
        """Posterior means given the window."""
        return self.posterior(G / self.noise[0], b / self.noise[0])[0]


def oracle(data):
    """The true laws, least squares for their four strengths."""
    x, v, here = data.positions, data.velocities, data.present
    f = np.stack([nbody_forces(x[:, t], v[:, t], here) for t in range(3)], 1)
    f = (f[:, 1:] + f[:, :-1]) / 2
    f = f.transpose(0, 1, 3, 4, 2).reshape(len(x), -1, 4)
    a = ((v[:, 1:] - v[:, :-1]) / STEP).reshape(len(x), -1, 1)
    g = np.linalg.pinv(f, rcond=1e-10) @ a
    q = nbody_forces(data.query_positions, data.query_velocities, here)
    return np.einsum("nk,nkbc->nbc", g[..., 0], q).reshape(len(x), -1)


class TunedL1:
    """l1 settle; penalty at prediction chosen on a tenth of the training systems."""

    def __init__(self, **options):
        self.model = VectorNetworkOperatorRegressor(
            6, state_size=F, solver="l1", max_iter=40, random_state=0, **options
        )

    def fit(self, X, y):
        """Fit, then choose among four penalties."""
        n = len(X) // 10
        self.model.fit(X[:-n], y[:-n])
        held_out = X[-n:], y[-n:]
        errors = []
        for alpha in L1_GRID:
            self.model.set_params(transform_alpha=alpha)
            errors.append(relative_error(self.model.predict(held_out[0]), held_out[1]))
        self.model.set_params(transform_alpha=L1_GRID[int(np.argmin(errors))])
        return self

    def predict(self, X):
        """Answers."""
        return self.model.predict(X)


def methods():
    """Name -> (estimator, settings)."""
    ep = VectorNetworkOperatorRegressor(state_size=F, random_state=0)
    ard = VectorNetworkOperatorRegressor(state_size=F, solver="ard", random_state=0)
    return {
        "per-system ridge, weak": (Ridge(0.003), "alpha=0.003"),
        "per-system ridge, strong": (Ridge(0.1), "alpha=0.1"),
        "EB Gaussian, one noise": (EmpiricalBayes(False), "100 EM rounds"),
        "EB Gaussian, two noises": (EmpiricalBayes(True), "100 EM rounds"),
        "VN l1": (TunedL1(), "K=6 max_iter=40 transform_alpha on held-out tenth"),
        "VN ard": (ard, "defaults"),
        "VN ep": (ep, "defaults"),
    }


def inner(model):
    """The VN estimator behind a method, or None."""
    model = getattr(model, "model", model)
    return model if isinstance(model, VectorNetworkOperatorRegressor) else None


def count_parameters(model):
    """Learned numbers."""
    vn = inner(model)
    if vn is None:
        return model.n_parameters
    names = "atoms_", "prior_weight_", "prior_mean_", "prior_variance_"
    return sum(np.size(getattr(vn, name, ())) for name in names)


def atoms_table(vn, data):
    """Which force owns each atom, and what happens without the atoms of one force."""
    codes, q = vn.transform(data.X), split_rows(data.X)[2]
    force = np.abs(data.strength).argmax(1)
    energy = np.stack([(codes[force == j] ** 2).mean(0) for j in range(4)])
    share = energy / np.maximum(energy.sum(0), 1e-30)
    owner = share.argmax(0)
    error = np.empty((4, 4))
    for i in range(4):
        W = np.einsum("nk,kf->nf", codes * (owner != i), vn.atoms_[:, 0])
        y_hat = np.einsum("nqf,nf->nq", q, W)
        for j in range(4):
            k = force == j
            error[i, j] = relative_error(y_hat[k], data.y[k])
    other = error[~np.eye(4, dtype=bool)].max()
    own = np.diag(error).min()
    return {
        "n_atoms": vn.n_components_,
        "forces_owned": len(set(owner)),
        "smallest_share": share.max(0).min(),
        "own_error_without": own,
        "largest_other_error_without": other,
        "separated": bool(own > 0.9 and other < 0.1),
    }


def run(seed, noise, quick):
    """Rows of both tables for one seed and noise."""
    size = (400, 100) if quick else (4000, 500)
    train = make_nbody(size[0], noise=noise, random_state=[seed, 0])
    tests = {
        name: make_nbody(
            size[1], n_forces=f, n_bodies=b, noise=noise, random_state=[seed, i + 1]
        )
        for i, (name, (f, b)) in enumerate(SPLITS.items())
    }
    rows, atoms, frame = [], [], {"noise": noise, "seed": seed}
    for split, data in tests.items():
        row = {
            "method": "oracle: true laws",
            "error": relative_error(oracle(data), data.y),
        }
        rows.append({**frame, "split": split, **row, "n_parameters": 0})
    for method, (model, settings) in methods().items():
        start = time.perf_counter()
        model.fit(train.X, train.y)
        fit_time = time.perf_counter() - start
        common = {**frame, "method": method, "settings": settings}
        common |= {"fit_time": fit_time, "n_parameters": count_parameters(model)}
        for split, data in tests.items():
            start = time.perf_counter()
            y_hat = model.predict(data.X)
            spent = time.perf_counter() - start
            error = relative_error(y_hat, data.y)
            rows.append(
                {**common, "split": split, "error": error, "predict_time": spent}
            )
        if inner(model) is not None:
            table = atoms_table(inner(model), tests["id"])
            atoms.append({**frame, "method": method, **table})
    return [{**row, "versions": VERSIONS} for row in rows], atoms


def write(path, fields, rows):
    """One CSV file; numbers with four digits."""
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, fields, restval="")
        table.writeheader()
        for row in rows:
            table.writerow(
                {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            )


def show(rows, noise):
    """Print the median over seeds."""
    print(f"\nnoise {noise}, median error: {' '.join(SPLITS)}")
    rows = [r for r in rows if r["noise"] == noise]
    for method in dict.fromkeys(r["method"] for r in rows):
        mine = [r for r in rows if r["method"] == method]
        medians = [
            np.median([r["error"] for r in mine if r["split"] == split])
            for split in SPLITS
        ]
        print(f"| {method:24s} |", " | ".join(f"{m:.4f}" for m in medians), "|")


def main():
    """Run all seeds, write the tables, print their medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="seconds; writes nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds = range(FIRST_SEED, FIRST_SEED + (1 if args.quick else args.seeds))
    rows, atoms = [], []
    for noise in (0.0, 0.01):
        for seed in seeds:
            more = run(seed, noise, args.quick)
            rows, atoms = rows + more[0], atoms + more[1]
            print(f"seed {seed}, noise {noise}: done", flush=True)
    if not args.quick:
        args.out.mkdir(parents=True, exist_ok=True)
        write(args.out / "structures_operator.csv", FIELDS, rows)
        write(args.out / "structures_operator_atoms.csv", ATOM_FIELDS, atoms)
    for noise in (0.0, 0.01):
        show(rows, noise)
    print()
    for row in atoms:
        print(row)


if __name__ == "__main__":
    main()
