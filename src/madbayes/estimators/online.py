"""Learning from rows that keep coming: ``partial_fit``."""

from abc import abstractmethod
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.engine import online, online_features
from madbayes.engine.allocation import least_squares_features
from madbayes.engine.blocks import Workers
from madbayes.engine.centres import Table
from madbayes.engine.feature_passes import Sums
from madbayes.engine.homes import Moments
from madbayes.engine.partition import cluster_means, distances_to
from madbayes.estimators import validation
from madbayes.estimators.base import USUAL, GroupEstimator
from madbayes.estimators.identity import follow_groups
from madbayes.estimators.problem import Problem, State, as_float64
from madbayes.model import Gaussian, Objective

# A batch of fewer rows says nothing about which errors are unusual.
ENOUGH = round(1 / (1 - USUAL))


class Learned(NamedTuple):
    """What a batch has led to."""

    seen: Any  # what is known of all rows
    assigned: NDArray  # the groups of the batch's rows
    A: NDArray[np.float64]
    sizes: NDArray[np.float64]  # weight of the rows of each group
    sse: float
    became: list[int | None]  # which group each group before is now; None if it has gone


class OnlineEstimator(GroupEstimator):
    """What ``partial_fit`` of clusters and of features share."""

    def partial_fit(  # type: ignore[override]
        self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from some more rows; those seen before need not be at hand.

        The first batch is fitted as a table of its own. After it, and after ``fit``, rows seen stay in the groups they
        have, and the objective of all rows, seen and new, is lowered by what is left to choose: groups of the
        new rows, new groups, groups to give up. ``objective_`` and ``sse_`` are exact for these choices, so that the
        best fit of all rows at once is never above.

        Groups keep their numbers and names, new ones come last, and the numbers of those after one that has gone move
        up. ``labels_`` or ``allocations_`` are those of the batch.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Finite numbers, in the columns of the batches before; in memory, or in files as for ``fit``.
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            As in ``fit``.

        Returns
        -------
        self

        Examples
        --------
        >>> from madbayes import DPMeans
        >>> model = DPMeans(penalty=20.0).partial_fit([[0.0], [1.0], [9.0]]).partial_fit([[10.0], [30.0]])
        >>> model.cluster_centers_.tolist(), model.labels_.tolist(), model.sse_
        ([[0.5], [9.5], [30.0]], [1, 2], 1.0)
        """
        choice = self._check_parameters()
        if not hasattr(self, "n_features_in_"):
            return self.fit(X, y, sample_weight=sample_weight)
        if not hasattr(self, "_seen"):
            raise ValueError("this model was saved by a version without partial_fit: fit it anew")
        why = "partial_fit needs it: give more, or fewer rows at a time"
        table = self._in_memory(self._check_new(X), why)
        with Workers(self.n_jobs) as workers:
            problem = self._batch_problem(table, sample_weight, workers)
            moments = self._moments_with(problem)
            objective = Objective(Gaussian(), self._prior(), self._price_of_a_group(choice, moments))
            learned = self._learn(problem, objective, moments)
            other = copy(self)  # so that nothing is half done if this is interrupted
            other._store_batch(table, problem, objective, moments, learned)
        self.__dict__.update(vars(other))
        return self

    def _batch_problem(self, table: NDArray, sample_weight: ArrayLike | None, workers: Workers) -> Problem:
        """The rows that count; a start the user gives was for the first batch."""
        weights = validation.check_weights(sample_weight, len(table))
        counted = None if weights is None or weights.all() else weights > 0
        if counted is not None and weights is not None:
            table, weights = table[counted], weights[counted]
        return Problem(table, weights, counted, validation.check_random(self.random_state), workers)

    _decay = 1.0  # what is left of the weight of the rows before

    def _moments_with(self, problem: Problem) -> Moments:
        """Of all rows seen, the batch with them."""
        mean, variance = problem.moments()
        weight, before = float(problem.weights.sum()), self._decay * float(self._total)
        batch = Moments(weight, mean, variance, 0.0)
        return Moments(before, self._column_means, self._column_scales**2, 0.0).joined(batch)

    def _price_of_a_group(self, choice: validation.PenaltyChoice, moments: Moments) -> float:
        """The number given; or the share of the one-group error, which was found with the first batch for "auto"."""
        if choice.value is not None:
            return choice.value
        share = self.penalty_share_ if choice.share is None else choice.share
        return share * moments.scatter if np.isfinite(share) else self.penalty_

    @abstractmethod
    def _learn(self, problem: Problem, objective: Objective, moments: Moments) -> Learned:
        """The groups with the batch among them. Nothing of the model is changed here."""

    def _store_batch(
        self, table: NDArray, problem: Problem, objective: Objective, moments: Moments, learned: Learned
    ) -> None:
        one_group, assigned, sizes = moments.scatter, learned.assigned, self._sizes
        if problem.counted is not None:  # rows of no weight have the nearest groups
            assigned = self._assign(table, learned.A, problem.workers)
            assigned[problem.counted] = learned.assigned
        self._seen, self._objective, self._sizes, self._total = learned.seen, objective, learned.sizes, moments.weight
        self._column_means, self._column_scales = moments.mean, np.sqrt(moments.variance)
        self._store_parameters(learned.A.astype(problem.X.dtype))
        self._store_assigned(assigned)
        follow_groups(self, learned.became, sizes)
        if len(problem.X) >= ENOUGH:
            limit = self._usual_error(problem, learned.assigned)
            self.unusual_error_ += problem.weights.sum() / moments.weight * (limit - self.unusual_error_)
        self.sse_ = learned.sse
        self.objective_ = learned.sse + self._price()
        self.penalty_ = float(objective.penalty)
        self.penalty_share_ = self.penalty_ / one_group if one_group > 0 else (np.inf if self.penalty_ else 0.0)
        self.optimality_gap_, self.objective_trace_ = None, np.array([self.objective_])
        self.n_iter_, self.converged_, self.runs_ = 1, True, []
        self.search_info_ = {"search": "partial_fit", "rows": len(problem.X), "became": learned.became}


class OnlineClusters(OnlineEstimator):
    """``partial_fit`` for clusters of squared distances."""

    @property
    def _decay(self) -> float:  # type: ignore[override]
        return float(self.decay)

    def _remember(self, problem: Problem, state: State) -> None:
        if problem.home is not None:
            rows, K = state.assigned, len(state.A)
            self._seen = online.Pieces(rows.sums.sizes, rows.means, rows.scatters(), np.arange(K))
            return
        table, labels, K = Table.of(problem.X, problem.sample_weight), state.assigned, len(state.A)
        means = cluster_means(table, labels, K, problem.workers)
        errors = distances_to(table, means, labels, problem.workers)
        self._seen = online.pieces_of(errors, labels, problem.weights, means)

    def _learn(self, problem: Problem, objective: Objective, moments: Moments) -> Learned:
        cap = self._cap()
        limits = {"K": cap if objective.penalty == 0 else None, "cap": cap}
        found = online.absorb(
            self._seen,
            as_float64(problem.X),
            problem.sample_weight,
            objective.penalty,
            limits,
            problem.workers,
            self._decay,
        )
        clusters = found.pieces.clusters()
        labels = found.pieces.groups[found.rows].astype(np.int32)
        sse = float(clusters.scatters.sum())
        return Learned(found.pieces, labels, clusters.means, clusters.weights, sse, found.groups)


class OnlineFeatures(OnlineEstimator):
    """``partial_fit`` for features: exact statistics of all rows seen."""

    def _remember(self, problem: Problem, state: State) -> None:
        if problem.home is not None:
            rows = state.assigned
            pairs, (A, _, _) = rows.sums.weighted if problem.home.weighted else rows.sums.pairs, rows.fit()
            shift = rows.A - A
            error = max(0.0, rows.error - float(np.einsum("kd,kj,jd->", shift, pairs, shift)))
            self._seen = online_features.FeatureSums(pairs, A, error, np.ones(len(A), dtype=bool))
            return
        X, weights, Z = problem.X, problem.sample_weight, state.assigned
        A = least_squares_features(X, Z, weights, problem.workers)
        sums = Sums.of_rows(X, np.empty(0) if weights is None else weights, Z)
        pairs = sums.pairs if weights is None else sums.weighted
        error = self._loss(problem, Gaussian(), Z, A)
        self._seen = online_features.FeatureSums(pairs, A, error, np.ones(len(A), dtype=bool))

    def _learn(self, problem: Problem, objective: Objective, moments: Moments) -> Learned:
        found = online_features.absorb(
            self._seen,
            problem.X,
            problem.sample_weight,
            objective.penalty,
            moments.weight,
            self._cap(),
            np.random.default_rng(problem.seeds(1)[0]),
            self.max_iter,
            problem.workers,
        )
        shown, sums = found.sums.shown, found.sums.only_shown()
        origins = [origin for origin, is_shown in zip(found.origins, shown, strict=True) if is_shown]
        became = [origins.index(k) if k in origins else None for k in range(int(self._seen.shown.sum()))]
        return Learned(found.sums, found.Z[:, shown], sums.A, np.diag(sums.pairs).copy(), sums.error, became)
