"""The machinery of benchmarks/: resumable runs, one training loop, generated tables."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Scripts import each other by their bare names."""
    monkeypatch.syspath_prepend(BENCHMARKS)


class Mean:
    """Predicts the mean of y; counts its fits."""

    fits = 0

    def fit(self, X, y):
        Mean.fits += 1
        self.coef_ = y.mean(0)
        return self

    def predict(self, X):
        return np.tile(self.coef_, (len(X), 1))


def _load(config, seed, options):
    from _runner import Task, relative_error

    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2)) + 1
    tests = {"id": (X[:5], y[:5]), "far": (X[5:9], y[5:9])}
    table = pd.DataFrame({"a": [1.0]})
    return Task((X, y), tests, relative_error, lambda model: {"extra": table})


def _methods(config, options):
    from _runner import Method

    yield Method("mean", "classical", lambda seed, options: Mean(), "none")


def _run(monkeypatch, folder, *more):
    from _runner import main

    argv = ["script", "--jobs", "1", "--device", "cpu", "--out", str(folder), *more]
    monkeypatch.setattr(sys, "argv", argv)
    main("Doc.", "task", ["one", "two"], _load, _methods)


def test_a_run_writes_one_row_per_split_and_goes_on_where_it_stopped(
    monkeypatch, tmp_path, capsys
):
    _run(monkeypatch, tmp_path, "--seeds", "2", "--configs", "one")
    rows = pd.read_csv(tmp_path / "task.csv")
    assert list(rows["split"]) == ["id", "far"] * 2
    assert set(rows["n_parameters"]) == {2}
    fits = Mean.fits
    _run(monkeypatch, tmp_path, "--seeds", "2", "--configs", "one")
    assert Mean.fits == fits
    _run(monkeypatch, tmp_path, "--seeds", "2")
    assert Mean.fits == fits + 2
    assert len(pd.read_csv(tmp_path / "task.csv")) == 8
    assert len(pd.read_csv(tmp_path / "task_extra.csv")) == 4


def test_quick_and_unmatched_methods_write_nothing(monkeypatch, tmp_path, capsys):
    _run(monkeypatch, tmp_path, "--quick")
    assert list(tmp_path.iterdir()) == []


def test_errors_count_what_they_should():
    from _runner import hidden_error, relative_error

    y = np.array([[1.0, 2.0], [np.nan, 2.0]])
    assert relative_error(np.zeros((2, 2)), y) == 1
    X = np.array([[0.0, np.nan], [np.nan, 0.0]])
    assert hidden_error(np.array([[9.0, 0.0], [9.0, 9.0]]), y, X) == 1


def _line():
    return nn.Linear(4, 2)


def test_backprop_finds_a_linear_map_and_leaves_the_global_generator_alone():
    from baselines.training import Backprop

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ rng.normal(size=(4, 2))
    before = torch.get_rng_state()
    model = Backprop(_line, 0, 1500, rates=(1e-5, 3e-2)).fit(X, y)
    assert torch.equal(before, torch.get_rng_state())
    assert model.rate == 3e-2
    assert np.square(model.predict(X) - y).mean() < 1e-4 * np.square(y).mean()
    again = Backprop(_line, 0, 1500, rates=(1e-5, 3e-2)).fit(X, y)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_backprop_ignores_missing_targets_and_learns_from_made_pairs():
    from baselines.training import Backprop, WithMask

    X = np.random.default_rng(1).normal(size=(200, 4))
    y = X[:, :2].copy()
    y[::2, 0] = np.nan
    model = Backprop(_line, 0, 800, rates=(3e-2,)).fit(X, y)
    assert np.abs(model.predict(X) - X[:, :2]).max() < 0.1

    def hide(x, generator):
        holes = torch.rand(x.shape, generator=generator) < 0.5
        return torch.where(holes, torch.nan, x), x

    make = lambda: nn.Sequential(WithMask(), nn.Linear(8, 4))  # noqa: E731
    filler = Backprop(make, 0, 800, augment=hide, rates=(3e-2,))
    filler.fit(np.ones((50, 4)))
    assert np.abs(filler.predict(np.full((1, 4), np.nan)) - 1).max() < 0.1


def _rows():
    lines = [
        ("vn", "VN a", 0.1, 0.2),
        ("vn", "VN b", 0.2, 0.01),
        ("neural", "MLP", 0.2, 0.8),
        ("classical", "PCA", 0.05, 0.1),
        ("reference", "oracle", 0.0, 0.0),
    ]
    frame = {"config": "c", "seed": 0, "fit_time": 1.0, "n_parameters": 7}
    return pd.DataFrame(
        [
            frame | {"family": f, "method": m, "split": s, "error": e}
            for f, m, *errors in lines
            for s, e in zip(("id", "sum"), errors, strict=True)
        ]
    )


def test_goals_choose_the_network_on_id_and_say_where_it_loses():
    import _tables

    text = _tables.goals(_rows())
    assert "VN b" not in text
    assert "| c | sum | VN a | 0.2 | MLP | 0.8 | 4x | PCA | 0.1 | **0.5x** |" in text


def test_the_best_method_is_bold_and_references_are_not():
    import _tables

    text = _tables.table(_rows())
    assert "| PCA | **0.05** | 0.1 |" in text
    assert "| VN b | 0.2 | **0.01** |" in text
    assert "**0**" not in text


def test_readme_says_what_the_results_say():
    import _tables

    assert (BENCHMARKS / "README.md").read_text() == _tables.readme()
    project = (BENCHMARKS.parent / "README.md").read_text()
    assert project == _tables.with_headlines(project)


def test_every_script_has_the_common_options(monkeypatch):
    from _runner import parse

    monkeypatch.setattr(sys, "argv", ["script", "--quick"])
    options = parse("Doc.\nMore.", "images", ["a"])
    assert isinstance(options, argparse.Namespace)
    assert options.quick and options.seeds == 5 and options.mnist is None
