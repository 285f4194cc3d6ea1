"""Best solutions for one number of groups after the other, each from its neighbours and from a start of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.cluster_search import ClusterLandscape, cluster_moves
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.engine.null import groupless
from madbayes.engine.path import PenaltyPath
from madbayes.engine.search import WORK, Landscape, Lineage, Move, Solution, is_same
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
    """How hard to look for each number of groups."""

    length: int = 1  # moves of a lineage for each group
    again: bool = True  # whether to have second looks
    n_fresh: int = 1  # starts of their own, for the smaller numbers
    n_null: int = 8  # groupless tables to compare with, at most


# How hard to look beyond the length of a path, and for groups where there are none: where that matters, with care.
QUICK_EFFORT = Effort(again=False, n_fresh=0)
CAREFUL_EFFORT = QUICK_EFFORT._replace(length=3)
# Moves without success for each group, before a lineage ends.
PATIENCE = 1
# Numbers up to this one have starts of their own: beyond, they cost much and are seldom better than neighbours'.
MAX_FRESH = 6
# The largest number of groups has so many in any case: the way down from it is better than the way up.
TOP = 1
# Solutions that are kept for each number of groups: the best for the next number may come of the second best for this.
WIDTH = 4
# Those in which each group differs from one of another solution in no more than this share of all rows are alike.
ALIKE = 0.1
# A proposal that is worse than the best by more than this factor is not followed.
NEAR = 1.01
# After a way along the path that lowers no error by more than this share, the largest and the smaller numbers have
# other starts.
GAIN = 1e-3
# Operations after which second looks end, the first way down apart.
ENOUGH = 0.6 * WORK


def solve_path(
    landscape: PathLandscape,
    moves: Mapping[str, Move],
    most: int,
    *,
    effort: Effort,
    rng: np.random.Generator,
    workers: Workers,
    rounds: int = 2,
    before: Sequence[Solution] = (),
    first: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    interrupt: Callable[[int], None] | None = None,
) -> list[Solution]:
    """Solutions with the smallest number of groups, one more, ..., at most ``most``, as long as there is error left.

    With ``first`` groups in place of the smallest number, if that is more.

    Upwards, each number of groups is searched from its smaller neighbour. Where there are second looks, that way is
    without any search at first; then the largest number is searched for from starts of its own, and in rounds all
    others, down from what is known of their larger neighbours and up from the smaller ones, until the work is enough. A
    path that was found ``before`` is gone on with. On KeyboardInterrupt, ``interrupt`` is called with the number of
    solutions: it raises again, or they are kept.
    """
    climb = Climb(landscape, moves, effort, rng, workers, is_over, pools=[[solution] for solution in before])
    try:
        climb.begin(first)
        climb.upwards(most)
        climb.look_again(rounds if effort.again else 0)
    except KeyboardInterrupt:
        if interrupt is None:
            raise
        interrupt(len(climb.pools))
    solutions = climb.solutions or [landscape.simplest()]
    exact = (i for i, solution in enumerate(solutions) if landscape.is_exact(solution))
    return solutions[: 1 + next(exact, len(solutions))]  # more than explain all were needed only on the way


@dataclass
class Climb:
    """The way along a path, what is known of each number of groups, and the work it has taken."""

    landscape: PathLandscape
    moves: Mapping[str, Move]
    effort: Effort
    rng: np.random.Generator
    workers: Workers
    is_over: Callable[[], bool] = lambda: False
    pools: list[list[Solution]] = field(default_factory=list)  # for each number some solutions, the best first
    visited: set[tuple[int, int, float]] = field(default_factory=set)  # numbers, from where, and the error there
    work: float = 0.0

    @property
    def solutions(self) -> list[Solution]:
        """The best for each number of groups."""
        return [pool[0] for pool in self.pools]

    def begin(self, first: int) -> None:
        """The first number of groups."""
        simplest = self.landscape.simplest()
        if not self.pools and first > simplest.K:
            self.pools.append(self.improved(self.landscape.with_K(first), [], n_fresh=1))
        elif not self.pools:
            self.pools.append([simplest])

    def upwards(self, most: int) -> None:
        """One group more at a time."""
        last = self.pools[-1][0]
        while not self.landscape.is_exact(last) and most > last.K and not self.is_over():
            here = self.landscape.with_K(last.K + 1)
            found = _best(self.polished(here, here.grown(last, self.rng)))
            if not self.effort.again:
                found = self.improved(here, found[:1])
            if not found or found[0].K <= last.K:  # nothing is left to explain
                break
            self.pools.append([one for one in found if one.K > last.K])
            last = found[0]

    def look_again(self, rounds: int) -> None:
        """Down from the largest number and up in turn, until the work is enough.

        The first way down, which helps most, is whole. On that, and after a way that has brought nothing, the largest
        and the smaller numbers begin from starts of their own, too.
        """
        down, up = range(len(self.pools) - 2, 0, -1), range(1, len(self.pools))
        stuck = True
        for n in range(rounds if len(self.pools) > 1 else 0):
            if stuck:
                self.take_in(len(self.pools) - 1, [], TOP)
            before = self.solutions
            n_fresh = self.effort.n_fresh if stuck else 0
            self.sweep(*((up, -1) if n % 2 else (down, 1)), ENOUGH if n else np.inf, n_fresh)
            pairs = zip(self.solutions, before, strict=True)
            stuck = not any(now.value < (1 - GAIN) * then.value for now, then in pairs)
            if self.work > ENOUGH or self.is_over():
                return

    def sweep(self, numbers: range, step: int, limit: float, n_fresh: int = 0) -> None:
        """Numbers of groups by their places, each from the neighbour a step away, while the work is less than this.

        The smaller ones from so many starts of their own, too.
        """
        for i in numbers:
            if self.work > limit or self.is_over():
                return
            self.visit(i, i + step, n_fresh if self.pools[i][0].K <= MAX_FRESH else 0)

    def visit(self, i: int, source: int, n_fresh: int) -> None:
        """What leads from all that is known of a neighbour to a number of groups."""
        here = self.landscape.with_K(self.pools[i][0].K)
        proposals: list[NDArray] = []
        for solution in self.pools[source]:
            if (i, source, solution.value) not in self.visited:
                self.visited.add((i, source, solution.value))
                proposals += here.shrunk(solution) if source > i else here.grown(solution, self.rng)
        self.take_in(i, self.polished(here, proposals), n_fresh)

    def take_in(self, i: int, found: list[Solution], n_fresh: int) -> None:
        """Keep solutions if they are among the best, and where lineages lead from the best new one and from starts."""
        known, here = self.pools[i], self.landscape.with_K(self.pools[i][0].K)
        new = [one for one in found if all(_is_other(one, other) for other in known)]
        found = [*found, *self.improved(here, _best(new)[:1], n_fresh)]
        self.pools[i] = _best([*known, *(one for one in found if one.K == known[0].K)])

    def polished(self, here: PathLandscape, proposals: list[NDArray]) -> list[Solution]:
        """The local optima that proposals lead to."""
        found = self.workers.map(here.polish, proposals)
        self.work += sum(one.passes * here.cost(one.K) for one in found)
        return list(found)

    def improved(self, here: PathLandscape, starts: list[Solution], n_fresh: int = 0) -> list[Solution]:
        """Where lineages end from the starts given, and some with starts of their own; the best first."""
        seeds = [int(seed) for seed in self.rng.integers(2**31, size=len(starts) + n_fresh)]
        strength = 0 if here.is_tiny else 1  # where rows are few, and the second one, are dear beside the rest
        begun = [*starts, *[None] * n_fresh]
        lineages = [Lineage(seed, start, strength) for seed, start in zip(seeds, begun, strict=True)]
        self.workers.map(lambda lineage: self.lead(lineage, here), lineages)
        self.work += sum(lineage.work for lineage in lineages)
        return _best([lineage.best for lineage in lineages if lineage.best is not None])

    def lead(self, lineage: Lineage, here: PathLandscape) -> None:
        """Let a lineage go on for a while."""
        lineage.advance(here, self.moves, PATIENCE, 0)  # it makes as many moves as suit the groups it begins with
        lineage.advance(here, self.moves, PATIENCE, self.effort.length * lineage.patience(PATIENCE))


def _value(solution: Solution) -> float:
    return solution.value


def _best(solutions: list[Solution]) -> list[Solution]:
    """So many of them as are kept, no two alike."""
    best: list[Solution] = []
    for solution in sorted(solutions, key=_value):
        if len(best) < WIDTH and not any(_is_alike(solution, other) for other in best):
            best.append(solution)
    return best


def _is_alike(solution: Solution, other: Solution) -> bool:
    """Whether each group of either has hardly other rows than one of the other solution."""
    Z, others = _memberships(solution), _memberships(other)
    different = Z.sum(axis=0)[:, None] + others.sum(axis=0) - 2 * Z.T @ others
    return all((different.min(axis=axis, initial=np.inf) <= ALIKE * len(Z)).all() for axis in (0, 1))


def _memberships(solution: Solution) -> NDArray[np.float64]:
    """Which rows are in each group."""
    if solution.groups.ndim == 2:
        return solution.groups.astype(np.float64)
    return (solution.groups[:, None] == np.arange(solution.K)).astype(np.float64)


def _is_other(found: Solution, solution: Solution) -> bool:
    """Whether this is another solution, and not much worse."""
    return not is_same(found.value, solution.value) and found.value < NEAR * solution.value


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
    rounds: int = 2  # ways along a path for second looks, at most


CLUSTERS = Kind(ClusterLandscape.of, cluster_moves)
FEATURES = Kind(FeatureLandscape.of, feature_moves, most_features, rounds=16)


# Rows of tiny groups are set aside if they are no more than this share of all, a few times over.
MAX_OUTLIERS, MAX_ROUNDS = 0.1, 5
# Groupless tables have no more rows than this, and so many of them are enough where the matter is clear.
NULL_ROWS, FEW = 200, 3
# It is clear where an interval is wider than theirs by so many standard deviations.
CLEAR_SPREADS = 7.5
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
                effort=self.effort, rng=self.rng, workers=self.workers, rounds=self.kind.rounds, before=before,
                first=first, is_over=is_over, interrupt=self.watch.interrupt,
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
        """Whether the table differs most from groupless ones, a few of them, at the end of a path that might go on."""
        if self.cap is not None or path.n_components[-1] < self.most or path.sse[-1] <= 0:
            return False
        return all(self.is_steeper(path, null()) for _ in range(FEW))

    def is_steeper(self, path: PenaltyPath, X: NDArray) -> bool:
        """Whether the error at the end of a path is lower than that of a groupless table, more so than before."""
        sse = self._replace(effort=QUICK_EFFORT).solve(X, None).sse
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
    spreads = CLEAR_SPREADS * max(1.0, FEW / max(1, len(path.null_ratios)))
    return bool(path.candidates) and path.ratios[path.best] > path.threshold(path.best, spreads)


def _rows_of_tiny_groups(solution: Solution, weights: NDArray, min_weight: float) -> NDArray[np.bool_]:
    """Rows in a group that weighs less than this."""
    Z = _memberships(solution)
    return np.asarray(Z[:, weights @ Z < min_weight].any(axis=1))
