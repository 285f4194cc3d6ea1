"""The estimator whose clusters have covariances."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.engine import covariance as engine
from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.covariance_passes import Follower
from madbayes.engine.covariance_search import CovarianceLandscape, covariance_moves
from madbayes.engine.path import PenaltyPath
from madbayes.engine.path_search import Kind
from madbayes.estimators import validation
from madbayes.estimators.at_home import CovariancesAtHome
from madbayes.estimators.clusters import ClusterEstimator
from madbayes.estimators.problem import Problem, as_float64, each
from madbayes.model import FullCovarianceGaussian, KnownCovarianceGaussian, MeansCovariances, Objective
from madbayes.model.likelihoods import mahalanobis


class CovarianceDPMeans(CovariancesAtHome, ClusterEstimator):
    """Clusters of different shapes: each has a covariance, given or learned.

    Minimises, with S the scatter of a cluster, Phi the ``prior_covariance`` and c the ``covariance_penalty``, the sum
    over clusters of tr((S + Phi) Sigma^-1) + c log|Sigma| - c log|Phi / c| - c D, plus ``penalty`` for each cluster
    after the first. With ``covariances`` given it is tr(S Sigma^-1). A row belongs to the cluster of smallest
    Mahalanobis distance.

    Parameters
    ----------
    penalty : float, str, default="auto"
        The price of one more cluster, as in :class:`DPMeans`. Distances have no units here.
    covariance_penalty : float, default=1.0
        Weight c of the prior on covariances.
    prior_covariance : array of shape (n_columns, n_columns), optional
        Phi, the scatter that every cluster has beside that of its rows. By default that of the whole table, column
        by column: on the diagonal the sum of squared deviations from the mean, with 1 for constant columns. A
        smaller one lets clusters take their own shape more freely, and makes tiny clusters cheaper.
    covariances : array of shape (n_columns, n_columns) or (K, n_columns, n_columns), optional
        Known covariances: one for all clusters, or one for each of at most K clusters.
    max_clusters, search, init, n_init, max_iter, time_limit, random_state, n_jobs, device, memory_limit, spill_dir, \
checkpoint, verbose
        As in :class:`DPMeans`.

    Attributes
    ----------
    covariances_ : array of shape (n_clusters_, n_columns, n_columns)
        In double precision.
    labels_, cluster_centers_, n_clusters_, objective_, sse_, optimality_gap_, penalty_, penalty_share_, \
objective_trace_, n_iter_, converged_, runs_, search_info_, group_ids_, group_names_, \
unusual_error_, path_
        As in :class:`DPMeans`; ``sse_`` is the objective without the price of clusters, and ``optimality_gap_`` None.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import CovarianceDPMeans
    >>> X = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 3.0], [50.0, 3.0]])
    >>> CovarianceDPMeans(penalty=5.0, covariances=np.diag([1000.0, 0.1])).fit(X).labels_
    array([0, 0, 1, 1], dtype=int32)
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        covariance_penalty: float = 1.0,
        prior_covariance: ArrayLike | None = None,
        covariances: ArrayLike | None = None,
        max_clusters: int | None = None,
        search: str = "best",
        init: Any = None,
        n_init: int | str = "auto",
        max_iter: int = 300,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        memory_limit: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.covariance_penalty = covariance_penalty
        self.prior_covariance = prior_covariance
        self.covariances = covariances
        self.max_clusters = max_clusters
        self.search = search
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.memory_limit = memory_limit
        self.spill_dir = spill_dir
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _check_parameters(self) -> validation.PenaltyChoice:
        validation.check_positive("covariance_penalty", self.covariance_penalty)
        return super()._check_parameters()

    def _cap(self) -> int | None:
        if self.covariances is not None and np.ndim(self.covariances) == 3:
            return len(np.asarray(self.covariances))
        return self.max_clusters

    def _likelihood(self, problem: Problem) -> FullCovarianceGaussian | KnownCovarianceGaussian:
        X, c = problem.X, self.covariance_penalty
        if self.covariances is not None:
            known = validation.check_covariance("covariances", self.covariances, X.shape[1], stack=True)
            if known.ndim == 3 and self.max_clusters not in (None, len(known)):
                raise ValueError(
                    f"max_clusters={self.max_clusters} does not go with {len(known)} covariances: "
                    f"give None or {len(known)}"
                )
            return KnownCovarianceGaussian(known)
        if self.prior_covariance is not None:
            Phi = validation.check_covariance("prior_covariance", self.prior_covariance, X.shape[1])
            return FullCovarianceGaussian(Phi, c)
        # With much less than the scatter of the whole table, a cluster for every row is the best answer at any
        # penalty at which there are clusters at all.
        mean, variance = problem.moments()
        scatter, varies = problem.total * variance, variance > 1e-24 * mean**2
        return FullCovarianceGaussian(np.diag(np.where(varies, scatter, 1.0)), c)

    _search_rows = 1000

    def _kind_of(self, likelihood: Any) -> Kind:
        return Kind(partial(CovarianceLandscape.of, likelihood=likelihood), covariance_moves, scales_with_weights=False)

    def _init_groups(self, sample: Problem, likelihood: Any) -> NDArray:
        return self._groups_near(sample, likelihood, as_float64(sample.init))

    def _groups_near(self, sample: Problem, likelihood: Any, A: NDArray) -> NDArray:
        """By the distances that clusters without rows have."""
        covariances = np.stack([likelihood.initial_covariance(k) for k in range(len(A))])
        labels = engine.nearest(sample.X, MeansCovariances(A, covariances), sample.workers)
        return self._without(labels, self._useful(labels, len(A)))

    def _descend(
        self,
        problem: Problem,
        likelihood: Any,
        penalty: float,
        means: NDArray | None,
        workers: Workers,
        order: NDArray | None,
    ) -> engine.CovarianceClusters:
        """One run, without the known covariances that no row uses."""
        run = engine.covariance_dp_means(
            problem.X,
            penalty,
            likelihood,
            means,
            max_clusters=self._cap(),
            sample_weight=problem.sample_weight,
            max_iter=self.max_iter,
            workers=workers,
            order=order,
        )
        used = self._useful(run.labels, run.K)
        return run._replace(labels=self._without(run.labels, used), A=each(run.A, lambda part: part[used]))

    def _run(
        self, problem: Problem, likelihood: Any, penalty: float, path: PenaltyPath | None, seeds: Sequence[Any]
    ) -> list[Any]:
        def one(seed: Any, workers: Workers) -> engine.CovarianceClusters:
            means, order = self._start(problem, path, seed)
            return self._descend(problem, likelihood, penalty, means, workers, order)

        if len(row_blocks(*problem.X.shape)) > 1:
            return [one(seed, problem.workers) for seed in seeds]
        alone = Workers(1)
        return problem.workers.map(lambda seed: one(seed, alone), seeds)

    def _one_group_loss(self, problem: Problem, likelihood: Any) -> float:
        if problem.home is not None:
            rows = Follower(problem.home, likelihood)
            rows.begin(problem.moments()[0][None])
            return rows.loss(rows.fitted)
        table, labels = engine.Table.of(problem.X, problem.sample_weight), np.zeros(len(problem.X), dtype=np.int64)
        A = engine.refit(table, labels, problem.moments()[0][None], likelihood, problem.workers)
        return engine.loss(table, labels, A, likelihood, problem.workers)

    def _loss(self, problem: Problem, likelihood: Any, assigned: NDArray, A: Any) -> float:
        # The loss of a learned covariance is not a sum over rows.
        table = engine.Table.of(problem.X, problem.sample_weight)
        return engine.loss(table, assigned, A, likelihood, problem.workers)

    def _loss_by_part(self, table: Any, sample_weight: ArrayLike | None) -> float:
        """With the price of the covariances of clusters that have rows."""
        used = np.asarray(np.unique(self._by_part(table, self._assigned_by, *self._assigned_form())))
        likelihood: Any = self._objective.likelihood
        prices = likelihood.covariance_prices(self._groups().covariances[used])
        return super()._loss_by_part(table, sample_weight) + float(prices.sum())

    def _bound(self, problem: Problem, penalty: float) -> None:
        return None

    def _assign(self, X: NDArray, A: MeansCovariances, workers: Workers) -> NDArray:
        return engine.nearest(X, each(A, as_float64), workers)

    def _refit(self, problem: Problem, objective: Objective, assigned: NDArray, A: MeansCovariances) -> Any:
        table, centres = engine.Table.of(problem.X, problem.sample_weight), as_float64(A.means)
        likelihood: Any = objective.likelihood
        if self.covariances is not None:
            # Known covariances stay with their clusters, whatever was dropped.
            return A._replace(means=engine.cluster_means(table, assigned, centres, problem.workers))
        return engine.refit(table, assigned, centres, likelihood, problem.workers)

    def _store_parameters(self, A: MeansCovariances) -> None:
        super()._store_parameters(A)
        self.covariances_ = A.covariances

    def _row_errors(self, X: NDArray, assigned: NDArray) -> NDArray[np.float64]:
        return self._squared_distances(X).min(axis=1)

    def _groups(self) -> MeansCovariances:
        return MeansCovariances(as_float64(self.cluster_centers_), as_float64(self.covariances_))

    def _squared_distances(self, X: NDArray) -> NDArray:
        A = self._groups()
        blocks = row_blocks(len(X), A.covariances[:, 0].size)
        return np.concatenate([mahalanobis(X[rows], *A) for rows in blocks])
