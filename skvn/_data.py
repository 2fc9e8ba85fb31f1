"""From arrays to tensors on a device and back."""

import warnings

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn import get_config

from .core.training import Batch, mean_square


def resolve_device(device, X):
    """The torch device to compute on.

    Parameters
    ----------
    device : str or torch.device
        "auto" is the device of X if X is a tensor on an accelerator, else CUDA if
        there is one, else the CPU. MPS is never chosen: it has no float64.
    X : array-like or Tensor

    Returns
    -------
    torch.device

    Raises
    ------
    ValueError
        If there is no device of that name.
    """
    if device == "auto":
        if isinstance(X, torch.Tensor) and X.device.type != "cpu":
            return X.device
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device={device!r} is unknown; use 'auto', 'cpu', 'cuda' or 'cuda:0'."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        warnings.warn(
            f"device={str(device)!r} was asked for but CUDA is not available; "
            "computing on the CPU.",
            UserWarning,
            stacklevel=2,
        )
        return torch.device("cpu")
    return device


def float_dtypes(X):
    """The dtypes that data are computed in; what has another becomes the first.

    Parameters
    ----------
    X : array-like or Tensor

    Returns
    -------
    list
        Of torch's dtypes for a tensor that scikit-learn's array API dispatch lets
        through, else of NumPy's.
    """
    if isinstance(X, torch.Tensor) and get_config()["array_api_dispatch"]:
        return [torch.float64, torch.float32]
    return [np.float64, np.float32]


def detached(a):
    """The same without a gradient, if it is a tensor: nothing here is differentiated.

    Parameters
    ----------
    a : array-like or Tensor

    Returns
    -------
    array-like or Tensor
    """
    return a.detach() if isinstance(a, torch.Tensor) else a


def to_tensor(a, device, dtype=None):
    """Copy an array (or pass on a tensor) to a device.

    Parameters
    ----------
    a : ndarray or Tensor
    device : torch.device
    dtype : torch.dtype or None

    Returns
    -------
    Tensor
    """
    if isinstance(a, torch.Tensor):
        return a.detach().to(device, dtype)
    return torch.from_numpy(np.array(a)).to(device, dtype)


def to_output(t, like):
    """A tensor as the kind of array that ``like`` is.

    Parameters
    ----------
    t : Tensor
    like : ndarray or Tensor
        The input of the call.

    Returns
    -------
    ndarray or Tensor
    """
    return t.to(like.device) if isinstance(like, torch.Tensor) else t.cpu().numpy()


def to_float64(a):
    """Numbers as a float64 array on the host.

    Parameters
    ----------
    a : ndarray or Tensor

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError, ValueError
        If it is sparse or holds no numbers.
    """
    if issparse(a):
        raise TypeError("y is sparse, but must be dense; use y.toarray().")
    a = a.detach().double().cpu().numpy() if isinstance(a, torch.Tensor) else a
    return np.asarray(a).astype(np.float64)


def split_missing(x):
    """Zeros where x is NaN, and the mask of observed entries (None if all are).

    Parameters
    ----------
    x : Tensor of shape (n, d)

    Returns
    -------
    x : Tensor of shape (n, d)
    mask : bool Tensor of shape (n, d) or None
    """
    mask = ~torch.isnan(x)
    return (x, None) if mask.all() else (torch.nan_to_num(x, nan=0.0), mask)


class Rows:
    """Validated rows on the host that hand out batches on a device.

    Parameters
    ----------
    X : ndarray or Tensor of shape (n, d)
    y : ndarray or Tensor of shape (n, m) or None
    weight : ndarray or Tensor of shape (n,)
    device : torch.device
    shift, scale : ndarray of shape (m,), float
        Batches hold ``(y - shift) / scale``.
    """

    def __init__(self, X, y, weight, device, shift=0.0, scale=1.0):
        self.X, self.y, self.weight, self.device = X, y, weight, device
        self.shift, self.scale = shift, scale

    def __len__(self):
        """Number of rows."""
        return len(self.X)

    @property
    def dtype(self):
        """The torch dtype that everything is computed in."""
        return to_tensor(self.X[:0], self.device).dtype

    def take(self, index):
        """Some of the rows, by integer array or boolean mask."""
        y = None if self.y is None else self.y[index]
        scaling = self.shift, self.scale
        return Rows(self.X[index], y, self.weight[index], self.device, *scaling)

    def positive(self):
        """The rows whose weight is not zero, their weights at least 1 on average.

        A weight counts as so many repetitions, but fewer samples than rows make no
        sense: weights that sum to 1, say, mean only how much rows count beside others.
        """
        rows = self.take(self.weight > 0)
        mean = float(rows.weight.mean())
        if mean < 1:
            rows.weight = rows.weight / mean
        return rows

    def unobserved(self, size=10_000):
        """Indices of the columns without any observed value."""
        seen = torch.zeros(self.X.shape[1], dtype=torch.bool)
        for start in range(0, len(self), size):
            part = to_tensor(self.X[start : start + size], torch.device("cpu"))
            seen |= ~torch.isnan(part).all(0)
            if seen.all():
                break
        return (~seen).nonzero()[:, 0].tolist()

    def batch(self, index=slice(None)):
        """Rows by index (a slice or an integer array) as a Batch."""
        x, mask = split_missing(to_tensor(self.X[index], self.device))
        weight = to_tensor(self.weight[index], self.device, x.dtype)
        if self.y is None:
            return Batch(x, mask, weight)
        y = to_tensor(self.y[index], self.device, x.dtype)
        shift = torch.as_tensor(self.shift).to(y)
        return Batch(x, mask, weight, (y - shift) / self.scale)

    def batches(self, size, generator=None):
        """All rows, a batch at a time; in random order if given a generator."""
        n = len(self)
        order = None
        if generator is not None and n > size:
            order = torch.randperm(n, generator=generator).numpy()
        for start in range(0, n, size):
            part = slice(start, start + size)
            yield self.batch(part if order is None else order[part])


def check_scale(batch):
    """Refuse rows whose squares over- or underflow: codes would be 0 or NaN.

    Parameters
    ----------
    batch : Batch

    Raises
    ------
    ValueError
    """
    power, limits = mean_square(batch), torch.finfo(batch.x.dtype)
    # The readout, in float64, squares the squares.
    lowest = max(limits.tiny / limits.eps, 1e-150)
    if batch.x.any() and not lowest < power < limits.max / batch.x.numel():
        raise ValueError(
            f"The squares of X over- or underflow {batch.x.dtype} (their mean is "
            f"{power:.3g}). Rescale X, for example with StandardScaler."
        )


def warn_unobserved(rows, names=None):
    """Name the features that nothing can be learned about.

    Parameters
    ----------
    rows : Rows
    names : sequence of str or None
        Of the features; None stands for their numbers.
    """
    if not (index := rows.unobserved()):
        return
    named = [j if names is None else str(names[j]) for j in index]
    warnings.warn(
        f"Features {named} have no observed value; their atoms are 0 and they are "
        "reconstructed as 0. Drop them, or fit on rows that have them.",
        UserWarning,
        stacklevel=2,
    )


def squared_error(batch, x_hat):
    """Weighted squared error of the observed entries, and their weighted number.

    Parameters
    ----------
    batch : Batch
    x_hat : Tensor of shape (n, d)

    Returns
    -------
    error, seen : float
    """
    r = batch.x - x_hat
    seen = torch.ones_like(r) if batch.mask is None else batch.mask.to(r)
    error = batch.weight @ (seen * r.square()).sum(1)
    return float(error), float(batch.weight @ seen.sum(1))


def mean_squared_error(batch, x_hat):
    """Weighted mean squared error of the observed entries.

    Parameters
    ----------
    batch : Batch
    x_hat : Tensor of shape (n, d)

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If nothing was observed.
    """
    error, seen = squared_error(batch, x_hat)
    if not seen:
        raise ValueError("X has no observed entry to score.")
    return error / seen
