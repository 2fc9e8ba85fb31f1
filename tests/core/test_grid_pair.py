"""The plainest reading of an image."""

import torch

from skvn.core.grid_fill import plainer
from skvn.core.grid_pair import Typical, best_pair, misfit, typical_gain


def one_hot(index, K):
    return torch.nn.functional.one_hot(torch.tensor(index), K).double()


def bumps(size, at):
    A = torch.exp(-((torch.arange(size)[:, None] - torch.tensor(at)) ** 2) / 2)
    return (A / A.norm(dim=0)).double()


def column(n, value):
    return torch.full((n, 1), value, dtype=torch.float64)


def test_gain_of_every_atom_is_found_also_of_unseen_pairs():
    row, col = torch.tensor([[1.0, 2, 3], [4.0, 5, 6]]).double()
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0)]
    b, a = (one_hot(i, 3) for i in zip(*pairs, strict=True))
    gain = (b @ row) * (a @ col)
    found = typical_gain(b, a, gain, torch.ones(5).double())
    expected = row[:, None] * col
    torch.testing.assert_close(
        found.row[:, None] * found.column, expected, rtol=1e-5, atol=0
    )
    assert found.spread == 0.01


def test_images_of_zeros_have_no_typical_gain():
    zero = torch.zeros(2, 3)
    assert typical_gain(zero, zero, torch.zeros(2), torch.ones(2)).spread == 0


def test_best_pair_is_the_least_of_all():
    generator = torch.Generator().manual_seed(0)
    draw = lambda *s: torch.rand(*s, generator=generator, dtype=torch.float64)  # noqa: E731
    X, A2, A1, noise = draw(6, 4, 5), draw(4, 3), draw(5, 7), draw(6, 1)
    M = draw(6, 4, 5) > 0.4
    typical = Typical(1 + draw(3), 1 + draw(7), 0.1)
    b, a, s = best_pair(X * M, M, A2, A1, noise, typical)
    Y = A2.T[:, None, :, None] * A1.T[:, None]
    m = typical.row[:, None] * typical.column
    gains = torch.linspace(0, 6, 3001).double()[:, None, None]
    for i in range(6):
        R2 = (M[i] * (X[i] - gains[..., None, None] * Y)).square().sum((-1, -2))
        J = R2 / noise[i] / 2 + (gains / m - 1).square() / 2 / 0.01
        k, j = int(b[i].argmax()), int(a[i].argmax())
        torch.testing.assert_close(J[:, k, j].min(), J.min(), rtol=1e-4, atol=0)
        assert abs(float(s[i]) - float(gains[J[:, k, j].argmin()])) < 2e-3


def test_what_is_typical_decides_between_readings_that_fit_alike():
    A = bumps(8, range(8))
    bright = 2 * A[:, 1, None] * A[:, 4]
    X, M = torch.zeros(2, 8, 8).double(), torch.zeros(2, 8, 8, dtype=torch.bool)
    M[:, 0] = True  # one row is seen: a dim object at row 0 or a bright one at row 1
    X[:] = torch.stack([bright, 0.2 * bright]) * M
    dim = (X[0, 0].norm() / A[0, 0]).item()
    settled = (
        one_hot([0, 0], 8),
        one_hot([4, 4], 8),
        column(2, dim) * X.new_tensor([[1], [0.2]]),
    )
    typical = Typical(2 * torch.ones(8).double(), torch.ones(8).double(), 0.01)
    b, a, s = plainer(X, M, A, A, settled, column(2, 1e-6), typical)
    assert b.argmax(1)[0] == 1 and a.argmax(1).tolist() == [4, 4]
    torch.testing.assert_close(s[0], X.new_tensor([2.0]))
    assert 0 < s[1] < 1  # nothing typical fits: any gain may be


def test_a_sliver_is_not_taken_for_part_of_a_giant():
    A = bumps(8, range(8))
    X, M = torch.zeros(1, 8, 8).double(), torch.zeros(1, 8, 8, dtype=torch.bool)
    M[:, 0], X[:, 0] = True, A[:, 4]  # at row 4 the gain would have to be 1 / A[0, 4]
    free = Typical(torch.ones(1).double(), torch.ones(8).double(), torch.inf)
    *_, s = best_pair(X, M, A[:, 4:5], A, column(1, 1e-6), free)
    assert 1 / A[0, 4] > 1000 and float(s) == 3


def test_one_atom_more_has_to_be_worth_it():
    A = torch.eye(4, dtype=torch.float64)
    b = torch.tensor([[1.0, 0, 0, 0], [1, 1e-3, 0, 0], [1, 1, 0, 0]]).double()
    b = b / b.norm(dim=1, keepdim=True)
    X = b[:, :, None] * A[0]
    typical = Typical(torch.ones(4).double(), torch.ones(4).double(), 10.0)
    a, s, v = one_hot([0, 0, 0], 4), column(3, 1), column(3, 1e-4)
    both = b + 0.01 * (b < 1e-9)
    less = misfit(X, None, A, A, b, a, s, v, typical)
    more = misfit(X, None, A, A, both, a, s, v, typical)
    assert (less < more).all()
    kept = plainer(X, None, A, A, (b, a, s), v, typical)
    assert [int((c > 0).sum()) for c in kept[0]] == [1, 1, 2]
