"""What estimators do with rows that are too many for the search, or are not in memory: see :mod:`engine.homes`.

Only sums come from the rows. The groups are searched on a sample; the paper's algorithm then goes over all rows, and
groups are settled there.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from madbayes.engine import cluster_passes, covariance_passes, feature_passes
from madbayes.engine.homes import Descent
from madbayes.engine.path import users_level
from madbayes.estimators.canonical import canonical_order, told_otherwise
from madbayes.estimators.problem import Problem, State
from madbayes.model import MeansCovariances, Objective
from madbayes.paper.result import RELATIVE_GAIN

# An error is unusual judging by so many rows, or by fewer of wide tables: they are in memory, whatever its limit.
JUDGED, JUDGED_ENTRIES = 50_000, 2**22


def warn_of_fewer(found: int, K: int) -> None:
    """Say so if there are fewer components than were asked for."""
    if found < K:
        words = f"{found} components leave nothing to explain: fewer than the {K} asked for"
        warnings.warn(words, ConvergenceWarning, stacklevel=users_level())


class AtHome:
    """Descend and settle where the rows are."""

    @abstractmethod
    def _descend_at_home(
        self, problem: Problem, likelihood: Any, penalty: float, A: Any, watch: Callable[[Any], bool]
    ) -> Descent:
        """The run of the paper's algorithm that begins there."""

    @abstractmethod
    def _settle_at_home(self, problem: Problem, objective: Objective, A: Any) -> State:
        """Groups in the table's own precision and canonical order that the row rule and a refit leave as they are."""

    @abstractmethod
    def _assigned_at_home(self, state: State) -> Iterator[NDArray]:
        """Labels or Z of the rows, part after part."""


def price(objective: Objective, K: int) -> float:
    """What K groups cost."""
    return objective.prior.penalty(np.eye(K), objective.penalty)


def falls(value: float, best: float) -> bool:
    """Whether a value is lower by more than rounding."""
    return value < best - RELATIVE_GAIN * abs(best)


class ClustersAtHome(AtHome):
    """Clusters by their means."""

    def _descend_at_home(
        self, problem: Problem, likelihood: Any, penalty: float, A: Any, watch: Callable[[Any], bool]
    ) -> Descent:
        home, known = problem.at_home()
        cap = self._cap()  # type: ignore[attr-defined]
        options: dict[str, Any] = {"max_iter": self.max_iter, "watch": watch}  # type: ignore[attr-defined]
        K = cap if cap is not None and penalty == 0 and len(A) == cap else None
        return cluster_passes.descend(home, known, penalty, A, K=K, max_clusters=cap, **options)

    def _settle_at_home(self, problem: Problem, objective: Objective, A: Any) -> State:
        home, known = problem.at_home()
        rows = cluster_passes.Follower(home, known)
        rows.look(A)
        rows.drop_empty()
        best: tuple[NDArray, float, NDArray] | None = None
        while True:
            A = rows.means.astype(home.dtype)
            rows.look(A, anew=True)
            if not (rows.sums.counts > 0).all():
                rows.drop_empty()
                continue
            value = rows.error + price(objective, len(A))
            if best is not None and not falls(value, best[1]):
                break
            best = A, value, rows.sums.sizes
        order = canonical_order(best[0], best[2])
        A = best[0][order]
        if len(A) == len(rows.A):
            rows.arrange(order)
        else:  # a cluster was lost after these
            rows = cluster_passes.Follower(home, known)
        rows.look(A, anew=True)
        if (rows.sums.counts > 0).all():
            return State(rows, A, rows.error + price(objective, len(A)), rows.sums.sizes)
        return self._settle_at_home(problem, objective, A)

    def _assigned_at_home(self, state: State) -> Iterator[NDArray]:
        return state.assigned.labels()


class CovariancesAtHome(ClustersAtHome):
    """Clusters by their means and covariances."""

    def _descend_at_home(
        self, problem: Problem, likelihood: Any, penalty: float, A: Any, watch: Callable[[Any], bool]
    ) -> Descent:
        home, _ = problem.at_home()
        options: dict[str, Any] = {"max_iter": self.max_iter, "watch": watch}  # type: ignore[attr-defined]
        cap = self._cap()  # type: ignore[attr-defined]
        return covariance_passes.descend(home, likelihood, penalty, A, max_clusters=cap, **options)

    def _settle_at_home(self, problem: Problem, objective: Objective, A: Any) -> State:
        home, _ = problem.at_home()
        likelihood: Any = objective.likelihood
        rows = covariance_passes.Follower(home, likelihood)
        rows.begin(A)
        best: tuple[MeansCovariances, float, NDArray] | None = None
        while True:
            rows.drop_empty()
            fitted = rows.fitted
            A = fitted._replace(means=fitted.means.astype(home.dtype).astype(np.float64))
            rows.look(A, anew=True)
            if not (rows.sums.counts > 0).all():
                continue
            value = rows.loss() + price(objective, len(A.means))
            if best is not None and not falls(value, best[1]):
                break
            best = A, value, rows.sums.sizes
        order = canonical_order(best[0], best[2])
        A = MeansCovariances(*(part[order] for part in best[0]))
        rows = covariance_passes.Follower(home, likelihood)
        rows.begin(A)
        if (rows.sums.counts > 0).all():
            settled = A._replace(means=A.means.astype(home.dtype))
            return State(rows, settled, rows.loss() + price(objective, len(order)), rows.sums.sizes)
        return self._settle_at_home(problem, objective, A)


class FeaturesAtHome(AtHome):
    """Features by their sums."""

    def _descend_at_home(
        self, problem: Problem, likelihood: Any, penalty: float, A: Any, watch: Callable[[Any], bool]
    ) -> Descent:
        home, known = problem.at_home()
        cap = self._cap()  # type: ignore[attr-defined]
        options: dict[str, Any] = {"max_iter": self.max_iter, "watch": watch}  # type: ignore[attr-defined]
        K = min(cap, len(problem.X)) if cap is not None and penalty == 0 else None
        return feature_passes.descend(home, known, penalty, A, K=K, max_components=cap, **options)

    def _settle_at_home(self, problem: Problem, objective: Objective, A: Any) -> State:
        state = self._settle_full(problem, objective, A)
        while (turned := self._turned(problem, state)) is not None:
            other = self._settle_full(problem, objective, turned)
            if other.value >= state.value and self._turned(problem, other) is not None:
                return state  # rows that have two best codes go back and forth
            state = other
        return state

    def _settle_full(self, problem: Problem, objective: Objective, A: NDArray) -> State:
        """Where the number of components is given, bring it about as far as there is something to explain."""
        state, K = self._settle_once(problem, objective, A), self._cap()  # type: ignore[attr-defined]
        if K is None or objective.penalty > 0:
            return state
        while len(state.A) < min(K, len(problem.X)):
            more = self._descend_at_home(problem, objective.likelihood, 0.0, state.A, lambda run: False)
            settled = self._settle_once(problem, objective, more.A)
            if settled.value >= state.value:
                break
            state = settled
        warn_of_fewer(len(state.A), K)
        return state

    def _turned(self, problem: Problem, state: State) -> NDArray | None:
        """The same components as they are to be told, if they are not."""
        rows, (home, known) = state.assigned, problem.at_home()
        return told_otherwise(state.A, rows.sizes, known.weight, rows.sums.pairs, len(home))

    def _settle_once(self, problem: Problem, objective: Objective, A: NDArray) -> State:
        home, known = problem.at_home()
        best: tuple[NDArray, float, NDArray] | None = None
        rows = feature_passes.Follower(home, known)
        rows.look(A, exact=True)
        while True:
            rows.refit()
            A = rows.A.astype(home.dtype)
            rows.look(A, exact=True)
            if not rows.fit()[1].all():
                continue
            value = rows.error + price(objective, len(A))
            if best is not None and not falls(value, best[1]):
                break
            best = A, value, rows.sizes
        A = best[0][canonical_order(best[0], best[2])]
        rows.look(A, exact=True)
        if rows.fit()[1].all():
            return State(rows, A, rows.error + price(objective, len(A)), rows.sizes)
        return self._settle_once(problem, objective, A)

    def _assigned_at_home(self, state: State) -> Iterator[NDArray]:
        return state.assigned.codes()
