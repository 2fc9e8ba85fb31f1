"""Draw the picture of the README and the first page: python doc/first_page.py."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.interpolate import griddata
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import reconstruct_from_patches_2d

from skvn import VectorNetworkTransformer, datasets

photo = load_sample_image("china.jpg")[60:200, 190:400].mean(2)
lost = datasets.hide_entries(photo, "random", random_state=0)
patches = sliding_window_view(lost, (6, 6)).reshape(-1, 36)
network = VectorNetworkTransformer(64, random_state=0).fit(patches[::20])
filled = network.reconstruct(patches).reshape(-1, 6, 6)
picture = reconstruct_from_patches_2d(filled, photo.shape)

hidden = np.isnan(lost)
seen = np.argwhere(~hidden), lost[~hidden]
linear = np.where(hidden, np.nan, photo)
linear[hidden] = griddata(*seen, np.argwhere(hidden), "linear")
corner = np.isnan(linear)
linear[corner] = griddata(*seen, np.argwhere(corner), "nearest")


def error(image):
    """Squared error of the lost pixels as a share of their variance."""
    return np.square(image - photo)[hidden].mean() / photo[hidden].var()


panels = {
    "half of the pixels are lost": lost,
    f"filled by 64 atoms (error {error(picture):.3f})": picture,
    f"linear interpolation (error {error(linear):.3f})": linear,
    "the photograph": photo,
}
fig, axes = plt.subplots(2, 2, figsize=(8.4, 6.1), layout="constrained")
for axis, (title, image) in zip(axes.flat, panels.items(), strict=True):
    axis.imshow(image, cmap="gray", vmin=0, vmax=255)
    axis.set_title(title, fontsize=11)
    axis.set_axis_off()
fig.savefig(Path(__file__).parent / "_static" / "first_page.jpg", dpi=100)
print({title: image.shape for title, image in panels.items()})
