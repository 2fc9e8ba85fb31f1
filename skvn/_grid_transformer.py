"""VectorNetworkGridTransformer: row and column codes of images; fills images."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from ._base import SettlingEstimator, unchanged_on_error
from ._data import mean_squared_error, to_output, to_tensor
from ._grid_params import image_shape
from ._params import CONSTRAINTS
from .core.grid_fill import fill, learn_fill, render
from .core.grid_pair import Typical, typical_gain
from .core.grid_start import start_profiles
from .core.training import mean_square

# Codes need little accuracy, and few sweeps, while the atoms still move.
_LEARN_TOL, _LEARN_SWEEPS = 1e-2, 4
_SHARED = ["alpha", "max_iter", "tol", "n_iter_no_change", "batch_size"]
_SHARED += ["transform_tol", "random_state", "device", "verbose"]


@dataclass
class _Learner:
    """Row and column atoms (h, K), (w, K), and the penalty they are learned with."""

    A2: Tensor
    A1: Tensor
    lam: float

    def state(self):
        """Atoms to come back to."""
        return self.A2, self.A1

    def restore(self, state):
        """Go back to an earlier ``state``."""
        self.A2, self.A1 = state


class VectorNetworkGridTransformer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, SettlingEstimator
):
    r"""Read images as row codes times column codes; fill what is missing.

    An image is the product of a row profile and a column profile, each a sum of a few
    nonnegative atoms, ``X ~ (A2 b) (A1 a)^T``. Atoms are learned over all images; every
    image settles its own nonnegative codes from the pixels that it has::

        min_{a, b >= 0}  1/2 ||M * (X - (A2 b) (A1 a)^T)||^2 + lam (|a|_1 + |b|_1)

    A row position and a column position seen in different images therefore make sense
    of an image that has both, also if half of it is missing. Where one atom a side at a
    gain that is usual for it explains an image as well (by the Bayesian information
    criterion), that is the answer: a piece of an object then tells which object it is.

    Parameters
    ----------
    image_shape : tuple of int, default=None
        ``(h, w)`` of the images whose flattened pixels are the columns of X. None is
        ``(1, n_features)``: a nonnegative sparse code without rows.
    n_components : int, default=32
        Number of row atoms and of column atoms.
    alpha : float, default=0.05
        Penalty lam in units of the typical norm of an image. Learning uses it as
        it stands. In ``transform`` and ``reconstruct`` every image has its own: twice
        the standard deviation of what it leaves unexplained, between
        ``alpha / 500`` and ``2 * alpha``.
    max_sweeps : int, default=16
        Turns of settling row and column codes in ``transform`` and ``reconstruct``.
    max_iter : int, default=100
        Largest number of passes over the images.
    tol : float, default=1e-3
        A pass that lowers the loss by less than this share of it is no progress.
    n_iter_no_change : int, default=10
        Passes without progress before stopping.
    batch_size : int or "auto", default="auto"
        Images per learning step; "auto" is a quarter of them, between 64 and 256.
    transform_tol : float, default=1e-3
        Relative duality gap of the codes in ``transform`` and ``reconstruct``.
    random_state : int, RandomState instance or None, default=None
        Draws the first atoms (mean profiles of images, far from one another) and the
        order of the images.
    device : str or torch.device, default="auto"
        "auto" is CUDA if there is one, else the CPU.
    verbose : bool or int, default=False
        Print the loss of every pass.

    Attributes
    ----------
    row_components_ : ndarray of shape (n_components, h)
        Row atoms at unit length. Answers are made from the atoms: edit them and they
        change.
    column_components_ : ndarray of shape (n_components, w)
        Column atoms at unit length.
    row_gain_, column_gain_ : ndarray of shape (n_components,)
        Typical gain of an image is the row gain times the column gain of its atoms.
    gain_spread_ : float
        Standard deviation of the gain as a share of the typical one, at least 0.01.
    lambda_ : float
        ``alpha`` times the typical norm of an image.
    image_shape_ : tuple of int
    loss_curve_ : list of float
        Mean of ``1/2 ||M * (X - X_hat)||^2`` in every pass.
    n_iter_ : int
        Passes made.
    device_ : str
        Device that fit computed on.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X had column names.

    See Also
    --------
    VectorNetworkGridRegressor : Draws images from known codes.
    VectorNetworkTransformer : Sparse codes of rows without a grid.

    Notes
    -----
    The product is one object: several objects in one image, textured backgrounds and
    negative pixels are not explained (subtract a background first). Complete clean
    images are the best to learn from: the first atoms are profiles of images, and those
    of noisy or half-missing ones are poor.

    The profiles are set to unit length between the turns, so the sweeps need not lower
    the energy one by one, and they end at a local minimum.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn import VectorNetworkGridTransformer
    >>> bump = lambda i: np.exp(-((np.arange(8) - i) ** 2) / 2)
    >>> places = [(r, c) for r in range(8) for c in range(8)]
    >>> X = np.array([np.outer(bump(r), bump(c)).ravel() for r, c in places])
    >>> model = VectorNetworkGridTransformer((8, 8), n_components=8, random_state=0)
    >>> codes = model.fit_transform(X)
    >>> codes.shape
    (64, 16)
    """

    _parameter_constraints = {  # noqa: RUF012 - scikit-learn's name and kind
        "image_shape": [tuple, list, None],
        "n_components": CONSTRAINTS["max_iter"],
        "max_sweeps": CONSTRAINTS["max_iter"],
        **{name: CONSTRAINTS[name] for name in _SHARED},
    }

    def __init__(
        self,
        image_shape=None,
        *,
        n_components=32,
        alpha=0.05,
        max_sweeps=16,
        max_iter=100,
        tol=1e-3,
        n_iter_no_change=10,
        batch_size="auto",
        transform_tol=1e-3,
        random_state=None,
        device="auto",
        verbose=False,
    ):
        self.image_shape = image_shape
        self.n_components = n_components
        self.alpha = alpha
        self.max_sweeps = max_sweeps
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.batch_size = batch_size
        self.transform_tol = transform_tol
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
        """Row codes, then column codes."""
        return len(self.row_components_) + len(self.column_components_)

    # --- learning --------------------------------------------------------------

    @unchanged_on_error
    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn row and column atoms from images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Flattened images; NaN marks missing pixels.
        y : Ignored
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the image twice.

        Returns
        -------
        VectorNetworkGridTransformer
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid; the estimator is left as it was.
        """
        self._validate_params()
        rows = self._rows(X, None, sample_weight, reset=True)
        self.image_shape_ = image_shape(
            "image_shape", self.image_shape, rows.X.shape[1], (2,)
        )
        generator = self._generator()
        learner = self._start(rows, generator)
        self._store(self._learn(learner, rows, None, generator, X, None))
        return self

    def _start(self, rows, generator):
        """Atoms from drawn profiles; the penalty in units of the images' norm."""
        batch = rows.batch()
        draw = batch.weight, self.n_components, generator
        atoms = start_profiles(*self._images(batch), *draw)
        norm = sqrt(mean_square(batch) * batch.x.shape[1])
        # Any penalty will do for images of zeros.
        return _Learner(*atoms, self.alpha * norm or self.alpha)

    def _stages(self):
        """One stage of Atomic-Hebb steps."""
        return [self._epoch]

    def _epoch(self, learner, rows, generator, progress):
        """Mean loss of one shuffled pass of learning steps."""
        loss = 0.0
        options = {"sweeps": _LEARN_SWEEPS, "tol": _LEARN_TOL}
        for batch in rows.batches(self._fit_batch(len(rows)), generator):
            X, M = self._images(batch)
            atoms = learner.A2, learner.A1, learner.lam
            A2, A1, part = learn_fill(X, M, batch.weight, *atoms, **options)
            learner.A2, learner.A1, loss = A2, A1, loss + part
        return loss / float(rows.weight.sum())

    def _images(self, batch):
        """Rows of a batch, and what is observed of them, as images."""
        shape = len(batch.x), *self.image_shape_
        mask = None if batch.mask is None else batch.mask.reshape(shape)
        return batch.x.reshape(shape), mask

    def _attributes(self, learner, rows):
        """Atoms as rows, in NumPy, and how bright the images are."""
        A2, A1 = learner.A2, learner.A1
        b, a = self._settle(rows, A2, A1, learner.lam, _LEARN_SWEEPS)
        gain = (b @ A2.T).norm(dim=1) * (a @ A1.T).norm(dim=1)
        weight = to_tensor(rows.weight, gain.device, gain.dtype)
        typical = typical_gain(b, a, gain, weight)
        return {
            "row_components_": A2.T.cpu().numpy(),
            "column_components_": A1.T.cpu().numpy(),
            "row_gain_": typical.row.cpu().numpy(),
            "column_gain_": typical.column.cpu().numpy(),
            "gain_spread_": typical.spread,
            "lambda_": learner.lam,
            "device_": str(A1.device),
        }

    # --- inference -------------------------------------------------------------

    def _codes(self, rows):
        """Row and column codes, and the atoms on their device."""
        atoms = self._atoms(rows.device, rows.dtype)
        factors = self.row_gain_, self.column_gain_
        factors = [to_tensor(v, rows.device, rows.dtype) for v in factors]
        typical = Typical(*factors, self.gain_spread_)
        b, a = self._settle(rows, *atoms, self.lambda_, self.max_sweeps, typical)
        return b, a, atoms

    def _settle(self, rows, A2, A1, lam, sweeps, typical=None):
        """Row and column codes given the atoms."""
        options = {"sweeps": sweeps, "tol": self.transform_tol, "adapt": True}
        parts = [
            fill(*self._images(b), A2, A1, lam, **options, typical=typical)
            for b in rows.batches(self._predict_batch())
        ]
        b, a, _ = (torch.cat(p) for p in zip(*parts, strict=True))
        return b, a

    def _atoms(self, device, dtype):
        """Row and column atoms as columns, (h, K) and (w, K)."""
        arrays = self.row_components_, self.column_components_
        return [to_tensor(A, device, dtype).T.contiguous() for A in arrays]

    def transform(self, X):
        """Nonnegative row and column codes of images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing pixels. The code of an image with none is 0.

        Returns
        -------
        ndarray of shape (n_samples, 2 * n_components)
            Row codes, then column codes; both carry the square root of the gain.
        """
        rows = self._query(X)
        b, a, _ = self._codes(rows)
        return to_output(torch.cat([b, a], 1), rows.X)

    def reconstruct(self, X):
        """Images as their codes explain them, missing pixels filled.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks missing pixels.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Every pixel, observed or not. To keep the observed ones use
            ``np.where(np.isnan(X), X_hat, X)``.
        """
        rows = self._query(X)
        b, a, atoms = self._codes(rows)
        return to_output(render(b, a, *atoms).flatten(1), rows.X)

    def inverse_transform(self, X):
        """Images that codes stand for: ``(A2 b) (A1 a)^T``.

        Parameters
        ----------
        X : array-like of shape (n_samples, 2 * n_components)
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
        g = to_tensor(codes, torch.device("cpu"))
        b, a = g[:, : len(self.row_components_)], g[:, len(self.row_components_) :]
        images = render(b, a, *self._atoms(g.device, g.dtype))
        return to_output(images.flatten(1), codes)

    def score(self, X, y=None, sample_weight=None):
        """Minus the mean squared error of the observed pixels.

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
        b, a, atoms = self._codes(rows)
        return -mean_squared_error(rows.batch(), render(b, a, *atoms).flatten(1))
