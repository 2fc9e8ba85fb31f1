"""What every estimator shares: validated rows, the fit loop, safe failure."""

import copy
import functools
import warnings

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from ._data import Rows, detached, float_dtypes, resolve_device
from ._progress import Progress

# Rows that settle together at prediction: bounds memory, changes no result.
_PREDICT_ROWS = 1024

# Address of the published documentation, where the "?" of an estimator's diagram
# leads. It has none yet, and diagrams have no link.
DOCUMENTATION = ""


def unchanged_on_error(method):
    """Give the estimator back its old attributes if the method raises."""

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


class SettlingEstimator(CallbackSupportMixin, BaseEstimator):
    """Base of all estimators: they settle codes, then learn from them, in epochs.

    A subclass gives ``_stages`` (a list of functions ``epoch(learner, rows,
    generator, progress) -> loss``), ``_attributes(learner, rows)`` (fitted attributes
    as NumPy) and ``_validation_score(learner, rows, held_out)``. A learner gives
    ``state()`` and ``restore(state)``.
    """

    _doc_link_module = "skvn"

    @property
    def _doc_link_template(self):
        """Address of the estimator's page in the API reference."""
        page = "/generated/{estimator_module}.{estimator_name}.html"
        return DOCUMENTATION and DOCUMENTATION + page

    def __sklearn_tags__(self):
        """NaN in X means missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validated(self, X, reset=False):
        """X as float rows; NaN allowed, inf not."""
        return validate_data(
            self,
            detached(X),
            reset=reset,
            dtype=float_dtypes(X),
            ensure_all_finite="allow-nan",
        )

    def _rows(self, X, y, sample_weight, reset):
        """Validated rows with their weights; rows of weight zero are left out."""
        options = {"dtype": float_dtypes(X), "ensure_all_finite": "allow-nan"}
        if y is None:
            X = self._validated(X, reset)
        else:
            options |= {"multi_output": True, "y_numeric": True}
            y = detached(y)
            X, y = validate_data(self, detached(X), y, reset=reset, **options)
        weight = _check_sample_weight(
            detached(sample_weight), X, dtype=X.dtype, ensure_non_negative=True
        )
        rows = Rows(X, y, weight, resolve_device(self.device, X))
        return rows if sample_weight is None else rows.positive()

    def _query(self, X):
        """Rows of X, validated, to be settled."""
        check_is_fitted(self)
        X = self._validated(X)
        return Rows(X, None, np.ones(len(X)), resolve_device(self.device, X))

    def _generator(self, n_steps=0):
        """CPU generator seeded from ``random_state``; global state is not touched.

        The steps already taken are part of the seed: with an integer ``random_state``
        the calls of ``partial_fit`` would otherwise all draw the same numbers.
        """
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return torch.Generator().manual_seed(int(seed) + n_steps)

    def _fit_batch(self, n):
        """Rows per training step: "auto" is a quarter of them, within 64 and 256."""
        if self.batch_size == "auto":
            return int(np.clip(n // 4, 64, 256))
        return self.batch_size

    def _predict_batch(self):
        """Rows that settle together at prediction."""
        return _PREDICT_ROWS if self.batch_size == "auto" else self.batch_size

    def _split(self, rows):
        """Training rows and, with early stopping, held-out rows."""
        if not self.early_stopping:
            return rows, None
        options = {"test_size": self.validation_fraction}
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        train, test = train_test_split(
            np.arange(len(rows)), random_state=seed, **options
        )
        return rows.take(train), rows.take(test)

    def _learn(self, learner, rows, held_out, generator, X, y):
        """Run all stages; returns the fitted attributes.

        Every epoch is one task of scikit-learn's callback API; a callback that asks
        to stop ends the fit with the state it has reached.
        """
        stages = self._stages()
        context = self._init_callback_context(max_subtasks=len(stages) * self.max_iter)
        # A transformer's target is X itself: lets ScoringMonitor score it.
        data = {"estimator": self, "X": X, "y": X if y is None else y}
        context.call_on_fit_task_begin(**data)
        history = {"loss_curve_": [], "validation_scores_": []}
        for stage in stages:
            if self._run_stage(
                stage, learner, rows, held_out, generator, context, data, history
            ):
                break
        if held_out is None:
            del history["validation_scores_"]
        history["n_iter_"] = len(history["loss_curve_"])
        attributes = {**self._attributes(learner, rows), **history}
        context.call_on_fit_task_end(**data, reconstruction_attributes=attributes)
        return attributes

    def _run_stage(
        self, stage, learner, rows, held_out, generator, context, data, history
    ):
        """Epochs of one stage until it settles; True if a callback asked to stop."""
        progress = self._watch(learner, held_out)
        for epoch in range(self.max_iter):
            task = context.subcontext(task_name="epoch")
            task.call_on_fit_task_begin(**data)
            loss = stage(learner, rows, generator, epoch / self.max_iter)
            self._record(history, loss, learner, rows, held_out)
            value = loss if held_out is None else -history["validation_scores_"][-1]
            settled = progress.update(value, lambda: learner.state())
            # A copy: the readout or floor of an epoch must not alter what it learns.
            stop = task.call_on_fit_task_end(
                **data,
                reconstruction_attributes=lambda: self._attributes(
                    copy.deepcopy(learner), rows
                ),
            )
            if settled or stop:
                break
        else:
            self._warn_unsettled(learner)
            stop = False
        if progress.best_state is not None:
            learner.restore(progress.best_state)
        return stop

    def _watch(self, learner, held_out):
        """What decides that a stage has settled."""
        return Progress(self.tol, self.n_iter_no_change, held_out is not None)

    def _warn_unsettled(self, learner):
        """Say that ``max_iter`` came first."""
        warnings.warn(
            f"Stopped after max_iter={self.max_iter} epochs before the loss had "
            f"settled to tol={self.tol}. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )

    def _record(self, history, loss, learner, rows, held_out):
        """Append one epoch to the curves and, if asked, print it."""
        history["loss_curve_"].append(loss)
        if held_out is not None:
            score = self._validation_score(learner, rows, held_out)
            history["validation_scores_"].append(score)
        if self.verbose:
            n_iter = len(history["loss_curve_"])
            print(f"[{type(self).__name__}] epoch {n_iter}, loss {loss:.6g}")

    def _store(self, attributes):
        """Set fitted attributes."""
        for name, value in attributes.items():
            setattr(self, name, value)
