"""The landscape of clusters, and the moves in it."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.search import Move, Solution
from madbayes.model.likelihoods import Weights
from madbayes.paper.clusters import squared_distances
from madbayes.paper.result import RELATIVE_GAIN, rounding_error
from madbayes.paper.seeding import draw_row

# Lloyd's iterations of a polish, all together.
MAX_ITER = 1000
REGROUP = 1.5
POWER = 8


class Partition(NamedTuple):
    """Labels, means, and the squared error."""

    labels: NDArray[np.int64]
    A: NDArray[np.float64]
    error: float


class Seed(NamedTuple):
    """A row that may become a centre."""

    row: int
    gain: float  # in squared error
    distances: NDArray[np.float64]  # of all rows from it, squared


@dataclass
class ClusterLandscape:
    """Squared error about the means of clusters, plus the penalty for each cluster after the first.

    Parameters
    ----------
    X : array of shape (N, D)
        Less the origin, so that an offset does not eat the digits.
    weights : array of shape (N,)
        Positive.
    origin : array of shape (D,)
    penalty : float
        The price of a cluster.
    K : int, optional
        Exactly so many clusters, as far as there is anything to explain; any number if not given.
    cap : int, optional
        At most so many.
    """

    X: NDArray[np.float64]
    weights: NDArray[np.float64]
    origin: NDArray[np.float64]
    penalty: float
    K: int | None = None
    cap: int | None = None

    @classmethod
    def of(cls, X: NDArray, penalty: float, sample_weight: Weights = None, **limits: int | None) -> "ClusterLandscape":
        """The landscape of a table."""
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        X = X.astype(np.float64, copy=False)
        origin = np.average(X, axis=0, weights=weights)
        return cls(np.ascontiguousarray(X - origin), weights, origin, penalty, **limits)

    @cached_property
    def columns(self) -> NDArray[np.float64]:
        """The transpose of X."""
        return np.ascontiguousarray(self.X.T)

    @cached_property
    def negligible(self) -> float:
        """A squared distance that is rounding."""
        return rounding_error(self.X + self.origin)

    @property
    def price(self) -> float:
        """What a cluster must gain: nothing where their number is given."""
        return self.penalty if self.K is None else 0.0

    @property
    def most(self) -> int:
        """No solution has more clusters than this."""
        limit = self.cap if self.K is None else self.K
        return len(self.X) if limit is None else min(limit, len(self.X))

    def is_exact(self, solution: Solution) -> bool:
        """Whether there is nothing left to explain."""
        return solution.value - self.penalty * (solution.K - 1) <= self.negligible * self.weights.sum()

    def start(self, rng: np.random.Generator) -> Solution:
        """Clusters split as long as it pays; half of the time ++ seeds, as many as clusters came of it."""
        K = self.K
        if K is None:
            solution = self.polish(self._split_all(rng))
            if rng.random() < 0.5:
                return solution
            K = solution.K
        return self.polish(self._seeds(K, rng))

    def _split_all(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """One cluster, split in two, and these again, as long as it pays; first those that gain most."""
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
        """Two parts of some rows: one of them, and how much the squared error falls.

        They are cut across the first principal direction, where that gains most; 2-means moves on from there.
        """
        from madbayes.engine import kernels

        X, w = self.X[rows], self.weights[rows]
        R, scores = X - w @ X / w.sum(), np.empty(len(rows))
        error = float(w @ np.einsum("nd,nd->n", R, R))
        if error <= self.negligible * w.sum():
            return rows[:0], 0.0
        kernels.principal_scores(R, w, rng.normal(size=R.shape[1]), POWER, scores)
        order, side = scores.argsort(), np.zeros(len(rows), dtype=np.int64)
        side[order[: kernels.best_cut(R, w, order)]] = 1
        parts = self._descend(X, np.ascontiguousarray(X.T), w, side, 2, 0.0)
        return rows[parts.labels == 1], error - parts.error

    def _seeds(self, K: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """K-means++, each row the best of some that are drawn: the nearest seed of every row."""
        labels = np.zeros(len(self.X), dtype=np.int64)
        first = self.X[draw_row(self.weights, rng)]
        nearest = ((self.X - first) ** 2).sum(axis=1)
        for k in range(1, K):
            seed = self.draw(nearest, rng, 2 + int(np.log(K)))
            if not seed.gain > 0:
                break
            labels[seed.distances < nearest] = k
            nearest = np.minimum(nearest, seed.distances)
        return labels

    def draw(self, nearest: NDArray, rng: np.random.Generator, tries: int) -> Seed:
        """Of some rows drawn by their squared distance from the centres, that which gains most as a centre."""
        from madbayes.engine import kernels

        errors = self.weights * np.where(nearest > self.negligible, nearest, 0.0)
        cumulative = errors.cumsum()
        if not cumulative[-1] > 0:
            return Seed(0, 0.0, nearest)
        rows = np.minimum(cumulative.searchsorted(rng.random(tries) * cumulative[-1], side="right"), len(errors) - 1)
        distances, gains = np.empty((tries, len(errors))), np.empty(tries)
        kernels.seed_gains(self.X, self.weights, nearest, rows, distances, gains)
        best = int(gains.argmax())
        return Seed(int(rows[best]), float(gains[best]), distances[best])

    def polish(self, groups: NDArray) -> Solution:
        """Lloyd's iterations, then single rows move, clusters open and merge where that pays, until nothing does."""
        found = self._descend(self.X, self.columns, self.weights, groups, self.most, self.price)
        return Solution(found.labels, found.A + self.origin, found.error + self.penalty * (len(found.A) - 1))

    def _descend(
        self, X: NDArray, columns: NDArray, weights: NDArray, labels: NDArray, most: int, price: float
    ) -> Partition:
        """The polish of some rows."""
        from madbayes.engine import kernels

        (N, D), used = X.shape, int(labels.max()) + 1
        room = max(used, min(most, 2 * used + 16))
        state = kernels.Clustering(
            labels.astype(np.int64), np.empty((room, D)), np.empty(room), np.empty(room, dtype=np.int64),
            np.empty(room, dtype=bool), np.empty(N), np.empty(N),
        )  # fmt: skip
        used, error = kernels.descend(
            X, columns, weights, state, used, most, price, self.negligible, RELATIVE_GAIN, MAX_ITER
        )
        if used == room < most:  # there may have been no room for all that paid
            return self._descend(X, columns, weights, state.labels, most, price)
        return Partition(state.labels, state.A[:used], error)

    def polish_hard(self, solution: Solution) -> Solution:
        """The same."""
        return solution

    def distances(self, solution: Solution) -> NDArray[np.float64]:
        """Squared distance of each row to its mean."""
        from madbayes.engine import kernels

        distances = np.empty(len(self.X))
        kernels.distances_to(self.X, solution.A - self.origin, solution.groups, distances)
        return distances

    def is_worth(self, gain: float, cost: float, rng: np.random.Generator) -> bool:
        """Whether to try something that gains less than it costs at first sight: rather not, if it is much less."""
        return gain > cost * rng.random() ** 2


def cluster_errors(landscape: ClusterLandscape, solution: Solution) -> NDArray[np.float64]:
    """The squared error of each cluster."""
    return np.bincount(solution.groups, landscape.weights * landscape.distances(solution), solution.K)


def ward_costs(landscape: ClusterLandscape, solution: Solution, k: int) -> NDArray[np.float64]:
    """What the squared error grows by if cluster k is merged with each other: V W / (V + W) |a_j - a_k|^2."""
    sizes = np.bincount(solution.groups, landscape.weights, solution.K)
    costs = sizes[k] * sizes / (sizes[k] + sizes) * ((solution.A - solution.A[k]) ** 2).sum(axis=1)
    costs[k] = np.inf
    return costs


def draw_pair(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> tuple[int, int, float]:
    """A cluster, one of those that are cheap to merge with it, and what it costs."""
    k = int(rng.integers(solution.K))
    costs = ward_costs(landscape, solution, k)
    j = int(costs.argsort()[min(int(rng.exponential()), solution.K - 2)])
    return k, j, float(costs[j])


def split(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A cluster, drawn by its squared error, is cut in two."""
    if landscape.K is not None or landscape.most <= solution.K or landscape.is_exact(solution):
        return None
    k = draw_row(cluster_errors(landscape, solution), rng)
    rows, gain = landscape.bisect(np.flatnonzero(solution.groups == k), rng)
    return relabelled(solution.groups, rows, solution.K) if landscape.is_worth(gain, landscape.price, rng) else None


def relabelled(labels: NDArray, rows: NDArray, label: int) -> NDArray[np.int64]:
    """The same with another label for some rows."""
    labels = labels.copy()
    labels[rows] = label
    return labels


def merge(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """Two clusters near each other become one."""
    if landscape.K is not None or solution.K < 2:
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
    errors = cluster_errors(landscape, solution)
    errors[j], errors[k] = errors[j] + errors[k] + cost, 0.0
    labels = relabelled(solution.groups, solution.groups == k, j)
    rows, gain = landscape.bisect(np.flatnonzero(labels == draw_row(errors, rng)), rng)
    return relabelled(labels, rows, k) if landscape.is_worth(gain, cost, rng) else None


def singleton(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """One more cluster, on a row far from its mean."""
    if landscape.K is not None or landscape.most <= solution.K:
        return None
    nearest = landscape.distances(solution)
    seed = landscape.draw(nearest, rng, 3)
    rows = seed.distances < nearest
    return (
        relabelled(solution.groups, rows, solution.K) if landscape.is_worth(seed.gain, landscape.price, rng) else None
    )


def reseed(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A cluster is left to the others, and another opened on a row that is far from them."""
    if solution.K < 2:
        return None
    k, labels, nearest = int(rng.integers(solution.K)), solution.groups.copy(), landscape.distances(solution)
    rows = np.flatnonzero(labels == k)
    D = squared_distances(landscape.X[rows], solution.A - landscape.origin)
    D[:, k] = np.inf
    cost = float(landscape.weights[rows] @ (D.min(axis=1) - nearest[rows]))
    labels[rows], nearest[rows] = D.argmin(axis=1), D.min(axis=1)
    seed = landscape.draw(nearest, rng, 3)
    if not landscape.is_worth(seed.gain, cost, rng):
        return None
    labels[seed.distances < nearest] = k
    return labels


def regroup(landscape: ClusterLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """Some clusters near each other are found anew, as many or one more or less."""
    if solution.K < 2:
        return None
    k = int(rng.integers(solution.K))
    n_old = min(2 + int(rng.exponential(REGROUP)), solution.K)
    chosen = np.append(k, ward_costs(landscape, solution, k).argsort()[: n_old - 1])
    rows = np.flatnonzero(np.isin(solution.groups, chosen))
    n_new = n_old if landscape.K is not None else n_old + int(rng.integers(-1, 2))
    n_new = max(min(n_new, n_old + landscape.most - solution.K), 1)
    X, w = landscape.X[rows], landscape.weights[rows]
    part = ClusterLandscape(X, w, np.zeros(X.shape[1]), landscape.price, K=n_new)
    found = part.start(rng)
    old = float(w @ landscape.distances(solution)[rows]) + landscape.price * (n_old - 1)
    if not found.value < old * (1 - 1e-9):
        return None
    names = np.append(chosen, solution.K)
    return relabelled(solution.groups, rows, names[found.groups])


cluster_moves: dict[str, Move] = {
    "split": split,
    "merge": merge,
    "relocate": relocate,
    "singleton": singleton,
    "reseed": reseed,
    "regroup": regroup,
}
