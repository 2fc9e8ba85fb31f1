"""Filling and denoising images: learning from clean images, and a Gaussian filter."""

import numpy as np
from _runner import count_parameters
from scipy.ndimage import gaussian_filter


class FromClean:
    """Learns from the clean images alone; fills at prediction."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        """On every training image once."""
        clean = np.unique(y, axis=0)
        self.model.fit(clean, clean)
        self.n_parameters = count_parameters(self.model)
        self.budget = getattr(self.model, "budget", "")
        return self

    def predict(self, X):
        """Complete images."""
        fills = hasattr(self.model, "reconstruct")
        return (self.model.reconstruct if fills else self.model.predict)(X)


class Filter:
    """Gaussian filter of the observed pixels over that of the mask."""

    n_parameters = 0

    def __init__(self, sigma, support):
        self.sigma, self.support = sigma, support

    def fit(self, X, y):
        """Nothing to learn."""
        return self

    def predict(self, X):
        """Smoothed images."""
        size = round(X.shape[1] ** 0.5)
        image, mask = (
            gaussian_filter(a.reshape(-1, size, size), (0, self.sigma, self.sigma))
            for a in (np.nan_to_num(X), 1.0 - np.isnan(X))
        )
        return (image / np.maximum(mask, self.support)).reshape(len(X), -1)
