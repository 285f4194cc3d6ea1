"""Best solutions for one number of groups after the other, each from its neighbours and from a start of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.search import WORK, Landscape, Lineage, Move, Solution, is_same


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


class Effort(NamedTuple):
    """How hard to look for each number of groups."""

    length: int = 1  # moves of a lineage for each group
    again: bool = True  # whether to have second looks
    n_fresh: int = 1  # starts of their own, for the smaller numbers
    n_null: int = 8  # groupless tables to compare with, at most


# How hard to look beyond the length of a path, and for groups where there are none: where that matters, with care.
QUICK_EFFORT = Effort(again=False, n_fresh=0)
CAREFUL_EFFORT = QUICK_EFFORT._replace(length=3)
# Moves without success for each group, before a lineage ends.
PATIENCE = 1
# Numbers up to this one have starts of their own: beyond, they cost much and are seldom better than neighbours'.
MAX_FRESH = 6
# The largest number of groups has so many in any case: the way down from it is better than the way up.
TOP = 1
# Solutions that are kept for each number of groups: the best for the next number may come of the second best for this.
WIDTH = 4
# Those in which each group differs from one of another solution in no more than this share of all rows are alike.
ALIKE = 0.1
# A proposal that is worse than the best by more than this factor is not followed.
NEAR = 1.01
# After a way along the path that lowers no error by more than this share, the largest and the smaller numbers have
# other starts.
GAIN = 1e-3
# Operations after which second looks end, the first way down apart.
ENOUGH = 0.6 * WORK


def solve_path(
    landscape: PathLandscape,
    moves: Mapping[str, Move],
    most: int,
    *,
    effort: Effort,
    rng: np.random.Generator,
    workers: Workers,
    rounds: int = 2,
    before: Sequence[Solution] = (),
    first: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    interrupt: Callable[[int], None] | None = None,
) -> list[Solution]:
    """Solutions with the smallest number of groups, one more, ..., at most ``most``, as long as there is error left.

    With ``first`` groups in place of the smallest number, if that is more.

    Upwards, each number of groups is searched from its smaller neighbour. Where there are second looks, that way is
    without any search at first; then the largest number is searched for from starts of its own, and in rounds all
    others, down from what is known of their larger neighbours and up from the smaller ones, until the work is enough. A
    path that was found ``before`` is gone on with. On KeyboardInterrupt, ``interrupt`` is called with the number of
    solutions: it raises again, or they are kept.
    """
    climb = Climb(landscape, moves, effort, rng, workers, is_over, pools=[[solution] for solution in before])
    try:
        climb.begin(first)
        climb.upwards(most)
        climb.look_again(rounds if effort.again else 0)
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
    is_over: Callable[[], bool] = lambda: False
    pools: list[list[Solution]] = field(default_factory=list)  # for each number some solutions, the best first
    visited: set[tuple[int, int, float]] = field(default_factory=set)  # numbers, from where, and the error there
    work: float = 0.0

    @property
    def solutions(self) -> list[Solution]:
        """The best for each number of groups."""
        return [pool[0] for pool in self.pools]

    def begin(self, first: int) -> None:
        """The first number of groups."""
        simplest = self.landscape.simplest()
        if not self.pools and first > simplest.K:
            self.pools.append(self.improved(self.landscape.with_K(first), [], n_fresh=1))
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

    def look_again(self, rounds: int) -> None:
        """Down from the largest number and up in turn, until the work is enough.

        The first way down, which helps most, is whole. On that, and after a way that has brought nothing, the largest
        and the smaller numbers begin from starts of their own, too.
        """
        down, up = range(len(self.pools) - 2, 0, -1), range(1, len(self.pools))
        stuck = True
        for n in range(rounds if len(self.pools) > 1 else 0):
            if stuck:
                self.take_in(len(self.pools) - 1, [], TOP)
            before = self.solutions
            n_fresh = self.effort.n_fresh if stuck else 0
            self.sweep(*((up, -1) if n % 2 else (down, 1)), ENOUGH if n else np.inf, n_fresh)
            pairs = zip(self.solutions, before, strict=True)
            stuck = not any(now.value < (1 - GAIN) * then.value for now, then in pairs)
            if self.work > ENOUGH or self.is_over():
                return

    def sweep(self, numbers: range, step: int, limit: float, n_fresh: int = 0) -> None:
        """Numbers of groups by their places, each from the neighbour a step away, while the work is less than this.

        The smaller ones from so many starts of their own, too.
        """
        for i in numbers:
            if self.work > limit or self.is_over():
                return
            self.visit(i, i + step, n_fresh if self.pools[i][0].K <= MAX_FRESH else 0)

    def visit(self, i: int, source: int, n_fresh: int) -> None:
        """What leads from all that is known of a neighbour to a number of groups."""
        here = self.landscape.with_K(self.pools[i][0].K)
        proposals: list[NDArray] = []
        for solution in self.pools[source]:
            if (i, source, solution.value) not in self.visited:
                self.visited.add((i, source, solution.value))
                proposals += here.shrunk(solution) if source > i else here.grown(solution, self.rng)
        self.take_in(i, self.polished(here, proposals), n_fresh)

    def take_in(self, i: int, found: list[Solution], n_fresh: int) -> None:
        """Keep solutions if they are among the best, and where lineages lead from the best new one and from starts."""
        known, here = self.pools[i], self.landscape.with_K(self.pools[i][0].K)
        new = [one for one in found if all(_is_other(one, other) for other in known)]
        found = [*found, *self.improved(here, _best(new)[:1], n_fresh)]
        self.pools[i] = _best([*known, *(one for one in found if one.K == known[0].K)])

    def polished(self, here: PathLandscape, proposals: list[NDArray]) -> list[Solution]:
        """The local optima that proposals lead to."""
        found = self.workers.map(here.polish, proposals)
        self.work += sum(one.passes * here.cost(one.K) for one in found)
        return list(found)

    def improved(self, here: PathLandscape, starts: list[Solution], n_fresh: int = 0) -> list[Solution]:
        """Where lineages end from the starts given, and some with starts of their own; the best first."""
        seeds = [int(seed) for seed in self.rng.integers(2**31, size=len(starts) + n_fresh)]
        strength = 0 if here.is_tiny else 1  # where rows are few, and the second one, are dear beside the rest
        begun = [*starts, *[None] * n_fresh]
        lineages = [Lineage(seed, start, strength) for seed, start in zip(seeds, begun, strict=True)]
        self.workers.map(lambda lineage: self.lead(lineage, here), lineages)
        self.work += sum(lineage.work for lineage in lineages)
        return _best([lineage.best for lineage in lineages if lineage.best is not None])

    def lead(self, lineage: Lineage, here: PathLandscape) -> None:
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
    different = Z.sum(axis=0)[:, None] + others.sum(axis=0) - 2 * Z.T @ others
    return all((different.min(axis=axis, initial=np.inf) <= ALIKE * len(Z)).all() for axis in (0, 1))


def memberships(solution: Solution) -> NDArray[np.float64]:
    """Which rows are in each group."""
    if solution.groups.ndim == 2:
        return solution.groups.astype(np.float64)
    return (solution.groups[:, None] == np.arange(solution.K)).astype(np.float64)


def _is_other(found: Solution, solution: Solution) -> bool:
    """Whether this is another solution, and not much worse."""
    return not is_same(found.value, solution.value) and found.value < NEAR * solution.value
