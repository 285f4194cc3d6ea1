"""Lower objectives than restarts reach: iterated local search, the same for clusters and for features.

A *landscape* is a table with an objective: it makes starts and descends from given assignments to a local optimum. A
*move* proposes other assignments. A *lineage* is a start and the moves kept since; it ends when no move has helped for
a while. Lineages go on side by side, and the search ends when the best value was reached several times independently,
or the budget is spent. Budgets are counted in moves, so the same seed gives the same answer for any number of threads.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.paper.result import RELATIVE_GAIN

# Moves a lineage makes between two looks at the clock.
STRIDE = 8
# Lineages that go on side by side at first; twice as many after each generation that did not decide the matter.
ABREAST = 2
# Beyond this many, lineages try the stronger polish before they end: the matter is not easy.
EASY = 6
# Values that differ by no more than this share are the same.
SAME = 1e-9


class Solution(NamedTuple):
    """Assignments, the groups they belong to, and the objective there."""

    groups: NDArray  # labels, or Z
    A: NDArray
    value: float

    @property
    def K(self) -> int:
        """Number of groups."""
        return len(self.A)


def is_lower(solution: Solution, than: Solution) -> bool:
    """Whether the objective is lower by more than rounding; it may be infinite where a solution does not count."""
    if np.isinf(than.value):
        return solution.value < than.value
    return solution.value < than.value - RELATIVE_GAIN * abs(than.value)


class Budget(Protocol):
    """How long a search may go on."""

    n_runs: int  # lineages that have a solution

    def is_spent(self) -> bool:
        """Whether to stop with what is there."""

    def interrupt(self) -> None:
        """Stop at the next opportunity, or raise again where there is nothing to keep."""


class Landscape(Protocol):
    """A table and its objective."""

    @property
    def is_tiny(self) -> bool:
        """Whether there are so few rows that nothing is too dear to try."""

    def start(self, rng: np.random.Generator) -> Solution:
        """Somewhere to begin."""

    def polish(self, groups: NDArray) -> Solution:
        """The local optimum that these assignments lead to."""

    def polish_hard(self, solution: Solution) -> Solution:
        """The same with a stronger algorithm, for when moves no longer help."""


# A move proposes assignments, or None where it has none to propose.
Move = Callable[[Any, Solution, np.random.Generator], NDArray | None]


@dataclass(frozen=True)
class Search:
    """How to search; ``search="best"`` stands for this with its defaults.

    Parameters
    ----------
    moves : dict of str to function, optional
        Moves by name, ``{**feature_moves, "mine": mine}`` for example; all there are for the kind of groups if not
        given.
    patience : int
        A lineage ends after this many moves for each of its groups, and as many again, without success.
    agreement : int
        The search ends when this many lineages have ended at the best value.
    max_lineages, max_moves : int, optional
        Or when this many lineages have ended, or this many moves have been made.

    Examples
    --------
    >>> from madbayes.engine.search import Search
    >>> Search(max_moves=100).agreement
    4
    """

    moves: Mapping[str, Move] | None = None
    patience: int = 4
    agreement: int = 4
    max_lineages: int | None = 40
    max_moves: int | None = None

    def __post_init__(self) -> None:
        if self.moves is not None and not self.moves:
            raise ValueError("moves={} is not accepted: give at least one move, or None for all there are")
        for name in ("patience", "agreement", "max_lineages", "max_moves"):
            value = getattr(self, name)
            if not (value is None and name.startswith("max")) and not (isinstance(value, int) and value >= 1):
                raise ValueError(f"{name}={value!r} is not accepted: give an integer of at least 1")


@dataclass
class Lineage:
    """A start, and where moves have led from it."""

    seed: int
    best: Solution | None = None
    is_hard: bool = False  # whether to try the stronger polish before it ends
    trace: list[float] = field(default_factory=list)
    moves: int = 0
    seconds: float = 0.0
    idle: int = 0  # moves since the last success
    hardened: bool = False  # whether the stronger polish has been tried since
    ended: bool = False
    tried: Counter = field(default_factory=Counter)
    kept: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def value(self) -> float:
        """The lowest value so far."""
        return np.inf if self.best is None else self.best.value

    def advance(self, landscape: Landscape, moves: Mapping[str, Move], patience: int, steps: int) -> None:
        """Some moves."""
        began = perf_counter()
        if self.best is None:
            self.best = landscape.start(self.rng)
        if not self.trace:
            self.trace.append(self.best.value)
        self._move(landscape, moves, patience, steps)
        self.seconds += perf_counter() - began

    def _move(self, landscape: Landscape, moves: Mapping[str, Move], patience: int, steps: int) -> None:
        assert self.best is not None
        names = list(moves)
        for _ in range(steps):
            if self.ended:
                return
            if self.idle >= patience * (self.best.K + 1):
                self._harden(landscape)
                continue
            name = names[self.rng.integers(len(names))]
            groups = moves[name](landscape, self.best, self.rng)
            self.moves, self.idle, self.tried[name] = self.moves + 1, self.idle + 1, self.tried[name] + 1
            if groups is not None:
                self._keep_if_lower(name, landscape.polish(groups))

    def _harden(self, landscape: Landscape) -> None:
        """Where moves no longer help, try the stronger polish once; then end."""
        assert self.best is not None
        if self.hardened or not self.is_hard:
            self.ended = True
            return
        self.tried["polish_hard"] += 1
        self.ended = not self._keep_if_lower("polish_hard", landscape.polish_hard(self.best))
        self.hardened = True

    def _keep_if_lower(self, name: str, solution: Solution) -> bool:
        assert self.best is not None
        lower = is_lower(solution, self.best)
        if lower:
            self.best, self.idle, self.hardened = solution, 0, False
            self.kept[name] += 1
            self.trace.append(solution.value)
        return lower


def search(
    landscape: Landscape,
    moves: Mapping[str, Move],
    options: Search,
    seeds: Iterator[int],
    workers: Workers,
    *,
    given: Sequence[Solution] = (),
    budget: Budget | None = None,
) -> list[Lineage]:
    """All lineages that have begun, best first. Those from given solutions come before any others."""
    lineages = [Lineage(next(seeds), solution) for solution in given]
    abreast = ABREAST
    while True:
        active = [lineage for lineage in lineages if not lineage.ended]
        if not active:
            hard = landscape.is_tiny or len(lineages) >= EASY
            active = [Lineage(next(seeds), is_hard=hard) for _ in range(_room_for(lineages, abreast, options))]
            lineages += active
            abreast *= 2
        try:
            workers.map(lambda lineage: lineage.advance(landscape, moves, options.patience, STRIDE), active)
        except KeyboardInterrupt:
            if budget is None:
                raise
            budget.n_runs = sum(lineage.best is not None for lineage in lineages)
            budget.interrupt()
        begun = [lineage for lineage in lineages if lineage.best is not None]
        if budget is not None:
            budget.n_runs = len(begun)
        if _is_decided(begun, options) or (budget is not None and budget.is_spent()):
            return sorted(begun, key=lambda lineage: lineage.value)


def _room_for(lineages: list[Lineage], wanted: int, options: Search) -> int:
    return wanted if options.max_lineages is None else min(wanted, options.max_lineages - len(lineages))


def _is_decided(lineages: list[Lineage], options: Search) -> bool:
    """Whether enough lineages agree, or the budget is spent."""
    ended, best = [lineage for lineage in lineages if lineage.ended], min(lineage.value for lineage in lineages)
    agreeing = sum(lineage.value <= best + SAME * abs(best) for lineage in ended)
    return (
        agreeing >= options.agreement
        or (options.max_lineages is not None and len(ended) >= options.max_lineages)
        or (options.max_moves is not None and sum(lineage.moves for lineage in lineages) >= options.max_moves)
    )


def report(lineages: list[Lineage]) -> dict[str, Any]:
    """What a search did, in plain values."""
    best = lineages[0].value
    return {
        "lineages": len(lineages),
        "agreeing": sum(lineage.ended and lineage.value <= best + SAME * abs(best) for lineage in lineages),
        "moves": sum(lineage.moves for lineage in lineages),
        "tried": dict(sum((lineage.tried for lineage in lineages), Counter())),
        "kept": dict(sum((lineage.kept for lineage in lineages), Counter())),
    }
