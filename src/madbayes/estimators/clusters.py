"""Estimators that put each row in one group."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin

from madbayes.engine.partition import nearest
from madbayes.engine.path import PenaltyPath
from madbayes.estimators import validation
from madbayes.estimators.base import PATH_LENGTH, PATH_RESTARTS, PATH_ROWS, GroupEstimator, Problem, as_float64
from madbayes.model import (
    CRP,
    DirichletMultinomial,
    Gaussian,
    Likelihood,
    MeansCovariances,
    Prior,
)
from madbayes.paper import Result, collapsed_dp_means, dp_means, k_means, seed_clusters
from madbayes.paper.clusters import squared_distances


class ClusterEstimator(ClusterMixin, GroupEstimator):
    """What DPMeans and CovarianceDPMeans share."""

    def _check_parameters(self) -> validation.PenaltyChoice:
        self._check_common()
        validation.check_count("max_clusters", self.max_clusters, other=None)
        return validation.check_penalty(self.penalty)

    def _check_init(self, table: NDArray) -> NDArray | None:
        if self.init is None:
            return None
        centres = getattr(self.init, "cluster_centers_", self.init)
        centres = validation.check_matrix("init", centres, (None, table.shape[1]))
        if not 1 <= len(centres) <= (self._cap() or np.inf):
            raise ValueError(f"init has {len(centres)} centres: give at least 1 and at most {self._cap_name()}")
        return centres

    def _cap(self) -> int | None:
        return self.max_clusters

    def _cap_name(self) -> str:
        return f"max_clusters={self.max_clusters}"

    def _prior(self) -> Prior:
        cap = self._cap()
        return CRP() if cap is None else DirichletMultinomial(cap)

    def _first_seed(self, problem: Problem, penalty: float) -> int | str | None:
        return "init" if problem.init is not None else None

    def _path(self, problem: Problem, likelihood: Likelihood) -> PenaltyPath:
        """K-means for K = 1, 2, ... on a sample of the rows."""
        sample = problem.sample(PATH_ROWS)
        cap = min(PATH_LENGTH, len(sample.X), self._cap() or PATH_LENGTH)
        starts = self._means_path(sample, likelihood, cap)
        solutions = [self._path_solution(sample, likelihood, means) for means in starts]
        losses = np.array([solution.value for solution in solutions])
        return PenaltyPath(np.arange(1, len(solutions) + 1), losses, solutions)

    def _means_path(self, problem: Problem, likelihood: Likelihood, cap: int) -> Iterator[NDArray]:
        """Best means for each K: from the previous ones with the farthest row added, and from ++ seeds."""
        X = problem.X
        options: dict[str, Any] = {"sample_weight": problem.sample_weight}
        result = first = k_means(X, np.average(X, axis=0, weights=problem.sample_weight)[None], **options)
        yield first.A
        for K in range(2, cap + 1):
            if result.value <= 1e-12 * first.value:
                return
            farthest = (problem.weights * squared_distances(X, result.A).min(axis=1)).argmax()
            starts = [np.vstack([result.A, X[farthest]])]
            starts += [seed_clusters(X, K, random_state=s, **options) for s in problem.seeds(PATH_RESTARTS - 1)]
            runs = [k_means(X, start, max_iter=self.max_iter, **options) for start in starts]
            result = min(runs, key=lambda run: run.value)
            yield result.A

    def _path_solution(self, problem: Problem, likelihood: Likelihood, means: NDArray) -> Result:
        """The solution that these means lead to."""
        return k_means(problem.X, means, sample_weight=problem.sample_weight, max_iter=self.max_iter)

    def _start(self, problem: Problem, path: PenaltyPath | None, seed: Any) -> tuple[NDArray | None, NDArray | None]:
        """Means and row order to start from."""
        if seed == "path" and path is not None:
            return _means(path.for_k(path.best)), None
        if isinstance(seed, int):
            return problem.init, np.random.default_rng(seed).permutation(len(problem.X))
        return problem.init, None

    def _useful(self, Z: NDArray) -> NDArray[np.bool_]:
        return Z.sum(axis=0) > 0

    def _origin(self) -> NDArray | float:
        return self._column_means

    def _store_groups(self, Z: NDArray[np.uint8], A: Any) -> None:
        self.labels_ = Z.argmax(axis=1).astype(np.int32)
        self.n_clusters_ = Z.shape[1]
        self.cluster_centers_ = A.means if isinstance(A, MeansCovariances) else A

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def _squared_distances(self, X: NDArray) -> NDArray:
        return squared_distances(X, self._groups())

    def _groups(self) -> Any:
        return as_float64(self.cluster_centers_)

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """The nearest cluster of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        array of int of shape (n_rows,)
            On the training data, ``labels_``.
        """
        table, _ = self._check_new(X)
        return self._assign(table, self._groups()).argmax(axis=1).astype(np.int32)

    def transform(self, X: ArrayLike) -> NDArray:
        """The distance of each row to each cluster, in the units of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        array of shape (n_rows, n_clusters_)
        """
        table, dtype = self._check_new(X)
        return np.sqrt(self._squared_distances(table)).astype(dtype, copy=False)

    def score_samples(self, X: ArrayLike) -> NDArray:
        """How well each row fits, and how clearly.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        array of shape (n_rows, 2)
            Squared distance to the nearest cluster; and how much larger that to the second nearest is, infinite
            when there is only one cluster.
        """
        table, dtype = self._check_new(X)
        D = np.sort(self._squared_distances(table), axis=1)
        margin = D[:, 1] - D[:, 0] if D.shape[1] > 1 else np.full(len(D), np.inf)
        return np.column_stack([D[:, 0], margin]).astype(dtype, copy=False)


def _means(solution: Result) -> NDArray:
    return solution.A.means if isinstance(solution.A, MeansCovariances) else solution.A


class DPMeans(ClusterEstimator):
    """Clusters, their number chosen by the price of one more.

    Minimises the squared distance of the rows to the mean of their cluster, plus ``penalty`` for each cluster after
    the first.

    Parameters
    ----------
    penalty : float, str, default="auto"
        The price of one more cluster, in squared units of X (the paper's lambda squared). A share such as ``"2%"``
        is taken of the squared error of a single cluster. ``"auto"`` runs K-means for K = 1, ..., 10 (on at most
        500 rows), takes the K that is best over the widest range of penalties on a logarithmic scale, and the
        middle of that range.
    max_clusters : int, optional
        Never more clusters than this. With ``penalty=0`` this is K-means.
    collapsed : bool, default=False
        Use the collapsed algorithm, in which means follow every single move.
    search : {"best", "paper"}, default="best"
        Both run the paper's algorithm in this version.
    init : array of shape (K, n_columns) or fitted model, optional
        Means to start from, in place of the mean of all rows.
    n_init : int, default="auto"
        Number of runs; the one with the lowest objective is kept. The first takes the rows in order, the others
        permute them. ``"auto"`` is 10, or 1 with ``init``. With ``penalty="auto"`` one more run starts from the
        solution found on the way.
    max_iter : int, default=300
        Passes over the rows in a run.
    time_limit : float, optional
        Seconds after which no further run is started.
    random_state : int, RandomState instance, optional
        Same seed, same answer, whatever ``n_jobs``.
    n_jobs : int, optional
        Runs at the same time, as in scikit-learn.
    device : {"cpu"}, default="cpu"
    verbose : int, default=0
        Print a line for each run.

    Attributes
    ----------
    labels_ : array of int
        Cluster of each training row, equal to ``predict`` of it. Clusters are ordered by weight, largest first.
    cluster_centers_ : array of shape (n_clusters_, n_columns)
    n_clusters_ : int
    objective_ : float
        The value reached.
    sse_ : float
        Its squared-error part.
    penalty_, penalty_share_ : float
        The price of one more cluster, and the same as a share of the squared error of a single cluster.
    objective_trace_ : array of float
        The objective along the best run.
    n_iter_ : int
    converged_ : bool
    runs_ : list of Run
        Seed, number of clusters, objective, iterations and seconds of each run. Seed s stands for the row order
        ``numpy.random.default_rng(s).permutation(n_rows)``, None for the order of the table.
    search_info_ : dict
    path_ : PenaltyPath
        With ``penalty="auto"`` only.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0], [10.0, 2.0]])
    >>> model = DPMeans(penalty=20.0).fit(X)
    >>> model.n_clusters_, model.labels_, model.objective_
    (2, array([1, 1, 0, 0, 0], dtype=int32), 22.5)
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        max_clusters: int | None = None,
        collapsed: bool = False,
        search: str = "best",
        init: Any = None,
        n_init: int | str = "auto",
        max_iter: int = 300,
        time_limit: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.max_clusters = max_clusters
        self.collapsed = collapsed
        self.search = search
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def _check_parameters(self) -> validation.PenaltyChoice:
        validation.check_choice("collapsed", self.collapsed, (False, True))
        return super()._check_parameters()

    def _likelihood(self, problem: Problem) -> Gaussian:
        return Gaussian()

    def _first_seed(self, problem: Problem, penalty: float) -> int | str | None:
        # K-means has no row order to vary: its runs differ by their ++ seeds.
        return problem.seeds(1)[0] if self._is_k_means(problem, penalty) else super()._first_seed(problem, penalty)

    def _is_k_means(self, problem: Problem, penalty: float) -> bool:
        return self.max_clusters is not None and penalty == 0 and problem.init is None

    def _run(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, seed: Any
    ) -> Result:
        X, cap = problem.X, self.max_clusters
        A, order = self._start(problem, path, seed)
        options: dict[str, Any] = {"sample_weight": problem.sample_weight, "max_iter": self.max_iter}
        if cap is not None and self._is_k_means(problem, penalty):
            A = seed_clusters(X, cap, random_state=seed, sample_weight=problem.sample_weight)
        if self.collapsed:
            Z = None if A is None else nearest(X, A)
            return collapsed_dp_means(X, penalty, Z, order=order, max_clusters=cap, **options)
        if cap is not None and penalty == 0 and A is not None and len(A) == cap:
            return k_means(X, A, **options)
        return dp_means(X, penalty, A, order=order, max_clusters=cap, **options)

    def _assign(self, X: NDArray, A: NDArray) -> NDArray[np.uint8]:
        return nearest(X, A.astype(np.float64))
