"""
Time the CPU against a GPU
==========================

Times ``fit`` and ``transform`` of the transformer at three sizes on the CPU and, if
there is one, on a CUDA device. Run it where you mean to compute::

    python examples/gpu_timing.py

The documentation lists this example without running it. Small problems are faster on
the CPU: a settle is many short steps, and each has to be started on the device.
"""

# %%
# Rows are sums of three out of ``n_components`` directions, and noise.

from time import perf_counter

import numpy as np
import torch

from skvn import VectorNetworkTransformer

SIZES = ((1_000, 64, 128), (4_000, 128, 256), (16_000, 256, 512))


def make_rows(n_samples, n_features, n_components, rng):
    """Sparse nonnegative sums of random directions, float32."""
    atoms = rng.standard_normal((n_components, n_features)) / n_features**0.5
    rows = 0.01 * rng.standard_normal((n_samples, n_features))
    for _ in range(3):
        strength = rng.uniform(0.5, 1.5, (n_samples, 1))
        rows += strength * atoms[rng.integers(n_components, size=n_samples)]
    return rows.astype(np.float32)


def seconds(call, *args):
    """Wall time of a call. Results come back as NumPy arrays, so it has finished."""
    start = perf_counter()
    call(*args)
    return perf_counter() - start


# %%
# The first use of a device takes seconds to start it, so a small fit goes first. With
# ``tol=1`` no epoch counts as progress: fit stops after ``n_iter_no_change`` of them,
# the same number on every device.

devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
print("    rows  features  atoms  device    fit (s)  transform (s)")
for size in SIZES:
    X = make_rows(*size, np.random.default_rng(0))
    for device in devices:
        network = VectorNetworkTransformer(
            size[2], tol=1, n_iter_no_change=3, device=device, random_state=0
        )
        network.fit(X[:500])
        times = seconds(network.fit, X), seconds(network.transform, X)
        print("{:8d}{:10d}{:7d}".format(*size), f" {device:6s}", end="")
        print("{:11.2f}{:15.2f}".format(*times))
if len(devices) == 1:
    print("No CUDA device here.")
