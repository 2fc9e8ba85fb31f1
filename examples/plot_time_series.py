"""
Fill gaps in sensor records, with error bars
============================================

Four sensors watch one machine. Now and then a sensor drops out for a while. What did it
read? The others saw the same events, and the network says how sure it is: its bands
are checked against the values that were hidden.
"""

# %%
# A machine and its sensors
# -------------------------
# Switching on, load steps and knocks happen at any time and overlap. Each has its own
# course and reaches every sensor with its own strength (and sign).

import matplotlib.pyplot as plt
import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from skvn import VectorNetworkTransformer

rng = np.random.default_rng(0)
N_STEPS, N_SENSORS, WIDTH = 8000, 4, 16
lag = np.arange(60)
courses = {
    "warming": np.exp(-lag / 15),
    "load": np.where(lag < 12, 1.0, 0.0),
    "knock": np.exp(-lag / 6) * np.sin(0.9 * lag),
}
gains = rng.normal(size=(len(courses), N_SENSORS))
record = np.zeros((N_STEPS, N_SENSORS))
for course, gain in zip(courses.values(), gains, strict=True):
    events = (rng.random(N_STEPS) < 1 / 40) * rng.uniform(0.5, 1.5, N_STEPS)
    record += np.convolve(events, course)[:N_STEPS, None] * gain
record /= record.std(0)
measured = record + 0.1 * rng.standard_normal(record.shape)

# %%
# Windows
# -------
# A row of ``X`` is a window of 16 steps of all sensors, 64 numbers. In a random stretch
# of every window one sensor is silent, in training as well: NaN needs no special care.


def windows(series):
    """Consecutive windows as rows."""
    return series.reshape(-1, WIDTH * N_SENSORS)


truth, X = windows(measured), windows(measured).copy()
for row in X.reshape(-1, WIDTH, N_SENSORS):
    length = rng.integers(4, WIDTH + 1)
    start = rng.integers(WIDTH - length + 1)
    row[start : start + length, rng.integers(N_SENSORS)] = np.nan
train, test = slice(300), slice(300, None)

# %%
# Fill, and check the bands
# -------------------------

network = VectorNetworkTransformer(96, solver="ard", tol=0.02, random_state=0)
network.fit(np.float32(X[train]))
filled, std = network.reconstruct(np.float32(X[test]), return_std=True)
hidden = np.isnan(X[test])
z = ((filled - truth[test]) / std)[hidden]
for width, nominal in ((1, 0.683), (2, 0.954), (3, 0.997)):
    print(f"within {width} std: {(abs(z) < width).mean():.3f} (normal: {nominal})")


def interpolate(X):
    """Every sensor on its own, linearly in time."""
    series = X.reshape(-1, N_SENSORS).copy()
    time = np.arange(len(series))
    for sensor in series.T:
        seen = ~np.isnan(sensor)
        sensor[~seen] = np.interp(time[~seen], time[seen], sensor[seen])
    return series.reshape(X.shape)


iterative = IterativeImputer(tol=0.05).fit(X[train])
knn = KNNImputer(n_neighbors=5, weights="distance").fit(X[train])
answers = {
    "interpolation in time": interpolate(X[test]),
    "KNNImputer": knn.transform(X[test]),
    "IterativeImputer": iterative.transform(X[test]),
    "Vector Network": filled,
}
for name, answer in answers.items():
    error = (answer - truth[test])[hidden]
    print(f"{name:22s} RMS error {np.sqrt((error**2).mean()):.3f}")

# %%
# At one standard deviation the bands hold what they should, further out less: the
# errors have longer tails than a normal distribution. Below, a stretch of the record.

SHOWN = slice(0, 8)
fig, axes = plt.subplots(N_SENSORS, sharex=True, figsize=(9, 6), layout="constrained")
views = [a[SHOWN].reshape(-1, N_SENSORS).T for a in (truth[test], filled, std, hidden)]
time = np.arange(len(views[0][0]))
for j, (ax, y, y_hat, s, gone) in enumerate(zip(axes, *views, strict=True)):
    low, high = np.where(gone, [y_hat - 2 * s, y_hat + 2 * s], np.nan)
    ax.fill_between(time, low, high, color="C1", alpha=0.3, label="± 2 std")
    ax.plot(time, np.where(gone, y_hat, np.nan), "C1", label="filled")
    ax.plot(time, np.where(gone, np.nan, y), "k", lw=1, label="measured")
    ax.plot(time, np.where(gone, y, np.nan), "k.", ms=3, label="hidden")
    ax.set_ylabel(f"sensor {j + 1}")
axes[0].legend(ncols=4, fontsize=8)
axes[-1].set_xlabel("time step")
plt.show()
