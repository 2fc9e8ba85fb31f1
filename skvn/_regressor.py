"""VectorNetworkRegressor: sparse codes of X, linear answers from the codes."""

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.callback import with_callbacks

from ._base import unchanged_on_error
from ._data import Rows, to_float64, to_output, to_tensor
from ._flat import FlatEstimator
from ._params import CONSTRAINTS, REGRESSOR_CONSTRAINTS
from .core.learn import Adam
from .core.network import settle
from .core.readout import CodeStatistics, fit_readout
from .core.training import contrast_rate

# Share of the old code statistics that each partial_fit step remembers.
_MEMORY = 0.95


class VectorNetworkRegressor(MultiOutputMixin, RegressorMixin, FlatEstimator):
    """Predict y from sparse codes that every row infers from X alone.

    For every row the code g minimises

    ``E(g) = 1/2 ||M (x - S g)||^2 + lambda ||g||_1``

    over the entries that are observed (M drops NaN); the answer is
    ``y = U g + intercept``. The recruited rank-1 atoms ``A_k = u_k s_k^T`` make the
    row's own weight matrix ``W* = U diag(g) S^T`` ([1]_). S is learned by the local
    Atomic-Hebb rule ``dS ~ M (x - S g) g^T`` from codes that do not see y, and U by the
    delta rule ``dU ~ (y - U g) g^T`` run to its fixed point (ridge regression; the
    ridge minimises the generalised cross-validation error).

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
        "auto" is "l1".
    learning : {"hebb", "contrastive"}, default="hebb"
        "hebb" stops at the rule above. "contrastive" goes on with two-phase steps: the
        code settles once more nudged towards and away from y, and S moves along the
        difference, the gradient of ``1/2 ||y - U g(x)||^2`` from local quantities.
        More accurate where the code must be shaped by y and there are enough rows
        (digits), overfits small noisy tables. "l1" only.
    beta : float, default=0
        Weight of ``beta/2 ||y - U g||^2`` in the energy of the codes that the Hebb
        steps learn from (clamped codes, [2]_). Prediction never sees y. "hebb" with
        "l1" only.
    fit_intercept : bool, default=True
        Whether to add a constant. Set it to False where targets are sums of parts: a
        constant is added once, however many parts there are.
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
        Most epochs of Hebb steps, and again of two-phase steps; the rate of the latter
        falls to zero by then, so that reaching it calls for no warning.
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
        Sensing vectors s_k, of the first layer.
    output_components_ : ndarray of shape (n_components, n_outputs)
        Output vectors u_k, of the top layer, in units of y.
    intercept_ : ndarray of shape (n_outputs,)
        Constant of the answer.
    noise_variance_ : ndarray of shape (n_outputs,)
        Variance of y that the codes leave unexplained, in units of y squared.
    n_outputs_ : int
        Number of outputs.
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
        Mean training loss of every epoch: the energy in Hebb epochs, half the
        squared error of y (at unit scale) in two-phase epochs.
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
    VectorNetworkTransformer : Codes and reconstruction without y.
    sklearn.linear_model.Ridge : The linear answer without codes.

    Notes
    -----
    X is not centred: the sum of two rows then has the sum of their parts. Scale columns
    if their units differ. A flat network composes *additive* parts; it cannot light an
    output that training never lit. A sample weight counts as that many repetitions,
    exactly so while all rows fit in one batch.

    References
    ----------
    .. [1] "Learning Compositional Latent Structure with Vector Networks",
       arXiv:2605.28007.
    .. [2] "The Ups and Downs of Backprop Weights", arXiv:2609.22554.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skvn import VectorNetworkRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> network = VectorNetworkRegressor(n_components=20, random_state=0).fit(X, y)
    >>> network.predict(X).shape
    (442,)
    """

    _parameter_constraints = CONSTRAINTS | REGRESSOR_CONSTRAINTS

    def __init__(
        self,
        n_components="auto",
        *,
        alpha=0.03,
        solver="auto",
        learning="hebb",
        beta=0.0,
        fit_intercept=True,
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
        self.learning = learning
        self.beta = beta
        self.fit_intercept = fit_intercept
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
    def fit(self, X, y, sample_weight=None):
        """Learn atoms and output weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing entries.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice.

        Returns
        -------
        VectorNetworkRegressor
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid; the estimator is left as it was.
        """
        return self._fit(X, y, sample_weight)

    @unchanged_on_error
    def partial_fit(self, X, y, sample_weight=None):
        """Take one pass of learning steps over a further batch of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        VectorNetworkRegressor
        """
        return self._partial_fit(X, y, sample_weight)

    def _pick_solver(self, n_features, depth, missing):
        """Every learning rule but Hebb's with free codes needs the l1 settle."""
        if self.solver == "ard" and (self.learning == "contrastive" or self.beta):
            raise ValueError(
                "learning='contrastive' and beta > 0 need the l1 settle; use "
                "solver='l1', or learning='hebb' with beta=0."
            )
        return super()._pick_solver(n_features, depth, missing)

    # --- learning --------------------------------------------------------------

    def _rows(self, X, y, sample_weight, reset):
        """Rows whose y is handed out at unit scale, about its mean."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but "
                "the target y is None."
            )
        rows = super()._rows(X, y, sample_weight, reset)
        y = to_float64(rows.y)
        if np.abs(y).max() > 1e150:
            raise ValueError("The squares of y overflow float64; rescale y.")
        if reset:
            self._y_is_flat = y.ndim == 1
            y = y.reshape(len(y), -1)
            w = to_float64(rows.weight)
            mean = np.average(y, axis=0, weights=w) if self.fit_intercept else 0.0
            self._y_shift = np.zeros(y.shape[1]) + mean
            spread = np.average(((y - mean) ** 2).mean(1), weights=w)
            self._y_scale = float(np.sqrt(spread)) or 1.0
        y = y.reshape(len(y), -1)
        if y.shape[1] != len(self._y_shift):
            raise ValueError(
                f"y has {y.shape[1]} outputs, but {type(self).__name__} was fitted "
                f"with {len(self._y_shift)}."
            )
        scaling = self._y_shift, self._y_scale
        return Rows(rows.X, y, rows.weight, rows.device, *scaling)

    def _start(self, rows, generator):
        """Atoms from the data; no output weights yet."""
        learner = super()._start(rows, generator)
        top = learner.net.layers[-1]
        top.U = top.S.new_zeros(len(self._y_shift), top.n_atoms)
        return learner

    def _stages(self):
        """Hebb steps for the dictionary, then (if asked) the two-phase contrast."""
        contrast = [self._contrast_epoch] if self.learning == "contrastive" else []
        return [self._hebb_epoch, *contrast]

    def _clamp(self):
        """Weight of y in the codes of the Hebb steps: 0 means free codes."""
        return 0.0 if self.learning == "contrastive" else self.beta

    def _hebb_epoch(self, learner, rows, generator, progress):
        """Clamped codes need output weights first."""
        if self._clamp() and progress > 0:
            self._read(learner, rows)
        return super()._hebb_epoch(learner, rows, generator, progress)

    def _contrast_epoch(self, learner, rows, generator, progress):
        """Mean prediction loss of one shuffled pass of two-phase steps."""
        if progress == 0:
            self._read(learner, rows)
        rate = contrast_rate(progress)
        loss = 0.0
        for batch in rows.batches(self._fit_batch(len(rows)), generator):
            loss += learner.contrast(batch, rate, self.max_sweeps)
        return loss / float(rows.weight.sum())

    def _warn_unsettled(self, learner):
        """Two-phase steps end at ``max_iter`` by plan: their rate has come to zero."""
        if not learner.adam.n_steps:
            super()._warn_unsettled(learner)

    def _read(self, learner, rows, keep=None):
        """Output weights from the free codes of all rows."""
        batches = rows.batches(self._predict_batch())
        learner.read(
            batches, self.fit_intercept, self.max_sweeps, self.transform_tol, keep
        )

    def _stream(self, learner, rows, generator):
        """Hebb steps, then the output weights, then (if asked) contrast steps."""
        loss = super()._stream(learner, rows, generator)
        self._read(learner, rows, _MEMORY)
        if self.learning == "contrastive":
            loss = self._contrast_epoch(learner, rows, generator, 0.5)
        return loss

    def _validation_score(self, learner, rows, held_out):
        """R^2 on held-out rows, outputs pooled."""
        self._read(learner, rows)
        b, y = learner.readout.b, held_out.batch().y
        options = {"tol": self.transform_tol, "max_sweeps": self.max_sweeps}
        error = 0.0
        for batch in held_out.batches(self._predict_batch()):
            g = settle(learner.net, batch.x, mask=batch.mask, **options)[-1]
            r = batch.y - b - g @ learner.net.layers[-1].U.T
            error += float(batch.weight @ r.square().sum(1))
        w = held_out.batch().weight
        spread = w @ (y - w @ y / w.sum()).square().sum(1)
        # One held-out row has no spread; y is at unit scale.
        return 1 - error / max(float(spread), 1e-6 * float(w.sum()))

    # --- state -----------------------------------------------------------------

    def _attributes(self, learner, rows=None):
        """Adds the readout, in the units of y."""
        if rows is not None:
            self._read(learner, rows)
        scale, array = self._y_scale, lambda t: t.cpu().numpy()
        U, b, noise = learner.readout
        statistics = [array(t) for t in learner.stats]
        moments = [array(t) for pair in learner.adam.moments for t in pair]
        return super()._attributes(learner, rows) | {
            "output_components_": array(U.T) * scale,
            "intercept_": array(b) * scale + self._y_shift,
            "noise_variance_": array(noise) * scale**2,
            "n_outputs_": len(self._y_shift),
            "_statistics": statistics,
            "_adam": (moments, learner.adam.n_steps),
        }

    def _top(self):
        """Output vectors u_k, (K, m)."""
        return self.output_components_

    def _resume(self, rows):
        """A learner that goes on from the fitted state, y at unit scale."""
        learner = super()._resume(rows)
        put = lambda a: to_tensor(a, rows.device, rows.dtype)  # noqa: E731
        learner.net.layers[-1].U /= self._y_scale
        learner.stats = CodeStatistics(*map(put, self._statistics))
        learner.readout = fit_readout(learner.stats, self.fit_intercept)
        moments, n_steps = self._adam
        m = [put(a) for a in moments]
        learner.adam = Adam(list(zip(m[::2], m[1::2], strict=True)), n_steps)
        return learner

    # --- prediction ------------------------------------------------------------

    def predict(self, X, return_std=False):
        """Predict y: ``U g + intercept`` with codes settled from X alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing entries. A row with nothing observed gets the intercept.
        return_std : bool, default=False
            Also return the standard deviation (solver "ard" only).

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of the shape of y
            Only with ``return_std``: ``sqrt(diag(U Sigma U^T) + noise_variance_)``.

        Raises
        ------
        ValueError
            If ``return_std`` is asked of the l1 settle, which has no posterior.
        """
        rows = self._query(X)
        if return_std:
            mean, variance, _ = self._posterior(rows)
            noise = to_tensor(self.noise_variance_, mean.device, mean.dtype)
            std = self._shaped((variance + noise).sqrt(), rows.X)
            return self._answer(mean, rows.X), std
        net, codes = self._codes(rows)
        return self._answer(codes[-1] @ net.layers[-1].U.T, rows.X)

    def _answer(self, mean, X):
        """U g with the intercept, in the shape of y."""
        return self._shaped(
            mean + to_tensor(self.intercept_, mean.device, mean.dtype), X
        )

    def _shaped(self, t, X):
        """(n,) if y was; else (n, m)."""
        return to_output(t[:, 0] if self._y_is_flat else t, X)
