"""
Look at atoms and codes
=======================

A Vector Network explains every row by a few of its atoms. Atoms live in the space of
the data, so those of images can be looked at as images, and a code can be read: which
atoms, how strongly.
"""

# %%
# Learn the atoms of digits
# -------------------------
# 64 atoms for images of 64 pixels. A larger ``alpha`` makes codes sparser.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skvn import VectorNetworkTransformer
from skvn.display import AtomsDisplay, CodeUsageDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test = X[:1500] / 16, X[1500:] / 16
network = VectorNetworkTransformer(n_components=64, alpha=0.1, random_state=0)
network.fit(X_train)

# %%
# The atoms, those that explain most of the energy first. Red is positive, blue
# negative; every atom is drawn at its own scale. Most look like whole digits in one
# handwriting, or like strokes.

fig, ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
AtomsDisplay.from_estimator(network, X_test, n_atoms=64, shape=(8, 8), ax=ax)

# %%
# How many atoms does a digit need?
# ---------------------------------
# No atom serves all digits: the most used one is in a fifth of them. A digit uses about
# seven of the 64.

fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
usage = CodeUsageDisplay.from_estimator(network, X_test, ax=axes)
print("active atoms of a digit, median:", np.median(usage.n_active))

# %%
# Read a code
# -----------
# Three digits, each with its reconstruction and its four largest atoms. The title is
# the coefficient.

codes = network.transform(X_test)
X_hat = network.inverse_transform(codes)
error = ((X_test - X_hat) ** 2).sum() / (X_test**2).sum()
print(f"squared error of the reconstruction, as a share of the energy: {error:.3f}")

fig, axes = plt.subplots(3, 6, figsize=(8, 4.2), layout="constrained")
for line, row in zip(axes, (1, 3, 8), strict=True):
    largest = np.argsort(-codes[row])[:4]
    images = [X_test[row], X_hat[row], *network.components_[largest]]
    titles = ["digit", "S g", *(f"{g:.2f}" for g in codes[row, largest])]
    for ax, image, title in zip(line, images, titles, strict=True):
        top = np.abs(image).max()
        ax.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-top, vmax=top)
        ax.set_title(title, fontsize=9)
        ax.set_axis_off()
plt.show()
