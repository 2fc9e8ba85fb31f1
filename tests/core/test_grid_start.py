"""First atoms of row and column codes."""

import torch

from skvn.core.grid_start import spread_rows, start_profiles


def test_draws_every_distinct_row_before_any_twice():
    V = torch.eye(6, dtype=torch.float64).repeat(20, 1)
    drawn = spread_rows(V, torch.ones(120), 6, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.sum(0), torch.ones(6, dtype=torch.float64))


def test_order_and_repeats_of_rows_do_not_matter():
    generator = torch.Generator().manual_seed(0)
    V = torch.nn.functional.normalize(torch.rand(9, 4, generator=generator), dim=1)
    weight = torch.tensor([1, 2, 0, 1, 3, 1, 0, 2, 1])
    twice = V.repeat_interleave(weight, 0)
    twice = twice[torch.randperm(len(twice), generator=generator)]
    a = spread_rows(V, weight, 4, torch.Generator().manual_seed(1))
    b = spread_rows(twice, torch.ones(len(twice)), 4, torch.Generator().manual_seed(1))
    torch.testing.assert_close(a, b)


def test_atoms_are_the_profiles_of_products():
    f, g = torch.eye(5)[[0, 2, 3]], torch.eye(4)[[1, 3, 0]]
    X = g[:, :, None] * f[:, None]
    atoms = start_profiles(X, None, torch.ones(3), 3, torch.Generator().manual_seed(0))
    for A, profiles in zip(atoms, (g, f), strict=True):
        best = (profiles @ A).amax(1)
        torch.testing.assert_close(best, torch.ones(3), rtol=1e-3, atol=0)


def test_atoms_of_images_of_zeros_are_unit_and_positive():
    X = torch.zeros(3, 4, 5)
    for A in start_profiles(X, None, torch.ones(3), 6, torch.Generator()):
        assert (A > 0).all()
        torch.testing.assert_close(A.norm(dim=0), torch.ones(6))
