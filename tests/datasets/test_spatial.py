"""Objects at unseen combinations of row and column."""

import numpy as np
import pytest

from skvn.datasets import hide_sides, make_spatial, population_code


def test_codes_are_their_formulas():
    np.testing.assert_allclose(
        population_code([1], 3), [[np.exp(-0.5), 1, np.exp(-0.5)]]
    )
    assert population_code([1], 3, "onehot").tolist() == [[0, 1, 0]]
    assert population_code([1], 3, "ramp").tolist() == [[1, 1, 0]]


def test_the_hole_is_unseen_but_each_of_its_rows_and_columns_is_seen():
    data = make_spatial(random_state=0)
    assert (len(data.train), len(data.test), len(data.ood)) == (396, 99, 289)
    rows = np.concatenate([data.train, data.test, data.ood])
    assert np.array_equal(np.sort(rows), np.arange(784))
    seen, unseen = data.positions[data.train], data.positions[data.ood]
    for axis in (0, 1):
        assert set(unseen[:, axis]) <= set(seen[:, axis])
    assert ((unseen >= 6) & (unseen <= 22)).all()


def test_the_object_is_at_its_position():
    data = make_spatial(size=10, random_state=0)
    brightest = np.unravel_index(data.y.argmax(1), (10, 10))
    assert np.array_equal(np.column_stack(brightest)[:, ::-1], data.positions)
    assert np.array_equal(data.X[:, :10].argmax(1), data.positions[:, 0])
    assert np.array_equal(data.X[:, 10:].argmax(1), data.positions[:, 1])


@pytest.mark.parametrize(
    ("shape", "rank"), [("bump", 1), ("inverse", 2), ("ring", 4), ("ellipse", 9)]
)
def test_shapes_have_their_rank(shape, rank):
    data = make_spatial(shape, random_state=0)
    middle = (data.positions == 14).all(axis=1)
    values = np.linalg.svd(data.y[middle].reshape(28, 28), compute_uv=False)
    assert (values > 0.005 * values[0]).sum() == rank


def test_options_change_only_what_they_say():
    plain, noisy, mixed = (
        make_spatial(size=10, random_state=0, **options)
        for options in ({}, {"noise": 0.1}, {"mixed": True})
    )
    assert (plain.y[plain.ood] == noisy.y[plain.ood]).all()
    assert 0.08 < (noisy.y - plain.y)[plain.train].std() < 0.12
    np.testing.assert_allclose(mixed.X @ mixed.X.T, plain.X @ plain.X.T, atol=1e-12)
    assert (mixed.train == plain.train).all()


def test_random_state_decides_everything():
    a, b, c = (make_spatial(size=8, random_state=s, noise=0.1) for s in (0, 0, 1))
    assert (a.train == b.train).all() and (a.y == b.y).all()
    assert (a.train != c.train).any()


def test_one_side_is_hidden():
    data = make_spatial(size=10, random_state=0)
    X = hide_sides(data.y, data.positions, 0)
    hidden = np.isnan(X).reshape(-1, 10, 10)
    assert (X == data.y)[~np.isnan(X)].all()
    for image in hidden:  # whole lines, from an edge on
        assert image.all(0).sum() * 10 == image.sum() or (
            image.all(1).sum() * 10 == image.sum()
        )
    middle = (data.positions == 5).all(axis=1)
    assert 0.3 <= hidden[middle].mean() <= 0.7


@pytest.mark.parametrize(
    ("options", "message"), [({"shape": "cube"}, "shape"), ({"code": "morse"}, "kind")]
)
def test_unknown_names_are_named(options, message):
    with pytest.raises(ValueError, match=f"{message} must be one of"):
        make_spatial(**options)
