"""One layer: its atoms, its message upward and its effective weight matrix."""

from dataclasses import dataclass

from torch import Tensor

from .energy import ACTIVATIONS


@dataclass
class Layer:
    """Atoms A_k = u_k s_k^T of one layer with their penalty.

    Parameters
    ----------
    S : Tensor of shape (d, K)
        Sensing vectors s_k, one unit-norm column per atom.
    U : Tensor of shape (m, K)
        Output vectors u_k. For the top layer of a transformer ``U`` is ``S``.
    lam : float
        The l1 penalty of this layer's code, in the units of its input.
    phi : {"identity", "relu", "tanh", "softplus"}, default="identity"
        Activation of the upward message.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import Layer
    >>> Layer(torch.eye(4, 3), torch.ones(2, 3), lam=0.1).n_atoms
    3
    """

    S: Tensor
    U: Tensor
    lam: float
    phi: str = "identity"

    @property
    def n_atoms(self) -> int:
        """K, the number of atoms."""
        return self.S.shape[1]


def message(layer: Layer, g: Tensor) -> Tensor:
    """Upward message h = phi(U g).

    Parameters
    ----------
    layer : Layer
        The layer that sends.
    g : Tensor of shape (n, K)
        Codes.

    Returns
    -------
    Tensor of shape (n, m)
        Input of the layer above.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import Layer, message
    >>> layer = Layer(torch.eye(2), torch.tensor([[1.0, -1.0]]), lam=0.1, phi="relu")
    >>> message(layer, torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    tensor([[2.],
            [0.]])
    """
    phi, _ = ACTIVATIONS[layer.phi]
    return phi(g @ layer.U.T)


def effective_weight(S: Tensor, U: Tensor, g: Tensor) -> Tensor:
    """W* = U diag(g) S^T of every sample (P1).

    Parameters
    ----------
    S : Tensor of shape (d, K)
    U : Tensor of shape (m, K)
    g : Tensor of shape (n, K)

    Returns
    -------
    Tensor of shape (n, m, d)
        One weight matrix per row.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import effective_weight
    >>> S, U = torch.eye(3, 2), torch.ones(1, 2)
    >>> effective_weight(S, U, torch.tensor([[2.0, 0.5]]))
    tensor([[[2.0000, 0.5000, 0.0000]]])
    """
    return (U * g[:, None, :]) @ S.T


def contributions(U: Tensor, g: Tensor) -> Tensor:
    """Additive share g_k u_k of every atom in the answer U g.

    Parameters
    ----------
    U : Tensor of shape (m, K)
    g : Tensor of shape (n, K)

    Returns
    -------
    Tensor of shape (n, K, m)
        Summed over K it is U g.

    Examples
    --------
    >>> import torch
    >>> from skvn.core.layer import contributions
    >>> contributions(torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 0.5]]))
    tensor([[[2.],
             [2.]]])
    """
    return g[:, :, None] * U.T
