"""CombinationKFold."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor

from skvn.model_selection import CombinationKFold

TABLE = np.array([(a, b) for a in "abcdef" for b in "uvwxyz"], dtype=object)
X = np.random.RandomState(0).standard_normal((36, 3))
Y = X @ [1.0, 2.0, 3.0]


def check_folds(table, cv):
    """Every promise of the splitter."""
    tested = []
    for train, test in cv.split(table, groups=table):
        assert len(test) and np.array_equal(
            np.sort(np.r_[train, test]), np.arange(len(table))
        )
        seen = {tuple(row) for row in table[train]}
        assert seen.isdisjoint(tuple(row) for row in table[test])
        for factor in table.T:
            assert set(factor[train]) == set(factor)
        tested.append(test)
    assert np.array_equal(np.sort(np.concatenate(tested)), np.arange(len(table)))


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(2, 7), min_size=2, max_size=4),
    n_splits=st.integers(3, 5),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_complete_tables(sizes, n_splits, repeats, seed):
    assume(np.prod(sizes) >= 2 * n_splits)
    table = np.stack(np.meshgrid(*map(np.arange, sizes)), -1).reshape(-1, len(sizes))
    table = np.random.RandomState(seed).permutation(np.repeat(table, repeats, axis=0))
    check_folds(table, CombinationKFold(n_splits, random_state=seed))


@settings(max_examples=40)
@given(seed=st.integers(0, 300))
def test_sparse_tables(seed):
    rng = np.random.RandomState(seed)
    table = rng.randint(0, rng.randint(3, 9, size=2), size=(rng.randint(20, 60), 2))
    combinations = np.unique(table, axis=0)
    singles = [np.bincount(column) == 1 for column in combinations.T]
    assume(not any(single.any() for single in singles))
    check_folds(table, CombinationKFold(3, random_state=seed))


def test_folds_are_blocks_of_equal_size():
    table = np.array([(a, b) for a in range(9) for b in range(9)])
    for _, test in CombinationKFold(3, random_state=0).split(table, groups=table):
        held = np.zeros((9, 9), dtype=int)
        held[tuple(table[test].T)] = 1
        assert len(test) == 27
        assert len(np.unique(held, axis=0)) == len(np.unique(held, axis=1).T) == 3


def test_contiguous_folds_expose_a_model_that_only_interpolates():
    table = np.array([(a, b) for a in range(12) for b in range(12)])
    y = np.sin(table[:, 0] / 2) * np.cos(table[:, 1] / 2)
    blocks = CombinationKFold(contiguous=True, random_state=0)
    cells = KFold(3, shuffle=True, random_state=0)
    model, groups = KNeighborsRegressor(3), {"groups": table}
    in_blocks = cross_val_score(model, table, y, cv=blocks, **groups)
    in_cells = cross_val_score(model, table, y, cv=cells)
    assert in_cells.min() > 0.8 > 0.6 > in_blocks.max()


def test_contiguous_groups_are_runs():
    table = np.array([(a, b) for a in range(9) for b in range(6)])
    cv = CombinationKFold(contiguous=True, random_state=0)
    check_folds(table, cv)
    for _, test in cv.split(table, groups=table):
        held = np.zeros((9, 6), dtype=int)
        held[tuple(table[test].T)] = 1
        assert (np.abs(np.diff(held, axis=0)).any(1)).sum() == 2
        assert (np.abs(np.diff(held, axis=1)).any(0)).sum() == 2


def test_same_seed_same_folds():
    a, b = (
        [
            test.tolist()
            for _, test in CombinationKFold(random_state=s).split(X, groups=TABLE)
        ]
        for s in (7, 7)
    )
    other = [
        t.tolist() for _, t in CombinationKFold(random_state=8).split(X, groups=TABLE)
    ]
    assert a == b and a != other


def test_in_cross_val_score_and_grid_search():
    cv = CombinationKFold(random_state=0)
    scores = cross_val_score(Ridge(), X, Y, cv=cv, groups=TABLE)
    expected = [
        Ridge().fit(X[train], Y[train]).score(X[test], Y[test])
        for train, test in cv.split(X, groups=TABLE)
    ]
    np.testing.assert_allclose(scores, expected)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10]}, cv=cv).fit(X, Y, groups=TABLE)
    assert search.n_splits_ == 3 and search.best_params_ == {"alpha": 0.1}


def test_with_metadata_routing():
    cv = CombinationKFold(random_state=0)
    expected = cross_val_score(Ridge(), X, Y, cv=cv, groups=TABLE)
    with config_context(enable_metadata_routing=True):
        scores = cross_val_score(Ridge(), X, Y, cv=cv, params={"groups": TABLE})
        search = GridSearchCV(Ridge(), {"alpha": [0.1]}, cv=cv)
        search.fit(X, Y, groups=TABLE)
    np.testing.assert_allclose(scores, expected)
    assert search.cv_results_["mean_test_score"][0] > 0.5


def test_data_frames_of_mixed_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": TABLE[:, 0], "size": np.tile(np.arange(6), 6)})
    check_folds(frame.to_numpy(), CombinationKFold(random_state=0))
    assert len(list(CombinationKFold().split(X, groups=frame))) == 3


@pytest.mark.parametrize(
    ("n_splits", "groups", "message"),
    [
        (3, None, "needs groups"),
        (3, TABLE[:, :1], "at least two factors"),
        (3, TABLE[:5], "inconsistent numbers of samples"),
        (2, TABLE, "integer >= 3"),
        (37, TABLE, "more than the 36 combinations"),
        (
            3,
            np.where(np.arange(36)[:, None] == 4, "odd", TABLE),
            "Level 'odd' of factor 0",
        ),
    ],
)
def test_what_cannot_be_is_named(n_splits, groups, message):
    with pytest.raises(ValueError, match=message):
        list(CombinationKFold(n_splits).split(X, groups=groups))


def test_impossible_folds_are_named():
    # Each level has 2 combinations in 4 folds of 1: four levels, four combinations,
    # three factors that pair all of them up.
    table = np.array([(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)])
    check_folds(table, CombinationKFold(4, random_state=0))
    # A fourth factor of pairs leaves no two combinations that may share a fold.
    with pytest.raises(ValueError, match="Found no 3 folds"):
        list(CombinationKFold(3).split(table, groups=table))


def test_shows_its_parameters():
    assert repr(CombinationKFold(4)) == (
        "CombinationKFold(n_splits=4, contiguous=False, random_state=None)"
    )
    assert CombinationKFold(4).get_n_splits() == 4
