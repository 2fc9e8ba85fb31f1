"""A hidden block of a signal, filled by both solvers."""

import matplotlib.pyplot as plt
import numpy as np

from skvn import VectorNetworkTransformer
from skvn.datasets import hide_entries, make_functions

X, _ = make_functions(200, "train", random_state=0)
X_new, clean = make_functions(4, "pairs", random_state=4)
X_missing = hide_entries(X_new, random_state=2)[1]
options = {"n_components": 32, "tol": 0.01, "random_state": 0}
l1 = VectorNetworkTransformer(solver="l1", **options).fit(X)
ard = VectorNetworkTransformer(solver="ard", **options).fit(X)
mean, std = (a[0] for a in ard.reconstruct(X_missing[None], return_std=True))

t = np.linspace(-1, 1, len(mean))
fig, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
ax.plot(t, clean[1], color="#999999", lw=3, label="true")
ax.plot(t, X_missing, "k.", ms=5, label="observed")
ax.plot(t, l1.reconstruct(X_missing[None])[0], color="#a85a1f", label="l1")
ax.plot(t, mean, color="#1f5fa8", label="ard, 2 standard deviations")
ax.fill_between(t, mean - 2 * std, mean + 2 * std, color="#1f5fa8", alpha=0.2)
ax.legend(ncols=4, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1))
