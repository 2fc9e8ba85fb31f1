"""The one training loop of all networks that learn by backpropagation.

``Backprop`` holds out a tenth of the training rows, trains every learning rate for a
sixth of the budget, keeps the best one on the held-out rows, and trains it until the
held-out error has stopped falling: the rate is cut to a third after ``patience`` checks
without progress, and the run ends at the third cut or with the budget. The best state
is kept. ``budget`` says what was used and how much the last fifth of the run still
gained, so that a run that was cut short can be seen.
"""

import copy
import math

import torch
from torch import nn

RATES = (3e-4, 1e-3, 3e-3)
CHECKS = 60  # looks at the held-out rows in a full run
CUTS = 3


def relative_loss(y_hat, y):
    """Squared error over the energy of y, where y is not NaN."""
    there = ~torch.isnan(y)
    y = torch.nan_to_num(y)
    return ((y_hat - y).square() * there).sum() / (y.square() * there).sum()


class WithMask(nn.Module):
    """NaN becomes 0, and a second half says where there was none."""

    def forward(self, x):
        """(n, d) to (n, 2 d)."""
        return torch.cat([torch.nan_to_num(x), (~torch.isnan(x)).to(x.dtype)], 1)


class Backprop:
    """A torch module as fit/predict.

    Parameters
    ----------
    make : callable () -> nn.Module
        A module may have ``loss(x, y)``; otherwise it is ``relative_loss``.
    seed : int
    max_steps : int
        Budget of the full run, in steps of Adam.
    device : str
    batch_size, patience, rates
    augment : callable (x, generator) -> (input, target) or None
        Makes the pairs to learn from, afresh for every batch; ``fit(X)`` needs no y.
    weight_decay : float
        Of AdamW.
    anneal : bool
        Whether the rate also falls linearly to 0 over the budget.
    """

    def __init__(
        self,
        make,
        seed,
        max_steps,
        device="cpu",
        *,
        batch_size=128,
        patience=6,
        rates=RATES,
        augment=None,
        weight_decay=1e-4,
        anneal=False,
    ):
        self.make, self.seed, self.max_steps, self.device = (
            make,
            seed,
            max_steps,
            device,
        )
        self.batch_size, self.patience, self.rates = batch_size, patience, rates
        self.augment, self.weight_decay = augment, weight_decay
        self.anneal = anneal

    def fit(self, X, y=None):
        """Choose the rate, then train."""
        X, y = self._tensor(X), None if y is None else self._tensor(y)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            order = torch.randperm(len(X), device=X.device)
            held, train = order.tensor_split([max(1, len(X) // 10)])
            pick = lambda i: (X[i], None if y is None else y[i])  # noqa: E731
            train, held = pick(train), self._pairs(*pick(held), self._generator(1))
            short = max(1, self.max_steps // 6)
            tries = [self._train(train, held, rate, short) for rate in self.rates]
            self.rate = self.rates[int(torch.tensor([t[1] for t in tries]).argmin())]
            self.net, error, steps, gain = self._train(
                train, held, self.rate, self.max_steps
            )
        self.n_parameters = sum(p.numel() for p in self.net.parameters())
        self.budget = (
            f"{steps} of {self.max_steps} steps of {self.batch_size}, "
            f"rate {self.rate:g}, held-out error {error:.3g}, "
            f"last fifth gained {gain:.1%}"
        )
        return self

    @torch.no_grad()
    def predict(self, X):
        """Answers, in pieces of 1000 rows."""
        self.net.eval()
        parts = [self.net(x) for x in self._tensor(X).split(1000)]
        return torch.cat(parts).double().cpu().numpy()

    def _tensor(self, a):
        return torch.as_tensor(a, dtype=torch.float32, device=self.device)

    def _generator(self, key):
        return torch.Generator(self.device).manual_seed(1000 * self.seed + key)

    def _pairs(self, x, y, generator):
        return (x, y) if self.augment is None else self.augment(x, generator)

    def _loss(self, net, x, y):
        return net.loss(x, y) if hasattr(net, "loss") else relative_loss(net(x), y)

    def _train(self, train, held, rate, max_steps):
        """Best module, its held-out error, steps done, gain in the last fifth."""
        torch.manual_seed(self.seed)
        net, generator = self.make().to(self.device), self._generator(2)
        adam = torch.optim.AdamW(net.parameters(), rate, weight_decay=self.weight_decay)
        errors, best, cuts, waited = [], (math.inf, None), 0, 0
        every = max(1, self.max_steps // CHECKS)
        for step in range(1, max_steps + 1):
            warm = min(1, 50 * step / self.max_steps)  # over the first fiftieth
            left = 1 - step / max_steps if self.anneal else 1
            for group in adam.param_groups:
                group["lr"] = rate * 3.0**-cuts * warm * left
            self._step(net, adam, train, generator)
            if step % every and step != max_steps:
                continue
            errors.append(self._held_out(net, held))
            waited = 0 if errors[-1] < 0.998 * best[0] else waited + 1
            if errors[-1] < best[0]:
                best = errors[-1], copy.deepcopy(net.state_dict())
            if waited >= self.patience:
                cuts, waited = cuts + 1, 0
                if cuts == CUTS:
                    break
        if best[1] is not None:
            net.load_state_dict(best[1])
        before = min(errors[: max(1, len(errors) * 4 // 5)])
        return net, best[0], step, 1 - best[0] / before

    def _step(self, net, adam, train, generator):
        """One step of Adam on a random batch, gradient clipped to norm 1."""
        net.train()
        n = len(train[0])
        i = torch.randint(
            n, (min(self.batch_size, n),), generator=generator, device=self.device
        )
        x, y = train[0][i], None if train[1] is None else train[1][i]
        loss = self._loss(net, *self._pairs(x, y, generator))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()

    @torch.no_grad()
    def _held_out(self, net, held):
        net.eval()
        return float(relative_loss(net(held[0]), held[1]))
