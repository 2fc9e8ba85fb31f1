"""When to stop, and which state to keep."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Progress:
    """Stops a run of epochs once its loss (or validation score) has settled.

    Parameters
    ----------
    tol : float
        Smallest relative improvement that counts.
    patience : int
        Epochs without such an improvement before stopping.
    keep_best : bool
        Whether to remember the state of the best epoch.
    """

    tol: float
    patience: int
    keep_best: bool = False
    best: float = np.inf
    stale: int = 0
    best_state: object = field(default=None, repr=False)

    def update(self, value, state):
        """Record one epoch; True once there was no progress for too long.

        Parameters
        ----------
        value : float
            Lower is better.
        state : callable
            Returns what ``best_state`` shall hold; called only on improvement.

        Returns
        -------
        bool
        """
        if self.keep_best and value < self.best:
            self.best_state = state()
        enough = value < self.best - self.tol * abs(self.best)
        self.stale = 0 if enough or not np.isfinite(self.best) else self.stale + 1
        self.best = min(self.best, value)
        return self.stale >= self.patience
