"""VectorNetworkTransformer: rows to sparse atom codes and back."""

import numpy as np
import torch
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_array, check_is_fitted

from ._base import unchanged_on_error
from ._data import to_output, to_tensor
from ._flat import FlatEstimator
from .core.network import reconstruction, settle, settle_relevance

# ard factorises one d x d matrix per row: beyond this many features "auto" keeps l1.
_MAX_ARD_FEATURES = 256


class VectorNetworkTransformer(FlatEstimator):
    """TODO."""

    def __init__(
        self,
        n_components="auto",
        *,
        alpha=0.03,
        solver="auto",
        positive_code=True,
        n_nonzero_coefs=None,
        hidden_layer_sizes=None,
        activation="identity",
        max_sweeps=10,
        noise_floor="auto",
        max_iter=50,
        tol=1e-3,
        n_iter_no_change=3,
        batch_size="auto",
        early_stopping=False,
        validation_fraction=0.1,
        transform_tol=1e-3,
        warm_start=False,
        random_state=None,
        device="auto",
        verbose=False,
    ):
        self.n_components = n_components
        self.alpha = alpha
        self.solver = solver
        self.positive_code = positive_code
        self.n_nonzero_coefs = n_nonzero_coefs
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.max_sweeps = max_sweeps
        self.noise_floor = noise_floor
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.transform_tol = transform_tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @unchanged_on_error
    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn atoms from the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing entries.
        y : Ignored
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice.

        Returns
        -------
        VectorNetworkTransformer
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid; the estimator is left as it was.
        """
        return self._fit(X, None, sample_weight)

    @unchanged_on_error
    def partial_fit(self, X, y=None, sample_weight=None):
        """Take one pass of learning steps over a further batch of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        VectorNetworkTransformer
        """
        return self._partial_fit(X, None, sample_weight)

    def _pick_solver(self, n_features, depth, missing):
        """With missing entries, "auto" takes the settle that fills them better."""
        fits = depth == 1 and n_features <= _MAX_ARD_FEATURES
        if self.solver == "auto" and missing and fits and self.n_nonzero_coefs is None:
            return "ard"
        return super()._pick_solver(n_features, depth, missing)

    def _stages(self):
        """Only Hebb steps: a contrast would make reconstruction worse."""
        return [self._hebb_epoch]

    def _validation_score(self, learner, rows, held_out):
        """Minus the mean squared error of held-out observed entries."""
        total = count = 0.0
        for b in held_out.batches(self._predict_batch()):
            codes = settle(learner.net, b.x, mask=b.mask, max_sweeps=self.max_sweeps)
            x_hat = reconstruction(learner.net.layers[0], codes[0])
            error, seen = _squared_error(b, x_hat)
            total, count = total + error, count + seen
        return -total / count

    def inverse_transform(self, X):
        """Rows that the codes stand for: ``S g``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Codes as from ``transform``.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        codes = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        if codes.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {codes.shape[1]} features, but inverse_transform expects "
                f"{self._n_features_out} codes per row."
            )
        g = to_tensor(codes[:, : len(self.components_)], torch.device("cpu"))
        return to_output(g @ to_tensor(self.components_, g.device, g.dtype), codes)

    def reconstruct(self, X, return_std=False):
        """Rows as the atoms explain them, missing entries filled.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing entries.
        return_std : bool, default=False
            Also return the standard deviation of every entry (solver "ard" only).

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n_features)
            ``S g`` for every entry, observed or not. To keep the observed ones use
            ``np.where(np.isnan(X), X_hat, X)``.
        std : ndarray of shape (n_samples, n_features)
            Only with ``return_std``: posterior and noise variance together.

        Raises
        ------
        ValueError
            If ``return_std`` is asked of the l1 settle, which has no posterior.
        """
        rows = self._query(X)
        if return_std:
            mean, variance, noise = self._posterior(rows)
            std = (variance + noise[:, None]).sqrt()
            return to_output(mean, rows.X), to_output(std, rows.X)
        net, codes = self._codes(rows)
        return to_output(reconstruction(net.layers[0], codes[0]), rows.X)

    def score(self, X, y=None, sample_weight=None):
        """Minus the mean squared error of the observed entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        rows = self._rows(X, None, sample_weight, reset=False)
        net, codes = self._codes(rows)
        x_hat = reconstruction(net.layers[0], codes[0])
        error, seen = _squared_error(rows.batch(), x_hat)
        return -error / seen


def _squared_error(batch, x_hat):
    """Weighted squared error of the observed entries, and their weighted number."""
    r = batch.x - x_hat
    seen = torch.ones_like(r) if batch.mask is None else batch.mask.to(r)
    return float(batch.weight @ (seen * r.square()).sum(1)), float(
        batch.weight @ seen.sum(1)
    )
