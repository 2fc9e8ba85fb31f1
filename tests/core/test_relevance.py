"""Where the sparse-Bayesian settle starts: scale-free and from data."""

import pytest
import torch

from skvn.core.relevance import choose_floor, learning_floor, start_relevance
from skvn.core.training import Batch, build, mean_square


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def problem(noise=0.0, n=80, d=12, holes=False, scale=1.0):
    """Rows of rank 3 and a dictionary of their true directions."""
    g = generator(2)
    A = torch.randn(3, d, generator=g, dtype=torch.float64)
    x = torch.randn(n, 3, generator=g, dtype=torch.float64) @ A
    x = scale * (x + noise * torch.randn(n, d, generator=g, dtype=torch.float64))
    mask = torch.rand(n, d, generator=g) > 0.2 if holes else None
    x = x if mask is None else x * mask
    b = Batch(x, mask, torch.ones(n, dtype=torch.float64))
    net = build(b, [6], [], 0.0, "identity", generator(), positive=False)
    net.layers[0].S[:, :3] = (A / A.norm(dim=1, keepdim=True)).T
    net.relevance = start_relevance(6, mean_square(b), 1e-4, x)
    return net, b


def floor(net, b, seed=0):
    return choose_floor(net, b, mean_square(b), generator(seed))


@pytest.mark.parametrize("holes", [False, True])
def test_noisy_rows_get_a_larger_floor(holes):
    floors = [floor(*problem(noise, holes=holes)) for noise in (0.0, 0.3, 1.0)]
    assert floors[0] < floors[1] <= floors[2]


def test_floor_is_a_share_whatever_the_scale():
    assert floor(*problem(0.3)) == floor(*problem(0.3, scale=1e6))


@pytest.mark.parametrize("holes", [False, True])
def test_order_and_repetition_of_rows_do_not_matter(holes):
    net, b = problem(0.3, holes=holes)
    expected = floor(net, b)
    pick = lambda t, i: None if t is None else t[i]  # noqa: E731
    order = torch.randperm(80, generator=generator())
    turned = Batch(b.x[order], pick(b.mask, order), b.weight)
    assert floor(net, turned) == expected
    count = torch.randint(1, 4, (80,), generator=generator())
    index = torch.arange(80).repeat_interleave(count)
    repeated = Batch(b.x[index], pick(b.mask, index), torch.ones(len(index)).double())
    weighted = Batch(b.x, b.mask, count.double())
    assert floor(net, repeated) == floor(net, weighted)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_few_columns(d):
    net, b = problem(0.1, d=d)
    assert 1e-5 <= floor(net, b) <= 0.1


def test_choosing_changes_neither_network_nor_rows():
    net, b = problem(0.1)
    relevance, x = net.relevance, b.x.clone()
    floor(net, b)
    assert net.relevance is relevance
    assert torch.equal(b.x, x)


def test_start_is_in_units_of_the_power():
    like = torch.zeros(1, dtype=torch.float32)
    prior, noise, low = start_relevance(4, 100.0, 1e-2, like)
    assert prior.dtype == torch.float32 and prior.tolist() == [50.0] * 4
    assert noise == low == 1.0
    assert start_relevance(4, 100.0, 1e-5, like).noise == pytest.approx(0.1)


def test_rows_of_zeros_have_no_scale_and_get_a_proper_prior():
    prior, noise, low = start_relevance(4, 0.0, 1e-2, torch.zeros(1))
    assert (prior > 0).all() and noise > 0 and low > 0


def test_learning_floor_is_bounded_below():
    assert learning_floor(0.0) == learning_floor(1e-5) == 1e-4
    assert learning_floor(0.03) == 0.03
