"""Best solutions for one number of groups after the other, from their neighbours and from starts of their own.

What is known of each number is gone on with in several ways, along the whole path each time, as long as that pays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.search import WORK, Landscape, Lineage, Move, Solution


class PathLandscape(Landscape, Protocol):
    """A table in which numbers of groups are neighbours."""

    def with_K(self, K: int) -> Self:
        """The same table with exactly K groups, at no price."""

    def grown(self, solution: Solution, rng: np.random.Generator) -> list[NDArray]:
        """Assignments with one group more."""

    def shrunk(self, solution: Solution) -> list[NDArray]:
        """Assignments with one group less."""

    def simplest(self) -> Solution:
        """The solution with the smallest number of groups."""

    def is_exact(self, solution: Solution) -> bool:
        """Whether there is nothing left to explain."""


class Watch:
    """Looks on while a path is found. This one does nothing."""

    def is_over(self) -> bool:
        """Whether to end with what is there."""
        return False

    @contextmanager
    def table(self, most: int) -> Iterator[Callable[[], bool]]:
        """A table of which up to so many numbers of groups are looked at; yields what is asked before each."""
        yield self.is_over

    def interrupt(self, n_found: int) -> None:
        """Raise the KeyboardInterrupt that is handled again, or keep the solutions found."""
        raise


# Moves without success for each group, before a lineage ends.
PATIENCE = 1
# The largest number has starts of its own, up to so many, until the best error is reached about twice: times at most
# this. A group that was missed makes more of a difference, one more that explains only noise about as much.
STARTS, ABOUT = 6, 1.02
# Numbers up to this one have starts of their own at once: beyond, they cost much and are seldom better.
MAX_FRESH = 6
# Lineages of moves alone, which cost little, begin so many at once.
ABREAST = 2
# Solutions that are kept for each number of groups: the best for the next number may come of the second best for this.
WIDTH = 4
# Those in which each group differs from one of another solution in no more than this share of all rows are alike.
ALIKE = 0.1
# Operations after which ways to go on that do not pay end, no other is tried, and those that have paid end, too.
LEAST, ENOUGH, MOST = 0.1 * WORK, 0.9 * WORK, 2.6 * WORK
# A way pays if errors fall by so much in sum, as shares of what they were, when it is gone along the whole path.
PAYS = 1e-3
# What it has brought before counts for so much of that: chance takes part in it.
KEPT = 0.1


class Effort(NamedTuple):
    """How hard to look for each number of groups."""

    length: int = 1  # moves of a lineage for each group
    again: bool = True  # whether to have second looks
    work: float = 0.6 * WORK  # operations after which these end, the first way down apart
    n_null: int = 24  # groupless tables to compare with, at most


# How hard to look where the path itself is asked for, and not only how many groups there are.
THOROUGH_EFFORT = Effort(work=MOST)
# How hard to look beyond the length of a path, and for groups where there are none: where that matters, with care.
QUICK_EFFORT = Effort(again=False)
CAREFUL_EFFORT = QUICK_EFFORT._replace(length=3)


Way = Literal["moves", "stronger", "coarse", "fresh"]
# What groups of other solutions, which have more of them, lead to from a solution.
Borrow = Callable[[Any, Solution, Sequence[Solution]], Solution]


class Ways(NamedTuple):
    """How to go on from what is known of a number of groups.

    "moves" and "stronger" are lineages from the best solution, the latter with a stronger polish; "coarse" is such a
    one in the coarse table, if there is one, "fresh" are two with starts of their own, one of them there. In any case
    groups are borrowed of solutions that have more of them, once for each solution, and then swapped for such ones in
    the best, where that is possible.
    """

    first: Way = "stronger"  # on the first way down
    later: tuple[Way, ...] = ("stronger",)  # then the one that has paid most, along the whole path each time
    rounds: int = 2  # times down and up, at most
    borrow: Borrow | None = None
    swap: Borrow | None = None


def solve_path(
    landscape: PathLandscape,
    moves: Mapping[str, Move],
    most: int,
    *,
    effort: Effort,
    rng: np.random.Generator,
    workers: Workers,
    ways: Ways = Ways(),  # noqa: B008 - it has no state
    before: Sequence[Solution] = (),
    first: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    interrupt: Callable[[int], None] | None = None,
) -> list[Solution]:
    """Solutions with the smallest number of groups, one more, ..., at most ``most``, as long as there is error left.

    With ``first`` groups in place of the smallest number, if that is more.

    Upwards, each number of groups is searched from its smaller neighbour. Where there are second looks, that way is
    without any search at first; then the largest number is searched for from starts of its own, and in rounds all
    others, down from what is known of their larger neighbours and up from the smaller ones, in several ``ways``, as
    long as these pay and the work is not enough. A path that was found ``before`` is gone on with. On
    KeyboardInterrupt, ``interrupt`` is called with the number of solutions: it raises again, or they are kept.
    """
    climb = Climb(landscape, moves, effort, rng, workers, ways, is_over, [[solution] for solution in before])
    try:
        climb.begin(first)
        climb.upwards(most)
        if effort.again and len(climb.pools) > 1 and not is_over():
            climb.look_again()
    except KeyboardInterrupt:
        if interrupt is None:
            raise
        interrupt(len(climb.pools))
    solutions = climb.solutions or [landscape.simplest()]
    exact = (i for i, solution in enumerate(solutions) if landscape.is_exact(solution))
    return solutions[: 1 + next(exact, len(solutions))]  # more than explain all were needed only on the way


@dataclass
class Climb:
    """The way along a path, what is known of each number of groups, and the work it has taken."""

    landscape: PathLandscape
    moves: Mapping[str, Move]
    effort: Effort
    rng: np.random.Generator
    workers: Workers
    ways: Ways
    is_over: Callable[[], bool]
    pools: list[list[Solution]]  # for each number some solutions, the best first
    landscapes: dict[int, PathLandscape] = field(default_factory=dict)  # for each number of groups
    tried: set[tuple[int, str | int, float]] = field(default_factory=set)  # places, what was tried, errors there
    work: float = 0.0

    @property
    def solutions(self) -> list[Solution]:
        """The best for each number of groups."""
        return [pool[0] for pool in self.pools]

    def begin(self, first: int) -> None:
        """The first number of groups."""
        simplest = self.landscape.simplest()
        if not self.pools and first > simplest.K:
            self.pools.append(self.improved(self.landscape.with_K(first), n_fresh=1))
        elif not self.pools:
            self.pools.append([simplest])

    def upwards(self, most: int) -> None:
        """One group more at a time."""
        last = self.pools[-1][0]
        while not self.landscape.is_exact(last) and most > last.K and not self.is_over():
            here = self.landscape.with_K(last.K + 1)
            found = _best(self.polished(here, here.grown(last, self.rng)))
            if not self.effort.again:
                found = self.improved(here, found[:1])
            if not found or found[0].K <= last.K:  # nothing is left to explain
                break
            self.pools.append([one for one in found if one.K > last.K])
            last = found[0]

    def look_again(self) -> None:
        """Down from the largest number, then up and down in the way that has paid most, until the work is enough.

        The first way down, which helps most, is whole; the largest and the smaller numbers begin from starts of their
        own, too.
        """
        last = len(self.pools) - 1
        self.crown(last)
        down, up = range(last, 0, -1), range(1, last + 1)
        self.go_along(down[1:], self.ways.first, np.inf, MAX_FRESH)
        gains = dict.fromkeys(self.ways.later, np.inf)
        for n in range(1, self.ways.rounds):
            allowed = [way for way, gain in gains.items() if self.work <= self.limit(gain)]
            if not allowed or self.is_over():
                return
            way = max(allowed, key=lambda way: gains[way])
            gain = self.go_along(up if n % 2 else down, way, self.limit(gains[way]))
            gains[way] = gain + (0.0 if np.isinf(gains[way]) else KEPT * gains[way])

    def crown(self, last: int) -> None:
        """The largest number from starts of its own, as many as it takes: all others come down from it.

        What the way up has led to counts as one of them.
        """
        grown = self.pools[last][0]
        errors = [grown.value]
        for _ in range(STARTS):
            found = self.improved(self.at(last), n_fresh=1)
            self.keep(last, found)
            errors += [one.value for one in found if grown.K == one.K]
            is_clear = sum(error <= ABOUT * min(errors) for error in errors) >= 2
            if is_clear or self.is_over() or self.landscape.is_exact(self.pools[last][0]):
                break

    def limit(self, gain: float) -> float:
        """The work up to which a way may be followed that has brought so much, or infinitely much if it is new."""
        return min(LEAST if gain < PAYS else ENOUGH if np.isinf(gain) else np.inf, self.effort.work)

    def go_along(self, numbers: range, way: Way, limit: float, n_fresh: int = 0) -> float:
        """Numbers by their places, each from its neighbour and in some way, while the work is less than this.

        Up to so many groups, from starts of their own, too. Returns the sum of the shares by which errors fell, also by
        what neighbours, borrowing and swaps led to.
        """
        before = self.solutions
        for i in numbers:
            if self.work > limit or self.is_over():
                break
            if i - numbers.step < len(self.pools):
                self.visit(i, i - numbers.step)
            if n_fresh >= self.pools[i][0].K:
                self.keep(i, self.improved(self.at(i), n_fresh=1))
            if not self.landscape.is_exact(self.pools[i][0]):
                self.keep(i, self.taken(i, "borrow", self.ways.borrow, self.pools[i]))
                self.keep(i, self.followed(way, i))
                self.keep(i, self.taken(i, "swap", self.ways.swap, self.pools[i][:1]))
        pairs = zip(self.solutions, before, strict=True)
        return sum(1 - now.value / then.value for now, then in pairs if not self.landscape.is_exact(then))

    def at(self, i: int) -> PathLandscape:
        """The landscape of a number of groups, by its place."""
        K = self.pools[i][0].K
        return self.landscapes.setdefault(K, self.landscape.with_K(K))

    def visit(self, i: int, neighbour: int) -> None:
        """What leads to a number of groups from all that is new of a neighbour."""
        here, proposals = self.at(i), list[NDArray]()
        for solution in self.pools[neighbour]:
            if self.is_untried(i, neighbour, solution):
                proposals += here.shrunk(solution) if neighbour > i else here.grown(solution, self.rng)
        self.keep(i, self.polished(here, proposals))

    def followed(self, way: Way, i: int) -> list[Solution]:
        """Where lineages lead from what is known of a number."""
        here, best = self.at(i), self.pools[i][:1]
        if way == "fresh":
            return [*self.improved(here, n_fresh=1), *self.improved(here, n_fresh=1, is_coarse=True)]
        if way == "moves":
            return self.improved(here, ABREAST * best, is_strong=False)
        return self.improved(here, best, is_coarse=way == "coarse")

    def is_untried(self, i: int, way: str | int, solution: Solution) -> bool:
        """Whether borrowing, swaps, or a neighbour's solution have not led on from there; they are about to."""
        key = (i, way, solution.value)
        is_new = key not in self.tried
        self.tried.add(key)
        return is_new

    def keep(self, i: int, found: list[Solution]) -> None:
        """Keep solutions if they are among the best."""
        known = self.pools[i]
        self.pools[i] = _best([*known, *(one for one in found if one.K == known[0].K)])

    def polished(self, here: PathLandscape, proposals: list[NDArray]) -> list[Solution]:
        """The local optima that proposals lead to."""
        found = self.workers.map(here.polish, proposals)
        self.work += sum(one.passes * here.cost(one.K) for one in found)
        return list(found)

    def taken(self, i: int, name: str, take: Borrow | None, starts: Sequence[Solution]) -> list[Solution]:
        """What groups of solutions that have more of them lead to, from those of a number that are new."""
        here, larger = self.at(i), self.solutions[i + 1 :]
        if take is None or not larger:
            return []
        new = [one for one in starts if self.is_untried(i, name, one)]
        found = self.workers.map(lambda start: take(here, start, larger), new)
        self.work += sum(one.passes * here.cost(one.K) for one in found)
        return list(found)

    def improved(
        self,
        here: PathLandscape,
        starts: Sequence[Solution] = (),
        n_fresh: int = 0,
        is_strong: bool = True,
        is_coarse: bool = False,
    ) -> list[Solution]:
        """Where lineages end from the starts given, and some with starts of their own; the best first.

        With a stronger polish or without, and in the coarse table if that is wanted and there is one.
        """
        there = here.coarse if is_coarse else None
        begun: list[Solution | None] = [*starts, *[None] * n_fresh]
        if there is not None:
            begun = [None if start is None else there.polish(start.groups) for start in begun]
        seeds = [int(seed) for seed in self.rng.integers(2**31, size=len(begun))]
        strength = int(is_strong and not here.is_tiny)  # where rows are few, it is dear beside the rest
        lineages = [Lineage(seed, start, strength) for seed, start in zip(seeds, begun, strict=True)]
        self.workers.map(lambda lineage: self.lead(lineage, there or here), lineages)
        self.work += sum(lineage.work for lineage in lineages)
        found = [lineage.best for lineage in lineages if lineage.best is not None]
        return _best(found if there is None else [here.taken_over(one) for one in found])

    def lead(self, lineage: Lineage, here: Landscape) -> None:
        """Let a lineage go on for a while."""
        lineage.advance(here, self.moves, PATIENCE, 0)  # it makes as many moves as suit the groups it begins with
        lineage.advance(here, self.moves, PATIENCE, self.effort.length * lineage.patience(PATIENCE))


def _value(solution: Solution) -> float:
    return solution.value


def _best(solutions: list[Solution]) -> list[Solution]:
    """So many of them as are kept, no two alike."""
    best: list[Solution] = []
    for solution in sorted(solutions, key=_value):
        if len(best) < WIDTH and not any(_is_alike(solution, other) for other in best):
            best.append(solution)
    return best


def _is_alike(solution: Solution, other: Solution) -> bool:
    """Whether each group of either has hardly other rows than one of the other solution."""
    Z, others = memberships(solution), memberships(other)
    different = differences(Z, others)
    return all((different.min(axis=axis, initial=np.inf) <= ALIKE * len(Z)).all() for axis in (0, 1))


def differences(Z: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """The number of rows in which each column of one differs from each column of the other."""
    return np.asarray(Z.sum(axis=0)[:, None] + others.sum(axis=0) - 2 * Z.T @ others)


def memberships(solution: Solution) -> NDArray[np.float64]:
    """Which rows are in each group."""
    if solution.groups.ndim == 2:
        return solution.groups.astype(np.float64)
    return (solution.groups[:, None] == np.arange(solution.K)).astype(np.float64)
