"""
Read concentrations off spectra of unseen mixtures
==================================================

A spectrometer is calibrated with *pure* samples of six substances; then it is shown
mixtures of three. If every line stays at its place, the problem is linear and linear
methods solve it. If a substance's spectrum shifts from sample to sample, it is no
longer one direction but a curve: the network lays atoms along it, and every sample
recruits those at its own place.
"""

# %%
# Spectra from line shapes
# ------------------------
# A substance has five lines. A line is a pseudo-Voigt profile: ``eta`` parts of a
# Lorentzian ``1 / (1 + z²)`` and ``1 - eta`` of a Gaussian ``exp(-z² ln 2)``, where z
# is the distance from the centre in half widths. In every sample the lines of a
# substance shift a little, either together (as with temperature) or each on its own.
# Spectra add up in proportion to the concentrations (Beer and Lambert's law).

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import nnls
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV

from skvn import VectorNetworkRegressor

rng = np.random.default_rng(0)
wavelength = np.linspace(400, 700, 150)  # nm
centre, width = rng.uniform(415, 685, (6, 5)), rng.uniform(4, 9, (6, 5))
height, eta = rng.uniform(0.3, 1, (6, 5)), rng.uniform(0, 1, (6, 5))


def measure(concentration, shift, together, rng, noise=0.02):
    """Noisy spectra of samples, lines shifted by ``shift`` nm (standard deviation)."""
    size = (len(concentration), 6, 1 if together else 5)
    moved = centre + shift * rng.standard_normal(size)
    z = (wavelength - moved[..., None]) / width[..., None]
    mix = eta[..., None]
    lines = mix / (1 + z**2) + (1 - mix) * np.exp(-np.log(2) * z**2)
    pure = (height[..., None] * lines).sum(2)
    spectra = np.einsum("nk,nkw->nw", concentration, pure)
    return spectra + noise * rng.standard_normal(spectra.shape)


amount = rng.uniform(0.2, 1, (300, 6))
c_train = amount * np.eye(6)[np.arange(300) % 6]  # 50 pure samples of each
three = rng.random((200, 6)).argsort(1) < 3
c_test = amount[:200] * three

# %%
# Calibrate on pure samples, read mixtures
# ----------------------------------------
# Classical least squares (NNLS) takes one spectrum per substance.


def classical(X_train, X_test):
    """Nonnegative least squares on the mean spectrum of every substance."""
    pure = np.linalg.lstsq(c_train, X_train)[0].T
    return np.array([nnls(pure, x)[0] for x in X_test])


def predict_with(model):
    """The same for a regressor."""
    return lambda X_train, X_test: model.fit(X_train, c_train).predict(X_test)


network = VectorNetworkRegressor(60, alpha=0.01, fit_intercept=False, random_state=0)
ridge = RidgeCV(np.logspace(-4, 2, 13), fit_intercept=False)
pls = GridSearchCV(PLSRegression(scale=False), {"n_components": [6, 12, 18]})
readers = {
    "NNLS": classical,
    "PLSRegression": predict_with(pls),
    "Ridge": predict_with(ridge),
    "Vector Network": predict_with(network),
}
shifts = [0, 1, 2, 3, 4, 6]
ways = {"lines of a substance shift together": True, "every line on its own": False}
errors = {name: np.empty((len(ways), len(shifts))) for name in readers}
for i, together in enumerate(ways.values()):
    for j, shift in enumerate(shifts):
        draw = np.random.default_rng(1)
        X_train, X_test = (measure(c, shift, together, draw) for c in (c_train, c_test))
        for name, read in readers.items():
            error = read(X_train, X_test) - c_test
            errors[name][i, j] = np.sqrt((error**2).mean())
for i, way in enumerate(ways):
    print(f"RMS error of the concentrations, {way} by {shifts} nm")
    for name, lines in errors.items():
        print(f"  {name:15s}", lines[i].round(4))

# %%
# Where lines stand still, use nonnegative least squares: it is the most accurate here
# and has nothing to tune. Where they shift together, the network errs less than the
# others. Where every line moves on its own there are too many directions for atoms to
# follow, and ridge regression is about as good.

fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
X = measure(c_train, 3, True, np.random.default_rng(1))
for k in range(3):
    axes[0].plot(wavelength, X[k:60:6].T + 1.5 * k, color=f"C{k}", lw=0.5)
axes[0].set(xlabel="wavelength (nm)", ylabel="absorbance, offset", yticks=[])
axes[0].set_title("pure samples of three substances")
for ax, way, lines in zip(
    axes[1:], ways, zip(*errors.values(), strict=True), strict=True
):
    for name, line in zip(errors, lines, strict=True):
        ax.semilogy(shifts, line, "o-", label=name)
    ax.set(title=way, xlabel="shift (nm)", ylabel="RMS error of concentration")
axes[1].sharey(axes[2])
axes[1].legend()
plt.show()
