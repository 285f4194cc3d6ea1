"""Which groups of a fit are those of an earlier one, and what they are called.

The place of a group (its number in ``labels_``, its row of the centres) goes by size and changes from fit to fit. Its
id does not: a fit that starts from a fitted model hands the ids of that model on.
"""

from collections.abc import Sequence
from hashlib import sha256
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from madbayes.estimators.canonical import SAME, turn_around
from madbayes.estimators.problem import means_of
from madbayes.paper.clusters import squared_distances

# Think of the n rows of a group, and of as many around the place that it had before, at the distance d. Together they
# are one group if n/2 d^2, the squared error that one mean for both adds, is below the price of a group. In a table of
# twice as many rows that is twice the penalty.
PRICES = 4.0


def name_groups(model: Any, before: Any) -> None:
    """Give the groups of a fit their ids and names: those of the groups they continue, or such as nobody has had.

    Sets ``group_ids_``, ``group_names_``, ``_group_origins`` and ``_next_group_id``.

    Parameters
    ----------
    model : estimator
        Whose groups, their sizes and objective are known.
    before : fitted estimator, or anything else
        Where the fit started. Only an estimator that has ids can be continued.
    """
    is_known = hasattr(before, "group_ids_")
    hand_on(before if is_known else None, model, continued(before, model) if is_known else None)


def follow_groups(model: Any, became: Sequence[int | None], sizes: NDArray) -> None:
    """The same for a model that has gone on, whose groups say themselves what they have become.

    Parameters
    ----------
    model : estimator
        With the ids and names of its groups before.
    became : sequence of int or None
        The place that each group before has now; None where it has gone.
    sizes : array
        Of the groups before: of those that have become one, the largest is continued.
    """
    partners = np.full(model._n_features_out, -1)
    for k in np.argsort(sizes, kind="stable"):
        if became[k] is not None:
            partners[became[k]] = k
    hand_on(model, model, partners)


def hand_on(before: Any, model: Any, partners: NDArray[np.intp] | None) -> None:
    """Ids and names for the groups of a model; partners are the groups before that they continue, or -1."""
    K = model._n_features_out
    ids: list[int] = []
    names: list[str] = []
    origins: list[str] = []
    first = 0
    if before is None or partners is None:
        partners = np.full(K, -1)
    else:
        ids, names, origins = before.group_ids_.tolist(), before.group_names_, before._group_origins
        first = before._next_group_id
    kept = {names[j] for j in partners if j >= 0}
    # An id may be passed over, and two groups may not have one name: somebody may have called another one so.
    fresh = iter(list(islice((i for i in count(first) if default_name(i) not in kept), K)))
    found = [ids[j] if j >= 0 else next(fresh) for j in partners]
    origin = _fingerprint(model)
    model.group_ids_ = np.array(found, dtype=np.int64)
    model.group_names_ = [names[j] if j >= 0 else default_name(i) for i, j in zip(found, partners, strict=True)]
    model._group_origins = [origins[j] if j >= 0 else origin for j in partners]
    model._next_group_id = max([first, *(i + 1 for i in found)])


def default_name(group_id: int) -> str:
    """What a group is called until it is renamed."""
    return f"group {group_id}"


def _fingerprint(model: Any) -> str:
    """What tells the fit in which a group was born from others, whose ids mean something else."""
    parts = (means_of(model._groups()), model._sizes)
    return sha256(b"".join(np.ascontiguousarray(part, dtype=np.float64).tobytes() for part in parts)).hexdigest()[:16]


def continued(before: Any, model: Any) -> NDArray[np.intp]:
    """For each group of a model the group of an earlier one that it continues, -1 where it is new.

    A group that is n rows large continues one whose centre is at a squared distance d^2 if n d^2, what it would cost to
    leave the centre where it was, is below four times the penalty; of all ways to pair them, the one in which these
    costs, or four penalties for a new group, add up to the least. Where groups have no price, those that are nearest
    to each other belong together. With covariances, distances are those of the new group.

    Parameters
    ----------
    before, model : fitted estimators
        Both of clusters or both of features, of the same columns.

    Returns
    -------
    array of int of shape (K,)
    """
    old: NDArray = means_of(before._groups())
    limit = PRICES * model._objective.penalty
    if model._adds_up:
        old = _turned(old, before._sizes / before._total, model, limit)
    costs: NDArray = _costs(model, old)
    if limit == 0:
        costs, limit = 1.0 - _nearest_to_each_other(costs / model._sizes), 1.0
    rows, columns = pairs(costs, limit)
    partners = np.full(len(model._sizes), -1)
    partners[columns] = rows
    return partners


def pairs(costs: NDArray, limit: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs, one to one, whose costs add up to the least; only those that cost less than being alone, the limit."""
    rows, columns = linear_sum_assignment(np.minimum(costs, limit))
    paired = costs[rows, columns] < limit
    return rows[paired], columns[paired]


def _costs(model: Any, old: NDArray) -> NDArray[np.float64]:
    """By how much the loss grows if a group has its centre where an old one has it, for old and new groups."""
    means = means_of(model._groups())
    distances = squared_distances(old, means) if model._adds_up else model._squared_distances(old)
    return distances * model._sizes


def _nearest_to_each_other(distances: NDArray) -> NDArray[np.bool_]:
    """Which pairs have no one nearer."""
    ways = [distances <= distances.min(axis=axis, keepdims=True, initial=np.inf) for axis in (0, 1)]
    return np.logical_and(*ways)


def _turned(old: NDArray, shares: NDArray, model: Any, limit: float) -> NDArray:
    """Old components, beside a base turned around where the new fit tells them by the other rows."""
    if not max(shares.max(initial=0), model._sizes.max(initial=0) / model._total) > 1 - SAME or not len(old):
        return old
    # A component that all rows but a few have may have become the base, or have been it.
    base = int(shares.argmax())
    plain, opposite = (_costs(model, sign * old).min(axis=1, initial=np.inf) for sign in (1, -1))
    turned = (opposite < plain) & ((opposite < limit) | (limit == 0))
    turned[base] = False
    return turn_around(old, base, turned)
