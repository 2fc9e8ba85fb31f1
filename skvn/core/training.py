"""The training step shared by ``fit`` and ``partial_fit``."""

from dataclasses import dataclass, field, replace
from math import sqrt

import torch
from torch import Tensor

from .contrast import contrast_updates, phases, two_phase_updates
from .energy import residual
from .layer import Layer, message
from .learn import (
    Adam,
    atoms_from_rows,
    coactivity,
    dead_atoms,
    hebb_step,
    local_updates,
    normalise,
)
from .network import Network, free_energy, inputs, reconstruction, settle
from .readout import CodeStatistics, Readout, add, code_statistics, fit_readout

# Codes need little accuracy while the atoms still move, much in a contrast.
_HEBB_TOL = 0.1
_CONTRAST_TOL, _PHASE_TOL = 1e-3, 1e-7
# Share of the way that a hidden layer's penalty goes towards its messages in a step.
_FOLLOW = 0.1
# Weight of the target in the two phases of a deep network.
_NUDGE = 0.1
# Step sizes: Hebb steps fall as 1 / (1 + t / 10) to a tenth, Adam starts at 0.01.
_HEBB_DECAY, _HEBB_FLOOR = 10.0, 0.1
_ADAM_RATE = 1e-2


def hebb_rate(n_steps: int) -> float:
    """Step size of the n-th Hebb step: 1 at first, annealed to 0.1."""
    return max(_HEBB_FLOOR, 1 / (1 + n_steps / _HEBB_DECAY))


def contrast_rate(progress: float) -> float:
    """Step size of a contrast step, ``progress`` in [0, 1]."""
    return _ADAM_RATE * max(1 - progress, 1e-2) ** 0.5


@dataclass
class Batch:
    """Rows on the device: x with zeros where it is missing, mask, y, weights."""

    x: Tensor
    mask: Tensor | None
    weight: Tensor
    y: Tensor | None = None


@dataclass
class Learner:
    """A network while it learns, with what its steps need to remember.

    Parameters
    ----------
    net : Network
    alpha : float
        Penalty of a hidden layer relative to its messages, which change as it learns.
    usage : list of Tensors of shape (K_l,)
        Weighted sums of g^2 since the last re-seeding.
    adam : Adam
    n_steps : int
        Hebb steps taken.
    stats : CodeStatistics or None
        What the readout was fitted to.
    readout : Readout or None
    """

    net: Network
    alpha: float
    usage: list[Tensor] = field(default_factory=list)
    adam: Adam = field(default_factory=Adam)
    n_steps: int = 0
    stats: CodeStatistics | None = None
    readout: Readout | None = None

    def hebb(
        self,
        batch: Batch,
        generator: torch.Generator,
        beta: float = 0.0,
        max_sweeps: int = 10,
    ) -> float:
        """Settle the batch, then one Atomic-Hebb step on the S of every layer.

        The random output vectors of hidden layers stay as they are: under an l1
        penalty learned ones shrink the messages to zero, layer by layer.

        With the sparse-Bayesian settle half of the columns, drawn anew in every
        step, are hidden from the codes but not from the step: the atoms learn to
        predict what they do not see.

        Parameters
        ----------
        batch : Batch
        generator : torch.Generator
        beta : float, default=0.0
            Above zero the codes are clamped towards y while they settle.
        max_sweeps : int, default=10

        Returns
        -------
        float
            Weighted sum of the rows' energies before the step.
        """
        net, x = self.net, batch.x
        top = {"target": batch.y, "beta": beta} if beta else {}
        terms = {"mask": batch.mask, **top}
        seen = terms | {"mask": self._visible(batch, generator)}
        codes = settle(net, x, tol=_HEBB_TOL, max_sweeps=max_sweeps, **seen)
        loss = (batch.weight * free_energy(net, x, codes, **terms)).sum()
        updates = local_updates(net, x, codes, batch.weight, **terms)
        rate = hebb_rate(self.n_steps)
        self._follow_messages(inputs(net, x, codes), batch.weight)
        for layer, g, (dS, _) in zip(net.layers, codes, updates, strict=True):
            c = coactivity(g, batch.weight)
            layer.S = normalise(hebb_step(layer.S, dS, c, rate))
        self._count(codes, batch.weight)
        self.n_steps += 1
        return float(loss)

    def _follow_messages(self, xs, weight):
        """Keep the penalty of hidden layers in proportion to what they read."""
        for layer, x_l in zip(self.net.layers[1:], xs[1:], strict=True):
            norm = sqrt(float(weight @ x_l.square().sum(1)) / float(weight.sum()))
            layer.lam += _FOLLOW * (self.alpha * norm - layer.lam)

    def _visible(self, batch, generator):
        """Mask of the entries that the codes may see while learning."""
        if self.net.relevance is None:
            return batch.mask
        d = batch.x.shape[1]
        hidden = torch.randperm(d, generator=generator)[: d // 2]
        visible = torch.ones_like(batch.x, dtype=torch.bool)
        visible[:, hidden] = False
        return visible if batch.mask is None else visible & batch.mask

    def read(self, batches, fit_intercept, max_sweeps, tol, keep=None):
        """Fit the readout y = U g + b to free codes.

        Parameters
        ----------
        batches : iterable of Batch
        fit_intercept : bool
        max_sweeps : int
        tol : float
            Of the settle, as at prediction.
        keep : float or None
            Share of the earlier statistics to keep; None starts anew.
        """
        stats = None if keep is None or self.stats is None else self.stats
        for batch in batches:
            options = {"mask": batch.mask, "tol": tol, "max_sweeps": max_sweeps}
            g = settle(self.net, batch.x, **options)[-1]
            new = code_statistics(g, batch.y, batch.weight)
            stats = add(stats, new, 1.0 if keep is None else keep)
        self.stats, self.readout = stats, fit_readout(stats, fit_intercept)
        self.net.layers[-1].U = self.readout.U

    def contrast(self, batch: Batch, rate: float, max_sweeps: int) -> float:
        """One centred two-phase step on all S and U, by elementwise Adam.

        Parameters
        ----------
        batch : Batch
        rate : float
        max_sweeps : int

        Returns
        -------
        float
            Weighted sum of ``1/2 ||y - U g0||^2`` before the step.
        """
        net, weight = self.net, batch.weight
        options = {"mask": batch.mask, "tol": _CONTRAST_TOL, "max_sweeps": max_sweeps}
        free = settle(net, batch.x, **options)
        y = batch.y - self.readout.b
        error = y - message(net.layers[-1], free[-1])
        if len(net.layers) == 1:
            args = batch.x, free[0], error, weight, batch.mask
            updates = [contrast_updates(net.layers[0], *args)]
        else:
            options["tol"] = _PHASE_TOL
            nudged = phases(net, batch.x, free, error, _NUDGE, **options)
            updates = two_phase_updates(net, batch.x, *nudged, weight, y, batch.mask)
        self._ascend(updates, weight.sum(), rate)
        return float((weight * error.square().sum(1)).sum() / 2)

    def state(self):
        """Copies of all layers, to come back to."""
        layers = self.net.layers
        return [replace(a, S=a.S.clone(), U=a.U.clone()) for a in layers]

    def restore(self, state):
        """Go back to an earlier ``state``."""
        self.net.layers = state

    def _ascend(self, updates, total, rate):
        """Adam on the flattened list S_1, U_1, S_2, U_2, ..."""
        net = self.net
        tensors = [t for layer in net.layers for t in (layer.S, layer.U)]
        flat = [u / total for pair in updates for u in pair]
        moved = iter(self.adam.step(tensors, flat, rate))
        for layer in net.layers:
            layer.S, layer.U = normalise(next(moved)), next(moved)

    def _count(self, codes, weight):
        """Add this batch to the use of every atom."""
        use = [weight @ g.square() for g in codes]
        self.usage = (
            [a + b for a, b in zip(self.usage, use, strict=True)] if self.usage else use
        )

    def reseed(self, batch: Batch, generator: torch.Generator) -> int:
        """Replace dead atoms by rows drawn in proportion to their squared error.

        Parameters
        ----------
        batch : Batch
            Rows to draw from.
        generator : torch.Generator

        Returns
        -------
        int
            Number of atoms replaced.
        """
        dead = [dead_atoms(use) for use in self.usage]
        self.usage = []
        if not any(d.any() for d in dead):
            return 0
        codes = settle(self.net, batch.x, mask=batch.mask, tol=_HEBB_TOL)
        for level, x_l in enumerate(inputs(self.net, batch.x, codes)):
            layer, d = self.net.layers[level], dead[level]
            mask = batch.mask if level == 0 else None
            r = residual(layer.S, x_l, codes[level], mask)
            odds = batch.weight * r.square().sum(1)
            if d.any() and odds.sum() > 0:
                whole = reconstruction(layer, codes[level]) + r
                new = atoms_from_rows(whole, odds, int(d.sum()), generator)
                layer.S[:, d] = _blank(new, mask)
        return int(sum(d.sum() for d in dead))


def build(batch, n_components, widths, alpha, phi, generator, **net_options):
    """A network whose atoms are rows of the data (and of the messages above).

    Every layer's penalty is ``alpha`` times the RMS norm of the rows it reads.

    Parameters
    ----------
    batch : Batch
        The rows to start from.
    n_components : list of int
        Atoms per layer, from the input upward.
    widths : list of int
        Width of the message between two layers; one entry less.
    alpha : float
    phi : str
        Activation between layers.
    generator : torch.Generator
    **net_options
        ``positive``, ``n_nonzero`` of the network.

    Returns
    -------
    Network
    """
    net = Network([], **net_options)
    whole = filled(batch)
    for level, K in enumerate(n_components):
        S = _blank(atoms_from_rows(whole, batch.weight, K, generator), batch.mask)
        lam = alpha * sqrt(float(_column_squares(batch)[0].sum()))
        if level + 1 == len(n_components):
            net.layers.append(Layer(S, S, lam))
            break
        layer = Layer(S, random_directions(widths[level], K, generator, S), lam, phi)
        net.layers.append(layer)
        g = settle(Network([layer], net.positive), batch.x, mask=batch.mask)[0]
        batch = Batch(message(layer, g), None, batch.weight)
        whole = batch.x
    return net


def filled(batch):
    """The rows of x with the column's mean where an entry is missing."""
    if batch.mask is None:
        return batch.x
    mass = batch.weight @ batch.mask.to(batch.x)
    mean = (batch.weight @ batch.x) / torch.where(mass > 0, mass, 1)
    return torch.where(batch.mask, batch.x, mean)


def mean_square(batch):
    """Weighted mean square of an observed entry, every observed column alike."""
    squares, observed = _column_squares(batch)
    return float(squares.sum() / observed.sum().clamp(min=1))


def _column_squares(batch):
    """Weighted mean square of every column, 0 if never observed; which ones are."""
    seen = torch.ones_like(batch.x) if batch.mask is None else batch.mask
    mass = batch.weight @ seen.to(batch.x)
    squares = (batch.weight @ batch.x.square()) / torch.where(mass > 0, mass, 1)
    return squares, mass > 0


def _blank(S, mask):
    """Atoms that are 0 in the columns that no row has observed."""
    return S if mask is None else normalise(S * mask.any(0)[:, None])


def random_directions(m, K, generator, like):
    """K random unit vectors of length m, as columns."""
    draws = torch.randn((m, K), generator=generator, dtype=torch.float64)
    return normalise(draws.to(like))
