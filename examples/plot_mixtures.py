"""
Take a sum of two digits apart
==============================

Training shows single digits; the test shows sums of two of different classes. Which
two are they, and what does each look like? A regressor learns to put a digit into the
slot of its class. Each of its atoms then carries the part of a class, so that the atoms
of a sum draw both digits, each in its own slot.
"""

# %%
# Ten slots
# ---------
# ``X`` is an image, ``y`` has room for one image per class: 640 outputs, all zero but
# for the slot of the class. ``fit_intercept=False``, as a constant would be added once
# to a sum of two.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor

from skvn import VectorNetworkRegressor

X, labels = load_digits(return_X_y=True)
X_train, X_test, labels_train, labels_test = train_test_split(
    np.float32(X / 16), labels, test_size=400, random_state=0, stratify=labels
)


def in_slots(X, labels):
    """Every image in the slot of its class, (n, 10, 64)."""
    return np.eye(10, dtype=X.dtype)[labels][:, :, None] * X[:, None, :]


y_train = in_slots(X_train, labels_train).reshape(-1, 640)
partner = np.random.default_rng(0).permutation(len(X_test))
differs = labels_test != labels_test[partner]
parts = in_slots(X_test, labels_test) + in_slots(X_test[partner], labels_test[partner])
parts = parts[differs]
mixtures = parts.sum(1)

# %%
# Learn from single digits, predict sums
# --------------------------------------
# The two slots with the most energy are the answer. What they leave of the sum is split
# evenly between them.


def take_apart(model):
    """Images in the slots of the two classes found, (n, 10, 64)."""
    slots = model.predict(mixtures).reshape(parts.shape)
    pair = (slots**2).sum(2).argsort(1)[:, -2:]
    rows = np.arange(len(slots))[:, None]
    found = slots[rows, pair]
    answer = np.zeros_like(slots)
    answer[rows, pair] = found + (mixtures - found.sum(1))[:, None] / 2
    return answer


def report(name, answer):
    """Share of pairs found, and squared error as a share of the energy."""
    right = ((answer != 0).any(2) == (parts != 0).any(2)).all(1).mean()
    error = ((answer - parts) ** 2).sum() / (parts**2).sum()
    print(f"{name:25s} pair found {right:4.0%}   error {error:.3f}")


models = {
    "Ridge": Ridge(1.0, fit_intercept=False),
    "MLPRegressor": MLPRegressor(
        hidden_layer_sizes=(256,), early_stopping=True, random_state=0
    ),
    "Vector Network": VectorNetworkRegressor(256, fit_intercept=False, random_state=0),
}
answers = {name: take_apart(m.fit(X_train, y_train)) for name, m in models.items()}
for name, answer in answers.items():
    report(name, answer)

# %%
# Where another method wins
# -------------------------
# The classical separation has one Gaussian per class. If the pair is *told*, it is more
# accurate than the network, which has to find the pair.

groups = [X_train[labels_train == k] for k in range(10)]
moments = np.stack([group.T @ group / len(group) for group in groups])
wiener = np.zeros_like(parts)
for answer, mixture, part in zip(wiener, mixtures, parts, strict=True):
    pair = part.any(1)
    both = moments[pair]
    answer[pair] = both @ np.linalg.solve(both.sum(0) + 3e-3 * np.eye(64), mixture)
report("Gaussians, pair told", wiener)

# %%
# Some sums, taken apart by the network
# -------------------------------------

fig, axes = plt.subplots(5, 10, figsize=(9, 5), layout="constrained")
for column, i in zip(axes.T, range(10), strict=True):
    shown = [parts[i], answers["Vector Network"][i]]
    classes = [np.flatnonzero(images.any(1)) for images in shown]
    pictures = [mixtures[i], *shown[0][classes[0]], *shown[1][classes[1]]]
    for ax, picture in zip(column, pictures, strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=picture.max())
        ax.set(xticks=[], yticks=[])
    for ax, label in zip(column[1:], np.concatenate(classes), strict=True):
        ax.set_title(label, fontsize=9, pad=2)
for row, name in enumerate(("sum", "true 1", "true 2", "found 1", "found 2")):
    axes[row, 0].set_ylabel(name)
plt.show()
