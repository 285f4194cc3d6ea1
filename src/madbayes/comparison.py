"""Whether two fits say the same, and whether a fit would say the same of other rows.

The number of a group means nothing, and with a feature that all rows have, neither does which of the rows have another
one: giving it to the others instead, with the opposite sign, describes the same fit.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.checks import is_number
from madbayes.estimators import validation
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.identity import pairs
from madbayes.model.priors import Kind, one_hot
from madbayes.words import counted, listed, percent

# Hennig (2007), Cluster-wise assessment of cluster stability: below this mean Jaccard coefficient, not stable.
STABLE = 0.75
# Groups that a printed answer names one by one, at most.
SHOWN = 20


@dataclass(frozen=True, eq=False)
class Match:
    """Which groups of two fits belong together.

    Attributes
    ----------
    order : array of int of shape (K_a,)
        For each group of the first fit its partner in the second, -1 where there is none.
    complemented : array of bool of shape (K_a,)
        Which of them agree with the rows that their partner does *not* have; features beside a base feature only.
    agreement : float
        The share of all memberships (a row in a group) that both fits have: twice those in common by those of either.
        For clusters, the share of rows that are in matching groups.
    group_agreement : array of float of shape (K_a,)
        For each group of the first fit the Jaccard coefficient with its partner: rows that are in both by rows that
        are in one of them at least; 0 without a partner.
    unmatched : tuple of two arrays of int
        Groups of the first and of the second fit that have no partner.
    """

    order: NDArray[np.intp]
    complemented: NDArray[np.bool_]
    agreement: float
    group_agreement: NDArray[np.float64]
    unmatched: tuple[NDArray[np.intp], NDArray[np.intp]]

    def __repr__(self) -> str:
        pairs = [
            f"{k}: {'not ' if flipped else ''}{partner} ({percent(share)})" if partner >= 0 else f"{k}: none"
            for k, (partner, flipped, share) in enumerate(
                zip(self.order, self.complemented, self.group_agreement, strict=True)
            )
        ]
        return f"{percent(self.agreement)} of the memberships agree; " + (", ".join(pairs) or "no groups")


def match(a: Any, b: Any) -> Match:
    """Put the groups of two fits side by side.

    Partners are chosen so that their Jaccard coefficients add up to the most. Beside a base feature, which all rows of
    a fit have, any other feature z of that fit may as well be 1 - z, with -a for a and the base larger by a: such
    features are also compared with the opposite of the other fit's. Other ways to write the same sums, such as "one or
    the other" instead of "the one" where no row has both, count as different.

    Parameters
    ----------
    a, b : fitted estimators, label vectors of shape (n_rows,), or matrices of zeros and ones of shape (n_rows, K)
        Of the same rows, and both of clusters or both of features. In a label vector, groups are numbered in the
        order of the sorted labels.

    Returns
    -------
    Match

    Examples
    --------
    >>> from madbayes import match
    >>> found = match([0, 0, 1, 1, 2], [7, 7, 5, 5, 5])
    >>> found.order, found.agreement
    (array([ 1,  0, -1]), 0.8)
    >>> match([[1, 0], [1, 1], [1, 1]], [[1, 1], [0, 1], [0, 1]])
    100 % of the memberships agree; 0: 1 (100 %), 1: not 0 (100 %)
    """
    first, second = _groups_of("a", a), _groups_of("b", b)
    if first.kind != second.kind:
        raise ValueError(f"a holds {first.kind} and b {second.kind}: give two fits of the same kind")
    if len(first.Z) != len(second.Z):
        raise ValueError(
            f"a has {len(first.Z)} rows and b {len(second.Z)}: give groups of the same rows, "
            "from predict or transform for example"
        )
    return _match(first, second)


class Groups(NamedTuple):
    """Memberships, and what they are."""

    kind: Kind
    Z: NDArray[np.uint8]

    @property
    def may_flip(self) -> NDArray[np.bool_]:
        """Which features may be complemented: if there is one that all rows have, the others."""
        base = np.logical_and(self.Z.all(axis=0), self.kind == "features")
        return np.logical_and(~base, base.any())


def _groups_of(name: str, value: Any) -> Groups:
    """The memberships that a user gives in one of several forms."""
    if hasattr(value, "fit"):
        check_is_fitted(value)
        if hasattr(value, "allocations_"):
            return Groups("features", value.allocations_)
        value = getattr(value, "labels_", value)
    try:
        dimensions = np.ndim(value)
    except ValueError:  # rows of different lengths
        dimensions = 0
    if dimensions == 1:
        try:
            labels, numbers = np.unique(np.asarray(value), return_inverse=True)
        except TypeError:
            raise ValueError(
                f"{name} has labels that cannot be sorted: give labels of one type, none missing"
            ) from None
        return Groups("clusters", one_hot(numbers, len(labels)))
    if dimensions == 2:
        Z = validation.check_matrix(name, value, (None, None))
        validation.check_binary(name, Z)
        return Groups("features", Z.astype(np.uint8))
    raise ValueError(
        f"{name}={validation.shown(value)} is not accepted: give a fitted model, labels of shape (n_rows,), "
        "or zeros and ones of shape (n_rows, K)"
    )


def _match(a: Groups, b: Groups) -> Match:
    """The partners whose Jaccard coefficients add up to the most."""
    (N, K), sizes_a, sizes_b = a.Z.shape, a.Z.sum(axis=0, dtype=np.int64), b.Z.sum(axis=0, dtype=np.int64)
    both = _in_both(a.Z, b.Z)
    plain = _jaccard(both, sizes_a, sizes_b)
    # Of the rows of a group, those that are not in the other one.
    opposite = _jaccard(sizes_a[:, None] - both, sizes_a, N - sizes_b)
    flip = (opposite > plain) & (a.may_flip[:, None] | b.may_flip)
    shares = np.where(flip, opposite, plain)
    rows, columns = pairs(1e-9 * flip - shares, 0.0)  # among equal ones, as they stand
    order, complemented, group_agreement = np.full(K, -1), np.zeros(K, dtype=bool), np.zeros(K)
    order[rows], complemented[rows], group_agreement[rows] = columns, flip[rows, columns], shares[rows, columns]
    flipped = columns[complemented[rows]]
    sizes_b[flipped] = N - sizes_b[flipped]
    common = np.where(flip, sizes_a[:, None] - both, both)[rows, columns].sum()
    total = sizes_a.sum() + sizes_b.sum()
    return Match(
        order,
        complemented,
        float(2 * common / total) if total else 1.0,
        group_agreement,
        (np.setdiff1d(np.arange(K), rows), np.setdiff1d(np.arange(b.Z.shape[1]), columns)),
    )


def _in_both(Z: NDArray, other: NDArray) -> NDArray[np.int64]:
    """How many rows each group of one fit shares with each of the other."""
    blocks = row_blocks(len(Z), Z.shape[1] + other.shape[1])
    both = sum(Z[rows].T.astype(np.float64) @ other[rows] for rows in blocks)
    return np.asarray(both, dtype=np.int64)


def _jaccard(both: NDArray, sizes: NDArray, others: NDArray) -> NDArray[np.float64]:
    """Rows in both groups by rows in any of the two, for all pairs of groups."""
    return both / np.maximum(sizes[:, None] + others - both, 1)


@dataclass(frozen=True, eq=False)
class Stability:
    """How much of a fit comes back when it is made of other rows.

    Attributes
    ----------
    agreement, spread : float
        Mean and standard deviation, over refits, of the share of memberships that refit and fit have in common; see
        :class:`Match`.
    group_agreement, group_spread : array of shape (K,)
        The same of each group's Jaccard coefficient with its partner.
    n_groups : array of int of shape (n_refits,)
        How many groups each refit found.
    matches : list of Match
        Each refit beside the fit.
    share : float
        The share of rows a refit is made of.
    """

    agreement: float
    spread: float
    group_agreement: NDArray[np.float64]
    group_spread: NDArray[np.float64]
    n_groups: NDArray[np.int64]
    matches: list[Match]
    share: float

    @property
    def unstable(self) -> NDArray[np.intp]:
        """Groups whose mean Jaccard coefficient is below 0.75."""
        return np.flatnonzero(self.group_agreement < STABLE)

    def __repr__(self) -> str:
        K = len(self.group_agreement)
        counts = ", ".join(f"{count} in {times}" for count, times in sorted(Counter(self.n_groups.tolist()).items()))
        lines = [
            f"Stability over {counted(len(self.matches), 'refit')} on {percent(self.share)} of the rows",
            f"  memberships that agree: {percent(self.agreement)} (spread {percent(self.spread)})",
            f"  groups: {K} in the fit; {counts} of the refits",
            *(self._line(k) for k in range(min(K, SHOWN))),
            *([f"  ... and {K - SHOWN} more"] if K > SHOWN else []),
            f"  {self.verdict()}",
        ]
        return "\n".join(lines)

    def _line(self, k: int) -> str:
        mark = "  not stable" if k in self.unstable else ""
        return f"  group {k}: {self.group_agreement[k]:.2f} (spread {self.group_spread[k]:.2f}){mark}"

    def verdict(self, names: Sequence[str] | None = None) -> str:
        """Which groups are stable, in a sentence.

        Parameters
        ----------
        names : sequence of str, optional
            What to call the groups; "group 0" and so on if not given.

        Returns
        -------
        str
        """
        K, unstable = len(self.group_agreement), self.unstable
        if not len(unstable):
            return "All groups are stable." if K else "There are no groups."
        if len(unstable) == K:
            return "No group is stable: other rows would give other groups."
        called = [f"group {k}" if names is None else names[k] for k in unstable[:SHOWN]]
        return f"Not stable: {listed(called, len(unstable))}; the others are."


def stability(
    X: ArrayLike,
    model: GroupEstimator,
    *,
    n_refits: int = 20,
    share: float = 0.5,
    sample_weight: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Stability:
    """Which groups come back when the model is fitted to a part of the rows.

    Each refit draws rows without replacement, finds groups in them at the same penalty for the whole (rows weigh as
    much as all together), assigns all rows to its groups, and is matched with the fit to all rows. A group is stable
    if its Jaccard coefficient with its partner is 0.75 or more on average.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    model : estimator
        Any of madbayes. A fitted one is taken as it is, otherwise a copy is fitted to X; the model itself stays
        as it is. Refits use the penalty of the fit, also where it was chosen automatically, and no ``init``.
    n_refits : int
    share : float
        Share of the rows in a refit, above 0 and at most 1.
    sample_weight : array-like of shape (n_rows,), optional
        Used in all fits. Rows of weight zero do not count in agreement either.
    random_state : int, RandomState instance, optional
        Same seed, same answer, whatever ``n_jobs``.
    n_jobs : int, optional
        Refits at the same time: None is 1, -1 one for each core.

    Returns
    -------
    Stability

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans, stability
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [20, 0], [0, 20]], 20, axis=0)
    >>> stability(X, DPMeans(200.0, random_state=0), n_refits=10, random_state=0)
    Stability over 10 refits on 50 % of the rows
      memberships that agree: 100 % (spread 0 %)
      groups: 3 in the fit; 3 in 10 of the refits
      group 0: 1.00 (spread 0.00)
      group 1: 1.00 (spread 0.00)
      group 2: 1.00 (spread 0.00)
      All groups are stable.
    """
    _check_arguments(model, n_refits, share, n_jobs)
    random = validation.check_random(random_state)
    table = validation.check_table(clone(model), X, reset=True)
    weights = validation.check_weights(sample_weight, len(table))
    fit = model if _is_fitted(model) else clone(model).fit(X, sample_weight=sample_weight)
    weights = np.ones(len(table)) if weights is None else weights
    refits = Refits(fit, table[weights > 0], weights[weights > 0], share)
    original = _assigned(fit, X, weights > 0)
    with Workers(n_jobs) as workers:
        found = workers.map(refits.groups, random.randint(2**31 - 1, size=n_refits))
    return _summary([_match(original, groups) for groups in found], [groups.Z.shape[1] for groups in found], share)


def _check_arguments(model: Any, n_refits: Any, share: Any, n_jobs: Any) -> None:
    if not isinstance(model, GroupEstimator):
        raise ValueError(f"model={validation.shown(model)} is not accepted: give an estimator of madbayes")
    validation.check_count("n_refits", n_refits)
    validation.check_jobs(n_jobs)
    if not is_number(share) or not 0 < share <= 1:
        raise ValueError(f"share={share!r} is not accepted: give a number above 0 and at most 1")


def _is_fitted(model: GroupEstimator) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _assigned(model: GroupEstimator, X: ArrayLike, counted: NDArray[np.bool_]) -> Groups:
    """The groups that a fitted model gives the rows that count."""
    if hasattr(model, "predict"):
        return Groups("clusters", one_hot(model.predict(X)[counted], model.n_clusters_))
    return Groups("features", np.asarray(model.transform(X))[counted].astype(np.uint8))


class Refits(NamedTuple):
    """Fits to parts of a table."""

    fit: GroupEstimator  # to all rows
    X: NDArray
    weights: NDArray[np.float64]
    share: float

    def groups(self, seed: int) -> Groups:
        """The groups that a fit to some of the rows gives to all of them."""
        random = np.random.RandomState(seed)
        N = len(self.X)
        rows = np.sort(random.choice(N, max(1, round(self.share * N)), replace=False))
        settings: dict[str, Any] = {"random_state": random.randint(2**31 - 1), "n_jobs": None, "init": None}
        settings["checkpoint"] = None  # the state of another fit
        if "penalty" in self.fit.get_params():
            settings["penalty"] = self.fit.penalty_
        # Weighing as much as the whole table, a part has losses of the same scale: the penalty needs no change.
        weights = self.weights[rows] * (self.weights.sum() / self.weights[rows].sum())
        model = clone(self.fit).set_params(**settings).fit(self.X[rows], sample_weight=weights)
        return _assigned(model, self.X, np.ones(N, dtype=bool))


def _summary(matches: list[Match], n_groups: list[int], share: float) -> Stability:
    overall = np.array([found.agreement for found in matches])
    groups = np.array([found.group_agreement for found in matches])
    return Stability(
        float(overall.mean()),
        float(overall.std()),
        groups.mean(axis=0),
        groups.std(axis=0),
        np.array(n_groups, dtype=np.int64),
        matches,
        float(share),
    )
