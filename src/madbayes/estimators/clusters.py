"""Estimators that put each row in one group."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import ClusterMixin

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.bounds import spectral_bound
from madbayes.engine.centres import Nearest, Table, nearest
from madbayes.engine.partition import Clusters, cluster_means, collapsed_dp_means, dp_means, k_means, squared_error
from madbayes.engine.path import PenaltyPath
from madbayes.engine.path_search import CLUSTERS, Kind
from madbayes.engine.seeding import seed_clusters
from madbayes.estimators import validation
from madbayes.estimators.at_home import ClustersAtHome
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.online import OnlineClusters
from madbayes.estimators.problem import Problem, State, as_float64, means_of
from madbayes.model import CRP, DirichletMultinomial, Gaussian, Likelihood, Objective, Prior
from madbayes.model.priors import one_hot
from madbayes.paper.clusters import squared_distances


class ClusterEstimator(ClusterMixin, GroupEstimator):
    """What DPMeans and CovarianceDPMeans share."""

    def _check_parameters(self) -> validation.PenaltyChoice:
        self._check_common()
        validation.check_count("max_clusters", self.max_clusters, other=None)
        return validation.check_penalty(self.penalty)

    def _check_init(self, table: Any) -> NDArray | None:
        if self.init is None:
            return None
        if hasattr(self.init, "fit") and not hasattr(self.init, "cluster_centers_"):
            raise ValueError(f"init={self.init!r} has no clusters: give centres, a fitted model with clusters, or None")
        centres = getattr(self.init, "cluster_centers_", self.init)
        centres = validation.check_matrix("init", centres, (None, table.shape[1]))
        validation.check_range(centres, "init")
        cap = self._cap()
        if not 1 <= len(centres) <= (cap or np.inf):
            limit = "" if cap is None else f" and at most max_clusters={cap}"
            raise ValueError(f"init has {len(centres)} centres: give at least 1{limit}")
        return centres

    def _cap(self) -> int | None:
        return self.max_clusters

    def _prior(self) -> Prior:
        cap = self._cap()
        return CRP() if cap is None else DirichletMultinomial(cap)

    def _first_seed(self, problem: Problem, penalty: float) -> int | str | None:
        return "init" if problem.init is not None else None

    def _batch(self, problem: Problem) -> int:
        return problem.workers.n_threads if len(row_blocks(*problem.X.shape)) == 1 else 1

    _search_rows = 5000

    def _start(self, problem: Problem, path: PenaltyPath | None, seed: Any) -> tuple[NDArray | None, NDArray | None]:
        """Means and row order to start from."""
        if seed == "path" and path is not None:
            return means_of(path.for_k(path.best).A), None
        if isinstance(seed, int):
            return problem.init, np.random.default_rng(seed).permutation(len(problem.X))
        return problem.init, None

    def _codes(self, assigned: NDArray, K: int) -> NDArray[np.uint8]:
        return one_hot(assigned, K)

    def _sizes_of(self, problem: Problem, state: State) -> NDArray[np.float64]:
        return np.bincount(state.assigned, problem.weights, minlength=len(means_of(state.A))).astype(np.float64)

    def _useful(self, assigned: NDArray, K: int) -> NDArray[np.bool_]:
        return np.bincount(assigned, minlength=K) > 0

    def _without(self, assigned: NDArray, useful: NDArray[np.bool_]) -> NDArray:
        return (np.cumsum(useful) - 1)[assigned]

    _adds_up = False

    def _row_errors(self, X: NDArray, assigned: NDArray) -> NDArray[np.float64]:
        from madbayes.engine import kernels

        errors = np.empty(len(X))
        kernels.row_distances(X, self._groups(), assigned.astype(np.int64), errors)
        return errors

    def _store_parameters(self, A: Any) -> None:
        self.cluster_centers_ = means_of(A)
        self.n_clusters_ = len(self.cluster_centers_)

    def _store_assigned(self, assigned: Any) -> None:
        self.labels_ = assigned if assigned.dtype == np.int32 else assigned.astype(np.int32)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def _squared_distances(self, X: NDArray) -> NDArray:
        return squared_distances(as_float64(X), self._groups())

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
        return self._by_part(self._check_new(X), "_labels_of", (), np.int32)

    def _labels_of(self, table: NDArray) -> NDArray[np.int32]:
        with Workers(self.n_jobs) as workers:
            return self._assign(table, self._groups(), workers).astype(np.int32, copy=False)

    _assigned_by = "_labels_of"

    def _assigned_form(self) -> tuple[tuple[int, ...], DTypeLike]:
        return (), np.int32

    def transform(self, X: ArrayLike) -> NDArray:
        """The distance of each row to each cluster, in the units of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        array of shape (n_rows, n_clusters_)
        """
        return self._by_part(self._check_new(X), "_distances_of", (self.n_clusters_,))

    def _distances_of(self, table: NDArray) -> NDArray:
        return np.sqrt(self._squared_distances(table)).astype(table.dtype, copy=False)

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
        return self._by_part(self._check_new(X), "_fits_of", (2,))

    def _fits_of(self, table: NDArray) -> NDArray:
        def one(rows: slice) -> NDArray:
            D = np.sort(self._squared_distances(table[rows]), axis=1)
            margin = D[:, 1] - D[:, 0] if D.shape[1] > 1 else np.full(len(D), np.inf)
            return np.column_stack([D[:, 0], margin])

        return self._by_blocks(table, one)


class DPMeans(ClustersAtHome, OnlineClusters, ClusterEstimator):
    """Clusters, their number chosen by the price of one more.

    Minimises the squared distance of the rows to the mean of their cluster, plus ``penalty`` for each cluster after
    the first.

    Parameters
    ----------
    penalty : float, str, default="auto"
        The price of one more cluster, in squared units of X (the paper's lambda squared). A share such as ``"2%"``
        is taken of the squared error of a single cluster. ``"auto"`` solves the problem for K = 1, ..., 16, or
        more where the error still falls steeply (on at most 500 rows), takes the K that is best over the widest range
        of penalties on a logarithmic scale, and the middle of that range; one cluster, and a warning, if that is no
        wider than in groupless tables. See :func:`penalty_path`.
    max_clusters : int, optional
        Never more clusters than this. With ``penalty=0`` this is K-means.
    collapsed : bool, default=False
        With ``search="paper"``, use the collapsed algorithm, in which means follow every single move.
    search : {"best", "paper"} or Search, default="best"
        ``"paper"`` restarts the paper's algorithm. ``"best"`` is iterated local search: moves, each kept only if the
        objective falls, in several lineages until the best value was reached four times independently, or
        enough work is done. A :class:`madbayes.engine.search.Search` says how much, and which moves.
    init : array of shape (K, n_columns) or fitted model, optional
        Means to start from, in place of the mean of all rows. With a fitted model of madbayes, groups that survive
        keep their ids and names: a group of n rows continues the one whose mean was at a squared distance below
        4 ``penalty_`` / n, by one-to-one assignment; at no price, those that are nearest to each other.
    n_init : int, default="auto"
        Number of lineages at most, or of runs of the paper's algorithm, of which the first takes the rows in order
        and the others permute them. ``"auto"`` is 6 to 40 lineages or 10 runs, or 1 with ``init``. With
        ``penalty="auto"`` one more starts from the solution found on the way.
    max_iter : int, default=300
        Passes over all rows of a run of the paper's algorithm.
    time_limit : float, optional
        Seconds after which the best so far is kept; what ``penalty="auto"`` does before does not count. A pass over all
        rows that is under way is ended first, and a few more bring the groups to rest.
    random_state : int, RandomState instance, optional
        Same seed, same answer, whatever ``n_jobs``.
    n_jobs : int, optional
        Threads: None is 1, -1 all cores.
    device : {"cpu"}, default="cpu"
    memory_limit : int or str, optional
        Bytes of memory, or text such as ``"600MB"``, that the process may take where X is not in memory (a memory map,
        a folder of Parquet files, blocks of rows). What does not fit is kept in files.
    spill_dir : path, optional
        Where these temporary files are made; the system's folder for such files by default.
    checkpoint : path, optional
        A folder. The state of the fit is written there after every pass over all rows, and a fit of the same table with
        the same folder goes on from there.
    verbose : int, default=0
        Print a line for each run, and for each number of groups that ``penalty="auto"`` looks at. With scikit-learn
        1.9 or newer, ``set_callbacks(sklearn.callback.ProgressBar())`` shows progress too.
    decay : float, default=1.0
        What is left of the weight of the rows before with each call of :meth:`partial_fit`, above 0 and at most 1. With
        1 none is forgotten.

    Attributes
    ----------
    labels_ : array of int
        Cluster of each training row, equal to ``predict`` of it. Clusters are ordered by weight, largest first. Of rows
        in a file it may be a memory map (with ``memory_limit``), of rows of Dask it is a lazy array of Dask.
    cluster_centers_ : array of shape (n_clusters_, n_columns)
    n_clusters_ : int
    objective_ : float
        The value reached.
    sse_ : float
        Its squared-error part.
    optimality_gap_ : float or None
        By no more than this share of it can any fit be below ``objective_``, see :func:`certificates.lower_bound`;
        None for large tables.
    penalty_, penalty_share_ : float
        The price of one more cluster, and the same as a share of the squared error of a single cluster.
    objective_trace_ : array of float
        The objective along the best run.
    n_iter_ : int
    converged_ : bool
    runs_ : list of Run
        Seed, number of clusters, objective, iterations (or moves) and seconds of each run (or lineage). With
        ``search="paper"`` seed s stands for the row order ``numpy.random.default_rng(s).permutation(n_rows)``, None
        for the order of the table.
    search_info_ : dict
        What the search did: rows it looked at, lineages, how many of them agree, moves, which of them were tried and
        kept; and ``stopped`` ("by a callback", "by an interrupt", or "by the time limit" in a pass
        over all rows) where it was.
    group_ids_ : array of int of shape (n_clusters_,)
        0, 1, ... in the order of the clusters. With a fitted model as ``init`` those of the clusters that they
        continue; new ones get ids that no cluster before them had, in this model or in those it comes from.
        ``group_ids_[labels_]`` are the ids of the rows.
    group_names_ : list of str
        "group 0", "group 1", ... by their ids, until :meth:`rename` gives them others.
    unusual_error_ : float
        A row with a larger error than this is unusual: only one in a hundred of the training rows has one.
        Of more than 50 000 rows a sample is taken to find it.
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

    A day later, the smaller cluster has become the larger one, and there is a third:

    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [10.0, 0.0], [10.0, 1.0], [0.0, 30.0]])
    >>> later = DPMeans(penalty=20.0, init=model).fit(X)
    >>> later.labels_, later.group_ids_
    (array([0, 0, 0, 1, 1, 2], dtype=int32), array([1, 0, 2]))
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
        memory_limit: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        decay: float = 1.0,
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
        self.memory_limit = memory_limit
        self.spill_dir = spill_dir
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.decay = decay

    def _check_parameters(self) -> validation.PenaltyChoice:
        validation.check_flag("collapsed", self.collapsed)
        validation.check_decay(self.decay)
        return super()._check_parameters()

    def _likelihood(self, problem: Problem) -> Gaussian:
        return Gaussian()

    def _first_seed(self, problem: Problem, penalty: float) -> int | str | None:
        # K-means has no row order to vary: its runs differ by their ++ seeds.
        return problem.seeds(1)[0] if self._is_k_means(problem, penalty) else super()._first_seed(problem, penalty)

    def _is_k_means(self, problem: Problem, penalty: float) -> bool:
        return self.max_clusters is not None and penalty == 0 and problem.init is None

    def _run(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, seeds: Sequence[Any]
    ) -> list[Any]:
        table = Table.of(problem.X, problem.sample_weight)
        if len(table.blocks) > 1:
            return [self._run_one(table, problem, penalty, path, seed, problem.workers) for seed in seeds]
        alone = Workers(1)
        return problem.workers.map(lambda seed: self._run_one(table, problem, penalty, path, seed, alone), seeds)

    def _run_one(
        self, table: Table, problem: Problem, penalty: float, path: PenaltyPath | None, seed: Any, workers: Workers
    ) -> Clusters:
        cap = self.max_clusters
        A, order = self._start(problem, path, seed)
        options: dict[str, Any] = {"max_iter": self.max_iter, "workers": workers}
        if cap is not None and self._is_k_means(problem, penalty):
            A = seed_clusters(problem.X, cap, seed, sample_weight=problem.sample_weight)
        if self.collapsed:
            return collapsed_dp_means(table, penalty, A, order=order, max_clusters=cap, **options)
        if cap is not None and penalty == 0 and A is not None and len(A) == cap:
            return k_means(table, A, **options)
        return dp_means(table, penalty, A, order=order, max_clusters=cap, **options)

    def _kind_of(self, likelihood: Likelihood) -> Kind:
        return CLUSTERS

    def _init_groups(self, sample: Problem, likelihood: Likelihood) -> NDArray:
        return self._groups_near(sample, likelihood, as_float64(sample.init))

    def _groups_near(self, sample: Problem, likelihood: Likelihood, A: NDArray) -> NDArray:
        return nearest(sample.X, A, sample.workers)

    def _bound(self, problem: Problem, penalty: float) -> float:
        cap, squares = self._cap(), problem.squared_spectrum(problem.moments()[0])
        return spectral_bound(squares, penalty, None if cap is None else cap - 1)

    def _loss(self, problem: Problem, likelihood: Likelihood, assigned: NDArray, A: NDArray) -> float:
        # The squared error of a row is the distance to its mean: no table of codes is needed.
        labels = assigned if assigned.ndim == 1 else assigned.argmax(axis=1)
        return squared_error(Table.of(problem.X, problem.sample_weight), as_float64(A), labels, problem.workers)

    def _settle_in_order(self, problem: Problem, objective: Objective, A: NDArray) -> State:
        self._nearest = Nearest(problem.X)  # the means hardly change from here on
        try:
            return super()._settle_in_order(problem, objective, A)
        finally:
            del self._nearest

    def _assign(self, X: NDArray, A: NDArray, workers: Workers) -> NDArray:
        known = getattr(self, "_nearest", None)
        return nearest(X, A, workers) if known is None else known(A, workers)

    def _refit(self, problem: Problem, objective: Objective, assigned: NDArray, A: NDArray) -> NDArray:
        return cluster_means(Table.of(problem.X, problem.sample_weight), assigned, len(A), problem.workers)
