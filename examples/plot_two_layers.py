"""
Two layers, and how they settle
===============================

In a network of two layers the second one reads the message of the first. The codes of
both settle together: sweeps go down (the second layer tells the first what it expects)
and up again, until nothing changes. ``max_sweeps`` bounds their number.

The sweeps matter. But on this task, as on the others that we have measured, the second
layer does not pay: one layer is as good or better, and faster.
"""

# %%
# One layer and two
# -----------------
# Digits again, one output per class.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skvn import VectorNetworkRegressor

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, stratify=y, random_state=0
)
Y_train = np.eye(10)[y_train]


def accuracy(network):
    """Share of the test digits whose largest output is their class."""
    return (network.predict(X_test).argmax(1) == y_test).mean()


networks = {}
for sizes in (128, (128, 64)):
    start = time.perf_counter()
    network = VectorNetworkRegressor(sizes, tol=1e-2, random_state=0)
    networks[sizes] = network.fit(X_train, Y_train)
    seconds = time.perf_counter() - start
    print(f"atoms {sizes!s:11s} accuracy {accuracy(network):.3f}, {seconds:.1f} s")

# %%
# What the sweeps do
# ------------------
# ``max_sweeps`` may be changed on the fitted network. With 0 the codes are settled
# once, upward: the first layer does not hear of the second. We compare with the codes
# of many sweeps. (The output weights were fitted to codes of ten sweeps.)

deep = networks[128, 64]
settled = deep.set_params(max_sweeps=40, transform_tol=1e-4).transform(X_test)
sweeps = [0, 1, 2, 3, 5, 10]
distance, scores, active = [], [], []
for n in sweeps:
    codes = deep.set_params(max_sweeps=n).transform(X_test)
    distance.append(((codes - settled) ** 2).sum() / (settled**2).sum())
    active.append((codes[:, 128:] > 0).sum(1).mean())
    scores.append(accuracy(deep))
    print(
        f"{n:3d} sweeps: distance from settled codes {distance[-1]:.5f}, "
        f"{active[-1]:.1f} active atoms in the second layer, accuracy {scores[-1]:.3f}"
    )

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(sweeps, distance, "o-")
left.set(
    yscale="log",
    xlabel="max_sweeps",
    xticks=range(0, 11, 2),
    ylabel="distance from settled codes",
)
right.plot(sweeps, scores, "o-", label="128 and 64 atoms")
right.axhline(accuracy(networks[128]), color="C1", label="one layer of 128 atoms")
right.set(xlabel="max_sweeps", xticks=range(0, 11, 2), ylabel="accuracy on test digits")
right.legend()
plt.show()
