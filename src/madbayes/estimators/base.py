"""What all estimators share: the way from a table to groups."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from madbayes.engine.path import PenaltyPath
from madbayes.estimators import validation
from madbayes.model import Likelihood, MeansCovariances, Objective, Prior
from madbayes.model.likelihoods import Weights
from madbayes.paper import Result, Run, restarts
from madbayes.paper.result import RELATIVE_GAIN

# Restarts when n_init="auto", for both values of search.
AUTO_RESTARTS = 10
# The path behind penalty="auto": numbers of groups tried, runs for each, rows at most.
PATH_LENGTH, PATH_RESTARTS, PATH_ROWS = 10, 10, 500


class Problem(NamedTuple):
    """The table as the algorithms see it: float64, only rows of positive weight."""

    X: NDArray[np.float64]
    sample_weight: Weights
    counted: NDArray[np.bool_]  # which of the user's rows these are
    dtype: np.dtype  # of the user's table
    random: np.random.RandomState
    init: Any = None  # where to start: means, (Z, A), or None

    def seeds(self, count: int) -> list[int]:
        """Fresh seeds, each of which alone reproduces a restart."""
        return [int(seed) for seed in self.random.randint(2**31 - 1, size=count)]

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of every row."""
        return np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight.astype(np.float64)

    def sample(self, n_rows: int) -> "Problem":
        """At most ``n_rows`` of the rows, weighing as much as all: losses keep their scale."""
        if len(self.X) <= n_rows:
            return self
        rows = np.sort(self.random.choice(len(self.X), n_rows, replace=False))
        weights = self.weights[rows]
        return self._replace(X=self.X[rows], sample_weight=weights * (self.weights.sum() / weights.sum()))


class State(NamedTuple):
    """Groups, the rows assigned to them, and the objective there."""

    Z: NDArray[np.uint8]
    A: Any
    value: float


def means_of(A: Any) -> NDArray:
    """The means among the parameters of the groups."""
    return A.means if isinstance(A, MeansCovariances) else A


def each(A: Any, change: Callable[[NDArray], NDArray]) -> Any:
    """Change every array among the parameters of the groups."""
    return MeansCovariances(*map(change, A)) if isinstance(A, MeansCovariances) else change(A)


def as_float64(part: NDArray) -> NDArray[np.float64]:
    """The same numbers in double precision."""
    return part.astype(np.float64)


def canonical_order(A: Any, sizes: NDArray) -> NDArray[np.intp]:
    """Largest group first, equal ones by their means: equal solutions print equal."""
    return np.lexsort((*means_of(A).T[::-1], -sizes))


class GroupEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Check, choose the penalty, run the restarts, settle, store."""

    def fit(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the groups of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Finite numbers.
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            Weights multiply the squared error of a row, never the penalty. A row of weight zero has no influence
            and is assigned all the same.

        Returns
        -------
        self
        """
        choice = self._check_parameters()
        table = validation.check_table(self, X, reset=True)
        problem = self._problem(table, sample_weight)
        likelihood = self._likelihood(problem)
        one_group = likelihood.loss(*self._one_group(problem, likelihood), problem.sample_weight)
        path = None
        if choice.value is not None:
            penalty = choice.value
        elif choice.share is not None:
            penalty = choice.share * one_group
        else:
            path = self._path(problem, likelihood)
            penalty = path.suggest()
        result, runs = self._search(problem, likelihood, penalty, path)
        objective = Objective(likelihood, self._prior(), penalty)
        state = self._settle(problem, objective, each(result.A, lambda part: part[result.Z.any(axis=0)]))
        self._store(np.asarray(table, dtype=np.float64), problem, objective, state, one_group)
        self._store_search(result, runs, path, state)
        return self

    @abstractmethod
    def _check_parameters(self) -> validation.PenaltyChoice:
        """Refuse what cannot be; understand the penalty."""

    @abstractmethod
    def _check_init(self, table: NDArray) -> Any:
        """The start the user gives."""

    @abstractmethod
    def _likelihood(self, problem: Problem) -> Likelihood:
        """The loss that is minimised."""

    @abstractmethod
    def _prior(self) -> Prior:
        """Where the price of a group comes from."""

    @abstractmethod
    def _path(self, problem: Problem, likelihood: Likelihood) -> PenaltyPath:
        """Solutions for increasing numbers of groups."""

    @abstractmethod
    def _run(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, seed: Any
    ) -> Result:
        """One run of the paper's algorithm, wholly determined by the seed."""

    @abstractmethod
    def _assign(self, X: NDArray, A: Any) -> NDArray[np.uint8]:
        """The one way rows get their groups, in fit and after it."""

    @abstractmethod
    def _useful(self, Z: NDArray) -> NDArray[np.bool_]:
        """Which groups to keep."""

    @abstractmethod
    def _store_groups(self, Z: NDArray[np.uint8], A: Any) -> None:
        """Set the attributes that hold the groups."""

    def _check_common(self) -> None:
        validation.check_choice("search", self.search, ("best", "paper"))
        validation.check_count("n_init", self.n_init, other="auto")
        validation.check_count("max_iter", self.max_iter)
        validation.check_positive("time_limit", self.time_limit, optional=True)
        validation.check_jobs(self.n_jobs)
        validation.check_device(self.device)
        validation.check_verbose(self.verbose)

    def _problem(self, table: NDArray, sample_weight: ArrayLike | None) -> Problem:
        weights = validation.check_weights(sample_weight, len(table))
        X, counted = np.asarray(table, dtype=np.float64), np.ones(len(table), dtype=bool)
        validation.check_range(X)
        init = self._check_init(X)
        if weights is not None:
            counted = weights > 0
            X, weights = X[counted], weights[counted]
        return Problem(X, weights, counted, table.dtype, check_random_state(self.random_state), init)

    def _one_group(self, problem: Problem, likelihood: Likelihood) -> tuple[NDArray, NDArray, Any]:
        """Everything in one group: the unit of penalty_share_."""
        Z = np.ones((len(problem.X), 1), dtype=np.uint8)
        return problem.X, Z, likelihood.fit(problem.X, Z, problem.sample_weight)

    def _search(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None
    ) -> tuple[Result, list[Run]]:
        """The best of the restarts, and a line about each."""
        first: list[int | str | None] = [self._first_seed(problem, penalty)]
        n_init = self.n_init
        if n_init == "auto":
            n_init = 1 if problem.init is not None else AUTO_RESTARTS
        if path is not None:
            first.insert(0, "path")
        seeds = [*first, *problem.seeds(n_init - 1)]
        return restarts(lambda seed: self._run(problem, likelihood, penalty, path, seed), seeds, self._mapper())

    def _first_seed(self, problem: Problem, penalty: float) -> int | str | None:
        return "init" if problem.init is not None else problem.seeds(1)[0]

    def _mapper(self) -> Callable[[Callable, Iterable], list]:
        """A map that runs restarts in parallel, reports them, and stops early when it must."""
        start = perf_counter()

        def in_time(function: Callable, seeds: Iterable) -> Iterator:
            for i, seed in enumerate(seeds):
                if i and self.time_limit is not None and perf_counter() - start > self.time_limit:
                    return
                yield delayed(function)(seed)

        def mapper(function: Callable, seeds: Iterable) -> list[tuple[Result, Run]]:
            results: list[tuple[Result, Run]] = []
            try:
                for result in Parallel(n_jobs=self.n_jobs, return_as="generator")(in_time(function, seeds)):
                    results.append(result)
                    if self.verbose:
                        _, K, value, iterations, seconds = result[1]
                        print(f"{type(self).__name__} restart {len(results)}: K={K} objective={value:.6g} "
                              f"iterations={iterations} seconds={seconds:.2f}")  # fmt: skip
            except KeyboardInterrupt:
                if not results:
                    raise
                warnings.warn(
                    f"interrupted: keeping the best of {len(results)} finished restarts", UserWarning, stacklevel=2
                )
            return results

        return mapper

    def _refit(self, problem: Problem, objective: Objective, Z: NDArray, A: Any) -> Any:
        """Best parameters for these assignments."""
        return objective.likelihood.fit(problem.X, Z, problem.sample_weight)

    def _settle(self, problem: Problem, objective: Objective, A: Any) -> State:
        """Groups in the table's own precision that the row rule and a refit both leave as they are."""

        def rounded(A: Any) -> Any:
            return each(A, lambda part: part.astype(problem.dtype))

        A, best = rounded(A), None
        while True:
            Z = self._assign(problem.X, A)
            keep = self._useful(Z)
            if not keep.all():
                kept = each(A, lambda part, keep=keep: part[keep])  # type: ignore[misc]
                A = rounded(self._refit(problem, objective, Z[:, keep], kept))
                continue
            value = objective(problem.X, Z, each(A, as_float64), problem.sample_weight)
            if best is not None and value >= best.value - RELATIVE_GAIN * abs(best.value):
                return best
            best = State(Z, A, value)
            A = rounded(self._refit(problem, objective, Z, A))

    def _store(self, table: NDArray, problem: Problem, objective: Objective, state: State, one_group: float) -> None:
        sizes = problem.weights @ state.Z
        order = canonical_order(state.A, sizes)
        A = each(state.A, lambda part: part[order])
        self._objective, self._sizes, self._total = objective, sizes[order], problem.weights.sum()
        self._column_means = np.average(problem.X, axis=0, weights=problem.sample_weight)
        self._column_scales = np.sqrt(np.average((problem.X - self._column_means) ** 2, axis=0,
                                                 weights=problem.sample_weight))  # fmt: skip
        self._store_groups(self._assign(table, A), A)
        self.objective_ = float(state.value)
        self.sse_ = self.objective_ - self._price()
        self.penalty_ = float(objective.penalty)
        self.penalty_share_ = self.penalty_ / one_group if one_group > 0 else (np.inf if self.penalty_ else 0.0)

    def _price(self) -> float:
        """What the fitted groups cost, whichever rows they are used for."""
        return self._objective.prior.penalty(np.eye(self._n_features_out), self._objective.penalty)

    def _store_search(self, result: Result, runs: list[Run], path: PenaltyPath | None, state: State) -> None:
        self.objective_trace_ = np.append(result.trace, state.value)
        self.n_iter_ = max(1, result.iterations)
        self.converged_ = result.converged
        self.runs_ = runs
        self.search_info_ = {"search": self.search, "n_init": len(runs)}
        if path is not None:
            self.path_ = path
        elif hasattr(self, "path_"):
            del self.path_
        if not result.converged:
            warnings.warn(
                f"max_iter={self.max_iter} iterations were not enough to converge; the best so far is kept",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _check_new(self, X: ArrayLike) -> tuple[NDArray[np.float64], np.dtype]:
        """New rows for a fitted model, and the precision to answer in."""
        check_is_fitted(self)
        table = validation.check_table(self, X, reset=False)
        return np.asarray(table, dtype=np.float64), table.dtype

    def score(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the objective of X under the fitted groups; on the training data, minus ``objective_``.

        It compares fits at the same penalty. It cannot choose the penalty: a lower one always scores higher.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        float
        """
        table, _ = self._check_new(X)
        weights = validation.check_weights(sample_weight, len(table))
        A = self._groups()
        return -float(self._objective.likelihood.loss(table, self._assign(table, A), A, weights) + self._price())

    @abstractmethod
    def _groups(self) -> Any:
        """The fitted parameters of the groups, in float64."""

    def describe(self, n_columns: int = 3) -> list[dict[str, Any]]:
        """The groups in plain values, largest first.

        Parameters
        ----------
        n_columns : int
            How many columns to name for each group.

        Returns
        -------
        list of dict
            For each group its ``group`` number, ``size`` (rows, or their weight), ``share`` of all rows, and
            ``columns``: the columns that set it apart most, as (name, value, distance in standard deviations).
            For clusters the distance is from the mean of the table, for features from zero.
        """
        check_is_fitted(self)
        means = means_of(self._groups())
        names = getattr(self, "feature_names_in_", [f"x{d}" for d in range(means.shape[1])])
        scales = np.where(self._column_scales > 0, self._column_scales, 1.0)
        return [
            {
                "group": k,
                "size": float(self._sizes[k]),
                "share": float(self._sizes[k] / self._total),
                "columns": [
                    (str(names[d]), float(mean[d]), float(distance[d]))
                    for d in np.argsort(-np.abs(distance), kind="stable")[:n_columns]
                ],
            }
            for k, (mean, distance) in enumerate(zip(means, (means - self._origin()) / scales, strict=True))
        ]

    @abstractmethod
    def _origin(self) -> NDArray | float:
        """What a group's values are compared with."""

    @property
    def partial_fit(self) -> None:
        """Not available yet: reading it raises an AttributeError that says so."""
        raise AttributeError(
            f"{type(self).__name__} has no partial_fit in this version: fit takes the whole table at once"
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
