"""The operator structure as an estimator base: systems, learning, inference."""

import numpy as np
import torch
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from ._base import SettlingEstimator
from ._data import Rows, resolve_device, to_tensor
from .core.empirical_bayes import ridge_operators
from .core.grow import draw_systems, start_atoms
from .core.mixture import Mixture
from .core.operator import design, limit_rank, misfit, norms, whitener
from .core.operator_learn import OperatorLearner, annealed, may_reseed, start_prior
from .core.operator_model import Operators, infer, settle_systems
from .core.system import Layout, answerable, systems
from .systems import count_rows

# "auto" grows up to so many atoms.
_MAX_ATOMS = 12


class OperatorEstimator(SettlingEstimator):
    """Codes of systems by atoms that are operators."""

    # --- learning --------------------------------------------------------------

    def _fit(self, X, y, sample_weight):
        """Validate, learn, store."""
        self._validate_params()
        rows = self._rows(X, y, sample_weight, reset=True)
        generator = self._generator()
        self._measure(rows)
        learner = self._start(rows, generator)
        self._store(self._learn(learner, rows, None, generator, X, y))
        del self._whitener, self._drawn
        return self

    def _rows(self, X, y, sample_weight, reset):
        """Validated rows; y may hold NaN, but not everywhere."""
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        both = options, {**options, "ensure_2d": False}
        X, y = validate_data(self, X, y, reset=reset, validate_separately=both)
        check_consistent_length(X, y)
        weight = _check_sample_weight(
            sample_weight, X, dtype=X.dtype, ensure_non_negative=True
        )
        if y.ndim > 2 or np.isnan(y).all():
            raise ValueError(
                "y must have one or two dimensions and an entry that is not NaN."
            )
        self._y_is_flat = y.ndim == 1
        y = y.reshape(len(y), -1).astype(X.dtype, copy=False)
        rows = Rows(X, y, weight, resolve_device(self.device, X))
        return rows if sample_weight is None else rows.positive()

    def _measure(self, rows):
        """Layout of the systems, scale of the responses, whitening of the states."""
        d, m = rows.X.shape[1], rows.y.shape[1]
        if self.state_size is None:
            layout = Layout(0, d + m, 1, m)
        else:
            sizes = self.state_size, self.response_size
            layout = Layout(*sizes, *count_rows(d, m, *sizes))
        self._layout, self.n_outputs_ = layout, m
        self.n_observed_, self.n_queries_ = layout.n_observed, layout.n_queries
        F, c = max(layout.state_size, 1), layout.response_size
        square, count, moment = 0.0, 0.0, 0.0
        for batch in rows.batches(self._predict_batch()):
            part, w = self._systems(batch), batch.weight[:, None, None]
            square = square + (w * part.responses.square()).sum((0, 1))
            count = count + (w * part.seen.expand_as(part.responses)).sum((0, 1))
            z = (part.states.expand(len(w), -1, -1), w * part.seen[:, :, :1])
            moment = moment + torch.einsum("npf,npg,npm->fg", z[0], z[0], z[1])
        self.response_scale_ = self._scale(square, count).astype(rows.X.dtype)
        self._whitener = torch.eye(F, dtype=rows.dtype, device=rows.device)
        if self.whiten and layout.state_size:
            self._whitener = whitener(moment * c / count.sum())

    def _scale(self, square, count):
        """Root mean square of the responses; of X and y apart if the state is 1."""
        d, scale = self.n_features_in_, np.ones(len(count))
        constant = self._layout.state_size == 0
        for kind in [slice(0, d), slice(d, None)] if constant else [slice(None)]:
            power = float(square[kind].sum() / count[kind].sum().clamp_min(1e-30))
            scale[kind] = power**0.5 or 1.0
        return scale

    def _systems(self, batch):
        """A batch as systems, as they are."""
        return systems(batch.x, batch.mask, batch.y, self._layout)

    def _prepared(self, batch):
        """A batch as systems with whitened states and responses at unit scale."""
        part = self._systems(batch)
        scale = to_tensor(self.response_scale_, batch.x.device, batch.x.dtype)
        states, responses = part.states @ self._whitener, part.responses / scale
        return part._replace(states=states, responses=responses)

    def _start(self, rows, generator):
        """A learner whose atoms are grown from the data."""
        x = to_tensor(np.nan_to_num(np.hstack([rows.X, rows.y])), rows.device)
        index, weight = draw_systems(x, to_tensor(rows.weight, rows.device), generator)
        self._drawn = index.cpu().numpy()
        part = self._prepared(rows.batch(self._drawn))
        grown = self.n_components == "auto"
        n_atoms = _MAX_ATOMS if grown else self.n_components
        atoms, scale, noise = start_atoms(part, weight.to(x.dtype), n_atoms, grown)
        rank = None if self.rank == "full" else self.rank
        atoms = limit_rank(atoms, rank)
        atoms = atoms / norms(atoms)[:, None, None]
        prior = start_prior(self.solver, len(atoms), scale, atoms)
        net = Operators(atoms, self._layout, self.solver, prior, noise)
        return OperatorLearner(net, rank)

    def _stages(self):
        """One stage: EM, or local steps."""
        return [self._hebb_epoch if self.solver == "l1" else self._em_epoch]

    def _em_epoch(self, learner, rows, generator, progress):
        """Expected squared error of an observed entry before one round of EM."""
        batches = rows.batches(self._predict_batch())
        return learner.em((self._prepared(b), b.weight) for b in batches)

    def _hebb_epoch(self, learner, rows, generator, progress):
        """Mean energy of one shuffled pass of local steps."""
        alpha = annealed(self.alpha, progress)
        loss = 0.0
        for b in rows.batches(self._fit_batch(len(rows)), generator):
            loss += learner.hebb(self._prepared(b), b.weight, alpha)
        if may_reseed(progress):
            learner.reseed(lambda count: self._unexplained(learner, rows, alpha, count))
        return loss / float(rows.weight.sum())

    def _unexplained(self, learner, rows, alpha, count):
        """Operators of the systems with the largest squared errors."""
        part, net = self._prepared(rows.batch(self._drawn)), learner.net
        D = design(net.atoms, part.states)
        g = settle_systems(net, D, *part.entries(), alpha, True).codes
        error = misfit(net.atoms, part, g).square().sum((1, 2))
        worst = error.topk(min(count, len(error))).indices
        worst = worst[torch.arange(count) % len(worst)]
        return ridge_operators(part.take(worst)).reshape(-1, *net.atoms.shape[1:])

    # --- state: NumPy on the estimator, tensors in the core ---------------------

    def _attributes(self, learner, rows=None):
        """Fitted attributes as NumPy, atoms in the units of X and y."""
        net, array = learner.net, lambda t: t.cpu().numpy()
        scale = self.response_scale_[:, None]
        attributes = {
            "atoms_": scale * array(net.atoms @ self._whitener.T),
            "n_components_": len(net.atoms),
            "solver_": net.solver,
            "device_": str(net.atoms.device),
        }
        if net.solver == "l1":
            return attributes
        if net.solver == "ep":
            names = "prior_weight_", "prior_mean_", "prior_variance_"
            attributes |= zip(names, map(array, net.prior), strict=True)
        else:
            attributes["prior_variance_"] = array(net.prior)
        noise = array(learner.answer_noise) * self._answer_scale() ** 2
        return attributes | {
            "noise_": net.noise,
            "dof_": net.dof,
            "noise_variance_": noise,
        }

    def _answer_scale(self):
        """Scale of every column of y, (m,)."""
        scale, m = self.response_scale_, self.n_outputs_
        return (
            scale[-m:]
            if self._layout.state_size == 0
            else (np.tile(scale, self._layout.n_queries))
        )

    def _model(self, device, dtype):
        """The fitted structure on a device, responses at unit scale."""
        put = lambda a: to_tensor(a, device, dtype)  # noqa: E731
        prior, noise, dof = None, 1.0, np.inf
        if self.solver_ != "l1":
            prior, noise, dof = put(self.prior_variance_), self.noise_, self.dof_
        if self.solver_ == "ep":
            prior = Mixture(put(self.prior_weight_), put(self.prior_mean_), prior)
        atoms = put(self.atoms_) / put(self.response_scale_)[:, None]
        return Operators(atoms, self._layout, self.solver_, prior, noise, dof)

    # --- prediction ------------------------------------------------------------

    def _infer(self, X):
        """Validated X; codes, answers, their variance and where there is a query."""
        check_is_fitted(self)
        X = self._validated(X)
        rows = Rows(X, None, np.ones(len(X)), resolve_device(self.device, X))
        net = self._model(rows.device, rows.dtype)
        scale = to_tensor(self.response_scale_, rows.device, rows.dtype)
        alpha = self.alpha if self.transform_alpha is None else self.transform_alpha
        parts = []
        for b in rows.batches(self._predict_batch()):
            part = self._systems(b)
            part = part._replace(responses=part.responses / scale)
            found = infer(net, part, alpha, self.transform_activity)
            parts.append((*found, self._asked(b)))
        codes, answers, variance, asked = zip(*parts, strict=True)
        variance = None if variance[0] is None else torch.cat(variance)
        return X, torch.cat(codes), torch.cat(answers), variance, torch.cat(asked)

    def _asked(self, batch):
        """Which entries of the answer have a query, (n, m)."""
        known = ~torch.zeros_like(batch.x, dtype=torch.bool)
        mask = known if batch.mask is None else batch.mask
        asked = answerable(mask, self._layout)
        return asked.repeat_interleave(self.n_outputs_ // asked.shape[1], 1)
