"""VectorNetworkGridRegressor: images whose row and column factors recombine."""

import warnings

import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ._base import _PREDICT_ROWS, SettlingEstimator, unchanged_on_error
from ._data import resolve_device, to_output, to_tensor
from ._grid_params import column_groups, image_shape, reject_missing
from ._params import CONSTRAINTS
from .core.grid import answer, effective, keep_used
from .core.grid_learn import GridLearner, start_atoms

# Above this many atoms x channels a layer, conjugate gradients are faster than the
# factorisation, whose cost grows with the third power.
_MAX_EXACT = 1000
_SHARED = ["max_iter", "tol", "random_state", "device", "verbose"]


class _ChannelUse:
    """Settled once no channel's use changes by more than ``tol``."""

    best_state = None

    def __init__(self, learner, tol):
        self.learner, self.tol = learner, tol

    def update(self, value, state):
        """True once settled; the error and the state do not matter."""
        return self.learner.change <= self.tol


class VectorNetworkGridRegressor(MultiOutputMixin, RegressorMixin, SettlingEstimator):
    r"""Draw images from codes: rows and columns are drawn apart and recombine.

    The row x of X is itself the code, ``g = x``. Code unit k owns one atom in each
    of two layers, and a sample composes its two weight matrices from them::

        W1* = sum_k g_k A1_k   (channels x columns),   W2* = sum_k g_k A2_k
        Y_hat = W2* W1*        (rows x columns)

    A model that has seen every row position and every column position, but not all
    pairs, can therefore draw the pairs it has not seen. This rests on the product and
    on channels that fade unless they are used; an error on seen pairs shows neither.
    Compare models with ``skvn.model_selection.CombinationKFold``.

    Layers are learned in turn, each by ridge regression given the others. The decay
    of a channel is annealed, is low only if the channel is used, and rises with the
    residual noise, so that the rank of the images is found from the data.

    Parameters
    ----------
    output_shape : tuple of int, default=None
        ``(h, w)`` or ``(h, w, c)`` of the images whose flattened values are the
        columns of y. The third axis is for colours: it gets a layer of its own,
        ``Y_hat[i, j, o] = sum_c W2*[i, c] W1*[c, j] W3*[o, c]``. None is ``(1, m)``
        for m outputs: a product of two linear maps, with an intercept.
    n_channels : int, default=8
        Interface channels between the layers: the largest rank of an image. Spare
        ones fade.
    input_groups : sequence of index arrays, default=None
        Which columns of X drive layer 1 (the columns of the image), layer 2 (its rows)
        and layer 3 (its colours). None: all columns drive all layers. With several
        objects, a group holds the columns of every object.
    fit_intercept : bool or "auto", default="auto"
        Whether a constant joins the code of every layer. "auto" is False with an
        ``output_shape``: codes of positions sum to a constant already, and a
        redundant unit makes unseen pairs worse.
    solver : {"auto", "ridge", "cg"}, default="auto"
        "ridge" factorises each layer's problem; "cg" takes 40 conjugate-gradient steps
        along Atomic-Hebb sums (coefficient times residual) and forms no large matrix.
        "auto" is "ridge" up to 1000 atoms times channels in a layer.
    max_iter : int, default=120
        Largest number of sweeps over the layers. The decay needs 62 to come down.
    tol : float, default=1e-5
        Stop when a sweep changes the use of no channel by more than this share of the
        largest. (The training error is no guide: unseen pairs go on improving.)
    random_state : int, RandomState instance or None, default=None
        Draws the first atoms.
    device : str or torch.device, default="auto"
        "auto" is CUDA if there is one, else the CPU.
    verbose : bool or int, default=False
        Print the error of every sweep.

    Attributes
    ----------
    column_atoms_ : ndarray of shape (n_codes, n_channels, w)
        ``A1_k``. Predictions are made from the atoms: edit them and they change.
    row_atoms_ : ndarray of shape (n_codes, n_channels, h)
        ``A2_k``, transposed.
    colour_atoms_ : ndarray of shape (n_codes, n_channels, c)
        ``A3_k``, transposed; only with three axes.
    channel_use_ : ndarray of shape (n_channels,)
        Product of the norms of every channel that is left, largest first.
    input_groups_ : list of ndarray
        Columns of X that drive each layer.
    output_shape_ : tuple of int
    solver_ : str
    loss_curve_ : list of float
        Mean squared error of an image after every sweep.
    n_iter_ : int
        Sweeps made.
    n_outputs_ : int
    device_ : str
        Device that fit computed on.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X had column names.

    See Also
    --------
    VectorNetworkGridTransformer : Infers the row and column codes of images.
    VectorNetworkRegressor : Additive answers, for outputs without a grid.

    Notes
    -----
    X has to be complete: it is the code, and nothing settles. Fitting computes in
    float64 (the decay ends at 5e-8), predicting in the dtype of X.

    What works with several objects in one image: a group of columns for each object
    (their codes side by side), or the sum of one prediction per object. What does
    not: one code that is the sum of the objects' codes. Rows and columns then pair up
    in all ways and ghosts appear. Pixels in an unknown order, positions never seen in
    any pair, rotation and scale do not compose either.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn import VectorNetworkGridRegressor
    >>> place = np.array([(r, c) for r in range(4) for c in range(4)])
    >>> X = np.hstack([np.eye(4)[place[:, 1]], np.eye(4)[place[:, 0]]])
    >>> y = np.array([np.outer(np.eye(4)[r], np.eye(4)[c]).ravel() for r, c in place])
    >>> seen = ~((place == 1) | (place == 2)).all(axis=1)  # no object in the middle
    >>> model = VectorNetworkGridRegressor((4, 4), random_state=0)
    >>> model = model.fit(X[seen], y[seen])
    >>> bool(np.abs(model.predict(X[~seen]) - y[~seen]).max() < 1e-3)
    True
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's name and kind
        "output_shape": [tuple, list, None],
        "n_channels": CONSTRAINTS["max_iter"],
        "input_groups": ["array-like", list, tuple, None],
        "fit_intercept": ["boolean", StrOptions({"auto"})],
        "solver": [StrOptions({"auto", "ridge", "cg"})],
        **{name: CONSTRAINTS[name] for name in _SHARED},
    }

    def __init__(
        self,
        output_shape=None,
        *,
        n_channels=8,
        input_groups=None,
        fit_intercept="auto",
        solver="auto",
        max_iter=120,
        tol=1e-5,
        random_state=None,
        device="auto",
        verbose=False,
    ):
        self.output_shape = output_shape
        self.n_channels = n_channels
        self.input_groups = input_groups
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self):
        """X is the code: it has to be complete."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    @unchanged_on_error
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Learn the atoms of all layers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Codes, for instance population codes of a row and a column position.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Flattened images: ``images.reshape(len(images), -1)``.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice.

        Returns
        -------
        VectorNetworkGridRegressor
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid; the estimator is left as it was.
        """
        self._validate_params()
        rows = self._rows(X, y, sample_weight, reset=True)
        self._y_is_flat = rows.y.ndim == 1
        learner = self._start(rows)
        self._store(self._learn(learner, rows, None, None, X, y))
        return self

    def _rows(self, X, y, sample_weight, reset):
        """Rows without missing entries, and with a y."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None."
            )
        rows = super()._rows(X, y, sample_weight, reset)
        reject_missing(rows.X, type(self).__name__)
        return rows

    def _start(self, rows):
        """Small random atoms, and the data that they learn from."""
        # The smallest decay is below what float32 resolves.
        put = lambda a: to_tensor(a, rows.device, torch.float64)  # noqa: E731
        y = put(rows.y).reshape(len(rows), -1)
        self.n_outputs_ = y.shape[1]
        self.output_shape_ = image_shape(
            "output_shape", self.output_shape, self.n_outputs_, (2, 3)
        )
        axes = self._axes()
        self.input_groups_ = column_groups(
            self.input_groups, len(axes), rows.X.shape[1]
        )
        codes = self._layer_codes(put(rows.X))
        images = y.reshape(len(y), *self.output_shape_).transpose(1, 2).contiguous()
        sizes = [(g.shape[1], p) for g, p in zip(codes, axes, strict=True)]
        self.solver_ = self.solver
        if self.solver == "auto":
            largest = max(K for K, _ in sizes) * self.n_channels
            self.solver_ = "ridge" if largest <= _MAX_EXACT else "cg"
        atoms = start_atoms(sizes, self.n_channels, self._generator(), y)
        exact = self.solver_ == "ridge"
        return GridLearner(codes, images, put(rows.weight), atoms, exact)

    def _axes(self):
        """Length of the image's axis that each layer draws: w, h and perhaps c."""
        h, w, *colours = self.output_shape_
        return [w, h, *colours]

    def _layer_codes(self, x):
        """What drives each layer, with a constant if there is an intercept."""
        constant = self.fit_intercept
        if constant == "auto":
            constant = self.output_shape is None
        if constant:
            x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        last = [x.shape[1] - 1] if constant else []
        return [x[:, [*group, *last]] for group in self.input_groups_]

    # --- learning --------------------------------------------------------------

    def _stages(self):
        """Sweeps over the layers."""
        return [lambda learner, rows, generator, progress: learner.sweep()]

    def _watch(self, learner, held_out):
        """The channels' use, not the error, says when a fit has settled."""
        return _ChannelUse(learner, self.tol)

    def _warn_unsettled(self, learner):
        """Only a decay that has not come down is worth a warning."""
        if not learner.annealed:
            warnings.warn(
                f"Stopped after max_iter={self.max_iter} sweeps before the decay had "
                "come down. Increase max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _attributes(self, learner, rows):
        """Atoms of the channels that are used, most used first."""
        atoms, use = keep_used(learner.atoms)
        names = ["column_atoms_", "row_atoms_", "colour_atoms_"]
        arrays = [A.to(rows.dtype).cpu().numpy() for A in atoms]
        return dict(zip(names, arrays, strict=False)) | {
            "channel_use_": use.to(rows.dtype).cpu().numpy(),
            "device_": str(atoms[0].device),
        }

    # --- prediction ------------------------------------------------------------

    def predict(self, X):
        """Images drawn from codes: ``W2*(x) W1*(x)``, flattened.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        X, blocks = self._weights(X)
        images = torch.cat([answer(W).transpose(1, 2).flatten(1) for W in blocks])
        return to_output(images[:, 0] if self._y_is_flat else images, X)

    def effective_weight(self, X):
        """Weight matrices that every row composes for itself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        W1 : ndarray of shape (n_samples, n_channels, w)
        W2 : ndarray of shape (n_samples, h, n_channels)
            ``W2 @ W1`` are the predicted images.
        W3 : ndarray of shape (n_samples, c, n_channels)
            Only with colours: weights of the channels in each colour.
        """
        X, blocks = self._weights(X)
        W1, *above = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        return tuple(to_output(W, X) for W in (W1, *(W.mT for W in above)))

    def _weights(self, X):
        """Validated X, and the effective weights of its rows in blocks."""
        check_is_fitted(self)
        X = self._validated(X)
        reject_missing(X, type(self).__name__)
        x = to_tensor(X, resolve_device(self.device, X))
        atoms = [self.column_atoms_, self.row_atoms_]
        if len(self.output_shape_) > 2:
            atoms.append(self.colour_atoms_)
        atoms = [to_tensor(A, x.device, x.dtype) for A in atoms]
        blocks = (self._layer_codes(part) for part in x.split(_PREDICT_ROWS))
        return X, [
            [effective(g, A) for g, A in zip(codes, atoms, strict=True)]
            for codes in blocks
        ]
