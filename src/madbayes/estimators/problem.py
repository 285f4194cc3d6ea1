"""The table as algorithms see it, and what they find."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.bounds import singular_squares
from madbayes.engine.homes import Home, LocalHome, Moments, squared_spectrum
from madbayes.engine.path import PenaltyPath, WeakEvidenceWarning, users_level
from madbayes.estimators.intake import check_positive_weights
from madbayes.estimators.memory import NO_LIMIT, Memory
from madbayes.model import MeansCovariances
from madbayes.model.likelihoods import Weights
from madbayes.paper import Run
from madbayes.sources import FileRows

# A column with more than this share of the variance, and so many times that of any other, decides the groups alone.
DOMINANT_SHARE, DOMINANT_TIMES = 0.5, 9.0


class Problem(NamedTuple):
    """The table as the algorithms see it: only rows of positive weight, in the precision they came in."""

    X: Any  # an array; or, where rows are too many for the search, whatever has them
    sample_weight: Weights
    counted: NDArray[np.bool_] | None  # which of the user's rows these are; None for all
    random: np.random.RandomState
    workers: Workers
    init: Any = None  # where to start: means, (Z, A), or None
    rows: NDArray[np.intp] | None = None  # of a sample: which rows of the whole these are
    copies: NDArray[np.intp] | None = None  # of a canonical table: which of its rows each row it was made of has become
    home: Home | None = None  # where rows are that are too many for the search
    known: Moments | None = None  # what is known of them
    memory: Memory = NO_LIMIT

    @classmethod
    def of(
        cls,
        table: Any,
        sample_weight: ArrayLike | None,
        random: np.random.RandomState,
        workers: Workers,
        goes_home: Callable[[int], bool],
        memory: Memory = NO_LIMIT,
    ) -> "Problem":
        """A table that was taken in, rows that weigh nothing left out.

        ``goes_home`` says of how many rows only sums are taken.
        """
        weights, counted, X = check_positive_weights(sample_weight, table), None, table
        if not isinstance(table, np.ndarray | FileRows):  # its rows are on other machines
            return cls(table, None, None, random, workers, home=table, known=Moments.of(table), memory=memory)
        if isinstance(table, FileRows) and not goes_home(len(table)):
            why = "this search needs it: give more, or search='best' with DPMeans or the estimators of features"
            memory.check(3 * table.nbytes, why)
            X = table[:]
        elif isinstance(table, np.ndarray):
            X = np.ascontiguousarray(table)
            if weights is not None and not weights.all():
                counted = weights > 0
                X, weights = X[counted], weights[counted]
        problem = cls(X, weights, counted, random, workers, memory=memory)
        if not goes_home(len(X)):
            return problem
        home = LocalHome(X, weights, workers, memory.ledger)
        return problem._replace(home=home, known=Moments.of(home))

    def seeds(self, count: int) -> list[int]:
        """Fresh seeds, each of which alone reproduces a restart."""
        return [int(seed) for seed in self.random.randint(2**31 - 1, size=count)]

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of every row."""
        return np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight.astype(np.float64)

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.weights.sum()) if self.known is None else self.known.weight

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weighted mean and variance of each column."""
        if self.known is not None:
            return self.known.mean, self.known.variance
        blocks, weights = row_blocks(*self.X.shape), self.weights
        mean = sum(weights[rows] @ self.X[rows] for rows in blocks) / weights.sum()
        squares = sum(weights[rows] @ (self.X[rows] - mean) ** 2 for rows in blocks)
        return mean, squares / weights.sum()

    def at_home(self) -> tuple[Home, Moments]:
        """Where the rows are, and what is known of them."""
        assert self.home is not None
        assert self.known is not None
        return self.home, self.known

    def squared_spectrum(self, origin: NDArray) -> NDArray[np.float64]:
        """Squared singular values of the table about an origin."""
        if self.home is not None:
            return squared_spectrum(self.home, origin)
        return singular_squares(as_float64(self.X) - origin, self.sample_weight)

    def sample(self, n_rows: int) -> "Problem":
        """At most ``n_rows`` of the rows, in memory, weighing as much as all: losses keep their scale."""
        if len(self.X) <= n_rows:
            return self if self.home is None else self._of_rows(np.arange(len(self.X)))
        # Memory for the rows that are drawn, not for all: there may be very many.
        rng = np.random.default_rng(self.seeds(1)[0])
        return self._of_rows(np.sort(rng.choice(len(self.X), n_rows, replace=False, shuffle=False)))

    def _of_rows(self, rows: NDArray[np.intp]) -> "Problem":
        """Some of the rows, weighing as much as all."""
        if self.home is None:
            X, weights = self.X[rows], self.weights[rows]
        else:
            X, weights = self.home.take(rows)
            weights = weights if weights.size else np.ones(len(rows))
        whole = self._replace(X=X, rows=rows, home=None, known=None)
        if len(rows) == len(self.X) and (weights == 1).all():
            return whole
        return whole._replace(sample_weight=weights * (self.total / weights.sum()))

    def canonical(self) -> "Problem":
        """Equal rows as one that weighs as much, and all in the order of their values.

        What a search finds then depends neither on the order of the rows nor on whether a row is repeated or weighs
        twice as much.
        """
        _, rows, inverse = np.unique(self.X, axis=0, return_index=True, return_inverse=True)
        weights = np.bincount(inverse.ravel(), self.weights).astype(np.float64)
        alone = (weights == 1).all()
        return self._replace(
            X=self.X[rows],
            sample_weight=None if alone else weights,
            rows=rows if self.rows is None else self.rows[rows],
            copies=inverse.ravel(),
        )


def in_the_users_rows(path: PenaltyPath, sample: Problem, table: Problem) -> PenaltyPath:
    """A path of the rows of a table, which is a sample made canonical, as one of the user's rows in their order."""
    assert table.copies is not None
    rows = np.arange(len(sample.X)) if sample.rows is None else sample.rows
    if sample.counted is not None:
        rows = np.flatnonzero(sample.counted)[rows]
    is_kept = np.ones(len(table.X), dtype=bool)
    is_kept[path.outliers] = False
    kept = is_kept[table.copies]
    places = (np.cumsum(is_kept) - 1)[table.copies[kept]]
    solutions = [solution._replace(groups=solution.groups[places]) for solution in path.solutions]
    return replace(path, solutions=solutions, outliers=rows[~kept].tolist(), rows=rows[kept])


def warn_of_scales(problem: Problem) -> None:
    """Say so when one column decides the groups alone."""
    variances: NDArray = problem.moments()[1]
    if (share := dominant_share(variances)) is not None:
        words = f"column {int(variances.argmax())} has {share:.0%} of the variance of the table and decides the groups"
        warnings.warn(
            f"{words} almost alone: are the columns on comparable scales?",
            WeakEvidenceWarning,
            stacklevel=users_level(),
        )


def dominant_share(variances: NDArray) -> float | None:
    """The share of the variance that one column has, if it decides the groups alone; None if none does."""
    if len(variances) < 2 or not variances.any():
        return None
    *others, second, first = np.sort(variances / variances.max())
    share = float(first / (first + second + sum(others)))
    return share if share > DOMINANT_SHARE and first > DOMINANT_TIMES * second else None


def tiny_group(problem: Problem) -> float:
    """What a group must weigh to count when their number is chosen: three rows, or a hundredth of all."""
    return max(3 * row_weight(problem), 0.01 * float(problem.weights.sum()))


def row_weight(problem: Problem) -> float:
    """What counts as one row: the lightest, so that a row may weigh as much as several others."""
    if problem.home is not None and not problem.home.weighted:
        return 1.0
    return float(problem.weights.min())


class Found(NamedTuple):
    """What a search has found, and how."""

    A: Any  # the parameters of the groups
    trace: list[float]  # the objective on the way
    iterations: int
    converged: bool
    runs: list[Run]
    info: dict[str, Any]


class State(NamedTuple):
    """Groups, the rows assigned to them, and the objective there."""

    assigned: Any  # labels, or Z; or who knows them, where rows are too many
    A: Any
    value: float
    sizes: NDArray[np.float64] | None = None  # the weight of the rows of each group, where it is known


def means_of(A: Any) -> NDArray:
    """The means among the parameters of the groups."""
    return A.means if isinstance(A, MeansCovariances) else A


def each(A: Any, change: Callable[[NDArray], NDArray]) -> Any:
    """Change every array among the parameters of the groups."""
    return MeansCovariances(*map(change, A)) if isinstance(A, MeansCovariances) else change(A)


def as_float64(part: NDArray) -> NDArray[np.float64]:
    """The same numbers in double precision."""
    return part.astype(np.float64, copy=False)


def quantile(values: NDArray, share: float, weights: Weights) -> float:
    """The smallest of the values that this share of the weight does not exceed."""
    if weights is None:
        k = max(ceil(share * len(values)) - 1, 0)
        return float(np.partition(values, k)[k])
    order = np.argsort(values)
    below = np.searchsorted(np.cumsum(weights[order]), share * weights.sum())
    return float(values[order[min(below, len(order) - 1)]])
