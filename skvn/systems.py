"""Systems of observed and asked-for rows as the two-dimensional arrays estimators take.

One row of X holds a whole system: ``z_1, a_1, z_2, a_2, ...``, the observed states each
with its response, then the states of the queries; one row of y holds the responses of
the queries. Cross-validation then splits by system. NaN marks rows that are not there.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["PackedSystems", "pack_systems", "unpack_systems"]


class PackedSystems(NamedTuple):
    """Systems as ragged lists of arrays, one array per system.

    Attributes
    ----------
    states : list of ndarray of shape (R_i, F)
    responses : list of ndarray of shape (R_i, c)
    queries : list of ndarray of shape (Q_i, F)
    answers : list of ndarray of shape (Q_i, c) or None

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.systems import pack_systems, unpack_systems
    >>> X = pack_systems(np.ones((2, 3, 1)), np.ones((2, 3)), np.ones((2, 1, 1)))
    >>> unpack_systems(X, state_size=1, n_queries=1).queries
    [array([[1.]]), array([[1.]])]
    """

    states: list
    responses: list
    queries: list
    answers: list | None


def pack_systems(
    states, responses, queries, answers=None, *, n_observed=None, n_queries=None
):
    """Put systems of any length into X and y.

    Parameters
    ----------
    states : sequence of array-like of shape (R_i, F)
        States of the observed rows of every system, or one array (n, R, F).
    responses : sequence of array-like of shape (R_i, c)
        Their responses. One-dimensional entries mean c = 1.
    queries : sequence of array-like of shape (Q_i, F)
        States to answer at.
    answers : sequence of array-like of shape (Q_i, c) or None, default=None
        Their responses, if known.
    n_observed, n_queries : int or None, default=None
        Rows to make room for; None takes the longest system. Give what the training
        data had to pack shorter systems for prediction.

    Returns
    -------
    X : ndarray of shape (n_systems, n_observed * (F + c) + n_queries * F)
    y : ndarray of shape (n_systems, n_queries * c)
        Only if ``answers`` are given.

    Raises
    ------
    ValueError
        If the parts do not fit together.

    See Also
    --------
    unpack_systems : The way back.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.systems import pack_systems
    >>> states = [np.ones((3, 2)), np.ones((1, 2))]
    >>> responses = [np.zeros(3), np.zeros(1)]
    >>> X, y = pack_systems(states, responses, [np.ones((1, 2))] * 2, [[1.0], [2.0]])
    >>> X.shape, y.shape, int(np.isnan(X).sum())
    ((2, 11), (2, 1), 6)
    """
    parts = {"states": states, "responses": responses, "queries": queries}
    if answers is not None:
        parts["answers"] = answers
    parts = {name: [_rows(a) for a in part] for name, part in parts.items()}
    _check(parts)
    states, responses, queries = (
        parts[name] for name in ("states", "responses", "queries")
    )
    pairs = [np.hstack(pair) for pair in zip(states, responses, strict=True)]
    head = _padded("n_observed", pairs, n_observed)
    X = np.hstack([head, _padded("n_queries", queries, n_queries)])
    if answers is None:
        return X
    return X, _padded("n_queries", parts["answers"], n_queries)


def unpack_systems(X, y=None, *, state_size, response_size=1, n_queries=None):
    """Take X and y apart into systems; rows with a NaN are left out.

    Parameters
    ----------
    X : array-like of shape (n_systems, d)
    y : array-like of shape (n_systems, m) or None, default=None
        Answers: known ones, or those that were predicted. A query without an answer is
        left out with it.
    state_size, response_size : int
        F and c.
    n_queries : int or None, default=None
        None takes it from y; without y it has to be given.

    Returns
    -------
    PackedSystems

    Raises
    ------
    ValueError
        If the shapes do not fit the sizes.

    See Also
    --------
    pack_systems : The way there.

    Examples
    --------
    >>> import numpy as np
    >>> from skvn.systems import pack_systems, unpack_systems
    >>> states = [np.ones((3, 2)), np.ones((1, 2))]
    >>> X = pack_systems(states, [np.zeros(3), np.zeros(1)], [np.ones((1, 2))] * 2)
    >>> parts = unpack_systems(X, state_size=2, n_queries=1)
    >>> [len(z) for z in parts.states]
    [3, 1]
    """
    X = np.asarray(X)
    n, F, c = len(X), state_size, response_size
    if y is not None:
        y = np.asarray(y).reshape(n, -1)
        n_queries = y.shape[1] // c
    if n_queries is None:
        raise ValueError("unpack_systems needs y or n_queries.")
    n_observed = count_rows(X.shape[1], n_queries * c, F, c)[0]
    cut = n_observed * (F + c)
    pairs = [_present(row.reshape(-1, F + c)) for row in X[:, :cut]]
    queries = [row.reshape(-1, F) for row in X[:, cut:]]
    states, responses = [p[:, :F] for p in pairs], [p[:, F:] for p in pairs]
    if y is None:
        return PackedSystems(states, responses, [_present(q) for q in queries], None)
    both = zip(queries, y.reshape(n, n_queries, c), strict=True)
    both = [_present(np.hstack(pair)) for pair in both]
    queries, answers = [b[:, :F] for b in both], [b[:, F:] for b in both]
    return PackedSystems(states, responses, queries, answers)


def count_rows(d, m, state_size, response_size):
    """Observed rows and queries in d columns of X and m of y.

    Parameters
    ----------
    d, m : int
    state_size, response_size : int

    Returns
    -------
    n_observed, n_queries : int

    Raises
    ------
    ValueError
        If the columns do not divide into rows.
    """
    n_queries, rest = divmod(m, response_size)
    if rest:
        raise ValueError(
            f"y has {m} columns, which is not a multiple of "
            f"response_size={response_size}."
        )
    size = state_size + response_size
    n_observed, rest = divmod(d - n_queries * state_size, size)
    if rest or n_observed < 1:
        raise ValueError(
            f"X has {d} columns, which do not hold {n_queries} queries of "
            f"state_size={state_size} and one or more observed rows of state_size + "
            f"response_size = {size}."
        )
    return n_observed, n_queries


def _rows(a):
    """One system's rows, two-dimensional."""
    a = np.asarray(a)
    a = a if np.issubdtype(a.dtype, np.floating) else a.astype(np.float64)
    return a[:, None] if a.ndim == 1 else a


def _check(parts):
    """Same number of systems, of rows in what belongs together, of columns."""
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1 or not lengths["states"]:
        raise ValueError(f"Numbers of systems differ or are zero: {lengths}.")
    for first, second in (("states", "responses"), ("queries", "answers")):
        for i, (a, b) in enumerate(zip(parts[first], parts.get(second, ()))):  # noqa: B905
            if len(a) != len(b):
                raise ValueError(
                    f"System {i} has {len(a)} {first} but {len(b)} {second}."
                )
    for names in (("states", "queries"), ("responses", "answers")):
        widths = {a.shape[1] for name in names for a in parts.get(name, ())}
        if len(widths) > 1:
            raise ValueError(
                f"{' and '.join(names)} must have one size; got {sorted(widths)}."
            )


def _padded(name, arrays, length):
    """Rows of every system side by side, NaN behind the last."""
    longest = max(len(a) for a in arrays)
    length = longest if length is None else length
    if longest > length:
        raise ValueError(f"A system has {longest} rows, but {name}={length}.")
    dtype = np.result_type(*arrays)
    out = np.full((len(arrays), length, arrays[0].shape[1]), np.nan, dtype)
    for row, a in zip(out, arrays, strict=True):
        row[: len(a)] = a
    return out.reshape(len(arrays), -1)


def _present(rows):
    """Rows without NaN."""
    return rows[~np.isnan(rows).any(1)]
