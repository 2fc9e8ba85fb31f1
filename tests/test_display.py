"""Displays: what they store and what they draw."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skvn import (
    VectorNetworkGridRegressor,
    VectorNetworkGridTransformer,
    VectorNetworkOperatorRegressor,
    VectorNetworkRegressor,
    VectorNetworkTransformer,
)
from skvn.display import (
    AtomsDisplay,
    CodeUsageDisplay,
    EffectiveWeightDisplay,
    LossCurveDisplay,
)
from skvn.inspection import atom_usage

matplotlib.use("agg")
import matplotlib.pyplot as plt

RNG = np.random.default_rng(0)
X = np.abs(RNG.standard_normal((60, 12)))
Y = X @ RNG.standard_normal((12, 3))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def fitted(cls, n_components=7, **options):
    return cls(n_components, max_iter=3, random_state=0, **options).fit(X, Y)


def operators():
    network = VectorNetworkOperatorRegressor(3, solver="l1", max_iter=5)
    return network.fit(X, Y)


FLAT = [
    (VectorNetworkTransformer, {}),
    (VectorNetworkTransformer, {"solver": "ard"}),
    (VectorNetworkTransformer, {"n_components": (7, 5)}),
    (VectorNetworkRegressor, {}),
    (VectorNetworkRegressor, {"n_components": (7, 5)}),
]


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, skvn.display; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(("cls", "options"), FLAT, ids=str)
def test_atoms_as_images(cls, options):
    network = fitted(cls, **options)
    display = AtomsDisplay.from_estimator(network, n_atoms=5, shape=(3, 4))
    assert_array_equal(display.atoms, network.components_[:5])
    (image,) = display.ax_.images
    sheet = np.asarray(image.get_array().filled(np.nan))
    assert sheet.shape == (2 * 3 + 1, 3 * 4 + 2)  # two rows of three, gaps between
    second = network.components_[1].reshape(3, 4)
    assert_allclose(sheet[:3, 5:9], second / np.abs(second).max())
    assert np.isnan(sheet[3]).all()
    assert display.figure_ is display.ax_.figure


def test_atoms_as_curves_most_used_first():
    network = fitted(VectorNetworkTransformer)
    display = AtomsDisplay.from_estimator(network, X, n_atoms=4)
    order = np.argsort(-atom_usage(network, X).energy_share)[:4]
    assert_array_equal(display.index, order)
    assert len(display.ax_.lines) == 4
    top = network.components_[order[0]]
    assert_allclose(display.ax_.lines[0].get_ydata(), top / np.abs(top).max())
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [str(k) for k in order]


def test_atoms_without_an_estimator_and_on_given_axes():
    _, ax = plt.subplots()
    display = AtomsDisplay(np.zeros((3, 4)), shape=(2, 2)).plot(ax, cmap="gray")
    assert display.ax_ is ax
    assert ax.images[0].get_cmap().name == "gray"
    assert_array_equal(display.index, [0, 1, 2])


def test_atoms_of_operators():
    network = operators()
    display = AtomsDisplay.from_estimator(network, X)
    assert display.atoms.shape == (3, 15)


@pytest.mark.parametrize(("cls", "options"), FLAT, ids=str)
def test_code_usage(cls, options):
    network = fitted(cls, **options)
    display = CodeUsageDisplay.from_estimator(network, X)
    left, right = display.axes_
    heights = [bar.get_height() for bar in left.patches]
    assert_allclose(heights, np.sort(atom_usage(network, X).frequency)[::-1])
    assert sum(bar.get_height() for bar in right.patches) == len(X)
    display.plot(measure="mean_magnitude")
    heights = [bar.get_height() for bar in display.axes_[0].patches]
    assert_allclose(heights, np.sort(display.mean_magnitude)[::-1])


def test_code_usage_refuses_other_measures_and_too_few_axes():
    display = CodeUsageDisplay(np.ones(3), np.ones(3), np.ones(5, dtype=int))
    with pytest.raises(ValueError, match="measure must be one of"):
        display.plot(measure="median")
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="ax must hold 2 axes, got 1"):
        display.plot(ax)


def test_code_usage_of_a_grid():
    grid = VectorNetworkGridTransformer((3, 4), n_components=4, max_iter=3).fit(X)
    display = CodeUsageDisplay.from_estimator(grid, X)
    assert len(display.axes_[0].patches) == 8


@pytest.mark.parametrize(("cls", "options"), FLAT, ids=str)
def test_an_effective_weight_is_the_sum_of_its_atoms(cls, options):
    network = fitted(cls, **options)
    n_top = len(network.atoms())
    display = EffectiveWeightDisplay.from_estimator(network, X[:1], n_atoms=n_top)
    assert_allclose(display.weight, network.effective_weight(X[:1])[0])
    assert_allclose(display.parts.sum(0), display.weight, atol=1e-10)
    sizes = np.linalg.norm(display.parts, axis=(1, 2))
    assert (np.diff(sizes) <= 1e-12).all()


def test_an_effective_weight_is_drawn_in_parts():
    network = fitted(VectorNetworkRegressor)
    display = EffectiveWeightDisplay.from_estimator(network, X[:1], n_atoms=2)
    images = [np.asarray(ax.images[0].get_array()) for ax in display.axes_]
    assert_allclose(images[0], display.weight)
    assert_allclose(sum(images[1:]), display.weight)
    titles = [ax.get_title() for ax in display.axes_]
    assert titles == ["W*", *(f"atom {k}" for k in display.index), "other atoms"]


def test_an_effective_weight_of_an_operator():
    network = operators()
    display = EffectiveWeightDisplay.from_estimator(network, X[:1])
    assert_allclose(display.parts.sum(0), display.weight, atol=1e-10)


def test_an_effective_weight_is_of_one_row():
    with pytest.raises(ValueError, match="one row, got 2"):
        EffectiveWeightDisplay.from_estimator(fitted(VectorNetworkRegressor), X[:2])


def test_loss_and_validation_curves():
    network = fitted(VectorNetworkRegressor, early_stopping=True)
    display = LossCurveDisplay.from_estimator(network, color="k")
    (line,) = display.ax_.lines
    assert line.get_color() == "k"
    assert_allclose(line.get_ydata(), network.loss_curve_)
    (scores,) = display.score_ax_.lines
    assert_allclose(scores.get_ydata(), network.validation_scores_)
    plain = LossCurveDisplay.from_estimator(fitted(VectorNetworkTransformer))
    assert plain.score_ax_ is None


def test_other_estimators_are_refused():
    grid = VectorNetworkGridRegressor(max_iter=70).fit(X, Y)
    LossCurveDisplay.from_estimator(grid)
    with pytest.raises(TypeError, match="AtomsDisplay draws"):
        AtomsDisplay.from_estimator(grid)
    with pytest.raises(TypeError, match="EffectiveWeightDisplay draws"):
        EffectiveWeightDisplay.from_estimator(grid, X[:1])
    with pytest.raises(TypeError, match="does not infer codes"):
        CodeUsageDisplay.from_estimator(grid, X)
