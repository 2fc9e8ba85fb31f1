"""
Watch a fit and stop it
=======================

All estimators speak scikit-learn's callback protocol, with one task per epoch. Here a
``ScoringMonitor`` logs the score of the training rows and a callback of our own that of
other rows. The gap between the two grows: ``early_stopping`` is for that.
"""

# %%
# A small noisy table
# -------------------
# Two-phase learning can fit it very closely.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.callback import ScoringMonitor
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from skvn import VectorNetworkRegressor
from skvn.display import LossCurveDisplay

X, y = make_friedman1(600, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
network = VectorNetworkRegressor(
    n_components=60, alpha=0.1, learning="contrastive", max_iter=30, random_state=0
)

# %%
# Two callbacks
# -------------
# A callback is any object with these four methods. If ``on_fit_task_end`` returned
# True, the fit would end with the state that it has reached.


class HeldOutScore:
    """Scores rows that fit does not see after every epoch."""

    def __init__(self, X, y):
        self.X, self.y, self.scores = X, y, []

    def setup(self, estimator, context):
        """Nothing to prepare."""

    def teardown(self, estimator, context):
        """Nothing to clear away."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before an epoch."""

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        """Score the network as it is after the epoch."""
        if context.task_name == "epoch":
            self.scores.append(fitted_estimator.score(self.X, self.y))


# %%
# Callbacks are registered with ``set_callbacks`` and do not change the result.
# ``sklearn.callback.ProgressBar`` is set in the same way and needs the package rich.

monitor, held_out = ScoringMonitor(scoring="r2"), HeldOutScore(X_test, y_test)
network.set_callbacks(monitor, held_out).fit(X_train, y_train)
train_scores = [
    row["r2"] for row in monitor.get_logs().data if row["task_name"] == "epoch"
]
for epoch in range(0, network.n_iter_, 10):
    print(
        f"epoch {epoch + 1:2d}: R^2 of training rows {train_scores[epoch]:.3f}, "
        f"of test rows {held_out.scores[epoch]:.3f}"
    )

# %%
# Early stopping
# --------------
# A tenth of the training rows is held out and scored after every epoch. Each of the two
# stages of learning ends when that score has not improved for ``n_iter_no_change``
# epochs, and goes back to its best epoch.

network.set_callbacks().set_params(early_stopping=True, n_iter_no_change=6, tol=3e-3)
network.fit(X_train, y_train)
score = network.score(X_test, y_test)
print(f"R^2 of test rows with early stopping {score:.3f}, ", end="")
print(f"without {held_out.scores[-1]:.3f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
epochs = np.arange(1, len(train_scores) + 1)
left.plot(epochs, train_scores, label="training rows")
left.plot(epochs, held_out.scores, label="test rows")
left.axhline(score, color="0.5", linestyle="--", label="test rows, early stopping")
left.set(xlabel="epoch", ylabel="$R^2$", title="logged by callbacks")
left.legend()
LossCurveDisplay.from_estimator(network, ax=right)
right.set_title("with early stopping")
plt.show()
