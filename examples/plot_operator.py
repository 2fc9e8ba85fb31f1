"""
Infer a force, then roll the motion out
=======================================

Four bodies move in the plane. We see three states, 0.1 apart, and want to know how the
motion goes on. Nobody says which forces act: gravity, drag, a Lorentz force, springs.

Training shows systems under *one* force each. The test systems feel all four at once.
:class:`~skvn.VectorNetworkOperatorRegressor` learns one atom per force and composes,
for every test system, the operator that explains what was seen of it.
"""

# %%
# Systems in two-dimensional arrays
# ---------------------------------
# One row of ``X`` is a whole system: observed rows (ten features of a body and a
# coordinate, then its acceleration), then the features of a fresh state. The row of
# ``y`` holds the accelerations there.

import matplotlib.pyplot as plt
import numpy as np

from skvn import VectorNetworkOperatorRegressor
from skvn.datasets import make_nbody, nbody_accelerations, nbody_features

train = make_nbody(2000, noise=0.003, random_state=0)
test = make_nbody(200, n_forces=4, noise=0.003, random_state=1)
print(train.X.shape, train.y.shape)

# %%
# Learn the atoms
# ---------------
# The number of atoms is grown from the data.

model = VectorNetworkOperatorRegressor(state_size=10, random_state=0)
model.fit(train.X, train.y)
print(model.n_components_, "atoms in", model.n_iter_, "epochs")

# %%
# Every atom stands for one force: in systems of one force, one code is active.

force = np.abs(train.strength).argmax(1)
codes = model.transform(train.X)
share = np.stack([(codes[force == j] ** 2).mean(0) for j in range(4)])
print(np.round(share / share.sum(0), 3))

# %%
# Forces in unseen combinations
# -----------------------------
# Relative squared error of the accelerations in a fresh state, all four forces acting.
# One ridge regression for all systems could not do this: it has a single operator.

y_hat, std = model.predict(test.X, return_std=True)
error = ((y_hat - test.y) ** 2).sum() / (test.y**2).sum()
inside = (np.abs(y_hat - test.y) < 2 * std).mean()
print(f"relative error {error:.4f}, within two standard deviations {inside:.0%}")

# %%
# Roll out
# --------
# ``effective_weight`` is the law of every system, in the units of the features. With it
# the motion is integrated from the last state seen.

W = model.effective_weight(test.X)
present = test.present


def inferred(x, v):
    """Accelerations under the inferred operators."""
    return (nbody_features(x, v, present) @ W.mT).reshape(x.shape)


def true(x, v):
    """Accelerations under the true forces."""
    return nbody_accelerations(x, v, test.strength, present)


def none(x, v):
    """No force."""
    return np.zeros_like(x)


def roll_out(acceleration, n_steps=100, h=0.02):
    """Positions by the midpoint rule, (n_steps + 1, n, 4, 2)."""
    x, v = test.positions[:, -1], test.velocities[:, -1]
    path = [x]
    for _ in range(n_steps):
        x_half, v_half = x + h / 2 * v, v + h / 2 * acceleration(x, v)
        x, v = x + h * v_half, v + h * acceleration(x_half, v_half)
        path.append(x)
    return np.stack(path)


paths = {f.__name__: roll_out(f) for f in (true, inferred, none)}
moved = ((paths["true"] - paths["none"]) ** 2).sum((2, 3))[1:]
missed = ((paths["true"] - paths["inferred"]) ** 2).sum((2, 3))[1:]
ratio = missed.sum(1) / moved.sum(1)
print(f"error of the position after time 1: {ratio[49]:.1e}, after 2: {ratio[99]:.1e}")

# %%
# The error is relative to ignoring the forces. Below, one system of the test set.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
colours = plt.colormaps["viridis"](np.linspace(0, 0.85, 4))
system = int(np.argsort(missed[-1])[len(W) // 2])  # the median one
for body, colour in enumerate(colours):
    for name, style in (("true", "-"), ("inferred", "--"), ("none", ":")):
        x = paths[name][:, system, body].T
        left.plot(*x, style, color=colour, label=name if body == 0 else None)
    left.plot(*paths["true"][0, system, body], "o", color=colour)
left.set(aspect="equal", title="A system under four forces", xlabel="x", ylabel="y")
left.legend()
right.semilogy(0.02 * np.arange(1, 101), ratio)
right.set(xlabel="time", ylabel="squared error / ignoring forces", title="All systems")
plt.show()
