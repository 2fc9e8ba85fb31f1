"""Active atoms and reconstruction error against alpha."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skvn import VectorNetworkTransformer

X, _ = load_digits(return_X_y=True)
X_train, X_test = X[:600], X[600:900]
alphas = [0.01, 0.03, 0.1, 0.3]
active, error = [], []
for alpha in alphas:
    network = VectorNetworkTransformer(64, alpha=alpha, tol=0.01, random_state=0)
    codes = network.fit(X_train).transform(X_test)
    X_hat = network.inverse_transform(codes)
    active.append((codes != 0).sum(1).mean())
    error.append(np.square(X_hat - X_test).sum() / np.square(X_test).sum())

fig, axes = plt.subplots(1, 2, figsize=(6.5, 2.3), layout="constrained")
labels = ["active atoms of a digit", "relative squared error"]
for ax, values, label in zip(axes, [active, error], labels, strict=True):
    ax.semilogx(alphas, values, "o-", color="#1f5fa8")
    ax.set(xlabel="alpha", ylabel=label, ylim=(0, None))
    ax.set_xticks(alphas, alphas)
    ax.minorticks_off()
