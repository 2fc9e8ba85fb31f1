"""Test folds of CombinationKFold on a table of two factors."""

import matplotlib.pyplot as plt
import numpy as np

from skvn.model_selection import CombinationKFold

factors = np.array([(r, c) for r in range(12) for c in range(12)])
fig, axes = plt.subplots(1, 2, figsize=(5.2, 2.6), layout="constrained")
for ax, contiguous in zip(axes, [False, True], strict=True):
    fold = np.zeros(len(factors))
    cv = CombinationKFold(3, contiguous=contiguous, random_state=0)
    for k, (_, test) in enumerate(cv.split(factors, groups=factors)):
        fold[test] = k
    ax.imshow(fold.reshape(12, 12), cmap="Set2", vmin=0, vmax=7)
    ax.set(title=f"contiguous={contiguous}", xticks=[], yticks=[])
    ax.set(xlabel="levels of factor 2", ylabel="levels of factor 1")
