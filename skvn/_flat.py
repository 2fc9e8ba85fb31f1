"""The flat structure x ~ S g, y = U g as an estimator base: settle, learn, inspect."""

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._base import SettlingEstimator
from ._data import (
    check_scale,
    to_output,
    to_tensor,
    warn_unobserved,
)
from ._params import CONSTRAINTS, check_resumable, layer_sizes
from .core.layer import Layer, contributions, effective_weight
from .core.network import Network, Relevance, settle, settle_relevance
from .core.relevance import choose_floor, learning_floor, start_relevance
from .core.training import Learner, build, mean_square

# Rows looked at to start the atoms or choose the floor; more would change little.
_INIT_ROWS, _FLOOR_ROWS = 10_000, 200
# partial_fit looks for dead atoms once in so many steps.
_RESEED_STEPS = 20


class FlatEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, SettlingEstimator
):
    """Codes of rows by layers of atoms."""

    _parameter_constraints = CONSTRAINTS

    def __sklearn_tags__(self):
        """Codes have the dtype of X."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        """One column per atom, layers from the input upward."""
        above = sum(len(S) for _, S in self.hidden_components_)
        return len(self.components_) + above

    # --- learning --------------------------------------------------------------

    def _fit(self, X, y, sample_weight):
        """Validate, learn, store."""
        self._validate_params()
        warm = self.warm_start and hasattr(self, "components_")
        rows = self._rows(X, y, sample_weight, reset=not warm)
        generator = self._generator()
        train, held_out = self._split(rows)
        learner = self._resume(rows) if warm else self._start(train, generator)
        self._store(self._learn(learner, train, held_out, generator, X, y))
        return self

    def _partial_fit(self, X, y, sample_weight):
        """One pass over the rows, in their order, with the training step of fit."""
        self._validate_params()
        first = not hasattr(self, "components_")
        rows = self._rows(X, y, sample_weight, reset=first)
        generator = self._generator(0 if first else self.n_steps_)
        learner = self._start(rows, generator) if first else self._resume(rows)
        curve = [] if first else self.loss_curve_
        loss = self._stream(learner, rows, generator)
        history = {"loss_curve_": [*curve, loss], "n_iter_": len(curve) + 1}
        self._store({**self._attributes(learner), **history})
        return self

    def _store(self, attributes):
        """Set fitted attributes; drop those that only an earlier fit had."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.endswith("_in_"):
                delattr(self, name)
        super()._store(attributes)

    def _stream(self, learner, rows, generator):
        """Mean loss of Hebb steps over the rows, dead atoms looked after."""
        loss = 0.0
        for batch in rows.batches(self._fit_batch(len(rows))):
            loss += learner.hebb(batch, generator, self._clamp(), self.max_sweeps)
            if learner.n_steps % _RESEED_STEPS == 0:
                learner.reseed(batch, generator)
        return loss / float(rows.weight.sum())

    def _clamp(self):
        """Weight of y in the codes that the Hebb steps learn from."""
        return 0.0

    def _hebb_epoch(self, learner, rows, generator, progress):
        """Mean energy of one shuffled pass of Hebb steps."""
        loss, options = 0.0, (generator, self._clamp(), self.max_sweeps)
        for batch in rows.batches(self._fit_batch(len(rows)), generator):
            loss += learner.hebb(batch, *options)
        learner.reseed(_some(rows, generator).batch(), generator)
        if progress == 0 and learner.net.relevance is not None:
            self._set_floor(learner, rows, learning=True)
        return loss / float(rows.weight.sum())

    def _start(self, rows, generator):
        """A learner whose atoms are rows of the data."""
        batch = _some(rows, generator).batch()
        check_scale(batch)
        warn_unobserved(rows, getattr(self, "feature_names_in_", None))
        sizes = layer_sizes(
            self.n_components, self.hidden_layer_sizes, batch.x.shape[1]
        )
        missing = batch.mask is not None
        solver = self._pick_solver(batch.x.shape[1], len(sizes[0]), missing)
        # The ard settle has no l1 term.
        alpha = self.alpha if solver == "l1" else 0.0
        positive = self.positive_code and solver == "l1"
        options = {"positive": positive, "n_nonzero": self.n_nonzero_coefs}
        net = build(batch, *sizes, alpha, self.activation, generator, **options)
        if solver == "ard":
            floor = 0.0 if self.noise_floor == "auto" else self.noise_floor
            first = sizes[0][0], mean_square(batch), learning_floor(floor), batch.x
            net.relevance = start_relevance(*first)
        return Learner(net, alpha)

    def _pick_solver(self, n_features, depth, missing):
        """What "auto" means for these data; checks what was asked for."""
        if self.solver == "ard":
            if depth > 1:
                raise ValueError(
                    "solver='ard' settles a single layer; use solver='l1' or give "
                    "n_components as one integer."
                )
            if self.n_nonzero_coefs is not None:
                raise ValueError("n_nonzero_coefs needs solver='l1'.")
        return "l1" if self.solver == "auto" else self.solver

    # --- state: NumPy on the estimator, tensors in the core ---------------------

    def _attributes(self, learner, rows=None):
        """Fitted attributes as NumPy; with rows, the noise floor is chosen anew."""
        net = learner.net
        if rows is not None and net.relevance is not None:
            self._set_floor(learner, rows, learning=False)
        array = lambda t: t.cpu().numpy()  # noqa: E731
        pairs = zip(net.layers[:-1], net.layers[1:], strict=True)
        attributes = {
            "components_": array(net.layers[0].S.T),
            "hidden_components_": [(array(a.U.T), array(b.S.T)) for a, b in pairs],
            "lambdas_": np.array([layer.lam for layer in net.layers]),
            "solver_": "l1" if net.relevance is None else "ard",
            "n_steps_": learner.n_steps,
            "device_": str(net.layers[0].S.device),
            "_usage": [array(u) for u in learner.usage],
            "_alpha": self.alpha,
        }
        if net.relevance is not None:
            prior, noise, floor = net.relevance
            attributes["prior_variance_"] = array(prior)
            attributes["noise_"], attributes["noise_floor_"] = noise, floor
        return attributes

    def _set_floor(self, learner, rows, learning):
        """Choose the noise floor to learn or to predict with."""
        generator = torch.Generator().manual_seed(0)
        batch = _some(rows, generator, _FLOOR_ROWS).batch()
        net, power = learner.net, mean_square(batch)
        floor = self.noise_floor
        if floor == "auto":
            floor = choose_floor(net, batch, power, generator)
        floor = learning_floor(floor) if learning else floor
        net.relevance = start_relevance(net.layers[0].n_atoms, power, floor, batch.x)

    def _network(self, device, dtype):
        """The fitted network on a device."""
        put = lambda a: to_tensor(a, device, dtype)  # noqa: E731
        outputs = [U for U, _ in self.hidden_components_] + [self._top()]
        sensing = [self.components_] + [S for _, S in self.hidden_components_]
        layers = [
            Layer(put(s).T, put(u).T, float(lam), self._phi(level))
            for level, (s, u, lam) in enumerate(
                zip(sensing, outputs, self.lambdas_, strict=True)
            )
        ]
        relevance = None
        if self.solver_ == "ard":
            prior = put(self.prior_variance_)
            relevance = Relevance(prior, self.noise_, self.noise_floor_)
        positive = self.positive_code and relevance is None
        return Network(layers, positive, self.n_nonzero_coefs, relevance)

    def _top(self):
        """Output vectors of the top layer, (K, m)."""
        return (
            self.components_ if self._depth() == 1 else self.hidden_components_[-1][1]
        )

    def _depth(self):
        """Number of layers."""
        return 1 + len(self.hidden_components_)

    def _phi(self, level):
        """Activation of a layer's message; the top layer answers without one."""
        return "identity" if level + 1 == self._depth() else self.activation

    def _resume(self, rows):
        """A learner that goes on from the fitted state, with the penalty of today."""
        widths = [U.shape[1] for U, _ in self.hidden_components_]
        atoms = [len(self.components_), *(len(S) for _, S in self.hidden_components_)]
        check_resumable(self, atoms, widths)
        net = self._network(rows.device, rows.dtype)
        for layer in net.layers:
            layer.lam *= self.alpha / self._alpha
        usage = [to_tensor(u, rows.device, rows.dtype) for u in self._usage]
        return Learner(net, self.alpha, usage, n_steps=self.n_steps_)

    # --- inference -------------------------------------------------------------

    def _codes(self, rows):
        """The network on the rows' device, and the rows' codes of every layer."""
        net = self._network(rows.device, rows.dtype)
        options = {"tol": self.transform_tol, "max_sweeps": self.max_sweeps}
        parts = [
            settle(net, b.x, mask=b.mask, **options)
            for b in rows.batches(self._predict_batch())
        ]
        return net, [torch.cat(level) for level in zip(*parts, strict=True)]

    def _posterior(self, rows):
        """Mean of U g, its variance, and s2 of every row."""
        if self.solver_ != "ard":
            raise ValueError(
                "return_std=True needs the posterior of solver='ard'; this "
                f"{type(self).__name__} was fitted with solver='l1'."
            )
        net = self._network(rows.device, rows.dtype)
        batches, U = rows.batches(self._predict_batch()), net.layers[0].U
        parts = [settle_relevance(net, b.x, b.mask, readout=U) for b in batches]
        mean = torch.cat([p.codes for p in parts]) @ U.T
        variance = torch.cat([p.variance for p in parts])
        return mean, variance, torch.cat([p.noise for p in parts])

    def transform(self, X):
        """Sparse codes of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing entries. The code of a row with nothing observed is 0.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Coefficients g of the atoms, in the dtype of X; with several layers the
            codes of all of them side by side, from the input upward.
        """
        rows = self._query(X)
        _, codes = self._codes(rows)
        return to_output(torch.cat(codes, 1), rows.X)

    def atoms(self):
        """The weight atoms A_k = u_k s_k^T of the top layer.

        Returns
        -------
        ndarray of shape (n_components, n_outputs, n_inputs)
            Dense and rank 1. Built on request: it can be large.
        """
        check_is_fitted(self)
        sensing = (
            self.hidden_components_[-1][1] if self._depth() > 1 else (self.components_)
        )
        return self._top()[:, :, None] * sensing[:, None, :]

    def effective_weight(self, X):
        """Weight matrix ``W* = U diag(g) S^T`` that every row composes for itself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_inputs)
            Of the top layer.
        """
        rows = self._query(X)
        net, codes = self._codes(rows)
        layer = net.layers[-1]
        return to_output(effective_weight(layer.S, layer.U, codes[-1]), rows.X)

    def contributions(self, X):
        """Share ``g_k u_k`` of every atom of the top layer in the answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components, n_outputs)
            Summed over atoms: the answer (less the intercept).
        """
        rows = self._query(X)
        net, codes = self._codes(rows)
        return to_output(contributions(net.layers[-1].U, codes[-1]), rows.X)


def _some(rows, generator, count=_INIT_ROWS):
    """At most ``count`` random rows."""
    if len(rows) <= count:
        return rows
    return rows.take(torch.randperm(len(rows), generator=generator)[:count].numpy())
