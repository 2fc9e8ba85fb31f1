"""Cross-validation that sees composition: unseen combinations of seen factors."""

from numbers import Integral

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length

__all__ = ["CombinationKFold"]

# Random block designs that are compared for balance and levels that would be lost.
_N_DESIGNS = 50
# Moves of a single combination to another fold, per combination, to keep levels.
_N_MOVES = 10


class CombinationKFold(BaseCrossValidator):
    """K folds of combinations of factors: training lacks those, but no factor level.

    Ordinary cross-validation cannot tell a model that composes from one that does not:
    nearly every combination of a test fold has close neighbours in training. Here the
    levels of every factor are parted into groups, and a fold holds out blocks, i.e. a
    group of levels of one factor together with a group of another's (a Latin square
    of blocks). That is harder than single combinations, whose every row and column is
    nearly complete in training.

    Every row is in the test set of exactly one fold. No combination of a test fold
    occurs in its training set, and every level of every factor does.

    Parameters
    ----------
    n_splits : int, default=3
        Number of folds, at least 3: with 2, training would fall apart into blocks that
        share no level. Fewer folds hold out larger blocks: a harder and more telling
        test.
    contiguous : bool, default=False
        Whether the groups are runs of neighbouring levels in sorted order. For factors
        with an order, such as positions: random groups leave neighbours of every level
        in training.
    random_state : int, RandomState instance or None, default=None
        Draws the blocks. With None every call of ``split`` draws anew.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.model_selection import CombinationKFold
    >>> factors = [(shape, ink) for shape in "OXTL" for ink in ("red", "blue", "green")]
    >>> X = np.zeros((12, 2))
    >>> cv = CombinationKFold(3, random_state=0)
    >>> for train, test in cv.split(X, groups=factors):
    ...     seen = {factors[i] for i in train}
    ...     print(len(test), seen.isdisjoint(factors[i] for i in test))
    4 True
    4 True
    4 True
    """

    # Metadata routing: the splitter asks for ``groups``, as scikit-learn's own do.
    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(self, n_splits=3, *, contiguous=False, random_state=None):
        self.n_splits = n_splits
        self.contiguous = contiguous
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : Ignored

        Returns
        -------
        int
        """
        return self.n_splits

    def split(self, X, y=None, groups=None):
        """Yield the rows of training and test set, fold by fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is used.
        y : Ignored
        groups : array-like of shape (n_samples, n_factors)
            Factor table: the level of every factor in every row (numbers or strings).

        Yields
        ------
        train, test : ndarray of int
        """
        yield from super().split(X, y, groups)

    def _iter_test_indices(self, X, y=None, groups=None):
        """Rows of each test fold."""
        combination, levels = _combinations(groups, X)
        fold = assign_folds(
            levels,
            np.bincount(combination),
            self._checked_splits(len(levels)),
            self.contiguous,
            check_random_state(self.random_state),
        )
        for k in range(self.n_splits):
            yield np.flatnonzero(fold[combination] == k)

    def _checked_splits(self, n_combinations):
        """n_splits, if there can be as many folds."""
        k = self.n_splits
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 3:
            raise ValueError(f"n_splits must be an integer >= 3, got {k!r}.")
        if k > n_combinations:
            raise ValueError(
                f"n_splits={k} is more than the {n_combinations} combinations in "
                "groups."
            )
        return int(k)

    def __repr__(self):
        """Parameters as given."""
        return (
            f"{type(self).__name__}(n_splits={self.n_splits!r}, "
            f"contiguous={self.contiguous!r}, random_state={self.random_state!r})"
        )


def _combinations(groups, X):
    """Combination of every row, and the integer levels of every combination."""
    if groups is None:
        raise ValueError(
            "CombinationKFold needs groups: a table of shape (n_samples, n_factors) "
            "with the level of every factor."
        )
    table = check_array(groups, dtype=None, input_name="groups", estimator="groups")
    if table.shape[1] < 2:
        raise ValueError("groups needs at least two factors (columns) to combine.")
    check_consistent_length(X, table)
    coded = [np.unique(column, return_inverse=True) for column in table.T]
    names = [values for values, _ in coded]
    codes = np.column_stack([code.ravel() for _, code in coded])
    levels, combination = np.unique(codes, axis=0, return_inverse=True)
    _reject_single(levels, names)
    return combination.ravel(), levels


def _reject_single(levels, names):
    """Raise if a level has one combination: it would be lost when that is held out."""
    for factor, values in enumerate(names):
        single = np.flatnonzero(np.bincount(levels[:, factor]) < 2)
        if single.size:
            raise ValueError(
                f"Level {values[single[0]]!r} of factor {factor} occurs in one "
                "combination only: it cannot be held out and stay in training. Leave "
                "out its rows or merge it with another level."
            )


def assign_folds(levels, counts, n_splits, contiguous, rng):
    """Fold of every combination, by the best of some random block designs.

    Parameters
    ----------
    levels : int ndarray of shape (n_combinations, n_factors)
    counts : int ndarray of shape (n_combinations,)
        Rows of every combination.
    n_splits : int
    contiguous : bool
    rng : RandomState

    Returns
    -------
    int ndarray of shape (n_combinations,)
    """
    designs = [_blocks(levels, n_splits, contiguous, rng) for _ in range(_N_DESIGNS)]
    fold = min(designs, key=lambda f: _cost(f, levels, counts, n_splits))
    for _ in range(_N_MOVES * len(levels)):
        lost, empty, _ = _cost(fold, levels, counts, n_splits)
        if not lost and not empty:
            return fold
        moved = fold.copy()
        moved[rng.choice(_to_move(fold, levels, n_splits))] = rng.randint(n_splits)
        if _cost(moved, levels, counts, n_splits)[:2] <= (lost, empty):
            fold = moved
    raise ValueError(
        f"Found no {n_splits} folds of these combinations that leave every level of "
        "every factor in training. Use other n_splits, or leave out the rows of levels "
        "with few combinations."
    )


def _blocks(levels, n_splits, contiguous, rng):
    """Latin square of blocks: fold = sum over factors of the level's group, mod k."""
    total = np.zeros(len(levels), dtype=int)
    for column in levels.T:
        n_levels = column.max() + 1
        groups = np.resize(rng.permutation(n_splits), n_levels)
        if contiguous:  # runs of equal groups, in the random order of the groups
            groups = groups[np.argsort(np.arange(n_levels) % n_splits, kind="stable")]
        else:
            groups = rng.permutation(groups)
        total += groups[column]
    return total % n_splits


def _lost(fold, column, n_splits):
    """Whether each level of a factor has all its combinations in one fold."""
    held = np.zeros((column.max() + 1, n_splits), dtype=bool)
    held[column, fold] = True
    return held.sum(1) < 2


def _cost(fold, levels, counts, n_splits):
    """Levels that training would lose, empty folds, and rows of the largest fold."""
    rows = np.bincount(fold, counts, n_splits)
    lost = sum(int(_lost(fold, column, n_splits).sum()) for column in levels.T)
    return lost, int((rows == 0).sum()), rows.max()


def _to_move(fold, levels, n_splits):
    """Combinations of lost levels; all of them if only a fold is empty."""
    bad = [_lost(fold, column, n_splits)[column] for column in levels.T]
    bad = np.flatnonzero(np.any(bad, axis=0))
    return bad if bad.size else np.arange(len(levels))
