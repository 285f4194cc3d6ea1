"""The landscape of clusters, and the moves in it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from madbayes.engine.search import SOON, Lineage, Move, Solution, Stronger
from madbayes.model.likelihoods import Weights
from madbayes.paper.clusters import squared_distances
from madbayes.paper.result import RELATIVE_GAIN, rounding_error
from madbayes.paper.seeding import draw_row

# Lloyd's iterations of a polish, all together: it seldom takes more than thirty.
MAX_ITER = 1000
# Power iterations for a principal direction; 2-means does the rest.
POWER_ITER = 8
# Rows that are compared when a cluster is opened on one.
ROWS = 3
# Clusters that are found anew together: two, and on average so many more.
NEIGHBOURS = 3
# Moves without success for each of them, before that ends.
PATIENCE = 2
# Where everything is tried, what gains less than its cost by more than this factor is not.
LIKELY = 4


class Seed(NamedTuple):
    """A row that may become a centre."""

    gain: float  # what the squared error would fall by
    distances: NDArray[np.float64]  # of all rows from it, squared


@dataclass
class ClusterLandscape:
    """Squared error about the means of clusters, plus the penalty for each cluster after the first.

    Parameters
    ----------
    X : array of shape (N, D)
        Less the origin, so that an offset does not eat the digits.
    weights : array of shape (N,)
        Positive, in units of the largest, so that products of weights stay finite.
    origin : array of shape (D,)
    negligible : float
        A squared distance that is rounding.
    penalty : float
        The price of a cluster.
    K : int, optional
        Exactly so many clusters, fewer only where there is nothing left to explain; any number if not given.
    cap : int, optional
        At most so many.
    unit : float
        The largest weight.
    """

    X: NDArray[np.float64]
    weights: NDArray[np.float64]
    origin: NDArray[np.float64]
    negligible: float
    penalty: float
    K: int | None = None
    cap: int | None = None
    unit: float = 1.0

    @classmethod
    def of(cls, X: NDArray, penalty: float, sample_weight: Weights = None, **limits: int | None) -> "ClusterLandscape":
        """The landscape of a table."""
        X = X.astype(np.float64, copy=False)
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        unit = float(weights.max())
        origin = np.average(X, axis=0, weights=weights / unit)
        shifted = np.ascontiguousarray(X - origin)
        return cls(shifted, weights / unit, origin, rounding_error(X), penalty, **limits, unit=unit)

    def part(self, rows: NDArray, K: int | None, penalty: float) -> "ClusterLandscape":
        """That of some rows, in K clusters or any number."""
        return replace(self, X=self.X[rows], weights=self.weights[rows], penalty=penalty, K=K, cap=None)

    @cached_property
    def columns(self) -> NDArray[np.float64]:
        """The transpose of X."""
        return np.ascontiguousarray(self.X.T)

    @property
    def price(self) -> float:
        """What a cluster must gain: nothing where their number is given."""
        return self.penalty if self.K is None else 0.0

    @property
    def is_tiny(self) -> bool:
        """Whether there are so few rows that nothing is too dear to try."""
        return len(self.X) <= 20

    def cost(self, K: int) -> float:
        """Operations of a pass over the rows with K groups, about."""
        return self.X.size * (K + 1.0)

    @property
    def enough(self) -> int:
        """Lineages that are enough where they do not agree: the larger the table, the more there may be to find."""
        return 30 if self.is_tiny else min(24, max(6, self.X.size // 100))

    @property
    def most(self) -> int:
        """No solution has more clusters than this."""
        limit = self.cap if self.K is None else self.K
        return len(self.X) if limit is None else min(limit, len(self.X))

    def can_grow(self, solution: Solution) -> bool:
        """Whether one more cluster may be tried; where there are enough already, a polish merges two others for it."""
        return len(self.X) > solution.K and not self.is_exact(solution)

    def is_exact(self, solution: Solution) -> bool:
        """Whether there is nothing left to explain."""
        return solution.value - self.penalty * (solution.K - 1) <= self.negligible * self.unit * self.weights.sum()

    def is_final(self, solution: Solution) -> bool:
        """Whether it is known that nothing is lower: there is no error left, and clusters cost nothing."""
        return self.is_exact(solution) and not self.price * (solution.K - 1) > 0

    def is_worth(self, gain: float, cost: float, rng: np.random.Generator) -> bool:
        """Whether to try what gains less than it costs at first sight: the less it gains, the more seldom."""
        return gain > cost * rng.random() ** 2

    def distances(self, solution: Solution) -> NDArray[np.float64]:
        """Squared distance of each row to its mean."""
        from madbayes.engine import kernels

        distances = np.empty(len(self.X))
        kernels.distances_to(self.X, solution.A - self.origin, solution.groups, distances)
        return distances

    def distances_from(self, solution: Solution, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Squared distance of some rows to the mean of every cluster."""
        return squared_distances(self.X[rows], solution.A - self.origin)

    def start(self, rng: np.random.Generator, is_brief: bool = False) -> Solution:
        """Clusters split as long as it pays; half of the time ++ seeds in their place, as many as there were.

        Where the number is given, ++ seeds.
        """
        if self.K is not None:
            return self.polish(self._seed(self.K, rng))
        solution = self.polish(self._split_all(rng))
        return solution if rng.random() < 0.5 else self.polish(self._seed(solution.K, rng))

    def _split_all(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """One cluster split in two, and these again, as long as it pays; first those that gain most."""
        labels, K, fresh = np.zeros(len(self.X), dtype=np.int64), 1, [0]
        while fresh:
            splits = [(k, *self.bisect(np.flatnonzero(labels == k), rng)) for k in fresh]
            paying = sorted((split for split in splits if split[2] > self.price), key=lambda split: -split[2])
            fresh = []
            for k, rows, _ in paying[: self.most - K]:
                labels[rows] = K
                fresh += [k, K]
                K += 1
        return labels

    def bisect(self, rows: NDArray, rng: np.random.Generator) -> tuple[NDArray, float]:
        """Two parts of some rows: one of them, and what the squared error falls by.

        They are cut across the first principal direction, where that gains most; 2-means moves on from there.
        """
        from madbayes.engine import kernels

        part, scores, side = self.part(rows, 2, 0.0), np.empty(len(rows)), np.zeros(len(rows), dtype=np.int64)
        w, R = part.weights, part.X - part.weights @ part.X / part.weights.sum()
        error = self.unit * float(w @ np.einsum("nd,nd->n", R, R))
        if error <= self.negligible * self.unit * w.sum():
            return rows[:0], 0.0
        kernels.principal_scores(R, w, rng.normal(size=R.shape[1]), POWER_ITER, scores)
        order = scores.argsort()
        side[order[: kernels.best_cut(R, w, order)]] = 1
        halves = part.polish(side)
        return rows[halves.groups == 1], error - halves.value

    def _seed(self, K: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """K-means++, each seed the best of some rows: labels of the nearest."""
        first = self.X[draw_row(self.weights, rng)]
        labels, nearest = np.zeros(len(self.X), dtype=np.int64), squared_distances(self.X, first[None])[:, 0]
        for k in range(1, K):
            seed = self.draw(nearest, rng, 2 + int(np.log(K)))
            if seed is None:
                break
            labels[seed.distances < nearest] = k
            nearest = np.minimum(nearest, seed.distances)
        return labels

    def draw(self, nearest: NDArray, rng: np.random.Generator, n_rows: int = ROWS) -> Seed | None:
        """Of some rows drawn by their squared distance from the nearest centre, the one that gains most as a centre."""
        from madbayes.engine import kernels

        errors = self.weights * np.where(nearest > self.negligible, nearest, 0.0)
        if not errors.any():
            return None
        rows = np.array([draw_row(errors, rng) for _ in range(n_rows)])
        gains, distances = np.empty(n_rows), np.empty((n_rows, len(errors)))
        kernels.seed_gains(self.X, self.weights, nearest, rows, distances, gains)
        best = int(gains.argmax())
        return Seed(self.unit * float(gains[best]), distances[best])

    @property
    def crossing_pass(self) -> int:
        """Passes that take as long as to cross two solutions, about."""
        return 1

    @property
    def wanted(self) -> str:
        """What labels are, in words."""
        return f"labels: {len(self.X)} integers from 0 to {len(self.X) - 1}, one for each row of landscape.X"

    def accepts(self, groups: NDArray) -> bool:
        """Whether these are labels of its rows."""
        is_one_each = groups.shape == (len(self.X),) and groups.dtype.kind in "iu"
        return is_one_each and bool(groups.min() >= 0 and groups.max() < len(self.X))

    def polish(self, groups: NDArray) -> Solution:
        """Lloyd's iterations, then single rows move, clusters open and merge where that pays, until nothing does."""
        from madbayes.engine import kernels

        (N, D), used = self.X.shape, int(groups.max()) + 1
        room = max(used, min(self.most, 2 * used + 16))
        state = kernels.Clustering(
            groups.astype(np.int64), np.empty((room, D)), np.empty(room), np.empty(room, dtype=np.int64),
            np.empty(room, dtype=bool), np.empty(N), np.empty(N),
        )  # fmt: skip
        limits = (self.most, self.price / self.unit, self.negligible, RELATIVE_GAIN, MAX_ITER)
        used, error = kernels.descend(self.X, self.columns, self.weights, state, used, *limits)
        if used == room < self.most:  # there may have been no room for all that would pay
            return self.polish(state.labels)
        return Solution(state.labels, state.A[:used] + self.origin, self.unit * error + self.penalty * (used - 1))

    def simplest(self) -> Solution:
        """One cluster."""
        return self.with_K(1).polish(np.zeros(len(self.X), dtype=np.int64))

    def crossed(self, solution: Solution, other: Solution) -> NDArray | None:
        """Wherever some clusters of either solution have the same rows together, the cheaper of them.

        What is gained in one place does not depend on what is done elsewhere.
        """
        K, N, n_both = solution.K, len(self.X), solution.K + other.K
        pairs = coo_array((np.ones(N), (solution.groups, K + other.groups)), shape=(n_both, n_both))
        n_places, place = connected_components(pairs, directed=False)
        costs = np.bincount(place[:K], self.errors(solution) + self.price, n_places)
        others = np.bincount(place[K:], self.errors(other) + self.price, n_places)
        is_better = others < (1 - RELATIVE_GAIN) * costs
        if self.K is not None:  # their number must not change
            is_better &= np.bincount(place[:K], minlength=n_places) == np.bincount(place[K:], minlength=n_places)
        if not is_better.any():
            return None
        labels = np.where(is_better[place[solution.groups]], K + other.groups, solution.groups)
        return np.unique(labels, return_inverse=True)[1]

    def parameters(self, solution: Solution) -> NDArray:
        """What the estimator learns of the groups: their means."""
        return solution.A

    def with_K(self, K: int) -> "ClusterLandscape":
        """The same table with exactly K clusters, at no price."""
        return replace(self, penalty=0.0, K=K, cap=None)

    def grown(self, solution: Solution, rng: np.random.Generator) -> list[NDArray]:
        """Labels with one of the three clusters cut in two that gain most by it."""
        halves = [self.bisect(np.flatnonzero(solution.groups == k), rng) for k in range(solution.K)]
        best = sorted(halves, key=lambda half: -half[1])[:3]
        return [relabelled(solution.groups, rows, solution.K) for rows, _ in best]

    def shrunk(self, solution: Solution) -> list[NDArray]:
        """Labels with one of the three pairs of clusters merged that cost least."""
        costs = np.stack([self.merge_costs(solution, k) for k in range(solution.K)])
        costs[np.tril_indices(solution.K)] = np.inf
        pairs = np.column_stack(np.unravel_index(costs.argsort(axis=None)[:3], costs.shape))
        merged = [relabelled(solution.groups, solution.groups == k, j) for j, k in pairs if j < k]
        return [np.unique(labels, return_inverse=True)[1] for labels in merged]

    def errors(self, solution: Solution) -> NDArray:
        """The squared error of each cluster."""
        errors = self.weights * self.distances(solution)
        return self.unit * np.bincount(solution.groups, errors, solution.K)

    def merge_costs(self, solution: Solution, k: int) -> NDArray[np.float64]:
        """What the error grows by if cluster k is merged with each other, Ward: V W / (V + W) |a_j - a_k|^2."""
        sizes = np.bincount(solution.groups, self.weights, solution.K)
        costs = self.unit * sizes[k] * sizes / (sizes[k] + sizes) * ((solution.A - solution.A[k]) ** 2).sum(axis=1)
        costs[k] = np.inf
        return costs

    @property
    def parts_add_up(self) -> bool:
        """Whether what some clusters cost does not depend on the others."""
        return True

    def polish_near(self, solution: Solution, best: float) -> Solution:
        """No stronger polish is worth its time."""
        return solution

    @property
    def stronger(self) -> list[Stronger]:
        """All splits and merges; sooner where the number is given, as along a path: lineages are short there."""
        return [Stronger("look_around", 1.0 if self.K is None else SOON, self.look_around)]

    def rough_start(self, rng: np.random.Generator) -> None:
        """There are none."""

    @property
    def coarse(self) -> None:
        """There is none."""

    def taken_over(self, solution: Solution) -> Solution:
        """There is no coarse table."""
        return solution

    def look_around(self, solution: Solution, rng: np.random.Generator) -> Solution:
        """The best that splitting a cluster, merging it with its neighbour, or both comes to, each of them tried."""
        return min([solution, *map(self.polish, self._neighbours(solution, rng))], key=lambda found: found.value)

    def _neighbours(self, solution: Solution, rng: np.random.Generator) -> Iterator[NDArray]:
        """For each cluster: split; merged with the cheapest; that, and the other one split that gains most.

        What gains too little for its cost at first sight is left out.
        """
        if self.is_exact(solution):
            return
        K, labels = solution.K, solution.groups
        halves = [self.bisect(np.flatnonzero(labels == k), rng) for k in range(K)]
        for k in range(K):
            if self.can_grow(solution) and LIKELY * halves[k][1] > self.price:
                yield relabelled(labels, halves[k][0], K)
            if K == 1:
                return
            costs = self.merge_costs(solution, k)
            j = int(costs.argmin())
            merged = relabelled(labels, labels == k, j)
            if self.K is None and LIKELY * self.price > costs[j]:
                yield merged
            most = max(range(K), key=lambda i: 0.0 if i in (j, k) else halves[i][1])
            if most not in (j, k) and LIKELY * halves[most][1] > costs[j]:
                yield relabelled(merged, halves[most][0], k)


def relabelled(labels: NDArray, rows: NDArray, label: NDArray | int) -> NDArray[np.int64]:
    """The same with other labels for some rows."""
    labels = labels.copy()
    labels[rows] = label
    return labels


def draw_pair(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> tuple[int, int, float]:
    """A cluster, one of those that are cheap to merge with it, and what that costs."""
    k = int(rng.integers(solution.K))
    costs = landscape.merge_costs(solution, k)
    j = int(costs.argsort()[min(int(rng.exponential()), solution.K - 2)])
    return k, j, float(costs[j])


def split(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A cluster, drawn by its squared error, is cut in two."""
    if not landscape.can_grow(solution):
        return None
    k = draw_row(landscape.errors(solution), rng)
    rows, gain = landscape.bisect(np.flatnonzero(solution.groups == k), rng)
    return relabelled(solution.groups, rows, solution.K) if landscape.is_worth(gain, landscape.price, rng) else None


def merge(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """Two clusters near each other become one."""
    if not landscape.price or solution.K < 2:
        return None
    j, k, cost = draw_pair(landscape, solution, rng)
    return (
        relabelled(solution.groups, solution.groups == k, j) if landscape.is_worth(landscape.price, cost, rng) else None
    )


def relocate(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """Two clusters near each other become one, and one, perhaps the same, is cut in two."""
    if solution.K < 2 or landscape.is_exact(solution):
        return None
    j, k, cost = draw_pair(landscape, solution, rng)
    labels, errors = relabelled(solution.groups, solution.groups == k, j), landscape.errors(solution)
    errors[j], errors[k] = errors[j] + errors[k] + cost, 0.0
    rows, gain = landscape.bisect(np.flatnonzero(labels == draw_row(errors, rng)), rng)
    return relabelled(labels, rows, k) if landscape.is_worth(gain, cost, rng) else None


def singleton(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """One more cluster, on a row far from its mean, with the rows that are nearer to it than to theirs."""
    if not landscape.can_grow(solution):
        return None
    nearest = landscape.distances(solution)
    seed = landscape.draw(nearest, rng)
    if seed is None or not landscape.is_worth(seed.gain, landscape.price, rng):
        return None
    return relabelled(solution.groups, seed.distances < nearest, solution.K)


def reseed(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A cluster is left to the others, and one opened on a row that is far from them."""
    if solution.K < 2 or landscape.is_exact(solution):
        return None
    k, labels, nearest = int(rng.integers(solution.K)), solution.groups.copy(), landscape.distances(solution)
    rows = np.flatnonzero(labels == k)
    D = landscape.distances_from(solution, rows)
    D[:, k] = np.inf
    cost = landscape.unit * float(landscape.weights[rows] @ (D.min(axis=1) - nearest[rows]))
    labels[rows], nearest[rows] = D.argmin(axis=1), D.min(axis=1)
    seed = landscape.draw(nearest, rng)
    if seed is None or not landscape.is_worth(seed.gain, cost, rng):
        return None
    return relabelled(labels, seed.distances < nearest, k)


def exchange(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """One more cluster, and the two that are cheapest to merge then become one."""
    if landscape.K is not None or solution.K < 2:
        return None
    more = split if rng.random() < 0.5 else singleton
    labels = more(landscape, solution, rng)
    return None if labels is None else replace(landscape, K=solution.K).polish(labels).groups


# Moves that are made in a few clusters as well as in all.
plain_moves: dict[str, Move] = {
    "split": split,
    "merge": merge,
    "relocate": relocate,
    "singleton": singleton,
    "reseed": reseed,
    "exchange": exchange,
}


def regroup(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """Some clusters near each other are found anew by a lineage of their own, if that is better.

    In few rows a move takes little time, and what is gained there does not depend on the rest.
    """
    if solution.K < 2 or landscape.is_exact(solution):
        return None
    k, before = int(rng.integers(solution.K)), min(2 + int(rng.exponential(NEIGHBOURS)), solution.K)
    chosen = np.append(k, landscape.merge_costs(solution, k).argsort()[: before - 1])
    rows = np.flatnonzero(np.isin(solution.groups, chosen))
    part = landscape.part(rows, None if landscape.K is None else before, landscape.price)
    part = replace(part, cap=before + landscape.most - solution.K)
    found = Lineage(int(rng.integers(2**31))).finish(part, plain_moves, PATIENCE)
    value = landscape.errors(solution)[chosen].sum() + landscape.price * (before - 1)
    if landscape.parts_add_up and not found.value < (1 - RELATIVE_GAIN) * value:
        return None
    return relabelled(solution.groups, rows, np.append(chosen, solution.K + np.arange(found.K))[found.groups])


cluster_moves: dict[str, Move] = {**plain_moves, "regroup": regroup}
