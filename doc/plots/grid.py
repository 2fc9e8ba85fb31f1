"""A ring drawn where training has shown none."""

import matplotlib.pyplot as plt
import numpy as np

from skvn import VectorNetworkGridRegressor
from skvn.datasets import make_spatial

SIZE = 18
data = make_spatial("ring", size=SIZE, random_state=0)
groups = (slice(SIZE), slice(SIZE, None))
model = VectorNetworkGridRegressor((SIZE, SIZE), input_groups=groups, random_state=0)
model.fit(data.X[data.train], data.y[data.train])
row = data.ood[len(data.ood) // 2]
places = np.zeros((SIZE, SIZE))
places[tuple(data.positions[data.train].T[::-1])] = 1

panels = {
    "positions in training": places,
    "an image in training": data.y[data.train[0]],
    "drawn, in the middle": model.predict(data.X[[row]])[0],
    "true": data.y[row],
}
fig, axes = plt.subplots(1, 4, figsize=(7.5, 2.1), layout="constrained")
for ax, (title, image) in zip(axes, panels.items(), strict=True):
    ax.imshow(image.reshape(SIZE, SIZE), cmap="Greys")
    ax.set(title=title, xticks=[], yticks=[])
