"""
Quick start: digits from a few atoms
====================================

A Vector Network explains every row of ``X`` as a sum of a few learned *atoms*. The
codes, how much of each atom a row takes, are features for any scikit-learn estimator.
"""

# %%
# In a Pipeline
# -------------
# Scale, infer codes, classify: three steps of an ordinary Pipeline.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from skvn import VectorNetworkRegressor, VectorNetworkTransformer

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

network = VectorNetworkTransformer(n_components=128, random_state=0)
pipeline = make_pipeline(MaxAbsScaler(), network, LogisticRegression(max_iter=2000))
pipeline.fit(X_train, y_train)
pixels = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=2000))
pixels.fit(X_train, y_train)
print(f"test accuracy, codes  {pipeline.score(X_test, y_test):.3f}")
print(f"test accuracy, pixels {pixels.score(X_test, y_test):.3f}")

# %%
# As a regressor, in two lines
# ----------------------------
# From the upper half of a digit to its lower half: 32 outputs at once.

regressor = VectorNetworkRegressor(n_components=128, random_state=0)
regressor.fit(X_train[:, :32], X_train[:, 32:])
print(f"test R² {regressor.score(X_test[:, :32], X_test[:, 32:]):.2f}")

# %%
# A digit is the sum of its atoms
# -------------------------------
# The codes of a digit are mostly zero. The few atoms that it does recruit, each times
# its code, add up to the digit.

scaler, network = pipeline[0], pipeline[1]
digit = scaler.transform(X_test[:1])
codes = network.transform(digit)[0]
parts = codes[:, None] * network.components_
print(f"{np.count_nonzero(codes)} of {len(codes)} codes are active")

largest = np.argsort(-codes)[:6]
images = {"digit": digit[0]}
images |= {f"{codes[k]:.2f} × atom {k}": parts[k] for k in largest}
images |= {"sum of these": parts[largest].sum(0), "sum of all": parts.sum(0)}

fig, axes = plt.subplots(1, len(images), figsize=(12, 1.6), layout="constrained")
for ax, (title, image) in zip(axes, images.items(), strict=True):
    limit = abs(image).max()  # an atom is shown in its own range
    ax.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set_title(title, fontsize=9)
    ax.set_axis_off()
plt.show()
