"""The landscape of clusters that have covariances, and the moves in it.

The table is multiplied by the inverse factor of the covariance that a cluster without scatter has, so that such a
cluster is round. Where covariances are learned the loss is then c log|I + S| for each cluster of scatter S; where
they are known, tr(P S) with the precision P in the same units. Either is what the likelihood says, it is never
negative, and it is zero when every cluster consists of equal rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import linear_sum_assignment

from madbayes.engine.cluster_search import (
    MAX_ITER,
    POWER_ITER,
    ClusterLandscape,
    cluster_moves,
    relabelled,
)
from madbayes.engine.covariance import Likelihood
from madbayes.engine.search import Move, Solution
from madbayes.model.likelihoods import FullCovarianceGaussian, MeansCovariances, Weights, log_dets
from madbayes.paper.result import RELATIVE_GAIN, rounding_error
from madbayes.paper.seeding import draw_row

if TYPE_CHECKING:
    from madbayes.engine.kernels.covariance_search import Ellipses

# A cluster falls into at most so many pieces.
PIECES = 64


@dataclass(kw_only=True)
class CovarianceLandscape(ClusterLandscape):
    """The loss of clusters with covariances, plus the penalty for each cluster after the first.

    Parameters
    ----------
    X : array of shape (N, D)
        Less the origin, multiplied by the inverse of ``factor``.
    factor : array of shape (D, D)
        Lower triangular.
    likelihood : FullCovarianceGaussian or KnownCovarianceGaussian
    precisions : array of shape (1, D, D) or (n_slots, D, D)
        Of clusters without scatter, in the units of X: one for all, or one for each slot, that is each cluster with a
        known covariance of its own.
    weights, origin, negligible, penalty, K, cap
        As in :class:`ClusterLandscape`.
    unit : float
        What the costs of the kernels are multiplied by: c where covariances are learned.
    """

    factor: NDArray[np.float64]
    likelihood: Likelihood
    precisions: NDArray[np.float64]

    @classmethod
    def of(  # type: ignore[override]
        cls, X: NDArray, penalty: float, sample_weight: Weights = None, *, likelihood: Likelihood, **limits: Any
    ) -> "CovarianceLandscape":
        """The landscape of a table."""
        X = X.astype(np.float64, copy=False)
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        origin = np.average(X, axis=0, weights=weights)
        shapes = np.stack([_shape(likelihood, k) for k in range(max(1, likelihood.n_slots))])
        factor = np.linalg.cholesky(shapes.mean(axis=0))
        precisions = factor.T @ np.linalg.solve(shapes, factor[None])
        return cls(
            X=np.ascontiguousarray(solve_triangular(factor, (X - origin).T, lower=True).T), weights=weights,
            origin=origin, negligible=rounding_error(solve_triangular(factor, X.T, lower=True).T), penalty=penalty,
            unit=likelihood.covariance_penalty if isinstance(likelihood, FullCovarianceGaussian) else 1.0,
            factor=factor, likelihood=likelihood, precisions=(precisions + precisions.transpose(0, 2, 1)) / 2,
            **limits,
        )  # fmt: skip

    def part(self, rows: NDArray, K: int | None, penalty: float, slots: NDArray | None = None) -> "CovarianceLandscape":
        """That of some rows, in K clusters or any number; with some of the slots only, if there are any."""
        precisions = self.precisions if slots is None or not self.has_slots else self.precisions[slots]
        return replace(
            self, X=self.X[rows], weights=self.weights[rows], penalty=penalty, K=K, cap=None, precisions=precisions
        )

    @property
    def is_learned(self) -> bool:
        """Whether clusters learn their covariances."""
        return isinstance(self.likelihood, FullCovarianceGaussian)

    @property
    def has_slots(self) -> bool:
        """Whether clusters have known covariances of their own."""
        return self.likelihood.n_slots > 0

    @cached_property
    def lows(self) -> NDArray[np.float64]:
        """The smallest eigenvalue of each precision, less what rounding may do to it."""
        return np.asarray((1 - 1e-9) * np.linalg.eigvalsh(self.precisions)[:, 0])

    def cost(self, K: int) -> float:
        """Operations of a pass over the rows with K groups, about."""
        return self.X.shape[1] * super().cost(K)

    @property
    def most(self) -> int:
        """No solution has more clusters than this."""
        return min(super().most, len(self.precisions)) if self.has_slots else super().most

    def can_grow(self, solution: Solution) -> bool:
        """Whether one more cluster may be tried; never one more than there are slots."""
        return super().can_grow(solution) and not (self.has_slots and len(self.precisions) <= solution.K)

    def fitted(self, groups: NDArray) -> "Ellipses":
        """Clusters as these labels make them, each in the slot that suits all of them best."""
        from madbayes.engine import kernels

        state = self._room_for(groups, int(groups.max()) + 1)
        kernels.fit_ellipses(self.X, self.weights, state, len(state.sizes), self.is_learned)
        if self.has_slots:
            state.P[:] = self.precisions[self._slots_for(state)]
            state.costs[:] = np.einsum("kde,kde->k", state.P, state.S)
        return state

    def _room_for(self, groups: NDArray, room: int) -> "Ellipses":
        """Buffers that know nothing but labels, and the precisions of clusters without scatter."""
        from madbayes.engine import kernels

        N, D = self.X.shape
        P, lows = np.empty((room, D, D)), np.empty(room)
        one_each = len(self.precisions) == room
        P[:] = self.precisions if one_each else self.precisions[:1]
        lows[:] = self.lows if one_each else self.lows[:1]
        return kernels.Ellipses(
            groups.astype(np.int64), np.empty((room, D)), np.empty(room), np.empty(room, dtype=np.int64),
            np.empty((room, D, D)), P, lows, np.empty(room), np.ones(room, dtype=bool), np.empty(room, dtype=np.int64),
            np.empty(N, dtype=np.int64),
        )  # fmt: skip

    def _slots_for(self, state: "Ellipses") -> NDArray[np.intp]:
        """The slots for clusters of these scatters that cost least together."""
        return linear_sum_assignment(np.einsum("sde,kde->ks", self.precisions, state.S))[1]

    def distances(self, solution: Solution) -> NDArray[np.float64]:
        """Squared Mahalanobis distance of each row to its mean, by c where covariances are learned."""
        from madbayes.engine import kernels

        distances = np.empty(len(self.X))
        kernels.own_squares(self.X, self.fitted(solution.groups), distances)
        return distances

    def distances_from(self, solution: Solution, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The same of some rows to every cluster."""
        state, X = self.fitted(solution.groups), self.X[rows]
        seen = ((P, X - mean) for P, mean in zip(state.P, state.means, strict=True))
        return np.stack([np.einsum("nd,de,ne->n", R, P, R) for P, R in seen], axis=1)

    def _seed(self, K: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """As for other clusters; each in the metric of a slot of its own, if there are slots."""
        if not self.has_slots:
            return super()._seed(K, rng)
        labels, nearest, errors = np.zeros(len(self.X), dtype=np.int64), np.full(len(self.X), np.inf), self.weights
        for k, slot in enumerate(rng.permutation(len(self.precisions))[:K]):
            if not errors.any():
                break
            R = self.X - self.X[draw_row(errors, rng)]
            distances = np.einsum("nd,de,ne->n", R, self.precisions[slot], R)
            labels[distances < nearest] = k
            nearest = np.minimum(nearest, distances)
            errors = self.weights * np.where(nearest > self.negligible, nearest, 0.0)
        return labels

    def bisect(self, rows: NDArray, rng: np.random.Generator) -> tuple[NDArray, float]:
        """Two parts of some rows: one of them, and what the loss falls by.

        They are cut across the first principal direction, or out of the neighbourhood of a row, where that gains most;
        single rows move on from there. Two slots are drawn, where there are slots.
        """
        slots = rng.permutation(len(self.precisions))[:2]
        if self.has_slots and len(slots) < 2:
            return rows[:0], 0.0
        part = self.part(rows, 2, 0.0, slots)
        loss = self.unit * float(part.fitted(np.zeros(len(rows), dtype=np.int64)).costs[0])
        if loss <= self.unit * self.negligible * part.weights.sum():
            return rows[:0], 0.0
        orders = part.principal_order(rng), part.order_from(draw_row(part.weights, rng))
        sides = [part.cut(order) for order in orders]
        side, _ = min(sides, key=lambda found: found[1])
        halves = part.polish(side)
        return rows[halves.groups == 1], loss - halves.value

    def principal_order(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """All rows in their order along the first principal direction."""
        from madbayes.engine import kernels

        scores = np.empty(len(self.X))
        R = self.X - self.weights @ self.X / self.weights.sum()
        kernels.principal_scores(R, self.weights, rng.normal(size=R.shape[1]), POWER_ITER, scores)
        return scores.argsort()

    def order_from(self, row: int) -> NDArray[np.intp]:
        """All rows in the order of their distance from one of them."""
        return ((self.X - self.X[row]) ** 2).sum(axis=1).argsort()

    def cut(self, order: NDArray) -> tuple[NDArray[np.int64], float]:
        """The first rows of an order as one cluster and the others as another, where they cost least; that cost."""
        from madbayes.engine import kernels

        costs, side = np.empty((2, len(order))), np.zeros(len(order), dtype=np.int64)
        for i, direction in enumerate((order, order[::-1])):
            precision = self.precisions[i % len(self.precisions)].copy()
            kernels.prefix_costs(self.X, self.weights, direction, precision, self.is_learned, costs[i])
        both = costs[0, :-1] + costs[1, -2::-1]
        first = int(both.argmin()) + 1
        side[order[first:]] = 1
        return side, self.unit * float(both[first - 1])

    def polish(self, groups: NDArray) -> Solution:
        """Single rows move, clusters open and merge where that pays, until nothing does."""
        from madbayes.engine import kernels

        if self.has_slots:
            groups = self._in_slots(groups)
        used = int(groups.max()) + 1
        room = len(self.precisions) if self.has_slots else max(used, min(self.most, 2 * used + 16))
        state, price = self._room_for(groups, room), self.price / self.unit
        threshold = -np.expm1(-price) if self.is_learned else price
        kernels.descend_ellipses(
            self.X, self.weights, state, room if self.has_slots else used, self.most, self.is_learned, price, threshold,
            self.negligible, RELATIVE_GAIN, MAX_ITER,
        )  # fmt: skip
        present = np.bincount(state.labels, minlength=room) > 0
        labels, K = (np.cumsum(present) - 1)[state.labels], int(present.sum())
        if K == room < self.most:  # there may have been no room for all that would pay
            return self.polish(labels)
        cost = float(state.costs[present].sum())
        if self.has_slots and self.fitted(labels).costs.sum() < (1 - RELATIVE_GAIN) * cost:
            return self.polish(labels)
        A = state.means[present] @ self.factor.T + self.origin
        return Solution(labels, A, self.unit * cost + self.penalty * (K - 1))

    def shattered(self, rows: NDArray, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Labels of at most so many pieces of some rows, merged again where they do not pay."""
        part = self.part(rows, most, self.price)
        return part._merged(part._seed(int(np.exp(rng.uniform(np.log(2), np.log(most + 1)))), rng), self.price)

    def _merged(self, groups: NDArray, price: float) -> NDArray[np.int64]:
        """The same, clusters merged where they cost less as one than their price."""
        from madbayes.engine import kernels

        state, used = self.fitted(groups), int(groups.max()) + 1
        while kernels.merge_pairs(state, used, used, self.is_learned, price / self.unit, self.negligible):
            kernels.fit_ellipses(self.X, self.weights, state, used, self.is_learned)
        return np.unique(state.labels, return_inverse=True)[1]

    def _in_slots(self, groups: NDArray) -> NDArray[np.int64]:
        """Labels that name slots; clusters become fewer first if there are more than slots."""
        labels, n_slots = np.unique(groups, return_inverse=True)[1], len(self.precisions)
        if labels.max() >= n_slots:
            alike = np.broadcast_to(np.eye(self.X.shape[1]), self.precisions.shape)
            labels = replace(self, precisions=alike, K=n_slots).polish(np.minimum(labels, n_slots - 1)).groups
        return self._slots_for(self.fitted(labels))[labels]

    def parameters(self, solution: Solution) -> MeansCovariances:  # type: ignore[override]
        """Means and covariances of the clusters, in the units of the table."""
        state = self.fitted(solution.groups)
        scatters = self.factor @ state.S @ self.factor.T
        if not self.has_slots:
            return self.likelihood.fit_about(solution.A, lambda means: scatters)
        slots = self._slots_for(state)
        return MeansCovariances(solution.A, np.stack([self.likelihood.initial_covariance(k) for k in slots]))

    def errors(self, solution: Solution) -> NDArray:
        """The loss of each cluster."""
        return self.unit * self.fitted(solution.groups).costs

    @property
    def parts_add_up(self) -> bool:
        """Not where other clusters may be in the slots that some were found in: then only a polish can tell."""
        return not self.has_slots

    def merge_costs(self, solution: Solution, k: int) -> NDArray[np.float64]:
        """What the loss grows by if cluster k is merged with each other; that may be less than nothing."""
        state = self.fitted(solution.groups)
        share, gaps = state.sizes * state.sizes[k] / (state.sizes + state.sizes[k]), state.means - state.means[k]
        S = state.S + state.S[k] + share[:, None, None] * gaps[:, :, None] * gaps[:, None, :]
        if self.is_learned:
            together = log_dets(np.eye(len(self.factor)) + S)
        else:
            together = np.minimum(np.einsum("kde,kde->k", state.P, S), np.einsum("de,kde->k", state.P[k], S))
        costs = self.unit * (together - state.costs - state.costs[k])
        costs[k] = np.inf
        return costs

    def _neighbours(self, solution: Solution, rng: np.random.Generator) -> Iterator[NDArray]:
        """As for other clusters; in a tiny table, any two rows elsewhere as well.

        What single rows cannot leave is found by pairs.
        """
        if self.is_tiny and not self.is_exact(solution):
            yield from pairs_elsewhere(solution)
        yield from super()._neighbours(solution, rng)


def pairs_elsewhere(solution: Solution) -> Iterator[NDArray[np.int64]]:
    """Labels with any two rows together in another cluster, or each in that of the other."""
    labels = solution.groups
    for i, j in combinations(range(len(labels)), 2):
        if labels[i] != labels[j]:
            yield relabelled(labels, np.array([i, j]), labels[[j, i]])
        for k in range(solution.K):
            if k not in (labels[i], labels[j]):
                yield relabelled(labels, np.array([i, j]), k)


def _shape(likelihood: Likelihood, k: int) -> NDArray[np.float64]:
    """What is round: the scatter that is added to that of clusters, or the covariance they are known to have."""
    if isinstance(likelihood, FullCovarianceGaussian):
        return np.asarray(likelihood.prior_covariance, dtype=np.float64)
    return likelihood.initial_covariance(k)


def shatter(landscape: CovarianceLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A cluster falls into pieces, few or many; those that do not pay are merged again.

    Two halves of a cluster often cost more than the whole, when a dozen of small pieces would cost less.
    """
    if not landscape.can_grow(solution):
        return None
    rows = np.flatnonzero(solution.groups == draw_row(landscape.errors(solution), rng))
    most = min(len(rows), PIECES, 1 + landscape.most - solution.K)
    if most < 2:
        return None
    pieces = landscape.shattered(rows, most, rng)
    if not pieces.any():
        return None
    return relabelled(solution.groups, rows[pieces > 0], solution.K - 1 + pieces[pieces > 0])


covariance_moves: dict[str, Move] = {**cluster_moves, "shatter": shatter}
