"""
Learn from a stream
===================

``partial_fit`` takes learning steps on the rows it is given and then forgets the rows.
What matters is how many rows come at a time: chunks should hold a hundred or more.
"""

# %%
# A stream of signals
# -------------------
# Every signal is a sine, a cosine, a cubic or a bump, or the sum of two of them, with
# noise. The network predicts the middle 16 of 64 points from the others.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.utils import gen_batches

from skvn import VectorNetworkRegressor
from skvn.datasets import make_functions

hidden = slice(24, 40)
shown = np.r_[0:24, 40:64]
stream, _ = make_functions(3000, "train", noise=0.05, random_state=0)
noisy, clean = make_functions(300, "id_pairs", noise=0.05, random_state=1)
X, y = stream[:, shown], stream[:, hidden]

network = VectorNetworkRegressor(
    n_components=64,
    alpha=0.1,
    positive_code=False,
    fit_intercept=False,
    tol=1e-2,
    random_state=0,
)


def error(network):
    """Squared error on test signals as a share of their energy."""
    r = network.predict(noisy[:, shown]) - clean[:, hidden]
    return (r**2).sum() / (clean[:, hidden] ** 2).sum()


# %%
# The same rows in chunks of different size
# -----------------------------------------
# Three things go wrong with small chunks. The first one has to start all atoms. Every
# call is at least one learning step, and a step on a handful of rows is a noisy one.
# And the output weights rest on about the last twenty calls.

curves = {}
for size in (10, 30, 100, 300):
    learner, seen, errors = clone(network), [], []
    for chunk in gen_batches(len(X), size):
        learner.partial_fit(X[chunk], y[chunk])
        if chunk.stop % 300 == 0:
            seen.append(chunk.stop)
            errors.append(error(learner))
    curves[size] = seen, errors
    print(f"chunks of {size:3d}: {learner.n_steps_:3d} steps, error {errors[-1]:.3f}")

# %%
# With all rows at hand ``fit`` goes over them several times, and is better.

full = error(clone(network).fit(X, y))
print(f"fit:                       error {full:.3f}")

fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
colours = plt.colormaps["viridis"](np.linspace(0, 0.85, len(curves)))
for (size, (seen, errors)), colour in zip(curves.items(), colours, strict=True):
    ax.plot(seen, errors, "o-", markersize=3, color=colour, label=f"chunks of {size}")
ax.axhline(full, color="0.5", linestyle="--", label="fit on all rows")
ax.set(xlabel="rows seen", ylabel="error on test signals", ylim=(0, None))
ax.legend()
plt.show()
