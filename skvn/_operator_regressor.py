"""VectorNetworkOperatorRegressor: infer a law from a few rows, apply it elsewhere."""

from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.callback import with_callbacks
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import Interval, StrOptions

from ._base import unchanged_on_error
from ._data import to_output, to_tensor
from ._operator import OperatorEstimator
from ._params import CONSTRAINTS
from .core.operator import operator

_COUNT = Interval(Integral, 1, None, closed="left")
_KEPT = (
    "alpha max_iter tol n_iter_no_change batch_size random_state device verbose"
).split()


class VectorNetworkOperatorRegressor(
    MultiOutputMixin,
    RegressorMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    OperatorEstimator,
):
    r"""Vector Network that infers an operator per sample and applies it elsewhere.

    A sample is a *system*: observed rows of a state z and a response a, and queries,
    states whose response is asked for. All rows of a system obey one operator,
    composed of learned atoms: ``a = W* z`` with ``W* = sum_k g_k A_k``. The code g is
    settled on the observed rows; the answers are ``W* z`` at the queries. Training
    systems may each show one law; a code then also composes several.

    One row of X holds one system: ``z_1, a_1, z_2, a_2, ...``, then the queries; a row
    of y holds their responses (see `skvn.systems.pack_systems`). NaN marks rows that
    are not there, in X and in y. With ``state_size=None`` the state is constant: X
    holds observed values, y further values of the same sample, and atoms are columns
    [S; U].

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of atoms K; "auto" grows atoms while each explains enough, up to 12.
    state_size : int or None, default=None
        F, entries of a state; None is the constant state 1.
    response_size : int, default=1
        c, entries of a response; not used with the constant state.
    rank : int or "full", default="full"
        Largest rank of an atom (c x F); 1 makes weight atoms u s^T.
    solver : {"ep", "ard", "l1"}, default="ep"
        How codes settle: under a learned mixture prior by expectation propagation, by
        automatic relevance determination, or under an l1 penalty
        ``1/2 sum ||a - W* z||^2 + alpha |g|_1``. "ep" and "ard" have a posterior.
    whiten : bool, default=True
        Learn atoms on whitened states. Not done for the constant state.
    alpha : float, default=0.03
        l1 penalty at the end of fit, for responses of unit mean square; it is annealed
        from ten times as much. Solver "l1" only.
    transform_alpha : float or None, default=None
        l1 penalty at prediction; None is ``alpha``.
    transform_activity : float or None, default=0.5
        Probability that the median atom is active at prediction; None is what training
        showed, which is too low if training shows laws one at a time. Solver "ep" only.
    max_iter : int, default=100
        Largest number of epochs.
    tol : float, default=1e-3
        Relative decrease of the loss that counts as progress.
    n_iter_no_change : int, default=3
        Epochs without progress before fit stops.
    batch_size : int or "auto", default="auto"
        Systems per local step of solver "l1"; the other solvers sum over all systems.
        "auto" is a quarter of the systems, within 64 and 256.
    random_state : int, RandomState instance or None, default=None
        Draws the systems to start from, if they are many, and the batches of "l1".
    device : str or torch.device, default="auto"
        Where to compute: "auto" is CUDA if there is one, else the CPU.
    verbose : bool or int, default=False
        Print the loss of every epoch.

    Attributes
    ----------
    atoms_ : ndarray of shape (`n_components_`, c, F)
        In the units of X and y, so that ``W* = sum_k g_k atoms_[k]``.
    n_components_ : int
        Number of atoms.
    n_observed_, n_queries_ : int
        Rows of a system in X, and queries.
    prior_weight_, prior_mean_, prior_variance_ : ndarray of shape (`n_components_`, 3)
        Mixture prior of the codes, solver "ep"; the first component is "off". Solver
        "ard" has only ``prior_variance_``, of shape (`n_components_`,).
    noise_ : float
        Noise variance of an observed entry at unit scale (squared scale of the t).
    dof_ : float
        Degrees of freedom of the noise of a row; infinity is Gaussian.
    noise_variance_ : ndarray of shape (`n_outputs_`,)
        Mean squared error of the training answers, solvers "ep" and "ard".
    response_scale_ : ndarray of shape (c,)
        Root mean square of the responses.
    loss_curve_ : list of float
        Per epoch: expected squared error of an observed entry, or mean energy ("l1").
    n_iter_ : int
        Number of epochs.
    n_outputs_ : int
        Number of columns of y.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had any.
    device_ : str
        Where fit computed.

    See Also
    --------
    skvn.systems.pack_systems : Ragged lists of systems to X and y.

    Notes
    -----
    There is no intercept: add a constant to the states if the law has one. Codes and
    atoms have no preferred sign. "ep" and "ard" learn by generalised EM, "l1" by local
    steps on the atoms. Fitting "ep" and "ard" takes memory and time of the order
    ``(K F)^2`` and ``(K F)^3``.

    Atoms stand for single laws only if many training systems obey a single one. If all
    obey several at once, answers are still good but atoms are mixtures of laws.

    Examples
    --------
    Systems of four rows that obey one of two laws, and one that obeys both:

    >>> import numpy as np
    >>> from skvn import VectorNetworkOperatorRegressor
    >>> from skvn.systems import pack_systems
    >>> rng = np.random.default_rng(0)
    >>> laws, z = np.eye(2, 3), rng.normal(size=(201, 5, 3))
    >>> which = np.vstack([np.eye(2)[rng.integers(2, size=200)], [[1, 1]]])
    >>> a = np.einsum("nl,lf,nrf->nr", which, laws, z)[..., None]
    >>> X, y = pack_systems(z[:, :4], a[:, :4], z[:, 4:], a[:, 4:])
    >>> model = VectorNetworkOperatorRegressor(state_size=3).fit(X[:200], y[:200])
    >>> model.n_components_
    2
    >>> bool(np.allclose(model.effective_weight(X[200:]), [1, 1, 0], atol=0.01))
    True
    """

    _parameter_constraints = {name: CONSTRAINTS[name] for name in _KEPT} | {
        "n_components": [_COUNT, StrOptions({"auto"})],
        "state_size": [_COUNT, None],
        "response_size": [_COUNT],
        "rank": [_COUNT, StrOptions({"full"})],
        "solver": [StrOptions({"ep", "ard", "l1"})],
        "whiten": ["boolean"],
        "transform_alpha": [Interval(Real, 0, None, closed="neither"), None],
        "transform_activity": [Interval(Real, 0, 1, closed="neither"), None],
    }

    def __init__(
        self,
        n_components="auto",
        *,
        state_size=None,
        response_size=1,
        rank="full",
        solver="ep",
        whiten=True,
        alpha=0.03,
        transform_alpha=None,
        transform_activity=0.5,
        max_iter=100,
        tol=1e-3,
        n_iter_no_change=3,
        batch_size="auto",
        random_state=None,
        device="auto",
        verbose=False,
    ):
        self.n_components = n_components
        self.state_size = state_size
        self.response_size = response_size
        self.rank = rank
        self.solver = solver
        self.whiten = whiten
        self.alpha = alpha
        self.transform_alpha = transform_alpha
        self.transform_activity = transform_activity
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self):
        """Codes have the dtype of X."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        """One code entry per atom."""
        return self.n_components_

    @unchanged_on_error
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Learn atoms from systems.

        Parameters
        ----------
        X : array-like of shape (n_systems, n_features)
            Observed rows and queries of every system; NaN marks missing rows.
        y : array-like of shape (n_systems,) or (n_systems, n_outputs)
            Responses of the queries; NaN marks missing ones.
        sample_weight : array-like of shape (n_systems,) or None
            A weight of 2 counts as the system twice.

        Returns
        -------
        VectorNetworkOperatorRegressor
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid; the estimator is left as it was.
        """
        return self._fit(X, y, sample_weight)

    # --- prediction ------------------------------------------------------------

    def predict(self, X, return_std=False):
        """Answer the queries: ``W* z`` with the operator inferred from observed rows.

        Parameters
        ----------
        X : array-like of shape (n_systems, n_features)
            NaN marks missing rows. A system of which nothing was observed gets the
            prior mean of the code (0 with "l1" and "ard").
        return_std : bool, default=False
            Also return the standard deviation (solvers "ep" and "ard").

        Returns
        -------
        y : ndarray of shape (n_systems,) or (n_systems, n_outputs)
            NaN where the query is missing.
        std : ndarray of the shape of y
            Only with ``return_std``: ``sqrt(diag(Q Sigma Q^T) + noise_variance_)``,
            Q the design at the queries.

        Raises
        ------
        ValueError
            If ``return_std`` is asked of solver "l1", which has no posterior.
        """
        X, _, answers, variance, asked = self._infer(X)
        scale = to_tensor(self._answer_scale(), answers.device, answers.dtype)
        y = self._shaped(scale * answers, asked, X)
        if not return_std:
            return y
        if variance is None:
            raise ValueError(
                "return_std=True needs the posterior of solver='ep' or 'ard'; this "
                f"{type(self).__name__} was fitted with solver='l1'."
            )
        noise = to_tensor(self.noise_variance_, scale.device, scale.dtype)
        variance = scale.square() * variance.clamp_min(0) + noise
        return y, self._shaped(variance.sqrt(), asked, X)

    def _shaped(self, t, asked, X):
        """NaN where nothing was asked; (n,) if y was, else (n, m)."""
        t = torch.where(asked, t, torch.nan)
        return to_output(t[:, 0] if self._y_is_flat else t, X)

    def transform(self, X):
        """Codes of systems.

        Parameters
        ----------
        X : array-like of shape (n_systems, n_features)
            Only observed rows matter.

        Returns
        -------
        ndarray of shape (n_systems, `n_components_`)
        """
        X, codes, *_ = self._infer(X)
        return to_output(codes, X)

    def effective_weight(self, X):
        """Operator ``W* = sum_k g_k A_k`` of every system, in the units of the data.

        Parameters
        ----------
        X : array-like of shape (n_systems, n_features)

        Returns
        -------
        ndarray of shape (n_systems, c, F)
            Times a state it is the response. With the constant state: reconstruction
            of X and answer y below each other, as one column.
        """
        X, codes, *_ = self._infer(X)
        atoms = to_tensor(self.atoms_, codes.device, codes.dtype)
        return to_output(operator(atoms, codes), X)

    def score(self, X, y, sample_weight=None):
        """Mean R^2 of the outputs, over the answers that are there.

        Parameters
        ----------
        X : array-like of shape (n_systems, n_features)
        y : array-like of shape (n_systems,) or (n_systems, n_outputs)
            NaN marks missing answers.
        sample_weight : array-like of shape (n_systems,) or None

        Returns
        -------
        float
        """
        y_hat = np.asarray(self.predict(X)).reshape(len(X), -1)
        y = np.asarray(y, dtype=y_hat.dtype).reshape(y_hat.shape)
        there = ~np.isnan(y) & ~np.isnan(y_hat)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        scores = [
            r2_score(a[k], p[k], sample_weight=weight[k])
            for a, p, k in zip(y.T, y_hat.T, there.T, strict=True)
            if k.sum() > 1
        ]
        return float(np.mean(scores))
