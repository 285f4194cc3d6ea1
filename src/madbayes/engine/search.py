"""Lower objectives than restarts reach: iterated local search, the same for clusters and for features.

A *landscape* is a table with an objective: it makes starts and descends from given assignments to a local optimum. A
*move* proposes other assignments. A *lineage* is a start and the moves kept since; it ends when no move has helped for
a while. It may send a *scout* ahead, a lineage in a coarser table, and begin where that ends. Lineages go on side by
side; the best takes from others what is better there when they stop. The search ends when the best value was reached
several times independently, when it is known that nothing is lower, or when the budget is spent. Budgets are counted in
moves, so the same seed gives the same answer for any number of threads.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from time import perf_counter
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.checks import is_number
from madbayes.paper.result import RELATIVE_GAIN

# Moves a lineage makes between two looks at the clock, at most; from a rough start each takes long.
STRIDE, ROUGH_STRIDE = 8, 1
# Lineages that go on side by side at first, and at most; each generation that did not decide the matter doubles them.
ABREAST, MOST = 2, 16
# A lineage that goes on for more than so many times its patience lets others begin before it goes on.
SLOW = 2
# A stronger polish that is to come soon comes after this share of the moves without success that a lineage ends after.
SOON = 0.25
# From this generation on, every second lineage begins in the coarse table, if there is one.
COARSE = 2
# In this one every second begins with a rough start, and later all but one of so many, if any has come so close.
ROUGH, EVERY, CLOSE = 3, 8, 1.01
# In a tiny table so many times as many lineages must agree: they cost next to nothing, and it has many local optima.
CARE = 3
# With fewer groups than this a lineage has the patience of this many: where there are none, most moves can do nothing.
FEWEST = 3
# Operations after which a search ends that nobody has limited otherwise: five seconds or so.
WORK = 5e9
# Values that differ by no more than this share are the same.
SAME = 1e-9


class Solution(NamedTuple):
    """Assignments, the groups they belong to, and the objective there."""

    groups: NDArray  # labels, or Z
    A: NDArray
    value: float
    passes: int = 1  # over the rows that it took to find it, about

    @property
    def K(self) -> int:
        """Number of groups."""
        return len(self.A)


def is_lower(solution: Solution, than: Solution) -> bool:
    """Whether the objective is lower by more than rounding; it may be infinite where a solution does not count."""
    if np.isinf(than.value):
        return solution.value < than.value
    return solution.value < than.value - RELATIVE_GAIN * abs(than.value)


def is_same(value: float, other: float) -> bool:
    """Whether two values are the same but for rounding."""
    return abs(value - other) <= SAME * abs(other)


class Stronger(NamedTuple):
    """A polish for when moves no longer help."""

    name: str
    after: float  # moves without success before it is tried, as a share of those that a lineage ends after
    polish: Callable[[Solution, np.random.Generator], Solution]


class Budget(Protocol):
    """How long a search may go on."""

    n_runs: int  # lineages that have a solution

    def is_spent(self) -> bool:
        """Whether to stop with what is there."""

    def interrupt(self) -> None:
        """Stop at the next opportunity, or raise again where there is nothing to keep."""

    def advance(self, share: float, lineages: "list[Lineage]") -> None:
        """Hear that such a share of what may be done is done, and what there is."""


class Landscape(Protocol):
    """A table and its objective."""

    @property
    def is_tiny(self) -> bool:
        """Whether there are so few rows that nothing is too dear to try."""

    @property
    def enough(self) -> int:
        """Lineages that are enough where they do not agree."""

    def cost(self, K: int) -> float:
        """Operations of a pass over the rows with K groups, about."""

    def is_final(self, solution: Solution) -> bool:
        """Whether it is known that nothing is lower."""

    @property
    def stronger(self) -> Sequence[Stronger]:
        """Stronger polishes, in the order in which they are tried; the last one alone is for tiny tables."""

    @property
    def coarse(self) -> "Landscape | None":
        """The same rows in fewer columns, where they tell groups apart as well or better; None if there is none."""

    def taken_over(self, solution: Solution) -> Solution:
        """What a solution of the coarse table leads to in this one."""

    def start(self, rng: np.random.Generator, is_brief: bool = False) -> Solution:
        """Somewhere to begin; with less care if it is to be brief, and that is worth it."""

    def rough_start(self, rng: np.random.Generator) -> NDArray | None:
        """Assignments to begin with where good starts all lead to the same solutions; None if there are none."""

    @property
    def wanted(self) -> str:
        """What assignments are, in words."""

    def accepts(self, groups: NDArray) -> bool:
        """Whether these are assignments of its rows."""

    def polish(self, groups: NDArray) -> Solution:
        """The local optimum that these assignments lead to."""

    def polish_near(self, solution: Solution, best: float) -> Solution:
        """What a stronger polish leads to, if a solution is nearly as good as the best and that may help."""

    @property
    def crossing_pass(self) -> int:
        """Passes that take as long as to cross two solutions, about."""

    def crossed(self, solution: Solution, other: Solution) -> NDArray | None:
        """Assignments that have the best of both solutions, or None where the other one has nothing better."""


# A move proposes assignments, or None where it has none to propose.
Move = Callable[[Any, Solution, np.random.Generator], NDArray | None]
# Assignments to begin with, for a landscape.
Start = Callable[[Any, np.random.Generator], NDArray]
# What a solution leads to if it is shaken, in a landscape and beside the best value.
Shake = Callable[[Any, Solution, float, np.random.Generator], Solution]


@dataclass(frozen=True)
class Search:
    """How to search; ``search="best"`` stands for this with its defaults.

    Parameters
    ----------
    moves : dict of str to function, optional
        Moves by name, ``{**feature_moves, "mine": mine}`` for example; all there are for the kind of groups if not
        given. With moves of your own all lineages see all columns. A move leaves the solution it is given as it is.
    start : function, optional
        Where lineages begin: assignments, made from the landscape and a random generator. By default the landscape's
        own, ``landscape.start``. As those of moves, they are of the landscape's rows: the distinct ones of the table
        that weigh something, sorted.
    patience : int
        A lineage ends after this many moves for each of its groups, three at least, and as many again, without success.
    agreement : int
        The search ends when this many lineages have ended at the best value, or three times as many where rows are
        very few.
    max_lineages : int, "auto" or None
        Or when this many lineages have ended; "auto" is one for every hundred numbers in the table, at least 6
        and at most 40 for features or 24 for clusters, and 30 where rows are very few.
    max_moves : int, "auto" or None
        Or when this many moves have been made: never more. "auto" is as many as take five thousand million operations,
        if each of their passes over the table takes as many as there are rows times groups times columns.

    Examples
    --------
    >>> from madbayes.engine.search import Search
    >>> Search(max_moves=100).agreement
    4
    """

    moves: Mapping[str, Move] | None = None
    start: Start | None = None
    patience: int = 4
    agreement: int = 4
    max_lineages: int | Literal["auto"] | None = "auto"
    max_moves: int | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        if self.moves is not None and not _are_moves(self.moves):
            raise ValueError(
                f"moves={self.moves!r} is not accepted: give functions by their names, or None for all there are"
            )
        if self.start is not None and not callable(self.start):
            raise ValueError(f"start={self.start!r} is not accepted: give a function, or None for the landscape's own")
        for name in ("patience", "agreement", "max_lineages", "max_moves"):
            value = getattr(self, name)
            is_open = name.startswith("max") and (value is None or value == "auto")
            least = 0 if name == "max_moves" else 1
            if not is_open and not (is_number(value, Integral) and value >= least):
                raise ValueError(f"{name}={value!r} is not accepted: give an integer of at least {least}")


def _are_moves(moves: Any) -> bool:
    """Whether these are functions by their names, at least one."""
    is_mapping = isinstance(moves, Mapping) and len(moves) > 0
    return is_mapping and all(isinstance(name, str) and callable(move) for name, move in moves.items())


def _accepted(groups: Any, landscape: Landscape, maker: str) -> NDArray:
    """Assignments that a function of the user's may have made: what comes after trusts them."""
    made = type(groups).__name__
    if isinstance(groups, np.ndarray):
        groups = np.asarray(groups)  # with all that a mask may hide
        if landscape.accepts(groups):
            return groups
        made = f"{groups.dtype} array of shape {groups.shape}"
    raise ValueError(f"what the {maker} returns, of type {made}, is not accepted: return {landscape.wanted}")


@dataclass(eq=False)
class Lineage:
    """A start, and where moves have led from it."""

    seed: int
    best: Solution | None = None
    strength: int = 0  # stronger polishes that it tries, in turn, before it ends
    is_rough: bool = False  # whether to begin with a rough start, if there is one
    start: Start | None = None  # where to begin; where the landscape says if there is none
    shake: Shake | None = None  # what follows every move; a polish of what is near the best if not given
    scout: "Lineage | None" = None  # goes on in the coarse table; this one takes over where it begins and ends
    trace: list[float] = field(default_factory=list)
    moves: int = 0
    work: float = 0.0  # operations of all moves, about
    seconds: float = 0.0
    idle: int = 0  # moves since the last success
    hardened: int = 0  # stronger polishes tried since
    final: bool = False  # whether it is known that nothing is lower
    ended: bool = False
    tried: Counter = field(default_factory=Counter)
    kept: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def value(self) -> float:
        """The lowest value so far."""
        return np.inf if self.best is None else self.best.value

    @property
    def stride(self) -> int:
        """Moves between two looks at the clock."""
        if (scout := self.scouting) is not None:
            return scout.stride
        return ROUGH_STRIDE if self.is_rough else STRIDE

    @property
    def scouting(self) -> "Lineage | None":
        """Its scout, if it has one that is still on the way."""
        return None if self.scout is None or self.scout.ended else self.scout

    @property
    def began_roughly(self) -> bool:
        """Whether it, or its scout, had a rough start."""
        return (self.scout or self).is_rough

    @property
    def is_hasty(self) -> bool:
        """Whether it may end where moves would help."""
        return self.is_rough or self.scout is not None

    def advance(self, landscape: Landscape, moves: Mapping[str, Move], patience: int, steps: int | None = None) -> None:
        """So many moves, a stride if not given; fewer only if it ends, or its scout."""
        began = perf_counter()
        if (scout := self.scouting) is not None:
            self._follow(scout, landscape, moves, patience, steps)
        else:
            self._go_on(landscape, moves, patience, steps)
        self.seconds += perf_counter() - began

    def _go_on(self, landscape: Landscape, moves: Mapping[str, Move], patience: int, steps: int | None) -> None:
        if self.best is None:
            self.best = self._begin(landscape)
        if not self.trace:
            self.trace.append(self.best.value)
            self.final = self.ended = landscape.is_final(self.best)
        for _ in range(self.stride if steps is None else steps):
            if not self.ended:
                self._move(landscape, moves, patience)

    def _follow(
        self, scout: "Lineage", landscape: Landscape, moves: Mapping[str, Move], patience: int, steps: int | None
    ) -> None:
        """Let the scout go on, and take over where it begins and where it ends."""
        assert landscape.coarse is not None
        if self.best is None:
            scout.advance(landscape.coarse, moves, patience, 0)
            self._take_over(scout, landscape)
        if self.ended or self.scouting is None:
            return
        moves_before, work_before = scout.moves, scout.work
        try:
            scout.advance(landscape.coarse, moves, patience, steps)
        finally:  # what was made counts even if it was interrupted
            self.moves, self.work = self.moves + scout.moves - moves_before, self.work + scout.work - work_before
        if scout.ended:
            self._take_over(scout, landscape)

    def _take_over(self, scout: "Lineage", landscape: Landscape) -> None:
        assert scout.best is not None
        found = landscape.taken_over(scout.best)
        if self.best is None or is_lower(found, self.best):
            self.best = found
            self.trace.append(found.value)
            self.final = self.ended = landscape.is_final(found)

    def finish(self, landscape: Landscape, moves: Mapping[str, Move], patience: int) -> Solution:
        """Go on to the end."""
        while not self.ended:
            self.advance(landscape, moves, patience)
        assert self.best is not None
        return self.best

    def _begin(self, landscape: Landscape) -> Solution:
        if self.start is not None:
            return landscape.polish(_accepted(self.start(landscape, self.rng), landscape, "start"))
        groups = landscape.rough_start(self.rng) if self.is_rough else None
        self.is_rough = groups is not None
        if groups is not None:
            return landscape.polish(groups)
        return landscape.start(self.rng, is_brief=self.strength == 0)  # most tables are easy, and need no care at first

    def patience(self, patience: int) -> int:
        """Moves without success after which it ends."""
        return patience * (max(FEWEST, 0 if self.best is None else self.best.K) + 1)

    def _plan(self, landscape: Landscape, patience: int) -> tuple[Sequence[Stronger], int]:
        """Stronger polishes to try, and moves without success after which it ends.

        From a rough start, it is the last of them every time: moves would lead where they lead from good ones.
        """
        if self.is_rough:
            return [landscape.stronger[-1]._replace(after=0.0)], 1
        return landscape.stronger[: self.strength], self.patience(patience)

    def _move(self, landscape: Landscape, moves: Mapping[str, Move], patience: int) -> None:
        """One move; where moves have not helped for some time, a stronger polish, each of them once."""
        assert self.best is not None
        stronger, limit = self._plan(landscape, patience)
        found: Solution | None
        if self.hardened < len(stronger) and self.idle >= stronger[self.hardened].after * limit:
            name, found = self._harder(stronger[self.hardened])
        else:
            name = list(moves)[self.rng.integers(len(moves))]
            groups = moves[name](landscape, self.best, self.rng)
            found = None
            if groups is not None:
                found = self._polished(_accepted(groups, landscape, f"move {name!r}"), landscape)
        self.idle += 1
        self._judge(name, found, landscape)
        self.ended = self.final or (self.idle >= limit and self.hardened >= len(stronger))

    def _polished(self, groups: NDArray, landscape: Landscape) -> Solution:
        """What the assignments of a move lead to."""
        assert self.best is not None
        found, best = landscape.polish(groups), self.best.value
        if self.shake is None:
            return landscape.polish_near(found, best)
        return self.shake(landscape, found, best, self.rng)

    def _harder(self, stronger: Stronger) -> tuple[str, Solution]:
        """What a stronger polish leads to, and its name."""
        assert self.best is not None
        self.hardened += 1
        return stronger.name, stronger.polish(self.best, self.rng)

    def cross(self, landscape: Landscape, other: Solution) -> None:
        """A move that takes what is better in another lineage's solution; it goes on from there, if it had ended."""
        assert self.best is not None
        began, before = perf_counter(), self.best
        groups = landscape.crossed(before, other)
        self._judge("cross", None if groups is None else landscape.polish(groups), landscape)
        self.ended = self.final or (self.ended and self.best is before)
        self.seconds += perf_counter() - began

    def harden(self, landscape: Landscape) -> None:
        """A move that is the strongest polish, once it has ended; it goes on from there, if that helps."""
        assert self.best is not None
        began, before = perf_counter(), self.best
        self._judge(*self._harder(landscape.stronger[-1]), landscape)
        self.ended = self.final or self.best is before
        self.seconds += perf_counter() - began

    def _judge(self, name: str, found: Solution | None, landscape: Landscape) -> None:
        """Count a move, and keep what it found if that is lower."""
        assert self.best is not None
        self.moves, self.tried[name] = self.moves + 1, self.tried[name] + 1
        if found is not None:
            self.work += found.passes * landscape.cost(found.K)
            if is_lower(found, self.best):
                self.best, self.idle, self.hardened = found, 0, 0
                self.kept[name] += 1
                self.trace.append(found.value)
        self.final = landscape.is_final(self.best)


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
    generation = 0
    while True:
        try:
            active = [lineage for lineage in lineages if not _waits(lineage, lineages, options, generation)]
            if not active:
                generation += 1
                active = _begin(lineages, generation, landscape, options, seeds)
            _advance(active, landscape, moves, options, workers, _moves_left(lineages, options))
            _end_where_others_did(active, lineages)
            stopped = [lineage for lineage in active if _waits(lineage, lineages, options, generation)]
            _cross(lineages, stopped, landscape, _moves_left(lineages, options))
            if landscape.is_tiny:
                _harden(lineages, landscape, _moves_left(lineages, options))
        except KeyboardInterrupt:
            if budget is None:
                raise
            budget.n_runs = sum(lineage.best is not None for lineage in lineages)
            budget.interrupt()
        begun = [lineage for lineage in lineages if lineage.best is not None]
        share = _share_done(begun, landscape, options)
        if budget is not None:
            budget.n_runs = len(begun)
            budget.advance(share, begun)
        if share >= 1 or (budget is not None and budget.is_spent()):
            return sorted(begun, key=lambda lineage: lineage.value)


def _waits(lineage: Lineage, lineages: list[Lineage], options: Search, generation: int) -> bool:
    """Whether a lineage has had its share for now: it has ended, or is slow, or slower than a better one was.

    Those with a rough start make few moves that take long, so they are compared with each other. Those that scouts were
    sent for are compared with all: where a rough scout has led to better, others soon let new ones begin.
    """
    if (scout := lineage.scouting) is not None:
        return _waits(scout, [other.scout for other in lineages if other.scout is not None], options, generation)
    patience = lineage.patience(options.patience)
    alike = (other for other in lineages if other.ended and other.is_rough == lineage.is_rough)
    better = [other.moves for other in alike if other.value < lineage.value]
    return lineage.ended or lineage.moves >= max(generation, 1) * min([SLOW * patience, *better])


def _begin(
    lineages: list[Lineage], generation: int, landscape: Landscape, options: Search, seeds: Iterator[int]
) -> list[Lineage]:
    """New lineages, twice as many as the last time, or as many; where no more are allowed, those that wait go on.

    The first are plain, as most tables are easy; each generation after them tries one stronger polish more.
    """
    wanted = min(ABREAST * 2 ** (generation - 1), MOST)
    room = int(min(wanted, max(0, _allowed(landscape, options) - len(lineages))))
    every = _usual(lineages, generation, landscape, options)
    # Of those that begin as usual, every second one has a scout: noise is explained better with all columns.
    kinds = [(i % every > 0, i % every > 0 or i // every % 2 > 0) for i in range(room)]
    new = [_new(*kind, generation, landscape, options, seeds) for kind in kinds]
    lineages += new
    return new or [lineage for lineage in lineages if not lineage.ended]


def _usual(lineages: list[Lineage], generation: int, landscape: Landscape, options: Search) -> int:
    """One of so many new lineages begins as usual, the others with a rough start."""
    if generation < ROUGH or landscape.is_tiny or options.start is not None:
        return 1
    if generation == ROUGH:
        return 2
    best = min(lineage.value for lineage in lineages)
    is_close = any(lineage.value <= CLOSE * best for lineage in lineages if lineage.began_roughly)
    return EVERY if is_close else 1


def _new(
    is_rough: bool, has_scout: bool, generation: int, landscape: Landscape, options: Search, seeds: Iterator[int]
) -> Lineage:
    """A lineage of a generation. With moves or a start of the user's own it sees the table that they were made for."""
    strength = 0 if landscape.is_tiny else min(generation - 1, len(landscape.stronger))
    lineage = Lineage(next(seeds), None, strength, is_rough, options.start)
    is_plain = landscape.is_tiny or options.start is not None or options.moves is not None
    if generation < COARSE or is_plain or not has_scout or landscape.coarse is None:
        return lineage
    return Lineage(next(seeds), None, strength, scout=lineage, tried=lineage.tried, kept=lineage.kept)


def _end_where_others_did(active: list[Lineage], lineages: list[Lineage]) -> None:
    """Lineages that have come to where one that tried as much ended will not go on from there, either.

    One with a rough start has not tried moves; and what a scout has found goes on only if it is the best there is.
    Where a scout ends because another one did, nothing is taken over: that was done for the other.
    """
    scouts = [lineage.scout for lineage in lineages if lineage.scout is not None]
    if scouts:
        _end_where_others_did([lineage.scout for lineage in active if lineage.scout is not None], scouts)
    ended, best = [other for other in lineages if other.ended], min(lineage.value for lineage in lineages)
    for lineage in active:
        if lineage.scouting is None:
            tried = [one for one in ended if one.strength >= lineage.strength and one.is_hasty <= lineage.is_hasty]
            is_known = any(is_same(lineage.value, other.value) for other in tried)
            is_worse = lineage.scout is not None and lineage.value > best + SAME * abs(best)
            lineage.ended = lineage.ended or is_known or is_worse


def _cross(lineages: list[Lineage], stopped: list[Lineage], landscape: Landscape, allowed: float) -> None:
    """The best lineage takes what is better in those that have just stopped; in all others, if it is one of them."""
    ranked = sorted(lineages, key=lambda lineage: lineage.value)
    for other in ranked[1:] if ranked[0] in stopped else stopped:
        best = ranked[0].value
        if allowed > 0 and not ranked[0].final and other.best is not None and other.value > best + SAME * abs(best):
            ranked[0].cross(landscape, other.best)
            allowed -= 1


def _harden(lineages: list[Lineage], landscape: Landscape, allowed: float) -> None:
    """The best lineage tries the stronger polish, if it has ended and not tried it there."""
    best = min(lineages, key=lambda lineage: lineage.value)
    if allowed > 0 and best.ended and not best.final and not best.hardened:
        best.harden(landscape)


def _allowed(landscape: Landscape, options: Search) -> float:
    """Lineages there may be."""
    if options.max_lineages is None:
        return np.inf
    return landscape.enough if options.max_lineages == "auto" else options.max_lineages


def _moves_left(lineages: list[Lineage], options: Search) -> float:
    """Moves that may still be made."""
    if options.max_moves is None or options.max_moves == "auto":
        return np.inf
    return options.max_moves - sum(lineage.moves for lineage in lineages)


def _advance(
    lineages: list[Lineage],
    landscape: Landscape,
    moves: Mapping[str, Move],
    options: Search,
    workers: Workers,
    allowed: float,
) -> None:
    """A stride of each lineage; where so many moves are not allowed, one move after the other of each.

    A stride that was cut by the clock can thus be made again by the number of moves.
    """

    def advance(some: list[Lineage], steps: int | None = None) -> None:
        workers.map(lambda lineage: lineage.advance(landscape, moves, options.patience, steps), some)

    if allowed >= STRIDE * len(lineages):
        advance(lineages)
        return
    advance(lineages, 0)  # all begin, as they would in a whole stride
    strides = [(lineage, lineage.stride, lineage.scouting) for lineage in lineages]
    for step in range(STRIDE):
        on_the_way = (one for one, stride, scout in strides if step < stride and one.scouting is scout)
        active = [lineage for lineage in on_the_way if not lineage.ended][: max(int(allowed), 0)]
        advance(active, 1)
        allowed -= len(active)


def _share_done(lineages: list[Lineage], landscape: Landscape, options: Search) -> float:
    """1 or more where enough lineages agree, nothing can be lower, or the budget is spent; before, how near that is."""
    ended, best = [lineage for lineage in lineages if lineage.ended], min(lineage.value for lineage in lineages)
    agreeing = sum(lineage.value <= best + SAME * abs(best) for lineage in ended)
    moves = sum(lineage.moves for lineage in lineages)
    return max(
        agreeing / (options.agreement * (CARE if landscape.is_tiny else 1)),
        float(any(lineage.final for lineage in ended)),
        len(ended) / _allowed(landscape, options),
        1.0 if _moves_left(lineages, options) <= 0 else moves / (moves + _moves_left(lineages, options)),
        sum(lineage.work for lineage in lineages) / WORK if options.max_moves == "auto" else 0.0,
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
