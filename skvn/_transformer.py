"""VectorNetworkTransformer: rows to sparse atom codes and back."""

import torch
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_array, check_is_fitted

from ._base import unchanged_on_error
from ._data import (
    detached,
    float_dtypes,
    mean_squared_error,
    squared_error,
    to_output,
    to_tensor,
)
from ._flat import FlatEstimator
from .core.network import reconstruction, settle

# ard factorises one d x d matrix per row: beyond this many features "auto" keeps l1.
_MAX_ARD_FEATURES = 256


class VectorNetworkTransformer(FlatEstimator):
    """Rows to sparse codes over learned atoms, and back.

    For every row x the code g is *inferred*, by minimising the energy ([2]_, eq. 5)

    ``E(g) = 1/2 ||M (x - S g)||^2 + lambda ||g||_1``

    over the entries that are observed (M drops NaN). The atoms, the unit-length columns
    of S, are then *learned* by the local Atomic-Hebb rule ``dS ~ M (x - S g) g^T``:
    only atoms in use move. With several layers, layer l + 1 reads the message
    ``phi(U_l g_l)`` of the layer below and all codes settle together to a fixed point
    of the summed energies.

    Parameters
    ----------
    n_components : int, sequence of int or "auto", default="auto"
        Number of atoms K; "auto" is ``min(4 * n_features, 256)``. A sequence gives
        one layer per entry, from the input upward.
    alpha : float, default=0.03
        The l1 penalty (lambda in the papers) of the "l1" settle, as a share of the RMS
        norm of the training rows: ``lambda = alpha * sqrt(mean ||x||^2)``. The same
        grid then serves data of any scale; at ``alpha=1`` a typical row has no active
        atom whatever the atoms are. In deeper layers the rows are the messages. Not
        used by "ard". (In ``MLPRegressor`` alpha is an l2 penalty.)
    solver : {"auto", "l1", "ard"}, default="auto"
        How codes are inferred. "l1" minimises the energy above: fast, exactly sparse.
        "ard" is sparse-Bayesian: it predicts hidden entries better, gives standard
        deviations, is signed, dense-ish and about 10 times slower; it factorises one
        d x d or K x K matrix per row and round and settles a single layer.
        "auto" is "ard" if X has missing entries at fit, at most 256 features and one
        layer is asked for; else "l1".
    positive_code : bool, default=True
        Whether the codes of the "l1" settle are nonnegative.
    n_nonzero_coefs : int or None, default=None
        Code budget: at most so many active atoms per row in the top layer ("l1" only).
    hidden_layer_sizes : int, sequence of int or None, default=None
        Width of the message between two layers, one entry less than layers. By default
        as wide as the layer below has atoms.
    activation : {"identity", "relu", "tanh", "softplus"}, default="identity"
        phi of the messages between layers.
    max_sweeps : int, default=10
        Most sweeps down and up through the layers while a row settles.
    noise_floor : float or "auto", default="auto"
        Lower bound of the noise variance in the "ard" settle, as a share of the mean
        square of an entry of X. "auto" hides columns of training rows and takes the
        value that predicts them best.
    max_iter : int, default=50
        Most epochs.
    tol : float, default=1e-3
        An epoch counts as progress if it improves the loss (or the validation score)
        by more than this share.
    n_iter_no_change : int, default=3
        Epochs without progress before stopping.
    batch_size : int or "auto", default="auto"
        Rows per learning step, "auto" is a quarter of the rows within 64 and 256; and
        rows that settle together at prediction, which changes memory but no result.
    early_stopping : bool, default=False
        Whether to hold out rows, stop on their score and keep the best state.
    validation_fraction : float, default=0.1
        Share of the rows held out by ``early_stopping``.
    transform_tol : float, default=1e-3
        Relative duality gap at which a row's "l1" code is done, at prediction.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the fitted atoms.
    random_state : int, RandomState instance or None, default=None
        Seeds the start and the order of rows. Global random state is not touched.
    device : str or torch.device, default="auto"
        "auto" is the device of X if that is a tensor on an accelerator, else CUDA if
        there is one, else the CPU.
    verbose : bool or int, default=False
        Whether to print the loss of every epoch.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The atoms s_k, of the first layer.
    hidden_components_ : list of (U, S)
        Per interface between layers: output vectors of the layer below, (K_l, width),
        and sensing vectors of the layer above, (K_{l+1}, width). Empty for one layer.
    lambdas_ : ndarray of shape (n_layers,)
        l1 penalty of each layer in the units of what it reads.
    solver_ : {"l1", "ard"}
        The settle in use.
    prior_variance_ : ndarray of shape (n_components,)
        Prior variance of the coefficients ("ard" only).
    noise_, noise_floor_ : float
        First noise variance and its lower bound, in units of X squared ("ard" only).
    n_iter_ : int
        Epochs run.
    n_steps_ : int
        Hebb steps taken.
    loss_curve_ : list of float
        Mean training loss of every epoch.
    validation_scores_ : list of float
        Score on held-out rows of every epoch (``early_stopping`` only).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    device_ : str
        Device of the last fit.

    See Also
    --------
    VectorNetworkRegressor : Predicts y from the codes.
    sklearn.decomposition.MiniBatchDictionaryLearning : Sparse coding without missing
        values, sample weights or layers.

    Notes
    -----
    X is not centred: the sum of two rows then has the sum of their parts. Scale columns
    if their units differ. A sample weight counts as that many repetitions, exactly so
    while all rows fit in one batch. ``partial_fit`` takes the same learning steps as
    ``fit``.

    References
    ----------
    .. [1] "Learning Compositional Latent Structure with Vector Networks",
       arXiv:2605.28007.
    .. [2] "The Ups and Downs of Backprop Weights", arXiv:2609.22554.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skvn import VectorNetworkTransformer
    >>> X, _ = load_digits(return_X_y=True)
    >>> network = VectorNetworkTransformer(n_components=32, random_state=0).fit(X)
    >>> network.transform(X).shape
    (1797, 32)
    """

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
            error, seen = squared_error(b, x_hat)
            total, count = total + error, count + seen
        return -total / max(count, 1e-300)  # every held-out entry may be missing

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
        codes = check_array(detached(X), dtype=float_dtypes(X), input_name="X")
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
        return -mean_squared_error(rows.batch(), x_hat)
