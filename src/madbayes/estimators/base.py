"""What all estimators share: the way from a table to groups."""

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from madbayes.engine.blocks import Workers, count_threads, row_blocks
from madbayes.engine.climb import Effort
from madbayes.engine.homes import LocalHome, part_rows
from madbayes.engine.path import PenaltyPath, warn_of_weak_evidence
from madbayes.engine.path_search import find_path
from madbayes.estimators import validation
from madbayes.estimators.at_home import JUDGED, JUDGED_ENTRIES
from madbayes.estimators.canonical import canonical_order
from madbayes.estimators.checkpoints import Checkpoints, problem_of
from madbayes.estimators.describing import Units, extreme_rows, group_words, top_columns
from madbayes.estimators.identity import name_groups
from madbayes.estimators.intake import applied, held, look_at, take_in
from madbayes.estimators.memory import NO_LIMIT, Memory
from madbayes.estimators.problem import (
    Found,
    Problem,
    State,
    as_float64,
    each,
    in_the_users_rows,
    means_of,
    quantile,
    row_weight,
    tiny_group,
    warn_of_scales,
)
from madbayes.estimators.progress import Budget, CallbackSupportMixin, PathWatch, Progress, with_callbacks
from madbayes.estimators.searching import Searching
from madbayes.io import save
from madbayes.model import Gaussian, Likelihood, MeansCovariances, Objective, Prior
from madbayes.paper.result import RELATIVE_GAIN, rounding_error
from madbayes.sources import FileRows, parse_memory

# Singular values, and with them optimality_gap_, are had for tables of so many operations.
CHEAP = 10**8
# The path behind penalty="auto": numbers of groups tried, and rows at most.
PATH_LENGTH, PATH_ROWS = 16, 500
# A row is unusual if its error is above those of this share of the training rows.
USUAL = 0.99


class GroupEstimator(CallbackSupportMixin, Searching, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Check, choose the penalty, search, settle, store."""

    @with_callbacks
    def fit(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the groups of X.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Finite numbers. Tables that need not fit in memory: a memory map, the name of a Parquet file or of a folder
            of them (also by a URL), a dataset of pyarrow, blocks of rows one after the other; see
            :func:`madbayes.sources.open_rows`. Arrays and data frames of Dask: rows stay on the workers.
        y : ignored
        sample_weight : array-like of shape (n_rows,), optional
            Weights multiply the squared error of a row, never the penalty. A row of weight zero has no influence
            and is assigned all the same.

        Returns
        -------
        self
        """
        choice = self._check_parameters()
        with validation.columns_kept(self), Workers(self.n_jobs) as workers:
            table = take_in(self, X)
            problem = self._problem(table, sample_weight, workers)
            likelihood = self._likelihood(problem)
            one_group = self._one_group_loss(problem, likelihood)
            progress = self._begin(choice, problem, X=X, y=y, sample_weight=sample_weight)
            saved = self._checkpoints(problem)
            path = None
            if saved is not None and saved.state is not None:
                path, penalty = saved.state.path, saved.state.penalty
            elif choice.value is not None:
                penalty = choice.value
            elif choice.share is not None:
                penalty = choice.share * one_group
            else:
                path = self._path(problem, likelihood, progress)
                penalty = path.suggest()
            objective = Objective(likelihood, self._prior(), penalty)

            def attributes(A: Any) -> dict[str, Any]:
                return self._attributes(table, problem, objective, A, one_group)

            budget = Budget(self.time_limit, progress, attributes)
            found = self._search(problem, likelihood, penalty, path, budget, saved)
            state = self._settled(problem, objective, found.A)
            other = copy(self)  # so that nothing is half done if this is interrupted
            other._store(table, problem, objective, state, one_group)
            other._store_gap(problem, objective)
            other._store_search(found, path, state)
        self.__dict__ = other.__dict__
        progress.end({})
        return self

    def fit_transform(self, X: ArrayLike, y: None = None, **fit_params: Any) -> Any:
        """``fit``, then ``transform`` of the same rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            As in ``fit``; blocks may come from a generator, which is gone over once.
        y : ignored
        **fit_params
            Of ``fit``.

        Returns
        -------
        array of shape (n_rows, n_groups)
        """
        return super().fit_transform(held(self, X), y, **fit_params)

    def _checkpoints(self, problem: Problem) -> Checkpoints | None:
        """Where the state of the fit is written, if the user wants that."""
        if self.checkpoint is None:
            return None
        mean, variance = problem.moments()
        scatter = variance * (problem.weights.sum() if problem.known is None else problem.known.weight)
        return Checkpoints(self.checkpoint, problem_of(self, problem.X.shape, problem.X.dtype, mean, scatter))

    def _settled(self, problem: Problem, objective: Objective, A: Any) -> State:
        """Groups in canonical order that the row rule and a refit both leave as they are."""
        settle = self._settle_in_order if problem.home is None else self._settle_at_home
        return settle(problem, objective, A)

    def _begin(self, choice: validation.PenaltyChoice, problem: Problem, **data: Any) -> Progress:
        """Tell callbacks that the fit begins, and of how many parts it is made."""
        is_auto = choice.value is None and choice.share is None
        is_searched = self.search != "paper" or problem.home is None
        goes_over_all = problem.home is not None or (is_searched and len(problem.X) > self._search_rows)
        context = self._init_callback_context(max_subtasks=is_auto + is_searched + goes_over_all)
        weights = data.pop("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        return Progress(context, self.verbose, estimator=self, metadata=metadata, **data)

    def _attributes(
        self, table: NDArray, problem: Problem, objective: Objective, A: Any, one_group: float
    ) -> dict[str, Any]:
        """What the model would know, had it been fitted with these groups; for callbacks that ask."""
        other = copy(self)
        problem = problem._replace(random=deepcopy(problem.random))  # who asks does not change what is drawn later
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are for the groups that are kept
            state = other._settled(problem, objective, A)
        other._store(table, problem, objective, state, one_group)
        return dict(vars(other))

    @abstractmethod
    def _check_parameters(self) -> validation.PenaltyChoice:
        """Refuse what cannot be; understand the penalty."""

    @abstractmethod
    def _check_init(self, table: Any) -> Any:
        """The start the user gives."""

    @abstractmethod
    def _likelihood(self, problem: Problem) -> Likelihood:
        """The loss that is minimised."""

    @abstractmethod
    def _prior(self) -> Prior:
        """Where the price of a group comes from."""

    def _path(self, problem: Problem, likelihood: Likelihood, progress: Progress) -> PenaltyPath:
        """Solutions for increasing numbers of groups, on a sample of the rows."""
        if isinstance(likelihood, Gaussian):  # others learn the scales
            warn_of_scales(problem)
        sample = problem.sample(PATH_ROWS)
        table = sample.canonical()
        with progress.part("path", None):
            path = find_path(
                self._kind_of(likelihood),
                table.X,
                table.sample_weight,
                cap=self._cap(),
                limit=PATH_LENGTH + 1,  # one more to judge the last
                min_weight=tiny_group(sample),
                row_weight=row_weight(sample),
                effort=Effort(),
                rng=np.random.default_rng(problem.seeds(1)[0]),
                workers=problem.workers,
                watch=PathWatch(progress),
            )
        path = in_the_users_rows(path, sample, table)
        if not progress.stopped:
            warn_of_weak_evidence(path)
        return path

    @abstractmethod
    def _codes(self, assigned: NDArray, K: int) -> NDArray[np.uint8]:
        """Z of some rows."""

    @abstractmethod
    def _useful(self, assigned: NDArray, K: int) -> NDArray[np.bool_]:
        """Which groups to keep."""

    @abstractmethod
    def _without(self, assigned: NDArray, useful: NDArray[np.bool_]) -> NDArray:
        """Assignments to the useful groups only."""

    @abstractmethod
    def _refit(self, problem: Problem, objective: Objective, assigned: NDArray, A: Any) -> Any:
        """Best parameters for these assignments."""

    @abstractmethod
    def _store_parameters(self, A: Any) -> None:
        """Set the attributes that hold the groups."""

    @abstractmethod
    def _store_assigned(self, assigned: Any) -> None:
        """Set the attribute that holds which groups the training rows are in."""

    _assigned_by: str  # the method that gives that for some rows

    @abstractmethod
    def _assigned_form(self) -> tuple[tuple[int, ...], DTypeLike]:
        """Shape and type of it for a row."""

    @abstractmethod
    def _groups(self) -> Any:
        """The fitted parameters of the groups, in float64."""

    @abstractmethod
    def _row_errors(self, X: NDArray, assigned: NDArray) -> NDArray[np.float64]:
        """The squared error of each row under the fitted groups."""

    _adds_up: bool  # whether a row is the sum of its groups
    group_names_: list[str]

    @abstractmethod
    def _bound(self, problem: Problem, penalty: float) -> float | None:
        """What no groups fall below, if that is known."""

    def _check_common(self) -> None:
        if self.init is self:
            raise ValueError("init is the model itself: start from a copy of it, copy.deepcopy(model)")
        validation.check_search(self.search)
        validation.check_count("n_init", self.n_init, other="auto")
        validation.check_count("max_iter", self.max_iter)
        validation.check_positive("time_limit", self.time_limit, optional=True)
        validation.check_jobs(self.n_jobs)
        validation.check_device(self.device)
        validation.check_verbose(self.verbose)
        validation.check_path("checkpoint", self.checkpoint)
        validation.check_path("spill_dir", self.spill_dir)
        parse_memory(self.memory_limit, "memory_limit")

    def _problem(self, table: Any, sample_weight: ArrayLike | None, workers: Workers) -> Problem:
        random, memory = validation.check_random(self.random_state), NO_LIMIT
        if isinstance(table, FileRows):
            memory = Memory.of(self.memory_limit, self.spill_dir, table, workers.n_threads)
        elif not isinstance(table, np.ndarray):
            self._check_home()
        init = self._check_init(table)
        problem = Problem.of(table, sample_weight, random, workers, self._goes_home, memory)
        return problem._replace(init=init)

    def _goes_home(self, n_rows: int) -> bool:
        """Whether rows are so many that a sample is searched, and only sums are taken of all."""
        return self.search != "paper" and n_rows > self._search_rows

    def _check_home(self) -> None:
        """Refuse what cannot be done where rows are."""
        if getattr(self, "collapsed", False):
            raise ValueError("collapsed=True takes tables in memory, not those of Dask: give collapsed=False")

    def _one_group_loss(self, problem: Problem, likelihood: Likelihood) -> float:
        """Loss with all rows in one group, the unit of penalty_share_."""
        if problem.known is not None:
            return problem.known.scatter
        Z = np.ones((len(problem.X), 1), dtype=np.uint8)
        return self._loss(problem, likelihood, Z, problem.moments()[0][None])

    def _loss(self, problem: Problem, likelihood: Likelihood, assigned: NDArray, A: Any) -> float:
        """The loss of the model, block by block: no table of residuals is held."""
        X, weights, K = problem.X, problem.sample_weight, len(means_of(A))

        def one(rows: slice) -> float:
            Z = assigned[rows] if assigned.ndim == 2 else self._codes(assigned[rows], K)
            return likelihood.loss(X[rows], Z, A, None if weights is None else weights[rows])

        return float(sum(problem.workers.map(one, row_blocks(*X.shape))))

    def _settle(self, problem: Problem, objective: Objective, A: Any) -> State:
        """Groups in the table's own precision that the row rule and a refit both leave as they are."""

        def rounded(A: Any) -> Any:
            # Covariances stay in double precision: rounded ones need not be positive definite.
            if isinstance(A, MeansCovariances):
                return A._replace(means=A.means.astype(problem.X.dtype))
            return A.astype(problem.X.dtype)

        A, best = rounded(A), None
        while True:
            K = len(means_of(A))
            assigned = self._assign(problem.X, A, problem.workers)
            keep = self._useful(assigned, K)
            if not keep.all():
                kept = each(A, lambda part, keep=keep: part[keep])  # type: ignore[misc]
                A = rounded(self._refit(problem, objective, self._without(assigned, keep), kept))
                continue
            loss = self._loss(problem, objective.likelihood, assigned, each(A, as_float64))
            value = loss + objective.prior.penalty(np.eye(K), objective.penalty)
            if best is not None and not value < best.value - RELATIVE_GAIN * abs(best.value):
                return best
            best = State(assigned, A, value)
            A = rounded(self._refit(problem, objective, assigned, A))

    def _settle_in_order(self, problem: Problem, objective: Objective, A: Any) -> State:
        """Settle with the groups in canonical order: where rows tie, their groups depend on it."""
        while True:
            state = self._settle(problem, objective, A)
            order = canonical_order(state.A, self._sizes_of(problem, state))
            A = each(state.A, lambda part, order=order: part[order])  # type: ignore[misc]
            assigned = self._assign(problem.X, A, problem.workers)
            if self._useful(assigned, len(order)).all():
                return State(assigned, A, state.value)

    def _sizes_of(self, problem: Problem, state: State) -> NDArray[np.float64]:
        """The weight of the rows of each group."""
        weights, K = problem.weights, len(means_of(state.A))
        blocks = row_blocks(*problem.X.shape)
        return np.sum([weights[rows] @ self._codes(state.assigned[rows], K) for rows in blocks], axis=0)

    def _store(self, table: Any, problem: Problem, objective: Objective, state: State, one_group: float) -> None:
        self._objective = objective
        self._sizes = self._sizes_of(problem, state) if state.sizes is None else state.sizes
        self._total = problem.total
        self._column_means, variances = problem.moments()
        self._column_scales = np.sqrt(variances)
        self._store_parameters(state.A)
        self._store_assigned(self._assigned_rows(table, problem, state))
        self._name_groups(self.init)
        self.unusual_error_ = self._usual_error(problem, state.assigned)
        self.objective_ = float(state.value)
        self.sse_ = self.objective_ - self._price()
        self.penalty_ = float(objective.penalty)
        self.penalty_share_ = self.penalty_ / one_group if one_group > 0 else (np.inf if self.penalty_ else 0.0)
        self._remember(problem, state)

    def _remember(self, problem: Problem, state: State) -> None:
        """Keep what ``partial_fit`` has to know of the rows, where there is one."""

    def _assigned_rows(self, table: Any, problem: Problem, state: State) -> Any:
        """Labels or Z of all rows of the user's table."""
        if problem.home is None:
            rows = np.ascontiguousarray(table) if isinstance(table, np.ndarray) else problem.X
            return self._assign(rows, state.A, problem.workers)
        shape, dtype = self._assigned_form()
        if not isinstance(problem.home, LocalHome):
            return self._by_part(table.source, self._assigned_by, shape, dtype, table.lengths)
        n_rows, assigned = len(problem.X), self._assigned_at_home(state)
        known = problem.memory.filled((n_rows, *shape), dtype, assigned)
        if problem.counted is None:
            return known
        every = np.empty((len(table), *shape), dtype)
        every[problem.counted] = known
        every[~problem.counted] = self._assign(table[~problem.counted], state.A, problem.workers)
        return every

    _name_groups = name_groups

    def _usual_error(self, problem: Problem, assigned: NDArray) -> float:
        """The error that only the worst hundredth of the training rows exceeds; of many rows, a sample of them."""
        if problem.home is not None:
            problem = problem.sample(min(JUDGED, max(PATH_ROWS, JUDGED_ENTRIES // problem.X.shape[1])))
            assigned = self._assign(problem.X, self._groups(), problem.workers)
        X = problem.X
        blocks = problem.workers.map(lambda rows: self._row_errors(X[rows], assigned[rows]), row_blocks(*X.shape))
        limit = quantile(np.concatenate(blocks), USUAL, problem.sample_weight)
        # The same row among others may be rounded differently, and shall not become unusual by that.
        return limit * (1 + 100 * float(np.finfo(X.dtype).eps)) + rounding_error(X)

    def _store_gap(self, problem: Problem, objective: Objective) -> None:
        N, D = problem.X.shape
        bound = self._bound(problem, objective.penalty) if N * D * min(N, D) <= CHEAP else None
        self.optimality_gap_ = None
        if bound is not None:
            self.optimality_gap_ = max(1 - bound / self.objective_, 0.0) if self.objective_ > 0 else 0.0

    def _price(self) -> float:
        """What the fitted groups cost, whichever rows they are used for."""
        return self._objective.prior.penalty(np.eye(self._n_features_out), self._objective.penalty)

    def _store_search(self, found: Found, path: PenaltyPath | None, state: State) -> None:
        self.objective_trace_ = np.append(found.trace, state.value)
        self.n_iter_ = max(1, found.iterations)
        self.converged_ = bool(found.converged)
        self.runs_, self.search_info_ = found.runs, found.info
        if path is not None:
            self.path_ = path
        elif hasattr(self, "path_"):
            del self.path_
        if not found.converged and "stopped" not in found.info:
            warnings.warn(
                f"max_iter={self.max_iter} iterations were not enough to converge; the best so far is kept",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _check_new(self, X: Any) -> Any:
        """New rows for a fitted model: an array, rows in a file, or a collection of Dask."""
        check_is_fitted(self)
        table = look_at(self, X)
        return np.ascontiguousarray(table) if isinstance(table, np.ndarray) else table

    def _by_part(
        self,
        table: Any,
        method: str,
        shape: tuple[int, ...],
        dtype: DTypeLike | None = None,
        lengths: Sequence[int] | None = None,
    ) -> Any:
        """What a method gives for an array of rows, wherever the rows are; lazily, where they are on other machines."""
        if isinstance(table, np.ndarray):
            return getattr(self, method)(table)
        if not isinstance(table, FileRows):
            from madbayes.backends.dask import lazy_rows

            width = shape[0] if shape else None
            return lazy_rows(table, partial(applied, self._light(), method), dtype, width=width, lengths=lengths)
        memory = Memory.of(self.memory_limit, self.spill_dir, table, count_threads(self.n_jobs))
        parts = (getattr(self, method)(table[rows]) for rows in part_rows(*table.shape))
        return memory.filled((len(table), *shape), table.dtype if dtype is None else dtype, parts)

    def _light(self) -> Self:
        """The model without what grows with the number of rows."""
        light = copy(self)
        heavy = ["labels_", "allocations_", "path_", "runs_"]
        # Callbacks, and what scikit-learn knows of them while a fit lasts, may not be able to travel.
        for name in heavy + [name for name in vars(self) if "callback" in name]:
            light.__dict__.pop(name, None)
        light.init = None
        return light

    def _by_blocks(self, table: NDArray, function: Callable[[slice], NDArray]) -> NDArray:
        """What a function gives for the rows of each block, in the precision of the table."""
        blocks = row_blocks(len(table), max(table.shape[1], self._n_features_out))
        with Workers(self.n_jobs) as workers:
            return np.concatenate(workers.map(function, blocks)).astype(table.dtype, copy=False)

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
        table, A = self._check_new(X), self._groups()
        if not isinstance(table, np.ndarray):
            return -self._loss_by_part(table, sample_weight) - self._price()
        weights = validation.check_weights(sample_weight, len(table))
        with Workers(self.n_jobs) as workers:
            problem = Problem(table, weights, None, np.random.RandomState(0), workers)
            loss = self._loss(problem, self._objective.likelihood, self._assign(table, A, workers), A)
        return -float(loss + self._price())

    def _in_memory(self, table: Any, why: str) -> NDArray:
        """All rows of a file; those of Dask are refused."""
        if isinstance(table, np.ndarray):
            return table
        if not isinstance(table, FileRows):
            raise ValueError(f"{type(self).__name__} takes tables in memory or in files here, not those of Dask")
        memory = Memory.of(self.memory_limit, self.spill_dir, table, count_threads(self.n_jobs))
        memory.check(3 * table.nbytes, why)
        return table[:]

    def _loss_by_part(self, table: Any, sample_weight: ArrayLike | None) -> float:
        """The squared error of rows that are not in memory."""
        errors = self._by_part(table, "_fits_of", (2,))[:, 0]
        if not isinstance(table, FileRows):
            from madbayes.backends.dask import weighted_sum

            return weighted_sum(errors, sample_weight)
        weights = validation.check_weights(sample_weight, len(table))
        return float((errors if weights is None else errors * weights).sum(dtype=np.float64))

    def describe(self, n_columns: int = 3, *, X: ArrayLike | None = None, n_rows: int = 3) -> list[dict[str, Any]]:
        """The groups in plain values and in words, largest first.

        Parameters
        ----------
        n_columns : int
            How many columns to name for each group.
        X : array-like of shape (n_rows, n_columns), optional
            Rows of which to name the typical ones, such as the training rows.
        n_rows : int
            How many of them to name for each group.

        Returns
        -------
        list of dict
            For each group its ``group`` number, ``id``, ``name``, ``size`` (rows, or their weight), ``share`` of all
            rows, ``columns``: the columns that set it apart most, as (name, value, distance in standard deviations),
            and the same in ``words``. For clusters the distance is from the mean of the table, for features from zero,
            but for one that all rows have, from which they start: that is compared with the mean, too.
            With X also the numbers of its ``typical_rows``, which fit best, and of its ``worst_rows``.

        Examples
        --------
        >>> import numpy as np
        >>> from madbayes import DPMeans
        >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0], [10.0, 2.0]])
        >>> model = DPMeans(penalty=20.0).fit(X).rename({0: "right"})
        >>> [(group["name"], group["words"]) for group in model.describe(n_columns=1)]
        [('right', 'x0 +0.8 sd (10 against 6)'), ('group 1', 'x0 -1.2 sd (0 against 6)')]
        """
        check_is_fitted(self)
        validation.check_count("n_columns", n_columns, minimum=0)
        validation.check_count("n_rows", n_rows, minimum=0)
        units, described = self._units(), []
        for k, values in enumerate(means_of(self._groups())):
            share = float(self._sizes[k] / self._total)
            columns = top_columns(values, units.of(share), n_columns)
            described.append(
                {
                    "group": k,
                    "id": int(self.group_ids_[k]),
                    "name": self.group_names_[k],
                    "size": float(self._sizes[k]),
                    "share": share,
                    "columns": [(column.name, column.value, column.distance) for column in columns],
                    "words": group_words(columns),
                }
            )
        if X is not None:
            Z, errors = self._memberships(X), np.asarray(self.score_samples(X))[:, 0]
            for k, group in enumerate(described):
                rows = extreme_rows(errors, np.flatnonzero(Z[:, k]), n_rows)
                group["typical_rows"], group["worst_rows"] = rows
        return described

    def _units(self) -> Units:
        """The columns of the table that was fitted."""
        names = getattr(self, "feature_names_in_", [f"x{d}" for d in range(self.n_features_in_)])
        return Units([str(name) for name in names], self._column_means, self._column_scales, self._adds_up)

    def _memberships(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Which rows have which groups, as zeros and ones of shape (n_rows, K)."""
        table = self._check_new(X)
        if not isinstance(table, np.ndarray):
            raise ValueError("X is not in memory: give a sample of its rows")
        with Workers(self.n_jobs) as workers:
            return self._codes(self._assign(table, self._groups(), workers), self._n_features_out)

    def rename(self, names: Mapping[int, str]) -> Self:
        """Give groups names of your own, which stay with the model until the next fit.

        A fit that starts from this model (``init``) hands them on to the groups that survive.

        Parameters
        ----------
        names : dict of int to str
            A name for each group that shall have one, such as ``{0: "cheap"}``; groups are numbered as they stand, in
            ``labels_`` for example.

        Returns
        -------
        self

        Examples
        --------
        >>> from madbayes import DPMeans
        >>> DPMeans(penalty=20.0).fit([[0.0], [1.0], [9.0]]).rename({1: "the one at nine"}).group_names_
        ['group 0', 'the one at nine']
        """
        check_is_fitted(self)
        self.group_names_ = validation.check_names(self.group_names_, names)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file; :func:`madbayes.load` reads it.

        Parameters
        ----------
        path : path
            Usually with the ending ``.madbayes``. A file that is there is replaced, in one step.
        """
        save(self, path)

    @property
    def partial_fit(self) -> None:
        """Not available: reading it raises an AttributeError that says so."""
        raise AttributeError(f"{type(self).__name__} has no partial_fit: fit takes the whole table at once")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
