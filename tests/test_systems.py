"""Tests of packing systems into X and y."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skvn.systems import count_rows, pack_systems, unpack_systems


def _ragged(rng, lengths, F, c):
    return [rng.normal(size=(k, F)) for k in lengths], [
        rng.normal(size=(k, c)) for k in lengths
    ]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_round_trip(lengths, F, c, seed):
    rng = np.random.default_rng(seed)
    states, responses = _ragged(rng, [max(r, 1) for r, _ in lengths], F, c)
    queries, answers = _ragged(rng, [q for _, q in lengths], F, c)
    queries[0], answers[0] = rng.normal(size=(2, F)), rng.normal(size=(2, c))
    X, y = pack_systems(states, responses, queries, answers)
    back = unpack_systems(X, y, state_size=F, response_size=c)
    parts = (states, responses, queries, answers)
    for one, two in zip(parts, back, strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


def test_layout_is_rows_then_queries():
    X, y = pack_systems([[[1, 2]]], [[[3]]], [[[4, 5], [6, 7]]], [[[8], [9]]])
    np.testing.assert_array_equal(X, [[1, 2, 3, 4, 5, 6, 7]])
    np.testing.assert_array_equal(y, [[8, 9]])
    assert X.dtype == np.float64


def test_arrays_lists_and_one_dimensional_responses_agree():
    rng = np.random.default_rng(0)
    z, a = rng.normal(size=(5, 4, 3)), rng.normal(size=(5, 4))
    one = pack_systems(z[:, :3], a[:, :3], z[:, 3:])
    two = pack_systems(list(z[:, :3]), a[:, :3, None], z[:, 3:].tolist())
    np.testing.assert_array_equal(one, two)


def test_room_for_the_rows_of_training():
    z = np.ones((2, 3, 2))
    X = pack_systems(z, z[..., :1], z[:, :1], n_observed=5, n_queries=2)
    assert X.shape == (2, 5 * 3 + 2 * 2)
    assert np.isnan(X).sum() == 2 * (2 * 3 + 2)
    back = unpack_systems(X, state_size=2, n_queries=2)
    assert back.answers is None
    assert [len(s) for s in back.states] == [3, 3]
    assert [len(q) for q in back.queries] == [1, 1]


def test_float32_stays():
    z = np.ones((2, 3, 2), np.float32)
    assert pack_systems(z, z[..., :1], z).dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"responses": np.zeros((1, 3, 1))}, "Numbers of systems differ"),
        ({"responses": np.zeros((2, 2, 1))}, "System 0 has 3 states but 2 responses"),
        ({"answers": np.zeros((2, 2, 1))}, "System 0 has 1 queries but 2 answers"),
        ({"queries": np.zeros((2, 1, 4))}, "states and queries must have one size"),
        ({"answers": np.zeros((2, 1, 2))}, "responses and answers must have one size"),
        ({"n_observed": 2}, "A system has 3 rows, but n_observed=2"),
        ({"n_queries": 0}, "A system has 1 rows, but n_queries=0"),
    ],
)
def test_parts_that_do_not_fit(change, message):
    z = np.zeros((2, 4, 3))
    parts = {"states": z[:, :3], "responses": z[:, :3, :1], "queries": z[:, 3:]}
    parts |= {"answers": z[:, 3:, :1]} | change
    with pytest.raises(ValueError, match=message):
        pack_systems(**parts)


def test_unpacking_needs_the_number_of_queries():
    with pytest.raises(ValueError, match="needs y or n_queries"):
        unpack_systems(np.zeros((2, 11)), state_size=2)


def test_count_rows():
    assert count_rows(256, 8, 10, 1) == (16, 8)
    with pytest.raises(ValueError, match="multiple of response_size=2"):
        count_rows(20, 3, 2, 2)
    with pytest.raises(ValueError, match="do not hold 2 queries of state_size=3"):
        count_rows(20, 2, 3, 1)
    with pytest.raises(ValueError, match="one or more observed rows"):
        count_rows(6, 2, 3, 1)
