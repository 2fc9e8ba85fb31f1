"""
Fill hidden halves of digits
============================

Half of every test digit is hidden and has to be filled from the other half, by models
that learned from single digits. On single digits the nearest neighbours win. On *sums*
of two digits, which training never showed, they fail, as a neighbour has to be there
as a whole; the Vector Network adds up parts. So does a Gaussian with mean zero, which
comes close on sums but is far behind on single digits.
"""

# %%
# Two tests, one training set
# ---------------------------
# A missing pixel is NaN.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skvn import VectorNetworkTransformer
from skvn.datasets import hide_halves, mix_images

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    np.float32(X / 16), y, train_size=1000, test_size=400, random_state=0, stratify=y
)
sums, _ = mix_images(X_test, y_test, random_state=0)
truths = {"single digits": X_test, "sums of two": sums}
missing = {test: hide_halves(truth, random_state=0) for test, truth in truths.items()}

# %%
# Four fillers
# ------------
# To predict hidden entries, the sparse-Bayesian settle (``solver="ard"``) is the better
# one. It learns from complete rows; the iterative imputer also needs rows with holes.
# The Gaussian is not centred, as a mean would be added only once to a sum of two.

network = VectorNetworkTransformer(128, solver="ard", tol=0.02, random_state=0)
network.fit(X_train)
knn = KNNImputer(n_neighbors=10, weights="distance").fit(X_train)
iterative = IterativeImputer(Ridge(1.0), tol=0.5)
iterative.fit(np.vstack([X_train, hide_halves(X_train, random_state=1)]))
moments = X_train.T @ X_train / len(X_train) + 1e-3 * np.eye(64)


def gaussian(X):
    """Conditional mean of every row under one Gaussian with mean zero."""
    filled = X.copy()
    for row in filled:
        hidden, seen = np.isnan(row), ~np.isnan(row)
        solved = np.linalg.solve(moments[np.ix_(seen, seen)], row[seen])
        row[hidden] = moments[np.ix_(hidden, seen)] @ solved
    return filled


fillers = {
    "KNNImputer": knn.transform,
    "IterativeImputer": iterative.transform,
    "Gaussian": gaussian,
    "Vector Network": network.reconstruct,
}
filled = {}
for test, truth in truths.items():
    hidden = np.isnan(missing[test])
    print(f"{test}: squared error of the hidden pixels / their energy")
    for name, fill in fillers.items():
        filled[test, name] = np.where(hidden, fill(missing[test]), truth)
        error = ((filled[test, name] - truth) ** 2).sum() / (truth[hidden] ** 2).sum()
        print(f"  {name:17s} {error:.3f}")

# %%
# See them
# --------

fig, axes = plt.subplots(6, 13, figsize=(10, 4.8), layout="constrained")
for start, test in zip((0, 7), truths, strict=True):
    strongest = truths[test][:6].max()
    lines = [truths[test], missing[test]] + [filled[test, name] for name in fillers]
    for line, images in zip(axes, lines, strict=True):
        for ax, image in zip(line[start : start + 6], images, strict=False):
            ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=strongest)
            ax.set_facecolor("tab:orange")
    axes[0, start].set_title(test, loc="left")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
for ax in axes[:, 6]:
    ax.set_visible(False)
for ax, name in zip(axes[:, 0], ("true", "half hidden", *fillers), strict=True):
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
