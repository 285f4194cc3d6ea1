"""Estimators that put each row in any number of groups."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

from madbayes.engine.allocation import (
    CHUNK,
    bp_means,
    collapsed_bp_means,
    independent_features,
    k_features,
    least_squares_features,
    shared_rows,
)
from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.bounds import spectral_bound
from madbayes.engine.codes import best_codes
from madbayes.engine.path import PenaltyPath, k_features_path, stepwise
from madbayes.engine.path_search import FEATURES, Kind
from madbayes.engine.seeding import seed_features
from madbayes.estimators import validation
from madbayes.estimators.at_home import FeaturesAtHome, warn_of_fewer
from madbayes.estimators.canonical import told_otherwise
from madbayes.estimators.online import OnlineFeatures
from madbayes.estimators.problem import Found, Problem, State, as_float64
from madbayes.estimators.progress import Budget, Steps
from madbayes.estimators.searching import AUTO_RESTARTS
from madbayes.model import IBP, BetaBernoulli, Gaussian, Likelihood, Objective, Prior
from madbayes.paper import Result, Run
from madbayes.paper.features import with_penalty
from madbayes.paper.result import rounding_error


class FeatureEstimator(FeaturesAtHome, OnlineFeatures):
    """What BPMeans, KFeatures and StepwiseKFeatures share."""

    def _check_init(self, table: Any) -> tuple[NDArray | None, NDArray] | None:
        """Z and A; Z is None where it is made from A."""
        if self.init is None:
            return None
        Z: NDArray | None = None
        if hasattr(self.init, "components_"):
            A = validation.check_matrix("init", self.init.components_, (None, table.shape[1]))
        elif isinstance(self.init, tuple | list) and len(self.init) == 2:
            Z = validation.check_matrix("init[0]", self.init[0], (len(table), None))
            validation.check_binary("init[0]", Z)
            A = validation.check_matrix("init[1]", self.init[1], (Z.shape[1], table.shape[1]))
        else:
            init = validation.shown(self.init)
            raise ValueError(f"init={init} is not accepted: give (Z, A), a fitted model with components, or None")
        validation.check_range(A, "init[1]")
        if len(A) > (self._cap() or np.inf):
            raise ValueError(f"init has {len(A)} components: at most {self._cap()} are allowed")
        return Z, A

    def _problem(self, table: Any, sample_weight: ArrayLike | None, workers: Workers) -> Problem:
        problem = super()._problem(table, sample_weight, workers)
        if problem.init is None:
            return problem
        Z, A = problem.init
        if Z is None and problem.home is None:
            Z = best_codes(problem.X, A, workers)
        elif Z is not None and problem.counted is not None:
            Z = Z[problem.counted]
        return problem._replace(init=(Z, A))

    def _cap(self) -> int | None:
        return self.max_components

    def _likelihood(self, problem: Problem) -> Gaussian:
        return Gaussian()

    def _prior(self) -> Prior:
        cap = self._cap()
        return IBP() if cap is None else BetaBernoulli(cap)

    def _batch(self, problem: Problem) -> int:
        return CHUNK * problem.workers.n_threads if len(row_blocks(*problem.X.shape)) == 1 else 1

    def _kind_of(self, likelihood: Likelihood) -> Kind:
        return FEATURES

    def _run_k_features(self, problem: Problem, K: int, seeds: Sequence[Any]) -> list[Result]:
        options: dict[str, Any] = {"sample_weight": problem.sample_weight, "workers": problem.workers}
        starts = seed_features(problem.X, K, seeds, **options)
        return k_features(problem.X, K, starts, max_iter=self.max_iter, **options)

    def _start(self, problem: Problem, penalty: float, path: PenaltyPath | None, seed: Any) -> tuple[NDArray, NDArray]:
        """Z and A to start from."""
        if seed == "init":
            return problem.init
        if seed == "path" and path is not None:
            A = path.for_k(path.best).A
            return best_codes(problem.X, A, Workers(1)), A  # starts are made in the workers already
        K = self._cap() if penalty == 0 else None
        K = None if K is None else min(K, len(problem.X))  # there are no more independent columns than rows
        (start,) = seed_features(
            problem.X,
            K,
            [seed],
            penalty=penalty,
            most=self._cap(),
            sample_weight=problem.sample_weight,
            workers=Workers(1),
        )
        return start

    def _run(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, seeds: Sequence[Any]
    ) -> list[Any]:
        X, cap, workers = problem.X, self._cap(), problem.workers
        starts = workers.map(lambda seed: self._start(problem, penalty, path, seed), seeds)
        options: dict[str, Any] = {
            "sample_weight": problem.sample_weight,
            "max_iter": self.max_iter,
            "workers": workers,
        }
        if self.collapsed:
            return collapsed_bp_means(X, penalty, starts, max_components=cap, **options)
        if cap is not None and penalty == 0:
            return k_features(X, min(cap, len(X)), starts, **options)
        return bp_means(X, penalty, starts, max_components=cap, **options)

    _search_rows = 1000

    def _init_groups(self, sample: Problem, likelihood: Likelihood) -> NDArray:
        Z, A = sample.init
        return best_codes(sample.X, A, sample.workers) if Z is None else Z[sample.rows]

    def _init_parameters(self, problem: Problem) -> NDArray:
        return problem.init[1]

    def _groups_near(self, sample: Problem, likelihood: Likelihood, A: NDArray) -> NDArray:
        return best_codes(sample.X, A, sample.workers)

    def _settle(self, problem: Problem, objective: Objective, A: NDArray) -> State:
        """Where the number of components is given, bring it about as far as there is something to explain."""
        state = super()._settle(problem, objective, A)
        K = self._cap()
        if K is None or objective.penalty > 0:
            return state
        while len(state.A) < min(K, len(problem.X)):
            options: dict[str, Any] = {"sample_weight": problem.sample_weight, "workers": problem.workers}
            (more,) = k_features(problem.X, min(K, len(problem.X)), [(state.assigned, as_float64(state.A))], **options)
            settled = super()._settle(problem, objective, more.A)
            if settled.value >= state.value:
                break
            state = settled
        warn_of_fewer(len(state.A), K)
        return state

    def _settle_in_order(self, problem: Problem, objective: Objective, A: NDArray) -> State:
        """With a base in all rows if there can be one; then what most of them have is told by those that lack it."""
        state = super()._settle_in_order(problem, objective, A)
        while (turned := self._told_otherwise(problem, state)) is not None:
            other = super()._settle_in_order(problem, objective, turned)
            if other.value >= state.value and self._told_otherwise(problem, other) is not None:
                break  # rows that have two best codes go back and forth
            state = other
        return self._of_its_codes(problem, objective, state)

    def _of_its_codes(self, problem: Problem, objective: Objective, state: State) -> State:
        """The same with components that depend on the codes only, to the last bit, not on the way to them."""
        A = self._refit(problem, objective, state.assigned, state.A).astype(problem.X.dtype)
        if not np.array_equal(self._assign(problem.X, A, problem.workers), state.assigned):
            return state
        value = self._loss(problem, objective.likelihood, state.assigned, as_float64(A))
        return State(state.assigned, A, value + objective.prior.penalty(np.eye(len(A)), objective.penalty))

    def _told_otherwise(self, problem: Problem, state: State) -> NDArray | None:
        """The same components as they are to be told, if they are not."""
        weights, Z = problem.weights, state.assigned
        return told_otherwise(state.A, weights @ Z, weights.sum(), shared_rows(Z, problem.workers), len(Z))

    def _bound(self, problem: Problem, penalty: float) -> float:
        return spectral_bound(problem.squared_spectrum(np.zeros(problem.X.shape[1])), penalty, self._cap())

    def _assign(self, X: NDArray, A: NDArray, workers: Workers) -> NDArray:
        return best_codes(X, A, workers)

    def _codes(self, assigned: NDArray, K: int) -> NDArray[np.uint8]:
        return assigned

    def _useful(self, assigned: NDArray, K: int) -> NDArray[np.bool_]:
        return independent_features(assigned, Workers(1))

    def _without(self, assigned: NDArray, useful: NDArray[np.bool_]) -> NDArray:
        return assigned[:, useful]

    def _refit(self, problem: Problem, objective: Objective, assigned: NDArray, A: NDArray) -> NDArray:
        return least_squares_features(problem.X, assigned, problem.sample_weight, problem.workers)

    _adds_up = True

    def _row_errors(self, X: NDArray, assigned: NDArray) -> NDArray[np.float64]:
        R = X - assigned @ self._groups()
        return np.einsum("nd,nd->n", R, R)

    def _store_parameters(self, A: NDArray) -> None:
        self.components_, self.n_components_ = A, len(A)

    def _store_assigned(self, assigned: Any) -> None:
        self.allocations_ = assigned

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _groups(self) -> NDArray:
        return as_float64(self.components_)

    def transform(self, X: ArrayLike) -> NDArray:
        """Which components each row has.

        Exact up to ten components: no other choice has a smaller squared error. Above that, no change of one or
        two bits has.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        array of zeros and ones of shape (n_rows, n_components_)
            In the precision of X. On the training data, ``allocations_``.
        """
        return self._by_part(self._check_new(X), "_codes_of", (self.n_components_,))

    def _codes_of(self, table: NDArray) -> NDArray:
        return self._bits_of(table).astype(table.dtype)

    def _bits_of(self, table: NDArray) -> NDArray[np.uint8]:
        with Workers(self.n_jobs) as workers:
            return self._assign(table, self._groups(), workers)

    _assigned_by = "_bits_of"

    def _assigned_form(self) -> tuple[tuple[int, ...], DTypeLike]:
        return (self.n_components_,), np.uint8

    def inverse_transform(self, Z: ArrayLike) -> NDArray:
        """The rows that these components add up to, ZA.

        Parameters
        ----------
        Z : array-like of shape (n_rows, n_components_)

        Returns
        -------
        array of shape (n_rows, n_columns)
        """
        check_is_fitted(self)
        codes = validation.check_matrix("Z", Z, (None, self.n_components_))
        return (codes @ self.components_).astype(self.components_.dtype)

    def score_samples(self, X: ArrayLike) -> NDArray:
        """How well each row fits, and how clearly.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)

        Returns
        -------
        array of shape (n_rows, 2)
            Squared error; and how much it grows with the cheapest change of one bit, infinite when there is no
            component.
        """
        return self._by_part(self._check_new(X), "_fits_of", (2,))

    def _fits_of(self, table: NDArray) -> NDArray:
        A, Z = self._groups(), self._bits_of(table)

        def one(rows: slice) -> NDArray:
            R = table[rows] - Z[rows] @ A
            flips = (A**2).sum(axis=1) - 2 * (1.0 - 2.0 * Z[rows]) * (R @ A.T)
            return np.column_stack([(R**2).sum(axis=1), flips.min(axis=1, initial=np.inf)])

        return self._by_blocks(table, one)


class BPMeans(FeatureEstimator):
    """Features, their number chosen by the price of one more.

    Minimises the squared error of X = ZA with binary Z, plus ``penalty`` for each row of A: each row of X is the sum
    of any number of components.

    Parameters
    ----------
    penalty : float, str, default="auto"
        The price of one more component, in squared units of X (the paper's lambda squared). A share such as
        ``"2%"`` is taken of the squared error about the mean of all rows. ``"auto"`` solves the problem
        for K = 0, ..., 16, or more where the error still falls steeply (on at most 500 rows), takes the K that is best
        over the widest range of penalties on a logarithmic scale, and the middle of that range; one component, and a
        warning, if that is no wider than in groupless tables. See :func:`penalty_path`.
    max_components : int, optional
        Never more components than this. With ``penalty=0`` this is K-features, see :class:`KFeatures`.
    collapsed : bool, default=False
        With ``search="paper"``, use the collapsed algorithm, in which components follow every single change of a bit.
    search : {"best", "paper"} or Search, default="best"
        ``"paper"`` restarts the paper's algorithm. ``"best"`` is iterated local search: moves, each kept only if the
        objective falls, in several lineages until the best value was reached four times independently, or
        enough work is done. A :class:`madbayes.engine.search.Search` says how much, and which moves.
    init : (Z, A) or fitted model, optional
        Where the first run starts. With a fitted model, groups that survive keep their ids and names: a component of
        n rows continues the one that was at a squared distance below 4 ``penalty_`` / n, by one-to-one assignment; at
        no price, those that are nearest to each other. Beside a base, a component that is told by the other rows now
        is the same one.
    n_init : int, default="auto"
        Number of lineages at most, or of runs of the paper's algorithm, which differ by their ++ seeds. ``"auto"``
        is 6 to 40 lineages or 10 runs, or 1 with ``init``. With ``penalty="auto"`` one more starts from the solution
        found on the way.
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

    Attributes
    ----------
    components_ : array of shape (n_components_, n_columns)
        A. Components are ordered by the weight of the rows that have them, largest first. Where one is a base that
        all rows have, the others are told by the fewer: a component of most rows is added to the base and taken from
        the rows that lack it.
    allocations_ : array of uint8 of shape (n_rows, n_components_)
        Z of the training rows, equal to ``transform`` of them. Of rows in a file it may be a memory map (with
        ``memory_limit``), of rows of Dask it is a lazy array of Dask.
    n_components_ : int
    objective_ : float
        The value reached.
    sse_ : float
        Its squared-error part.
    optimality_gap_ : float or None
        By no more than this share of it can any fit be below ``objective_``, see :func:`certificates.lower_bound`;
        None for large tables.
    penalty_, penalty_share_ : float
        The price of one more component, and the same as a share of the squared error about the mean.
    objective_trace_ : array of float
        The objective along the best run.
    n_iter_ : int
    converged_ : bool
    runs_ : list of Run
        Seed, number of components, objective, iterations (or moves) and seconds of each run (or lineage). With
        ``search="paper"`` a run is reproduced by
        ``paper.bp_means(X, penalty, *paper.seed_features(X, penalty=penalty, random_state=seed))``.
    search_info_ : dict
        What the search did: rows it looked at, lineages, how many of them agree, moves, which of them were tried and
        kept; and ``stopped`` ("by a callback", "by an interrupt", or "by the time limit" in a pass
        over all rows) where it was.
    group_ids_ : array of int of shape (n_components_,)
        0, 1, ... in the order of the components. With a fitted model as ``init`` those of the components that they
        continue; new ones get ids that none before them had, in this model or in those it comes from.
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
    >>> from madbayes import BPMeans
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.0]])
    >>> model = BPMeans(random_state=0).fit(X)
    >>> model.n_components_
    2
    >>> np.allclose(model.inverse_transform(model.transform(X)), X)
    True
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        max_components: int | None = None,
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
    ) -> None:
        self.penalty = penalty
        self.max_components = max_components
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

    def _check_parameters(self) -> validation.PenaltyChoice:
        self._check_common()
        validation.check_flag("collapsed", self.collapsed)
        validation.check_count("max_components", self.max_components, other=None)
        return validation.check_penalty(self.penalty)


class KFeatures(FeatureEstimator):
    """A given number of features: the K-means of feature allocations.

    Minimises the squared error of X = ZA with binary Z and ``n_components`` rows of A. The same as
    ``BPMeans(penalty=0, max_components=n_components)``. A component that becomes redundant is replaced by the residual
    of the worst row; when nothing is left to explain, there are fewer components and a ConvergenceWarning.

    Parameters
    ----------
    n_components : int, default=8
        Number of components.
    collapsed, search, init, n_init, max_iter, time_limit, random_state, n_jobs, device, memory_limit, spill_dir, \
checkpoint, verbose
        As in :class:`BPMeans`.

    Attributes
    ----------
    components_, allocations_, n_components_, objective_, sse_, optimality_gap_, penalty_, penalty_share_, \
objective_trace_, n_iter_, converged_, runs_, search_info_, group_ids_, group_names_, \
unusual_error_
        As in :class:`BPMeans`; the penalty is 0. A run is reproduced by
        ``paper.k_features(X, K, *paper.seed_features(X, K, random_state=seed))``.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import KFeatures
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.0]])
    >>> model = KFeatures(2, random_state=0).fit(X)
    >>> model.transform(X)
    array([[0., 1.],
           [1., 0.],
           [1., 1.],
           [1., 1.]])
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
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
    ) -> None:
        self.n_components = n_components
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

    def _check_parameters(self) -> validation.PenaltyChoice:
        self._check_common()
        validation.check_flag("collapsed", self.collapsed)
        validation.check_count("n_components", self.n_components)
        return validation.PenaltyChoice(0.0, None)

    def _cap(self) -> int | None:
        return self.n_components


class StepwiseKFeatures(FeatureEstimator):
    """K-features for K = 0, 1, 2, ... until the price of one more is not worth it.

    Minimises what :class:`BPMeans` minimises.

    Parameters
    ----------
    penalty, max_components, search, init, max_iter, time_limit, random_state, n_jobs, device, memory_limit, \
spill_dir, checkpoint, verbose
        As in :class:`BPMeans`; ``init`` is one more start for its number of components.
    n_init : int, default="auto"
        As in :class:`BPMeans`; with ``search="paper"`` the number of runs for each K.

    Attributes
    ----------
    components_, allocations_, n_components_, objective_, sse_, optimality_gap_, penalty_, penalty_share_, \
objective_trace_, n_iter_, converged_, runs_, search_info_, group_ids_, group_names_, \
unusual_error_, path_
        As in :class:`BPMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import StepwiseKFeatures
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.0]])
    >>> StepwiseKFeatures(penalty=1.0, random_state=0).fit(X).n_components_
    2
    """

    def __init__(
        self,
        penalty: float | str = "auto",
        *,
        max_components: int | None = None,
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
        self.max_components = max_components
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
        self._check_common()
        validation.check_count("max_components", self.max_components, other=None)
        return validation.check_penalty(self.penalty)

    def _search_paper(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, budget: Budget
    ) -> Found:
        """Restarts for each K, and from what is given beside them, judged by the BP-means objective."""
        with budget.progress.steps("search", None, "run") as steps:
            return self._search_steps(problem, penalty, path, budget, steps)

    def _search_steps(
        self, problem: Problem, penalty: float, path: PenaltyPath | None, budget: Budget, steps: Steps
    ) -> Found:
        runs: list[Run] = []
        budget.begin()

        def restarts(K: int, seeds: Sequence[Any]) -> list[Result]:
            if K == 0:
                return self._run_k_features(problem, 0, seeds)
            results, some = self._restarts(
                seeds, lambda part: self._run_k_features(problem, K, part), problem, budget, steps
            )
            runs.extend(run._replace(value=run.value + run.K * penalty) for run in some)
            return results

        solutions = k_features_path(
            restarts,
            n_init=AUTO_RESTARTS if isinstance(self.n_init, str) else self.n_init,
            max_components=self._cap(),
            seed=problem.seeds(1)[0],
            negligible=problem.weights.sum() * rounding_error(problem.X),
        )
        best = stepwise(solutions, penalty)
        starts = [seed for seed, given in (("init", problem.init), ("path", path)) if given is not None]

        def run(seeds: Sequence[Any]) -> list[Result]:
            some = [self._start(problem, penalty, path, seed) for seed in seeds]
            options: dict[str, Any] = {"sample_weight": problem.sample_weight, "workers": problem.workers}
            results = [k_features(problem.X, len(A), [(Z, A)], max_iter=self.max_iter, **options)[0] for Z, A in some]
            return [with_penalty(result, penalty) for result in results]

        started, more = self._restarts(starts, run, problem, budget, steps)
        return self._found([best, *started], runs + more)
