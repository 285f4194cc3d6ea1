"""How estimators look for the lowest objective."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from madbayes.engine.path import PenaltyPath
from madbayes.engine.path_search import Kind
from madbayes.engine.search import Lineage, Search, report, search
from madbayes.estimators.checkpoints import Checkpoint, Checkpoints
from madbayes.estimators.problem import Found, Problem
from madbayes.estimators.progress import STEPS, Budget, Steps
from madbayes.model import Likelihood
from madbayes.paper import Run

# A sample says nothing about groups that have fewer of its rows.
FEW = 5
# Restarts of the paper's algorithm when n_init="auto".
AUTO_RESTARTS = 10


class Searching:
    """Restarts of the paper's algorithm, or iterated local search."""

    search: str | Search
    n_init: int | str
    time_limit: float | None
    verbose: int
    _search_rows: int  # at most so many are searched

    def _search(
        self,
        problem: Problem,
        likelihood: Likelihood,
        penalty: float,
        path: PenaltyPath | None,
        budget: Budget,
        saved: Checkpoints | None,
    ) -> Found:
        """The lowest objective that can be had."""
        if saved is not None and saved.state is not None:
            found = self._found_before(saved.state, budget)
        elif self.search != "paper":
            found = self._search_best(problem, likelihood, penalty, path, budget)
        elif problem.home is None:
            found = self._search_paper(problem, likelihood, penalty, path, budget)
        else:  # from one group, in an order of the rows that needs no table in memory
            budget.begin()
            found = Found(problem.moments()[0][None], [], 0, False, [], {"search": "paper", "n_init": 1})
        if saved is not None:
            self._write_down(found, penalty, path, saved, goes_on=problem.home is not None)
        if problem.home is not None and not budget.progress.stopped:
            found = self._go_over_all(problem, likelihood, penalty, found, budget, saved)
        if budget.progress.stopped:
            found.info["stopped"] = budget.progress.stopped
        return found

    def _write_down(
        self, found: Found, penalty: float, path: PenaltyPath | None, saved: Checkpoints, *, goes_on: bool
    ) -> None:
        """The state before the first pass over all rows, or of a small table after its search."""
        # What was found on a sample is of another scale than what passes over all rows find.
        trace = [] if goes_on and not found.info.get("resumed") else list(found.trace)
        saved.begin(
            penalty=penalty,
            A=found.A,
            trace=trace,
            path=path,
            runs=found.runs,
            info=dict(found.info),
            converged=bool(found.converged),
        )

    def _search_best(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, budget: Budget
    ) -> Found:
        """Iterated local search, on a sample of many rows; then the paper's algorithm on all of them."""
        sample, options = problem.sample(self._search_rows).canonical(), self._options(problem)
        budget.begin()
        kind = self._kind_of(likelihood)
        landscape = kind.landscape(sample.X, penalty, sample.sample_weight, **self._limits(problem, sample, penalty))
        starts = [self._init_groups(sample, likelihood)] if problem.init is not None else []
        starts += [] if path is None else [self._groups_near(sample, likelihood, path.for_k(path.best).A)]
        with self._told(budget, landscape):
            lineages = search(
                landscape,
                kind.moves if options.moves is None else options.moves,
                options,
                iter(lambda: problem.seeds(1)[0], None),
                problem.workers,
                given=[landscape.polish(start) for start in starts],
                budget=budget,
            )
        best, runs = lineages[0], [run_of(lineage) for lineage in lineages]
        self._report([run_of(lineage) for lineage in lineages if not lineage.ended])
        info = {"search": "best", "rows": len(sample.X), **report(lineages)}
        assert best.best is not None
        A = landscape.parameters(best.best)
        return Found(A, best.trace, best.moves, True, runs, info)

    def _found_before(self, state: Checkpoint, budget: Budget) -> Found:
        """Where an earlier fit with this checkpoint has come to."""
        budget.begin()
        budget.n_runs += 1
        info = {**state.info, "resumed": True}
        return Found(state.A, list(state.trace), len(state.trace), state.converged, state.runs, info)

    def _go_over_all(
        self,
        problem: Problem,
        likelihood: Likelihood,
        penalty: float,
        found: Found,
        budget: Budget,
        saved: Checkpoints | None,
    ) -> Found:
        """The paper's algorithm on all rows, from what was found on a sample, and from the user's start."""
        best: Any = None
        run: Any = None
        before = list(found.trace) if found.info.get("resumed") else []

        def watch(now: Any) -> bool:
            nonlocal run
            run = now
            budget.n_runs = max(1, budget.n_runs)  # there is something to keep
            self._say_pass(problem, now, budget)
            if saved is not None and (best is None or now.value < best.value):
                saved.advance(now.A, before + list(now.trace))
            return budget.is_spent()

        # What is best on a sample need not be better than the user's start on all rows.
        starts = [found.A] + ([] if problem.init is None else [self._init_parameters(problem)])
        with budget.progress.part("all rows"):
            try:
                for start in starts:
                    if best is None or not budget.is_spent():
                        run = self._descend_at_home(problem, likelihood, penalty, start, watch)
                        best = run if best is None or run.value < best.value else best
            except KeyboardInterrupt:
                budget.interrupt()
                best = best or run
        if best is None:
            return found._replace(converged=False)
        if not best.converged and budget.is_spent():
            found.info["stopped"] = "by the time limit"
        return found._replace(
            A=best.A, trace=before + list(best.trace), iterations=best.iterations, converged=best.converged
        )

    def _say_pass(self, problem: Problem, run: Any, budget: Budget) -> None:
        budget.progress.say(
            f"{type(self).__name__}: pass {run.iterations} over {len(problem.X)} rows: K={run.K} "
            f"objective={run.value:.6g}"
        )

    def _init_parameters(self, problem: Problem) -> Any:
        """The groups that the user gives for a start."""
        return problem.init

    _descend_at_home: Callable[..., Any]

    @contextmanager
    def _told(self, budget: Budget, landscape: Any) -> Iterator[None]:
        """While this lasts, callbacks hear of the steps of a search, and the end of a lineage is printed."""
        printed: set[int] = set()

        def tell(share: float, lineages: list[Lineage]) -> None:
            new = [lineage for lineage in lineages if lineage.ended and id(lineage) not in printed]
            printed.update(id(lineage) for lineage in new)
            self._report([run_of(lineage) for lineage in new])
            best = min(lineages, key=lambda lineage: lineage.value).best
            steps.reach(share, lambda: budget.attributes(landscape.parameters(best)))

        with budget.progress.steps("search", STEPS, "step") as steps:
            before, budget.watch = budget.watch, tell
            try:
                yield
            finally:
                budget.watch = before  # else both would hold each other, and all rows with them

    def _options(self, problem: Problem) -> Search:
        """What the user asks of the search."""
        options = self.search if isinstance(self.search, Search) else Search()
        if isinstance(self.n_init, str):
            return options if problem.init is None else replace(options, max_lineages=1)
        return replace(options, max_lineages=self.n_init)

    @abstractmethod
    def _kind_of(self, likelihood: Any) -> Kind:
        """The landscape of a table, and the moves in it."""

    def _limits(self, problem: Problem, sample: Problem, penalty: float) -> dict[str, int | None]:
        """How many groups there may be: exactly so many where they cost nothing, not too many for a sample."""
        cap, N = self._cap(), len(sample.X)
        if cap is not None and penalty == 0:
            return {"K": min(cap, N), "cap": cap}
        room = max(1, N // FEW) if len(problem.X) > self._search_rows else N
        return {"K": None, "cap": room if cap is None else min(cap, room)}

    @abstractmethod
    def _cap(self) -> int | None:
        """The largest number of groups allowed."""

    @abstractmethod
    def _init_groups(self, sample: Problem, likelihood: Any) -> NDArray:
        """Labels or Z of the sample's rows at the start the user gives."""

    @abstractmethod
    def _groups_near(self, sample: Problem, likelihood: Any, A: NDArray) -> NDArray:
        """Labels or Z of the sample's rows at groups found on other rows."""

    def _search_paper(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, budget: Budget
    ) -> Found:
        """The best of the restarts of the paper's algorithm."""
        seeds: list[Any] = [self._first_seed(problem, penalty)]
        n_init = self.n_init
        if isinstance(n_init, str):
            n_init = 1 if problem.init is not None else AUTO_RESTARTS
        if path is not None:
            seeds.insert(0, "path")
        seeds += problem.seeds(n_init - 1)
        budget.begin()
        with budget.progress.steps("search", len(seeds), "run") as steps:
            results, runs = self._restarts(
                seeds, lambda some: self._run(problem, likelihood, penalty, path, some), problem, budget, steps
            )
        return self._found(results, runs)

    def _found(self, results: Sequence[Any], runs: list[Run]) -> Found:
        """The best of some runs."""
        best = min(results, key=lambda result: result.value)
        info = {"search": "paper", "n_init": len(runs)}
        return Found(best.A, list(best.trace), best.iterations, best.converged, runs, info)

    def _first_seed(self, problem: Problem, penalty: float) -> int | str | None:
        return "init" if problem.init is not None else problem.seeds(1)[0]

    @abstractmethod
    def _run(
        self, problem: Problem, likelihood: Likelihood, penalty: float, path: PenaltyPath | None, seeds: Sequence[Any]
    ) -> list[Any]:
        """Runs of the paper's algorithm, each wholly determined by its seed."""

    @abstractmethod
    def _batch(self, problem: Problem) -> int:
        """How many restarts are run together."""

    def _restarts(
        self,
        seeds: Sequence[Any],
        run: Callable[[Sequence[Any]], list[Any]],
        problem: Problem,
        budget: Budget,
        steps: Steps,
    ) -> tuple[list[Any], list[Run]]:
        """Run the seeds, many at a time on a small table; report them, and stop early when it must be."""
        results: list[Any] = []
        runs: list[Run] = []
        size = self._batch(problem)
        for i in range(0, len(seeds), size):
            if budget.is_spent():
                break
            began = perf_counter()
            try:
                some = run(seeds[i : i + size])
            except KeyboardInterrupt:
                budget.interrupt()
                break
            budget.n_runs += len(some)
            results += some
            seconds = (perf_counter() - began) / len(some)
            runs += [Run(s, r.K, r.value, r.iterations, seconds) for s, r in zip(seeds[i:], some, strict=False)]
            self._report(runs[-len(some) :])
            best = min(results, key=lambda result: result.value)
            for _ in some:
                steps.end(lambda best=best: budget.attributes(best.A))  # type: ignore[misc]
        return results, runs

    def _report(self, runs: list[Run]) -> None:
        if self.verbose:
            for _, K, value, iterations, seconds in runs:
                line = (
                    f"{type(self).__name__}: K={K} objective={value:.6g} iterations={iterations} seconds={seconds:.3f}"
                )
                print(line)


def run_of(lineage: Lineage) -> Run:
    """A line about a lineage; its iterations are moves."""
    K = 0 if lineage.best is None else lineage.best.K
    return Run(lineage.seed, K, lineage.value, lineage.moves, lineage.seconds)
