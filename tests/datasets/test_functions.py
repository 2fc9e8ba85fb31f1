import numpy as np
import pytest

from skvn.datasets import hide_entries, make_functions

KINDS = ["singles", "id_pairs", "pairs", "triples", "nested", "train"]


@pytest.mark.parametrize("kind", KINDS)
def test_shape_seed_and_finite(kind):
    X, clean = make_functions(37, kind, random_state=3)
    again, _ = make_functions(37, kind, random_state=3)
    assert X.shape == clean.shape == (37, 64)
    assert np.isfinite(X).all()
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(X, clean)
    assert not np.array_equal(X, make_functions(37, kind, random_state=4)[0])


def test_amplitudes_of_singles():
    X, _ = make_functions(400, "singles", random_state=0)
    largest = np.abs(X).max(1)
    assert largest.max() <= 1.5 + 1e-12
    # Polynomials reach their amplitude, which is at least a half.
    assert largest[200:300].min() >= 0.5 - 1e-12


def test_polynomials_are_cubic():
    X, _ = make_functions(8, "singles", random_state=0)
    t = np.linspace(-1, 1, 64)
    cubic = np.vander(t, 4)
    for y in X[4:6]:
        np.testing.assert_allclose(cubic @ np.linalg.lstsq(cubic, y)[0], y, atol=1e-10)


def test_noise_is_relative_to_the_signal():
    X, clean = make_functions(2000, "pairs", noise=0.1, random_state=0)
    ratio = np.std(X - clean) / np.sqrt(np.mean(clean**2))
    assert abs(ratio - 0.1) < 0.003


def test_hidden_entries():
    X = np.random.default_rng(0).standard_normal((50, 64))
    block = np.isnan(hide_entries(X, "block", random_state=0))
    assert (block.sum(1) == 16).all()
    edges = np.diff(block.astype(int), axis=1)
    assert (np.abs(edges).sum(1) <= 2).all()  # one run
    random = np.isnan(hide_entries(X, "random", random_state=0))
    assert (random.sum(1) == 32).all()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="kind must be one of"):
        make_functions(3, "square")
    with pytest.raises(ValueError, match="pattern must be"):
        hide_entries(np.ones((2, 8)), "stripes")


def test_global_state_is_untouched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_functions(5, "train", random_state=0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
