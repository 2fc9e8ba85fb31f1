"""
Find the atoms that carry a class, and edit them
================================================

What a Vector Network knows sits in single atoms, and every answer is a sum of their
contributions. So one can ask which atoms carry an answer, take them out, or change what
they say, without training again, and nearly nothing else changes.
"""

# %%
# A network that reads digits
# ---------------------------
# One output per class; the largest one wins.

import copy

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from skvn import VectorNetworkRegressor
from skvn.display import AtomsDisplay
from skvn.inspection import ablate_atoms

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.4, stratify=y, random_state=0
)
network = VectorNetworkRegressor(n_components=128, tol=1e-2, random_state=0)
network.fit(X_train, np.eye(10)[y_train])
print(f"accuracy {(network.predict(X_test).argmax(1) == y_test).mean():.3f}")

# %%
# Which atoms say "3"?
# --------------------
# ``contributions`` splits the answer to a row into ``g_k u_k``. We average the part
# that goes to output 3 over training images of a 3.

threes = X_train[y_train == 3]
carried = network.contributions(threes)[:, :, 3].mean(0)
order = np.argsort(-carried)
atoms = order[:16]
print(f"output 3 of a 3, on average: {network.predict(threes)[:, 3].mean():.2f}")
print(f"of which by 16 of the 128 atoms: {carried[atoms].sum():.2f}")

fig, ax = plt.subplots(figsize=(3.5, 3.5), layout="constrained")
AtomsDisplay(network.components_[atoms], shape=(8, 8)).plot(ax)
ax.set_title("the atoms that say 3")

# %%
# Take them out
# -------------
# :func:`~skvn.inspection.ablate_atoms` gives a copy without these atoms. Codes are
# inferred anew, from the atoms that are left. The network no longer knows threes, nor
# can it explain their pixels as well; the other classes stay.

without = ablate_atoms(network, atoms)


def recall(model):
    """Share of every class that is recognised."""
    return confusion_matrix(
        y_test, model.predict(X_test).argmax(1), normalize="true", labels=range(10)
    ).diagonal()


def pixel_error(model):
    """Squared error of S g as a share of the energy, for every class."""
    r = X_test - model.transform(X_test) @ model.components_
    return [(r[y_test == c] ** 2).sum() / (X_test[y_test == c] ** 2).sum() for c in C]


C = np.arange(10)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for shift, model, name in ((-0.2, network, "all atoms"), (0.2, without, "without")):
    left.bar(C + shift, recall(model), width=0.4, label=name)
    right.bar(C + shift, pixel_error(model), width=0.4, label=name)
left.set(xticks=C, xlabel="class", ylabel="recall")
right.set(xticks=C, xlabel="class", ylabel="pixels not explained")
right.legend()

# %%
# As many atoms drawn at random do little harm: other atoms take over.

random = np.random.default_rng(0).choice(len(carried), len(atoms), replace=False)
for name, gone in (("these atoms", atoms), ("random atoms", random)):
    r = recall(ablate_atoms(network, gone))
    print(f"without {name:12s} recall of 3: {r[3]:.2f}, of the others: ", end="")
    print(f"{np.delete(r, 3).mean():.2f}")

# %%
# Change what they say
# --------------------
# Answers are made from the fitted arrays, so these can be edited. Here the atoms that
# said 3 now say 7.

edited = copy.deepcopy(network)
edited.output_components_[np.ix_(atoms, [3, 7])] = edited.output_components_[
    np.ix_(atoms, [7, 3])
]

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
models = {"as learned": network, "without the atoms": without, "edited": edited}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    y_hat = model.predict(X_test).argmax(1)
    table = confusion_matrix(y_test, y_hat, normalize="true", labels=C)
    ax.imshow(table, cmap="Blues", vmin=0, vmax=1)
    ax.set(title=name, xticks=C, yticks=C, xlabel="predicted")
axes[0].set_ylabel("true class")
plt.show()
