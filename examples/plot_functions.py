"""
Complete sums of functions never seen together
==============================================

Signals are sums of familiar functions: sines, cosines, cubics, bumps. Training shows
single functions and two kinds of pairs. The test signals are *unseen* pairs and
triples, a quarter of each hidden in one block. Who completes them?
"""

# %%
# Signals and holes
# -----------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer
from sklearn.neural_network import MLPRegressor

from skvn import VectorNetworkTransformer
from skvn.datasets import hide_entries, make_functions

NOISE = 0.03
X_train, _ = make_functions(1000, "train", noise=NOISE, random_state=0)
tests = {
    "singles": "singles",
    "pairs of training": "id_pairs",
    "unseen pairs": "pairs",
    "triples": "triples",
}
tests = {
    name: make_functions(200, kind, noise=NOISE, random_state=1 + i)
    for i, (name, kind) in enumerate(tests.items())
}
missing = {name: hide_entries(X, random_state=0) for name, (X, _) in tests.items()}

# %%
# Four fillers
# ------------
# The Gaussian conditional is the best linear filler; the multilayer perceptron is
# trained on masked signals (values and mask in, complete signal out).


def gaussian_conditional(X, X_train=X_train, ridge=1e-4):
    """Fill every row with its conditional mean under one Gaussian."""
    mean, filled = X_train.mean(0), X.copy()
    C = np.cov(X_train.T) + ridge * np.eye(X.shape[1])
    for row in filled:
        hidden, seen = np.isnan(row), ~np.isnan(row)
        solved = np.linalg.solve(C[np.ix_(seen, seen)], row[seen] - mean[seen])
        row[hidden] = mean[hidden] + C[np.ix_(hidden, seen)] @ solved
    return filled


def with_mask(X):
    """Values, zero where missing, beside the mask."""
    return np.hstack([np.nan_to_num(X), np.isnan(X)])


mlp = MLPRegressor(hidden_layer_sizes=(256, 256), random_state=0)
for epoch in range(80):  # new holes in every epoch
    masked = hide_entries(X_train, random_state=epoch)
    mlp.partial_fit(with_mask(masked), X_train)
knn = KNNImputer(n_neighbors=5, weights="distance").fit(X_train)
network = VectorNetworkTransformer(128, solver="ard", tol=0.02, random_state=0)
network.fit(X_train)
fillers = {
    "KNNImputer": knn.transform,
    "MLPRegressor": lambda X: mlp.predict(with_mask(X)),
    "Gaussian conditional": gaussian_conditional,
    "VectorNetworkTransformer": network.reconstruct,
}

errors = {name: [] for name in fillers}
for test, (_, clean) in tests.items():
    hidden = np.isnan(missing[test])
    for name, fill in fillers.items():
        wrong = (fill(missing[test]) - clean)[hidden]
        errors[name].append((wrong**2).sum() / (clean[hidden] ** 2).sum())
for name, line in errors.items():
    print(f"{name:25s}", np.round(line, 3))

# %%
# Familiar signals and new sums
# -----------------------------
# The neighbours and the perceptron know whole signals, and fall back to the level of
# the Gaussian where a sum is new. The Gaussian adds parts up but cannot choose a few.
# The network does both. (scikit-learn's dictionary learning shares part of this
# advantage, but takes no missing values.)

fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.8), layout="constrained", width_ratios=(1.2, 1)
)
place = np.arange(len(tests))
for i, (name, line) in enumerate(errors.items()):
    left.bar(place + 0.2 * (i - 1.5), line, 0.2, label=name)
left.set(ylabel="squared error / energy, hidden part", ylim=(0, 0.75))
left.set_xticks(place, tests)
left.legend(ncols=2, fontsize=8)

t = np.linspace(-1, 1, X_train.shape[1])
row, clean = missing["triples"][:1], tests["triples"][1][0]
hidden = np.isnan(row[0])
right.axvspan(*t[hidden][[0, -1]], color="0.92")
right.plot(t, clean, "k", lw=1)
for fill in fillers.values():
    right.plot(t[hidden], fill(row)[0, hidden])
right.set(title="A triple: true (black), filled in the hidden part", xlabel="t")
plt.show()
