"""
Choose the penalty and the number of atoms
==========================================

``alpha`` trades error for sparsity: a larger penalty leaves fewer atoms active. It is a
share of the size of the rows, so that one grid serves data of any scale. This example
searches ``alpha`` and ``n_components`` as for any scikit-learn estimator, and draws
what the penalty does on the way.
"""

# %%
# Search
# ------
# The codes go to a classifier, whose cross-validated accuracy chooses. Two more scores
# are only recorded.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from skvn import VectorNetworkTransformer

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    np.float32(X), y, train_size=1000, random_state=0, stratify=y
)

pipeline = Pipeline(
    [
        ("scale", MaxAbsScaler()),
        ("network", VectorNetworkTransformer(max_iter=20, tol=0.01, random_state=0)),
        ("classify", LogisticRegression(C=10, max_iter=2000)),
    ]
)


def error(pipeline, X, y):
    """Squared error of the reconstruction, as a share of the energy."""
    X = pipeline["scale"].transform(X)
    return -pipeline["network"].score(X) / np.mean(X**2)


def active(pipeline, X, y):
    """Mean number of active atoms per row."""
    return np.count_nonzero(pipeline[:-1].transform(X), axis=1).mean()


alphas, sizes = [0.01, 0.03, 0.1, 0.3], [32, 64, 128]
grid = {"network__alpha": alphas, "network__n_components": sizes}
scoring = {"accuracy": "accuracy", "error": error, "active": active}
search = GridSearchCV(pipeline, grid, scoring=scoring, refit="accuracy", cv=3)
search.fit(X_train, y_train)
print(search.best_params_)
print(f"accuracy, cross-validated {search.best_score_:.3f}")
print(f"accuracy, test {search.score(X_test, y_test):.3f}")

# %%
# Error and active atoms against alpha
# ------------------------------------
# On rows that were held out. The reconstruction always prefers the smallest penalty.
# The classifier does not: its accuracy is flat over a decade of ``alpha``.

labels = {
    "error": "squared error / energy",
    "active": "active atoms per digit",
    "accuracy": "accuracy",
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for ax, (metric, label) in zip(axes, labels.items(), strict=True):
    table = search.cv_results_[f"mean_test_{metric}"].reshape(len(alphas), len(sizes))
    ax.semilogx(alphas, table, "o-", label=[f"{k} atoms" for k in sizes])
    ax.set(xlabel="alpha", ylabel=label)
axes[0].set_ylim(0)
axes[1].set_ylim(0)
axes[0].legend()
plt.show()
