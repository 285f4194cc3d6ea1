"""Best solutions for one number of groups after the other, each from its neighbours and from a start of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.cluster_search import ClusterLandscape, cluster_moves
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.engine.null import groupless
from madbayes.engine.path import SPREADS, PenaltyPath
from madbayes.engine.search import SAME, WORK, Landscape, Lineage, Move, Solution, is_lower
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


class Watch:
    """Looks on while a path is found. This one does nothing."""

    def is_over(self) -> bool:
        """Whether to end with what is there."""
        return False

    @contextmanager
    def table(self, most: int) -> Iterator[Callable[[], bool]]:
        """A table of which up to so many numbers of groups are looked at; yields what is asked before each."""
        yield self.is_over

    def interrupt(self, n_found: int) -> None:
        """Raise the KeyboardInterrupt that is handled again, or keep the solutions found."""
        raise


class Effort(NamedTuple):
    """How hard to look for each number of groups: moves without success for each group, before a lineage ends."""

    patience: int = 1  # on the way up
    again: int = 1  # where a neighbour has become better since; 0 for no second look
    n_fresh: int = 1  # starts of their own, for the smaller numbers
    n_null: int = 8  # groupless tables to compare with, at most


# How hard to look beyond the length of a path, and for groups where there are none: where that matters, with care.
QUICK_EFFORT = Effort(patience=1, again=0, n_fresh=0)
CAREFUL_EFFORT = Effort(patience=3, again=0, n_fresh=0)
# Numbers up to this one have starts of their own: beyond, they cost much and are seldom better than neighbours'.
MAX_FRESH = 10
# A neighbour whose proposal is worse by more than this factor is not followed.
NEAR = 1.02
# Second looks for each number of groups, on average, at most.
MAX_VISITS = 8


def solve_path(
    landscape: PathLandscape,
    moves: Mapping[str, Move],
    most: int,
    *,
    effort: Effort,
    rng: np.random.Generator,
    workers: Workers,
    before: Sequence[Solution] = (),
    first: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    interrupt: Callable[[int], None] | None = None,
) -> list[Solution]:
    """Solutions with the smallest number of groups, one more, ..., at most ``most``, as long as there is error left.

    With ``first`` groups in place of the smallest number, if that is more.

    Upwards, each number of groups is searched from its smaller neighbour and from starts of its own. Then all are
    searched once more from their larger neighbours, and from whatever neighbour became better, until none does or
    the work is enough. A path that was found ``before`` is gone on with. On KeyboardInterrupt, ``interrupt`` is called
    with the number of solutions: it raises again, or they are kept.
    """
    climb, solutions = Climb(landscape, moves, effort, rng, workers, is_over), list(before)
    try:
        climb.upwards(solutions, first, most)
        if effort.again:
            climb.look_again(solutions)
    except KeyboardInterrupt:
        if interrupt is None:
            raise
        interrupt(len(solutions))
    return solutions or [landscape.simplest()]


@dataclass
class Climb:
    """The way along a path, and the work it has taken."""

    landscape: PathLandscape
    moves: Mapping[str, Move]
    effort: Effort
    rng: np.random.Generator
    workers: Workers
    is_over: Callable[[], bool] = lambda: False
    work: float = 0.0

    def upwards(self, solutions: list[Solution], first: int, most: int) -> None:
        """One group more at a time."""
        simplest = self.landscape.simplest()
        if not solutions and first > simplest.K:
            solutions.append(self.improve(self.landscape.with_K(first), None, self.effort.patience))
        elif not solutions:
            solutions.append(simplest)
        while not self.landscape.is_exact(solutions[-1]) and most > solutions[-1].K and not self.is_over():
            last = solutions[-1]
            here = self.landscape.with_K(last.K + 1)
            start = self.best_of(here, here.grown(last, self.rng))
            n_fresh = self.effort.n_fresh if last.K < MAX_FRESH and self.work < WORK else 0
            found = self.improve(here, start, self.effort.patience, n_fresh)
            if found.K <= last.K:  # nothing is left to explain
                break
            solutions.append(found)

    def look_again(self, solutions: list[Solution]) -> None:
        """Every number of groups from its larger neighbour, then from those that have become better since."""
        news, visits = {(i, i + 1) for i in range(1, len(solutions) - 1)}, 0
        while news:
            for i, source in _visits(len(solutions)):
                if (i, source) not in news:
                    continue
                if visits >= MAX_VISITS * len(solutions) or self.work > WORK or self.is_over():
                    return
                visits, news = visits + 1, news - {(i, source)}
                found = self.visit(solutions[i], solutions[source])
                if is_lower(found, solutions[i]):
                    solutions[i] = found
                    news |= {(j, i) for j in (i - 1, i + 1) if 0 < j < len(solutions)}

    def visit(self, solution: Solution, source: Solution) -> Solution:
        """What a neighbour leads to for the number of groups of a solution."""
        here = self.landscape.with_K(solution.K)
        found = self.best_of(here, here.shrunk(source) if source.K > solution.K else here.grown(source, self.rng))
        return self.improve(here, found, self.effort.again) if _is_other(found, solution) else found

    def best_of(self, here: PathLandscape, proposals: list[NDArray]) -> Solution:
        """The best local optimum that proposals lead to."""
        found = self.workers.map(here.polish, proposals)
        self.work += sum(one.passes * here.cost(one.K) for one in found)
        return min(found, key=lambda solution: solution.value)

    def improve(self, here: PathLandscape, start: Solution | None, patience: int, n_fresh: int = 0) -> Solution:
        """The best of a lineage from the start given, and of some with starts of their own."""
        seeds = [int(seed) for seed in self.rng.integers(2**31, size=n_fresh + 1)]
        is_hard = not here.is_tiny  # there it is dear beside the rest
        lineages = [Lineage(seeds[0], start, is_hard), *(Lineage(seed, is_hard=is_hard) for seed in seeds[1:])]
        found = self.workers.map(lambda lineage: lineage.finish(here, self.moves, patience), lineages)
        self.work += sum(lineage.work for lineage in lineages)
        return min(found, key=lambda best: best.value)


def _is_other(found: Solution, solution: Solution) -> bool:
    """Whether this is another solution, and not much worse."""
    return abs(found.value - solution.value) > SAME * solution.value and found.value < NEAR * solution.value


def _visits(length: int) -> Iterator[tuple[int, int]]:
    """Who is visited from where: downwards, then upwards; the first is what it is."""
    for i in range(length - 2, 0, -1):
        yield i, i + 1
    for i in range(1, length):
        yield i, i - 1


def most_clusters(N: int, D: int) -> int:
    """Clusters worth looking at: beyond two rows each, they are chance."""
    return (N + 1) // 2 + 1


def most_features(N: int, D: int) -> int:
    """Features worth looking at: with more of them than columns, and more codes than rows, anything is explained."""
    return max(D, int(np.ceil(np.log2(N)))) + 1


class Kind(NamedTuple):
    """Clusters, or features."""

    landscape: Callable[..., Any]  # of a table, a penalty and weights
    moves: Mapping[str, Move]
    most: Callable[[int, int], int] = most_clusters  # groups that may be chosen, and one more


CLUSTERS = Kind(ClusterLandscape.of, cluster_moves)
FEATURES = Kind(FeatureLandscape.of, feature_moves, most_features)


# Rows of tiny groups are set aside if they are no more than this share of all, a few times over.
MAX_OUTLIERS, MAX_ROUNDS = 0.1, 5
# Groupless tables have no more rows than this, and so many of them are enough where the matter is clear.
NULL_ROWS, FEW = 200, 3
# The path goes on beyond its limit, up to so many times its length, ...
MAX_LONGER = 8
# ... where the error at its end is lower than that of a groupless table by more than this share.
STEEP = 0.1


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
    watch: Watch = Watch(),  # noqa: B008 - it has no state
) -> PenaltyPath:
    """The path of a table, compared with tables without groups; tiny groups are set aside first.

    Numbers of groups up to ``limit`` are looked at, or up to the ``cap`` and one more to judge it. Without a cap the
    path goes on as long as its end is where the table differs most from a groupless one.
    Groups of less than ``min_weight`` are tiny; a row of the user's weighs ``row_weight``.
    """
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    finder = Finder(kind, cap, limit if cap is None else cap + 1, effort, rng, workers, watch)
    rows, path = finder.without_tiny_groups(X, weights, min_weight)
    n_whole = float(weights[rows].sum()) / row_weight
    n_rows = max(1, min(NULL_ROWS, round(n_whole)))

    def null() -> NDArray:
        return groupless(X[rows], weights[rows], rng, n_rows)

    path = finder.compare(path, null, n_whole) if effort.n_null else path
    while effort.n_null and not watch.is_over() and not _stands_out(path) and finder.is_steep(path, null):
        finder = finder._replace(most=2 * finder.most, effort=QUICK_EFFORT._replace(n_null=effort.n_null))
        longer = finder.solve(X[rows], weights[rows], path.solutions)
        if watch.is_over():
            break
        path = finder.compare(longer, null, n_whole)
        if finder.most >= MAX_LONGER * limit:
            break
    n_outliers = round(float(weights[~rows].sum()) / row_weight)
    return replace(path, n_outliers=n_outliers, outliers=np.flatnonzero(~rows).tolist())


class Finder(NamedTuple):
    """What finds the paths of a table, and of those it is compared with."""

    kind: Kind
    cap: int | None
    most: int
    effort: Effort
    rng: np.random.Generator
    workers: Workers
    watch: Watch

    def solve(self, X: NDArray, weights: Weights, before: Sequence[Solution] = (), first: int = 0) -> PenaltyPath:
        """The path of a table, up to the cap; what is beyond it only limits intervals."""
        most = min(self.most, self.kind.most(*X.shape))
        with self.watch.table(most) as is_over:
            solutions = solve_path(
                self.kind.landscape(X, 0.0, weights), self.kind.moves, most,
                effort=self.effort, rng=self.rng, workers=self.workers, before=before, first=first,
                is_over=is_over, interrupt=self.watch.interrupt,
            )  # fmt: skip
        within = [solution for solution in solutions if self.cap is None or self.cap >= solution.K]
        numbers, losses = (np.array(part) for part in zip(*((one.K, one.value) for one in within), strict=True))
        return PenaltyPath(numbers, losses, within, beyond=[one.value for one in solutions[len(within) :]])

    def without_tiny_groups(
        self, X: NDArray, weights: NDArray, min_weight: float
    ) -> tuple[NDArray[np.bool_], PenaltyPath]:
        """Rows that are left when those of tiny groups are set aside, as long as there are any, and their path."""
        rows, path = np.ones(len(X), dtype=bool), self.solve(X, weights)
        for _ in range(MAX_ROUNDS):
            tiny = np.flatnonzero(rows)[_rows_of_tiny_groups(path.for_k(path.best), weights[rows], min_weight)]
            left = rows.copy()
            left[tiny] = False
            if self.watch.is_over() or not len(tiny) or weights[~left].sum() > MAX_OUTLIERS * weights.sum():
                break
            fewer = self.solve(X[left], weights[left])
            if self.watch.is_over():  # the path of all rows is there, this one may not be
                break
            rows, path = left, fewer
        return rows, path

    def compare(self, path: PenaltyPath, null: Callable[[], NDArray], n_rows: float) -> PenaltyPath:
        """With the ratios of tables without groups, as far as there is a number to be judged by them.

        Where one table that is looked at quickly does not settle it, some are looked at with care in its place.
        """
        if not path.contenders:
            return path
        first = self.compare_once(path, null(), n_rows, QUICK_EFFORT)
        if _is_clear(first):
            return first
        for n in range(self.effort.n_null):
            if self.watch.is_over() or (1 <= n <= FEW and _is_clear(path)):
                break
            path = self.compare_once(path, null(), n_rows, CAREFUL_EFFORT)
        return path

    def compare_once(self, path: PenaltyPath, X: NDArray, n_rows: float, effort: Effort) -> PenaltyPath:
        """With the ratios of one table more."""
        finder = self._replace(cap=None, effort=effort)
        ratios, shares = finder.ratios_and_shares(X, _stretches(path.contenders), n_rows)
        if self.watch.is_over():  # it is not the whole table's
            return path
        return replace(path, null_ratios=[*path.null_ratios, ratios], null_shares=[*path.null_shares, shares])

    def ratios_and_shares(
        self, X: NDArray, stretches: list[tuple[int, int]], n_rows: float
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Those of a table for some stretches of numbers of groups, without the way there.

        Shares of the squared error are what they would be with so many rows: K groups take K rows' worth of it.
        """
        whole = self.kind.landscape(X, 0.0, None).simplest().value
        ratios, shares = dict[int, float](), dict[int, float]()
        for first, last in stretches:
            path = self._replace(most=last).solve(X, None, first=first)
            ratios |= path.ratios
            for K, sse in zip(path.n_components.tolist(), path.sse, strict=True):
                if min(len(X), n_rows) > K and min(sse, whole) > 0:
                    shares[K] = float(sse / whole) * (1 - K / n_rows) / (1 - K / len(X))
        return ratios, shares

    def is_steep(self, path: PenaltyPath, null: Callable[[], NDArray]) -> bool:
        """Whether the table differs most from a groupless one at the end of a path that might go on."""
        if self.cap is not None or path.n_components[-1] < self.most or path.sse[-1] <= 0:
            return False
        sse = self._replace(effort=QUICK_EFFORT).solve(null(), None).sse
        if len(sse) < len(path.sse) or sse[-1] <= 0:
            return False
        gaps = np.log(sse / sse[0]) - np.log(path.sse / path.sse[0])
        return bool(gaps[-1] > STEEP and gaps.argmax() >= 0.75 * len(gaps))


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of the numbers that tell about these: two on either side. Those that touch are one."""
    stretches: list[tuple[int, int]] = []
    for K in sorted(numbers):
        if stretches and stretches[-1][1] >= K - 3:
            stretches[-1] = (stretches[-1][0], K + 2)
        else:
            stretches.append((K - 2, K + 2))
    return stretches


def _is_clear(path: PenaltyPath) -> bool:
    """Whether intervals are so far above or below those of groupless tables that more of them would tell nothing."""
    enough = len(path.null_ratios) >= FEW
    return _stands_out(path) or (enough and not any(path.ratios[K] > path.threshold(K, 0.0) for K in path.contenders))


def _stands_out(path: PenaltyPath) -> bool:
    """Whether the evidence is far beyond doubt; the fewer tables it was compared with, the farther."""
    spreads = 3 * SPREADS * max(1.0, FEW / max(1, len(path.null_ratios)))
    return bool(path.candidates) and path.ratios[path.best] > path.threshold(path.best, spreads)


def _rows_of_tiny_groups(solution: Solution, weights: NDArray, min_weight: float) -> NDArray[np.bool_]:
    """Rows in a group that weighs less than this."""
    Z = solution.groups if solution.groups.ndim == 2 else solution.groups[:, None] == np.arange(solution.K)
    return np.asarray(Z[:, weights @ Z < min_weight].any(axis=1))
