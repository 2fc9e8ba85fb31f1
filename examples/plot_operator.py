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
# the motion is integrated from the last state seen. The rival fits a ridge regression
# to the 16 rows of each system, with the penalty that is best on the training systems.


def ridge_laws(X, penalty):
    """One operator per system from its observed rows, (n, 1, 10)."""
    rows = X[:, : 16 * 11].reshape(-1, 16, 11)
    z, a = rows[..., :10], rows[..., 10:]
    return np.linalg.solve(z.mT @ z + penalty * np.eye(10), z.mT @ a).mT


def ridge_error(penalty):
    """Squared error of the answers to the training systems."""
    queries = train.X[:, 16 * 11 :].reshape(-1, 8, 10)
    return ((queries @ ridge_laws(train.X, penalty).mT)[..., 0] - train.y).var()


penalty = min(np.logspace(-4, 1, 11), key=ridge_error)
laws = {
    "Vector Network": model.effective_weight(test.X),
    "ridge per system": ridge_laws(test.X, penalty),
    "no forces": np.zeros((200, 1, 10)),
}


def roll_out(acceleration, n_steps=100, h=0.02):
    """Positions by the midpoint rule, (n_steps + 1, n, 4, 2)."""
    x, v = test.positions[:, -1], test.velocities[:, -1]
    path = [x]
    for _ in range(n_steps):
        x_half, v_half = x + h / 2 * v, v + h / 2 * acceleration(x, v)
        x, v = x + h * v_half, v + h * acceleration(x_half, v_half)
        path.append(x)
    return np.stack(path)


def under(W):
    """Accelerations by the operators W."""
    return lambda x, v: (nbody_features(x, v, test.present) @ W.mT).reshape(x.shape)


true = roll_out(lambda x, v: nbody_accelerations(x, v, test.strength, test.present))
paths = {name: roll_out(under(W)) for name, W in laws.items()}
missed = {name: ((x - true) ** 2).sum((2, 3)) for name, x in paths.items()}
for name, squares in missed.items():
    after = np.sqrt(np.median(squares[[50, 100]], 1) / 4)
    print(
        f"{name:17s} median error of a position after 1: %.3f, after 2: %.3f"
        % (*after,)
    )

# %%
# Left, the system with the median error of the ridge regression; right, all systems.
# A Gaussian prior over operators that is estimated from the training systems is a
# stronger rival than ridge; the benchmarks have it.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
system = int(np.argsort(missed["ridge per system"][-1])[100])
styles = {"Vector Network": "--", "ridge per system": ":"}
for body, colour in enumerate(plt.colormaps["viridis"](np.linspace(0, 0.85, 4))):
    left.plot(*true[:, system, body].T, color=colour, label="true" if body == 0 else "")
    left.plot(*true[0, system, body], "o", color=colour)
    for name, style in styles.items():
        x = paths[name][:, system, body].T
        left.plot(*x, style, color=colour, lw=2, label=name if body == 0 else "")
left.set_aspect("equal", adjustable="datalim")
left.set(title="One system under four forces", xlabel="x", ylabel="y")
left.legend(fontsize=8)
for name, squares in missed.items():
    right.semilogy(
        0.02 * np.arange(101), np.sqrt(np.median(squares, 1) / 4), label=name
    )
right.set(title="200 systems", xlabel="time", ylabel="median error of a position")
right.set_ylim(1e-3)
right.legend()
plt.show()
