"""The Vector Networks of the function task."""

from functools import partial

import numpy as np
from _functions_data import N_POINTS, hide_either
from _runner import Method, count_parameters
from baselines.dictionary import SparseDictionary, refit

from skvn import VectorNetworkRegressor, VectorNetworkTransformer

# The paper's settle. At prediction this alpha filled ID signals of another seed better
# than .002; training with it was not compared.
L1 = {"solver": "l1", "alpha": 0.0005, "positive_code": False}
ARD = {"solver": "ard"}


class Filler:
    """A network that fills holes by its own reconstruction, learnt from full rows.

    ``atoms(X)``, if given, replace those that it learnt.
    """

    def __init__(self, network, atoms=None):
        self.network, self.atoms = network, atoms

    def fit(self, X, y=None):
        """In float32."""
        self.network.fit(np.float32(X))
        if self.atoms is not None:
            self.network.components_ = np.float32(self.atoms(X))
        self.n_parameters = count_parameters(self.network)
        self.budget = f"{self.network.n_iter_} epochs"
        return self

    def predict(self, X):
        """Rows as the atoms explain them."""
        return self.network.reconstruct(np.float32(X))


class Largest(Filler):
    """Only the ``n_code`` largest codes are kept, and refitted."""

    def __init__(self, network, n_code):
        super().__init__(network)
        self.n_code = n_code

    def predict(self, X):
        """Rows as few atoms explain them."""
        codes, D = self.network.transform(np.float32(X)), self.network.components_
        chosen = np.argsort(-np.abs(codes), axis=1)[:, : self.n_code]
        return refit(D, X, chosen) @ D


class Team:
    """Networks with different starts; an entry weighs them by their certainty of it."""

    def __init__(self, networks):
        self.networks = networks

    def fit(self, X, y=None):
        """One after the other."""
        for network in self.networks:
            network.fit(np.float32(X))
        self.n_parameters = sum(map(count_parameters, self.networks))
        self.budget = f"{[network.n_iter_ for network in self.networks]} epochs"
        return self

    def predict(self, X):
        """Mean with inverse variances as weights."""
        X = np.float32(X)
        answers = [n.reconstruct(X, return_std=True) for n in self.networks]
        means, stds = (np.array(part) for part in zip(*answers, strict=True))
        return np.average(means, axis=0, weights=stds**-2.0)


class Answerer(Filler):
    """A regressor from rows with holes to full rows."""

    def __init__(self, network, seed):
        super().__init__(network)
        self.seed = seed

    def fit(self, X, y=None):
        """On one copy of every row with holes."""
        self.network.fit(np.float32(hide_either(X, self.seed)), np.float32(X))
        self.n_parameters = count_parameters(self.network)
        self.budget = f"{self.network.n_iter_} epochs"
        return self

    def predict(self, X):
        """Full rows."""
        return self.network.predict(np.float32(X))


def network(kind, K, seed, run, max_iter=50, **settings):
    """An unfitted estimator."""
    settings["max_iter"] = min(max_iter, 2) if run.quick else max_iter
    return kind(K, random_state=seed, device=run.device, **settings)


def filler(K, atoms=None, **settings):
    """Maker of a Filler."""
    build = partial(network, VectorNetworkTransformer, K, **settings)
    return lambda seed, run: Filler(build(seed, run), atoms)


def answerer(K, **settings):
    """Maker of an Answerer."""
    build = partial(network, VectorNetworkRegressor, K, fit_intercept=False, **settings)
    return lambda seed, run: Answerer(build(seed, run), seed)


def team(K, size, **settings):
    """Maker of a Team."""
    build = partial(network, VectorNetworkTransformer, K, **settings)
    return lambda seed, run: Team([build(100 * seed + i, run) for i in range(size)])


def vector_networks(K):
    """The project's best."""
    three = team(K, 3, max_iter=4, **ARD)
    return [
        Method("VN ard", "vn", filler(K, **ARD), f"K={K}"),
        Method(
            "VN ard, 3 networks", "vn", three, f"K={K} each, 4 epochs", tables=False
        ),
    ]


def more_vector_networks(K):
    """The plain recipe and its variants."""
    deep = L1 | {"alpha": 0.005, "hidden_layer_sizes": N_POINTS}
    deep |= {"max_sweeps": 3, "max_iter": 2, "transform_tol": 1e-2}
    contrast = {"learning": "contrastive", "max_iter": 3}
    rows = {
        "VN l1": (filler(K, max_iter=3, **L1), f"K={K}"),
        "VN l1, 2 layers": (filler([K, K // 2], **deep), f"K={K} and {K // 2}"),
        "VN regressor, clamped Hebb": (
            answerer(K, beta=1.0, max_iter=3, **L1),
            f"K={K}, beta=1, from rows with holes",
        ),
        "VN regressor, contrastive": (
            answerer(K, **contrast, **L1),
            f"K={K}, from rows with holes",
        ),
    }
    return [
        Method(name, "vn", make, text, tables=name == "VN l1")
        for name, (make, text) in rows.items()
    ]


def ablations(K):
    """What the settle, the learning and the number of atoms each give."""
    start = ARD | {"max_iter": 1}
    rows = {
        "training signals as atoms": filler(K, partial(rows_as_atoms, K), **start),
        "scikit-learn's atoms": filler(K, partial(sklearn_atoms, K), **start),
        "l1 settle, ard's atoms": filler(K, partial(ard_atoms, K), **L1, max_iter=1),
        "half as many atoms": filler(K // 2, **ARD),
    }
    return [
        Method(f"VN ablation: {name}", "vn", make, f"K={K}", tables=False)
        for name, make in rows.items()
    ]


def rows_as_atoms(K, X):
    """Random training signals at unit length."""
    rows = X[np.random.default_rng(0).permutation(len(X))[:K]]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sklearn_atoms(K, X):
    """Those of the baseline "dictionary + lasso"."""
    return SparseDictionary(K).fit(X).atoms_


def ard_atoms(K, X):
    """Those of "VN ard"."""
    network = VectorNetworkTransformer(K, random_state=0, **ARD)
    return network.fit(np.float32(X)).components_


def coding_networks(K, n_code):
    """Rows to ``n_code`` numbers and back."""
    build = partial(network, VectorNetworkTransformer, K, **ARD)
    return [
        Method(
            "VN l1",
            "vn",
            filler(K, n_nonzero_coefs=n_code, max_iter=3, **L1),
            f"K={K}, n_nonzero_coefs={n_code}",
        ),
        Method(
            "VN ard, largest codes",
            "vn",
            lambda seed, run: Largest(build(seed, run), n_code),
            f"K={K}, the {n_code} largest codes refitted",
        ),
    ]
