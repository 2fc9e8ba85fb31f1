"""
Draw objects where none has been
================================

An object can be in any row and in any column of an image. Training shows every row
position and every column position, but never two central ones together. Which models
draw an object in the middle?

This example compares three regressors on the hole in the middle, shows why ordinary
cross-validation cannot choose between them, and fills half-missing images of objects
in the hole.
"""

# %%
# The task
# --------
# X holds population codes of the column and the row position, y the flattened images.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, cross_val_predict

from skvn import VectorNetworkGridRegressor, VectorNetworkGridTransformer
from skvn.datasets import hide_sides, make_spatial
from skvn.model_selection import CombinationKFold

SIZE = 20
data = make_spatial("ring", size=SIZE, random_state=0)
X_train, y_train = data.X[data.train], data.y[data.train]

place = np.zeros((SIZE, SIZE))
place[tuple(data.positions[data.train].T[::-1])] = 1
print(f"{len(data.train)} places in training, {len(data.ood)} in the hole")

# %%
# Draw in the hole
# ----------------
# The grid regressor composes a weight matrix for the columns and one for the rows; the
# image is their product. It is told which inputs are about columns and which about rows
# (``input_groups``), and that the outputs are an image (``output_shape``). With one
# channel it can only draw objects of rank one.

groups = (slice(SIZE), slice(SIZE, None))
options = {"output_shape": (SIZE, SIZE), "input_groups": groups, "random_state": 0}
models = {
    "grid": VectorNetworkGridRegressor(**options),
    "grid, 1 channel": VectorNetworkGridRegressor(n_channels=1, **options),
    "kernel ridge": KernelRidge(kernel="rbf", gamma=0.3, alpha=1e-6),
}


def relative_error(y_hat, y):
    """Squared error; an empty image has 1."""
    return ((y_hat - y) ** 2).sum() / (y**2).sum()


for name, model in models.items():
    model.fit(X_train, y_train)
    seen, unseen = (
        relative_error(model.predict(data.X[i]), data.y[i])
        for i in (data.test, data.ood)
    )
    print(f"{name:16s} error outside the hole {seen:.1e}, in it {unseen:.1e}")

# %%
# An object in the middle, and the error at every place: the hole shows in the map of
# the model that does not compose.


def error_map(model):
    """Relative squared error of the image at every position."""
    squares = ((model.predict(data.X) - data.y) ** 2).sum(1) / (data.y**2).sum(1)
    errors = np.empty((SIZE, SIZE))
    errors[tuple(data.positions.T[::-1])] = squares
    return errors


middle = data.ood[len(data.ood) // 2]
fig, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
drawings = {"wanted": data.y[middle]}
drawings |= {name: m.predict(data.X[[middle]]) for name, m in models.items()}
for ax, (title, image) in zip(axes[0], drawings.items(), strict=True):
    ax.imshow(image.reshape(SIZE, SIZE), cmap="magma")
    ax.set_title(title)
axes[1, 0].imshow(place, cmap="Greys", vmax=2)
axes[1, 0].set_xlabel("positions in training")
for ax, model in zip(axes[1, 1:], models.values(), strict=True):
    shown = ax.imshow(np.log10(error_map(model)), vmin=-6, vmax=0)
    ax.set_xlabel("position of the object")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
fig.colorbar(shown, ax=axes[1], label="log10 of the error")

# %%
# The grid regressor found the rank of the ring by itself: the channels that it does not
# need have faded.

print("use of the channels:", models["grid"].channel_use_.round(3))

# %%
# Choose models by combinations
# -----------------------------
# :class:`~skvn.model_selection.CombinationKFold` holds out blocks of combinations, so
# that its error speaks of new combinations. Positions have an order, so neighbours are
# held out together.

table = data.positions[data.train]
combinations = CombinationKFold(contiguous=True, random_state=0)
for cv in (KFold(3, shuffle=True, random_state=0), combinations):
    kind = type(cv).__name__
    folds = list(cv.split(X_train, groups=table if kind != "KFold" else None))
    for name, model in models.items():
        y_hat = cross_val_predict(model, X_train, y_train, cv=folds)
        print(f"{kind:16s} {name:16s} {relative_error(y_hat, y_train):.1e}")

# %%
# Fill half-missing images
# ------------------------
# The grid transformer infers the codes of rows and columns from the pixels that there
# are. It learns from complete images outside the hole and fills images in it. An object
# has to be the product of a row and a column profile: a bump is, a ring is not.

bumps = make_spatial(size=SIZE, random_state=0)
filler = VectorNetworkGridTransformer((SIZE, SIZE), tol=1e-2, random_state=0)
filler.fit(bumps.y[bumps.train])
hidden = hide_sides(bumps.y, bumps.positions, random_state=1)[bumps.ood]
filled = filler.reconstruct(hidden)
print(f"error {relative_error(filled, bumps.y[bumps.ood]):.3f}")

fig, axes = plt.subplots(2, 5, figsize=(8, 3.4))
for i, column in enumerate(axes.T):
    for ax, images in zip(column, (hidden, filled), strict=True):
        image = images[i * len(images) // 5].reshape(SIZE, SIZE)
        ax.imshow(image, cmap="magma", vmin=0, vmax=1)
        ax.set_facecolor("0.6")
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("half missing")
axes[1, 0].set_ylabel("filled")
fig.tight_layout()
plt.show()
