"""The path of a table beside those of tables without groups: how many groups there are, and how plausible that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.borrowing import borrowed, swapped
from madbayes.engine.climb import (
    BRIEF_EFFORT,
    CAREFUL_EFFORT,
    QUICK_EFFORT,
    Effort,
    Watch,
    Ways,
    memberships,
    solve_path,
)
from madbayes.engine.cluster_search import ClusterLandscape, cluster_moves
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.engine.null import groupless
from madbayes.engine.path import SPREADS, WEAK_FIRST_RATIO, PenaltyPath
from madbayes.engine.search import Move, Solution
from madbayes.model.likelihoods import Weights


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
    ways: Ways = Ways()  # how to have second looks
    scales_with_weights: bool = True  # errors; if not, as with learned covariances, groupless tables must weigh as much


CLUSTERS = Kind(ClusterLandscape.of, cluster_moves)
FEATURES = Kind(
    FeatureLandscape.of,
    feature_moves,
    most_features,
    Ways(
        "moves",
        max_first=8,
        later=("shaken",),
        rounds=3,
        max_fresh=8,
        begin=FeatureLandscape.start_warm,
        borrow=borrowed,
        swap=swapped,
        refine=FeatureLandscape.refined,
        shake=FeatureLandscape.shaken,
    ),
)


# Rows of tiny groups are set aside if they are no more than this share of all, a few times over.
MAX_OUTLIERS, MAX_ROUNDS = 0.1, 5
# Groupless tables have no more rows than this; so many of them are enough where the matter is clear, so many else.
NULL_ROWS, FEW, SOME = 200, 3, 8
# It is in doubt, and takes more of them, where an interval is nearer to what is asked for than so many spreads: twice
# what chance makes of them among so many tables, about.
DOUBT = 1.1
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
    chance = rng.spawn(1)[0]  # the same groupless tables, as long as the same numbers are in question
    finder = Finder(kind, cap, limit if cap is None else cap + 1, effort, rng, chance, workers, watch)
    rows, path = finder.without_tiny_groups(X, weights, min_weight)
    weight = float(weights[rows].sum())
    n_whole = weight / row_weight
    n_rows = max(1, min(NULL_ROWS, round(n_whole)))
    if not kind.scales_with_weights:
        finder = finder._replace(null_weight=weight / n_rows)

    def null() -> NDArray:
        return groupless(X[rows], weights[rows], chance, n_rows)

    path = finder.compare(path, null, n_whole) if effort.n_null else path
    while effort.n_null and not watch.is_over() and not _stands_out(path) and finder.is_steep(path, null):
        finder = finder._replace(most=2 * finder.most, effort=QUICK_EFFORT._replace(n_null=effort.n_null))
        longer = finder.solve(X[rows], weights[rows], path.solutions)
        if watch.is_over():
            break
        path = finder.compare(longer, null, n_whole)
        if finder.most >= MAX_LONGER * limit:
            break
    path = finder.judge_first(path, null)
    n_outliers = round(float(weights[~rows].sum()) / row_weight)
    return replace(path, n_outliers=n_outliers, outliers=np.flatnonzero(~rows).tolist())


class Figures(NamedTuple):
    """What a table without groups tells about each of some numbers of them."""

    ratios: dict[int, float]
    outer_ratios: dict[int, float]
    shares: dict[int, float]  # of the squared error that are left


class Finder(NamedTuple):
    """What finds the paths of a table, and of those it is compared with."""

    kind: Kind
    cap: int | None
    most: int
    effort: Effort
    rng: np.random.Generator
    chance: np.random.Generator  # in place of it, for tables without groups
    workers: Workers
    watch: Watch
    null_weight: float | None = None  # of each row of a table without groups; it makes no difference if not given

    def solve(self, X: NDArray, weights: Weights, before: Sequence[Solution] = (), first: int = 0) -> PenaltyPath:
        """The path of a table, up to the cap; what is beyond it only limits intervals."""
        most = min(self.most, self.kind.most(*X.shape))
        with self.watch.table(most) as is_over:
            solutions = solve_path(
                self.kind.landscape(X, 0.0, weights), self.kind.moves, most,
                effort=self.effort, rng=self.rng, workers=self.workers, ways=self.kind.ways, before=before,
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

        Where one table that is looked at briefly does not settle it, some are looked at with care in its place; more of
        them where chance would decide.
        """
        if not path.contenders:
            return path
        first = self.compare_once(path, null(), n_rows, BRIEF_EFFORT)
        if _is_clear(first):
            return first
        for n in range(self.effort.n_null):
            if self.watch.is_over() or (1 <= n <= FEW and _is_clear(path)) or (n >= SOME and not _is_in_doubt(path)):
                break
            path = self.compare_once(path, null(), n_rows, CAREFUL_EFFORT)
        return path

    def compare_once(self, path: PenaltyPath, X: NDArray, n_rows: float, effort: Effort) -> PenaltyPath:
        """With the ratios of one table more."""
        finder = self._replace(cap=None, effort=effort, rng=self.chance)
        null = finder.groupless_figures(X, _stretches(path.contenders), n_rows)
        if self.watch.is_over():  # it is not the whole table's
            return path
        return replace(
            path,
            null_ratios=[*path.null_ratios, null.ratios],
            null_outer_ratios=[*path.null_outer_ratios, null.outer_ratios],
            null_shares=[*path.null_shares, null.shares],
        )

    def groupless_figures(self, X: NDArray, stretches: list[tuple[int, int]], n_rows: float) -> Figures:
        """Those of a table for some stretches of numbers of groups, without the way there.

        Shares of the squared error are what they would be with so many rows: K groups take K rows' worth of it.
        """
        weights = self.null_weights(X)
        whole = self.kind.landscape(X, 0.0, weights).simplest().value
        figures = Figures({}, {}, {})
        for first, last in stretches:
            path = self._replace(most=last).solve(X, weights, first=first)
            figures.ratios.update(path.ratios)
            figures.outer_ratios.update(path.outer_ratios)
            for K, sse in zip(path.n_components.tolist(), path.sse, strict=True):
                if min(len(X), n_rows) > K and min(sse, whole) > 0:
                    figures.shares[K] = float(sse / whole) * (1 - K / n_rows) / (1 - K / len(X))
        return figures

    def null_weights(self, X: NDArray) -> Weights:
        """What rows of a table without groups weigh."""
        return None if self.null_weight is None else np.full(len(X), self.null_weight)

    def judge_first(self, path: PenaltyPath, null: Callable[[], NDArray]) -> PenaltyPath:
        """Whether a single feature is a base; if not, and nothing else stands out, with those of groupless tables."""
        is_of_features = path.n_components[0] == 0
        if not is_of_features or len(path.solutions) < 2 or path.for_k(1).groups.all():
            return path
        path = replace(path, has_base=False)
        if path.candidates or not path.first_ratio > WEAK_FIRST_RATIO:
            return path
        finder = self._replace(cap=None, most=3, effort=CAREFUL_EFFORT, rng=self.chance)
        for n in range(min(SOME, self.effort.n_null)):
            if self.watch.is_over() or (n >= FEW and not path.stands_out(1)):
                break
            of_null = finder.solve(null(), None)
            path = replace(path, null_firsts=[*path.null_firsts, of_null.first_ratio])
        return path

    def is_steep(self, path: PenaltyPath, null: Callable[[], NDArray]) -> bool:
        """Whether the table differs most from groupless ones, a few of them, at the end of a path that might go on."""
        if self.cap is not None or path.n_components[-1] < self.most or path.sse[-1] <= 0:
            return False
        return all(self.is_steeper(path, null()) for _ in range(FEW))

    def is_steeper(self, path: PenaltyPath, X: NDArray) -> bool:
        """Whether the error at the end of a path is lower than that of a groupless table, more so than before."""
        sse = self._replace(effort=QUICK_EFFORT, rng=self.chance).solve(X, self.null_weights(X)).sse
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
    return _stands_out(path) or (enough and not any(path.stands_out(K, 0.0) for K in path.contenders))


def _is_in_doubt(path: PenaltyPath) -> bool:
    """Whether the widest interval is about as wide as it must be to be plausible."""
    widest = path.contenders[0]
    return path.threshold(widest, SPREADS - DOUBT) <= path.ratios[widest] < path.threshold(widest, SPREADS + DOUBT)


def _stands_out(path: PenaltyPath) -> bool:
    """Whether the evidence is far beyond doubt; the fewer tables it was compared with, the farther."""
    spreads = CLEAR_SPREADS * max(1.0, FEW / max(1, len(path.null_ratios)))
    return bool(path.candidates) and path.stands_out(path.best, spreads)


def _rows_of_tiny_groups(solution: Solution, weights: NDArray, min_weight: float) -> NDArray[np.bool_]:
    """Rows in a group that weighs less than this."""
    Z = memberships(solution)
    return np.asarray(Z[:, weights @ Z < min_weight].any(axis=1))
