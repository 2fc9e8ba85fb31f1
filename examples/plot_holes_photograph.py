"""
Fill missing pixels of a photograph
===================================

Seven tenths of the pixels of a photograph are lost. The network learns from patches of
*another* photograph and fills this one. It is more accurate than the imputers of
scikit-learn and no more than interpolation or a Gaussian; unlike interpolation it also
says where it is unsure.
"""

# %%
# One photograph to learn from, another to fill
# ---------------------------------------------

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.interpolate import griddata
from sklearn.datasets import load_sample_image
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.image import reconstruct_from_patches_2d
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import Ridge

from skvn import VectorNetworkTransformer


def grey(name):
    """A sample image, halved in size, in [0, 1]."""
    image = load_sample_image(name).mean(2, dtype="float32")[:426] / 255
    return image.reshape(213, 2, 320, 2).mean((1, 3))


def patches(image):
    """All 8 × 8 patches, which overlap, as rows."""
    return sliding_window_view(image, (8, 8)).reshape(-1, 64)


def image_of(rows):
    """The image whose patches are nearest to the rows: every pixel their mean."""
    return reconstruct_from_patches_2d(rows.reshape(-1, 8, 8), image.shape)


rng = np.random.default_rng(0)
X_train = rng.permutation(patches(grey("china.jpg")))[:1000]
image = grey("flower.jpg")[60:124, 90:154]
missing = np.where(rng.random(image.shape) < 0.7, np.float32("nan"), image)
X = patches(missing)

# %%
# Fill the patches
# ----------------
# The patches overlap: every pixel is filled by up to 64 of them, and their mean is
# taken. Photographs have little noise, hence the low ``noise_floor``.


def interpolate(X):
    """Linear between the seen pixels of the whole image, whatever the patches."""
    seen = ~np.isnan(missing)
    places = np.argwhere(seen), np.argwhere(seen | True)
    values = [
        griddata(places[0], missing[seen], places[1], m) for m in ("linear", "nearest")
    ]
    return patches(np.where(np.isnan(values[0]), *values[::-1]).reshape(image.shape))


mean, covariance = X_train.mean(0), np.cov(X_train.T) + 1e-4 * np.eye(64)


def gaussian(X):
    """Conditional mean of every patch under one Gaussian."""
    filled = X.copy()
    for row in filled:
        hidden, seen = np.isnan(row), ~np.isnan(row)
        solved = np.linalg.solve(covariance[np.ix_(seen, seen)], row[seen] - mean[seen])
        row[hidden] = mean[hidden] + covariance[np.ix_(hidden, seen)] @ solved
    return filled


with_holes = np.where(rng.random(X_train.shape) < 0.7, np.nan, X_train)
network = VectorNetworkTransformer(
    128, solver="ard", noise_floor=1e-3, tol=0.02, random_state=0
).fit(X_train)
fillers = {
    "KNNImputer": KNNImputer(weights="distance").fit(X_train).transform,
    "IterativeImputer": IterativeImputer(Ridge(0.1), tol=0.5).fit(with_holes).transform,
    "interpolation": interpolate,
    "Gaussian": gaussian,
    "Vector Network": network.reconstruct,
}
hidden = np.isnan(missing)
images = {"true": image, "seen": missing}
for name, fill in fillers.items():
    filled = np.where(hidden, image_of(fill(X)), image)
    psnr = -10 * np.log10(((filled - image)[hidden] ** 2).mean())
    print(f"{name:17s} {psnr:.1f} dB on the missing pixels")
    images[f"{name}\n{psnr:.1f} dB"] = filled

# %%
# See it, and how sure the network is
# -----------------------------------

std = image_of(network.reconstruct(X, return_std=True)[1])
fig, axes = plt.subplots(2, 4, figsize=(10, 5.6), layout="constrained")
for ax, (title, picture) in zip(axes.flat, images.items(), strict=False):
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
    ax.set_facecolor("tab:orange")
    ax.set_title(title)
shown = axes[1, 3].imshow(np.where(hidden, std, np.nan), cmap="magma")
fig.colorbar(shown, ax=axes[1, 3], shrink=0.8, label="grey level")
axes[1, 3].set_title("Vector Network,\nstandard deviation")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
plt.show()
