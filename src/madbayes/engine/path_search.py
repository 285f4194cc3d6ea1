"""Best solutions for one number of groups after the other, each from its neighbours and from a start of its own."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.cluster_search import ClusterLandscape, cluster_moves
from madbayes.engine.feature_search import FeatureLandscape, feature_moves
from madbayes.engine.null import groupless
from madbayes.engine.path import PenaltyPath
from madbayes.engine.search import STRIDE, Landscape, Lineage, Move, Solution, is_lower
from madbayes.model.likelihoods import Weights


class PathLandscape(Landscape, Protocol):
    """A table in which numbers of groups are neighbours."""

    def with_K(self, K: int) -> Self:
        """The same table with exactly K groups, at no price."""

    def grown(self, solution: Solution, rng: np.random.Generator) -> list[NDArray]:
        """Assignments with one group more."""

    def shrunk(self, solution: Solution) -> list[NDArray]:
        """Assignments with one group less."""

    def simplest(self) -> Solution:
        """The solution with the smallest number of groups."""

    def is_exact(self, solution: Solution) -> bool:
        """Whether there is nothing left to explain."""


def solve_path(
    landscape: PathLandscape,
    moves: Mapping[str, Move],
    most: int,
    *,
    patience: int,
    n_fresh: int,
    rng: np.random.Generator,
    workers: Workers,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Solution]:
    """Solutions with the smallest number of groups, one more, ..., at most ``most``, as long as there is error left.

    Upwards, each number of groups is searched from its smaller neighbour and from ``n_fresh`` starts of its own. Then
    neighbours are tried once more, downwards and upwards, until that lowers nothing.
    """
    solutions = [landscape.simplest()]
    while not landscape.is_exact(solutions[-1]) and most > solutions[-1].K and not is_over():
        last = solutions[-1]
        here = landscape.with_K(last.K + 1)
        start = _best_of(here, here.grown(last, rng), workers)
        found = _improve(here, moves, start, patience, n_fresh, rng, workers)
        if found.K <= last.K:  # nothing is left to explain
            break
        solutions.append(found)
    while not is_over() and _try_neighbours(landscape, solutions, rng, workers):
        pass
    return solutions


def _improve(
    here: PathLandscape,
    moves: Mapping[str, Move],
    start: Solution,
    patience: int,
    n_fresh: int,
    rng: np.random.Generator,
    workers: Workers,
) -> Solution:
    """The best of a lineage from the start given, and of some with starts of their own."""
    seeds = [int(seed) for seed in rng.integers(2**31, size=n_fresh + 1)]
    lineages = [Lineage(seeds[0], start), *map(Lineage, seeds[1:])]

    def finish(lineage: Lineage) -> None:
        while not lineage.ended:
            lineage.advance(here, moves, patience, STRIDE)

    workers.map(finish, lineages)
    return min((lineage.best for lineage in lineages if lineage.best is not None), key=lambda best: best.value)


def _best_of(here: PathLandscape, proposals: list[NDArray], workers: Workers) -> Solution:
    return min(workers.map(here.polish, proposals), key=lambda solution: solution.value)


def _try_neighbours(
    landscape: PathLandscape, solutions: list[Solution], rng: np.random.Generator, workers: Workers
) -> bool:
    """Every number of groups from its larger, then from its smaller neighbour; whether that lowered anything."""
    lowered = False
    for i, source in _visits(len(solutions)):
        here = landscape.with_K(solutions[i].K)
        proposals = here.shrunk(solutions[source]) if source > i else here.grown(solutions[source], rng)
        found = _best_of(here, proposals, workers)
        if is_lower(found, solutions[i]):
            solutions[i], lowered = found, True
    return lowered


def _visits(length: int) -> Iterator[tuple[int, int]]:
    """Who is visited from where: downwards, then upwards; the first is what it is."""
    for i in range(length - 2, 0, -1):
        yield i, i + 1
    for i in range(1, length):
        yield i, i - 1


# Rows of tiny groups are set aside if they are no more than this share of all.
MAX_OUTLIERS = 0.1


class Effort(NamedTuple):
    """How hard to look for each number of groups."""

    patience: int = 2
    n_fresh: int = 1
    n_null: int = 5  # groupless tables to compare with


class Kind(NamedTuple):
    """Clusters, or features."""

    landscape: Callable[[NDArray, float, Weights], Any]
    moves: Mapping[str, Move]


CLUSTERS = Kind(ClusterLandscape.of, cluster_moves)
FEATURES = Kind(FeatureLandscape.of, feature_moves)


def find_path(
    kind: Kind,
    X: NDArray,
    sample_weight: Weights,
    *,
    cap: int | None,
    limit: int,
    min_weight: float,
    row_weight: float = 1.0,
    effort: Effort,
    rng: np.random.Generator,
    workers: Workers,
) -> PenaltyPath:
    """The path of a table, compared with tables without groups; tiny groups are set aside first.

    ``limit`` is the largest number of groups to look at, one more than ``cap`` being enough to judge the latter.
    Groups of less than ``min_weight`` are tiny; a row of the user's weighs ``row_weight`` on average.
    """
    most = limit if cap is None else min(limit, cap + 1)

    def path_of(X: NDArray, weights: Weights) -> PenaltyPath:
        solutions = solve_path(
            kind.landscape(X, 0.0, weights), kind.moves, most,
            patience=effort.patience, n_fresh=effort.n_fresh, rng=rng, workers=workers,
        )  # fmt: skip
        losses = np.array([solution.value for solution in solutions])
        return PenaltyPath(np.array([solution.K for solution in solutions]), losses, solutions, cap=cap)

    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    kept, path = np.ones(len(X), dtype=bool), path_of(X, sample_weight)
    tiny = _rows_of_tiny_groups(path.for_k(path.best), weights, min_weight)
    if 0 < weights[tiny].sum() <= MAX_OUTLIERS * weights.sum():
        kept = ~tiny
        path = path_of(X[kept], weights[kept])
    nulls = [path_of(groupless(X[kept], weights[kept], rng), weights[kept]) for _ in range(effort.n_null)]
    seen = [(K, ratio) for null in nulls for K, ratio in null.ratios.items()]
    null_ratios = {K: max(ratio for other, ratio in seen if other == K) for K, _ in sorted(seen)}
    return replace(path, null_ratios=null_ratios, n_outliers=round(float(weights[~kept].sum()) / row_weight))


def _rows_of_tiny_groups(solution: Solution, weights: NDArray, min_weight: float) -> NDArray[np.bool_]:
    """Rows in a group that weighs less than this."""
    Z = solution.groups if solution.groups.ndim == 2 else solution.groups[:, None] == np.arange(solution.K)
    return np.asarray(Z[:, weights @ Z < min_weight].any(axis=1))
