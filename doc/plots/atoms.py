"""The most used atoms of digits."""

from sklearn.datasets import load_digits

from skvn import VectorNetworkTransformer
from skvn.display import AtomsDisplay

X, _ = load_digits(return_X_y=True)
network = VectorNetworkTransformer(48, alpha=0.1, tol=0.01, random_state=0).fit(X[:900])
AtomsDisplay.from_estimator(network, X[:900], n_atoms=16, shape=(8, 8))
