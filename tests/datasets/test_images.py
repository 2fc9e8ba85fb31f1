"""Mixtures, moves and halves of images."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from skvn.datasets import (
    hide_halves,
    load_mnist,
    make_moving_images,
    mix_images,
    move_images,
    pool_images,
)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:60] / 16, y[:60]


def test_mnist_from_a_file(tmp_path):
    images = np.arange(2 * 784, dtype=np.uint8).reshape(2, 28, 28)
    arrays = {"X_train": images, "y_train": [3, 4], "X_test": images[:1]}
    np.savez(tmp_path / "whole.npz", **arrays, y_test=[5])
    data = load_mnist(tmp_path / "whole.npz")
    np.testing.assert_array_equal(data.X_train, images.reshape(2, 784))
    assert data.X_train.dtype == data.y_test.dtype == np.uint8
    assert data.y_train.tolist() == [3, 4]
    np.savez(tmp_path / "part.npz", **arrays)
    with pytest.raises(ValueError, match="does not hold y_test"):
        load_mnist(tmp_path / "part.npz")
    with pytest.raises(FileNotFoundError):
        load_mnist(tmp_path / "nowhere.npz")


def test_mnist_from_openml(monkeypatch):
    labels = np.arange(70000) % 10
    answer = np.zeros((70000, 784)), labels.astype(str)
    name = "skvn.datasets._images.fetch_openml"
    monkeypatch.setattr(name, lambda *args, **options: answer)
    data = load_mnist()
    assert data.X_train.shape == (60000, 784)
    np.testing.assert_array_equal(data.y_test, labels[60000:])


def test_pooling_keeps_the_mean_of_every_block(digits):
    X, _ = digits
    pooled = pool_images(X)
    np.testing.assert_allclose(pooled[:, 0], X[:, [0, 1, 8, 9]].mean(1))
    np.testing.assert_allclose(pooled.mean(1), X.mean(1))
    with pytest.raises(ValueError, match="must be even"):
        pool_images(np.zeros((1, 9)))
    with pytest.raises(ValueError, match="not square"):
        pool_images(np.zeros((1, 8)))


@pytest.mark.parametrize("n_parts", [1, 2, 3])
def test_parts_of_a_mixture_have_different_classes(digits, n_parts):
    X, y = digits
    mixed, parts = mix_images(X, y, n_parts, random_state=0)
    np.testing.assert_array_equal(parts[:, 0], np.arange(len(X)))
    assert all(len(set(c)) == n_parts for c in y[parts])
    np.testing.assert_allclose(mixed, X[parts].sum(1))
    np.testing.assert_array_equal(parts, mix_images(X, y, n_parts, random_state=0)[1])


def test_the_brighter_part_shows_in_a_max(digits):
    mixed, parts = mix_images(*digits, how="max", random_state=0)
    np.testing.assert_array_equal(mixed, np.maximum(*digits[0][parts].swapaxes(0, 1)))


def test_mixtures_that_cannot_be(digits):
    with pytest.raises(ValueError, match="how must be one of"):
        mix_images(*digits, how="mean")
    with pytest.raises(ValueError, match="between 1 and the 2 classes"):
        mix_images(np.eye(2), [0, 1], 3)


def test_half_of_every_image_is_hidden(digits):
    X, _ = digits
    hidden = hide_halves(X, random_state=0)
    gone = np.isnan(hidden).reshape(-1, 8, 8)
    np.testing.assert_array_equal(hidden[~np.isnan(hidden)], X[~np.isnan(hidden)])
    assert (gone.sum((1, 2)) == 32).all()
    straight = gone.all(1).sum(1) == 4
    assert (straight | (gone.all(2).sum(1) == 4)).all()
    assert len({g.tobytes() for g in gone}) == 4


def test_no_move_and_moves_of_whole_pixels(digits):
    X, _ = digits
    np.testing.assert_allclose(move_images(X), X)
    turned = np.rot90(X.reshape(-1, 8, 8), -1, (1, 2)).reshape(len(X), -1)
    back = np.rot90(X.reshape(-1, 8, 8), 1, (1, 2)).reshape(len(X), -1)
    angles = np.where(np.arange(len(X)) % 2, 90, -90)
    expected = np.where((angles == 90)[:, None], back, turned)
    np.testing.assert_allclose(move_images(X, angles), expected, atol=1e-9)
    shifted = move_images(X, shift=(2, 1)).reshape(-1, 8, 8)
    np.testing.assert_allclose(shifted[:, 2:, 1:], X.reshape(-1, 8, 8)[:, :-2, :-1])
    assert not shifted[:, :2].any()


def test_scaling_grows_the_image():
    y, x = np.indices((21, 21)) - 10.0
    bump = np.exp(-(x**2 + y**2) / 18).reshape(1, -1)
    wide = np.exp(-(x**2 + y**2) / 18 / 1.44).reshape(1, -1)
    assert np.abs(move_images(bump, scale=1.2) - wide).max() < 0.02


@pytest.mark.parametrize("moves", [["r"], ["t"], ["s"], ["rts"]])
def test_frames_move_at_constant_speed(moves):
    """The centre of a bump goes on as it went."""
    y, x = np.indices((28, 28)) - 13.5
    bump = np.exp(-((x - 4) ** 2 + y**2) / 8).reshape(1, -1)
    X, after = make_moving_images(bump, moves, 20, random_state=0)
    frames = np.stack([*np.split(X, 2, axis=1), after]).reshape(3, 20, 14, 14)
    mass = frames.sum((2, 3))
    centre = np.stack([(frames.sum(a) * np.arange(14)).sum(2) for a in (3, 2)]) / mass
    steps = np.linalg.norm(np.diff(centre, axis=1), axis=0)
    assert (steps > 0.05).all()
    np.testing.assert_allclose(*steps, rtol=0.4)


def test_objects_of_a_frame_add_up(digits):
    X, _ = digits
    one, _ = make_moving_images(X, n_samples=30, random_state=0)
    again, _ = make_moving_images(X, n_samples=30, random_state=0)
    two, _ = make_moving_images(X, n_samples=30, n_objects=2, random_state=0)
    np.testing.assert_array_equal(one, again)
    assert 1.7 < two.sum() / one.sum() < 2.3
    with pytest.raises(ValueError, match="moves are made of"):
        make_moving_images(X, ["rx"])
