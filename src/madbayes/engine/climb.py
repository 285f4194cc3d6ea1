"""Best solutions for one number of groups after the other, from their neighbours and from starts of their own.

Down from the largest number, what is known of each is gone on with in several ways; then there are fresh starts where
it is in doubt, the whole path is gone along a few times, and at last lineages go on where it is most in doubt. All of
that as long as it pays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.search import SAME, WORK, Landscape, Lineage, Move, Shake, Solution, is_same


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
# Where starts of their own cost little, there are so many for each number of groups, and no more than so many a group.
FRESH, FRESH_EACH = 13, 3
# So many of the best solutions that are kept are refined.
REFINED = 3
# The largest number that may be chosen is easy if one of so many starts of its own leads to the best that is known.
EASY = 6
# Solutions that are kept for each number of groups: the best for the next number may come of the last of them.
WIDTH = 5
# Those in which each group differs from one of another solution in no more than this share of all rows are alike.
ALIKE = 0.1
# Moves of a lineage in which what they lead to is shaken: few enough to come back often, with what is new elsewhere.
SHAKES = 24
# Operations after which the path is gone along again only if that pays, not if the largest number is easy, and never.
LEAST, ENOUGH, MOST = 0.1 * WORK, 0.9 * WORK, 4.0 * WORK
# Fresh starts where it is in doubt pay if errors fall by so much in about so many looks, as shares of what they were;
# what they brought on the way down counts.
PAYS, PAYING_LOOKS = 1e-3, 3
# To go along the path pays, and so do lineages where it is in doubt, if errors fall by so much in sum in about as many
# looks as there are numbers.
STILL_PAYS = 1e-4
# A number is so much less in doubt after each look that brings nothing.
FADE = 1e-2
# An error is on the line between its neighbours', or about, if it is below by no more than this share of their gap.
ON_LINE = 2e-3


class Effort(NamedTuple):
    """How hard to look for each number of groups."""

    length: int = 1  # moves of a lineage for each group, unless it is shaken
    again: bool = True  # whether to have second looks
    work: float = 0.6 * WORK  # operations after which these end, the first way down apart
    n_null: int = 24  # groupless tables to compare with, at most


# How hard to look where the path itself is asked for, and not only how many groups there are.
THOROUGH_EFFORT = Effort(work=MOST)
# How hard to look beyond the length of a path, and for groups where there are none: where that matters, with care, and
# where groups may stand out far, without any moves.
QUICK_EFFORT = Effort(again=False)
CAREFUL_EFFORT, BRIEF_EFFORT = QUICK_EFFORT._replace(length=3), QUICK_EFFORT._replace(length=0)


Way = Literal["moves", "stronger", "shaken"]
# What a start of its own leads to, beside the best value.
Begin = Callable[[Any, float, np.random.Generator], Solution]
# What a solution leads to by itself.
Refine = Callable[[Any, Solution, np.random.Generator], Solution]
# What groups of other solutions, which have more of them, lead to from a solution.
Borrow = Callable[[Any, Solution, Sequence[Solution]], Solution]


class Ways(NamedTuple):
    """How to go on from what is known of a number of groups.

    "moves" and "stronger" are lineages from the best solution, the latter with a stronger polish; "shaken" is one from
    any that is kept, the best most often, in which whatever moves lead to is shaken. Numbers that are not large have
    starts of their own as well: with more groups they cost much and are seldom better. In any case the best solution
    borrows groups of those that have more of them, and swaps its own for such ones, where that is possible; where it is
    in doubt all that are kept do; and the best few are refined.
    """

    first: Way = "stronger"  # on the way down
    max_first: float = np.inf  # groups with which there is that at most, except where it is in doubt
    later: tuple[Way, ...] = ("stronger",)  # after it
    rounds: int = 1  # times that the whole path is gone along after it, at most
    max_fresh: int = 6  # groups that starts of their own have at most
    begin: Begin | None = None  # where these lead; a lineage if not given, and none where it is in doubt
    borrow: Borrow | None = None
    swap: Borrow | None = None
    refine: Refine | None = None
    shake: Shake | None = None  # of lineages that are "shaken"; if given, there are second looks at what is in doubt


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
    without any search at first; then the largest number is searched for from starts of its own, all others down from
    what is known of their larger neighbours, then those in doubt, the whole path, and those in doubt again, in several
    ``ways``, as long as that pays and the work is not enough. A path that was found ``before`` is gone on with. On
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
    brought: float = 0.0  # by starts of their own, in sum of the shares by which errors fell

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
        """Down from the largest number, which helps most; then what is in doubt, the whole path, and doubts again.

        The latter two where solutions can be shaken. If that much took long, they are left out where the largest number
        that may be chosen turns out to be easy.
        """
        last = len(self.pools) - 1
        several = [i for i in range(1, last) if self.pools[i][0].K >= 2]
        self.crown(last)
        self.come_down(last)
        if self.ways.begin is not None:
            small = [i for i in several if self.ways.max_fresh >= self.pools[i][0].K]
            self.settle(small, (), FRESH, looks=PAYING_LOOKS, pays=PAYS, recent=PAYS + self.brought)  # one in any case
        if self.ways.shake is None:
            self.go_on(last, ENOUGH)
            return
        self.straighten(last)
        if not ENOUGH < self.work <= self.effort.work or not self.is_easy(max(last - 1, 1)):
            gain = self.go_on(last, np.inf)
            self.settle(several, self.ways.later, 0, looks=last, pays=STILL_PAYS, recent=gain)

    def come_down(self, last: int) -> None:
        """Each number from its larger neighbour, and from starts of its own if it is not large."""
        for i in range(last - 1, 0, -1):
            if self.is_over():
                break
            K = self.pools[i][0].K
            ways = (self.ways.first,) if self.ways.max_first >= K else ()
            self.look(i, [i + 1], ways, FRESH if self.ways.max_fresh >= K else 0)

    def straighten(self, last: int) -> None:
        """One more look where an error is above the line between its neighbours'.

        And swaps in all that is kept there, or where it is on the line: which of them leads on is hard to tell.
        """
        for i in range(last - 1, 0, -1):
            doubt = self.doubt(i)
            if doubt < -ON_LINE or self.work > self.effort.work or self.is_over():
                continue
            if doubt > 0:
                self.look(i, [i - 1, i + 1], (self.ways.first,), 0)
            self.keep(i, self.taken(i, "swap", self.ways.swap, self.pools[i]))
            self.keep(i, self.refined(i))

    def is_easy(self, i: int) -> bool:
        """Whether a start of its own leads to the best that is known for a number, by its place; a few are tried.

        Where it is over, nothing is to be done about it, and it counts as easy.
        """
        for _ in range(EASY):
            known = self.pools[i][0].value
            found = self.improved(self.at(i), n_fresh=1)
            self.keep(i, found)
            if any(is_same(one.value, known) for one in found) or self.is_over():
                return True
        return False

    def settle(
        self, places: Sequence[int], ways: tuple[Way, ...], n_fresh: int, *, looks: int, pays: float, recent: float
    ) -> None:
        """Numbers by their places, those most in doubt first, while errors fall by so much in about so many looks.

        recent : how much they fell before
        """
        fruitless = dict.fromkeys(places, 0)
        while fruitless and recent >= pays and self.work <= self.effort.work and not self.is_over():
            i = max(fruitless, key=lambda i: self.doubt(i) - FADE * fruitless[i])
            gain = self.look(i, [i - 1, i + 1], ways, n_fresh)
            fruitless[i] = 0 if gain > SAME else fruitless[i] + 1
            recent = gain + recent * float(np.exp(-1 / looks))

    def go_on(self, last: int, enough: float) -> float:
        """Up and down the whole path a few times; returns what the last time brought, or 0 if it is not to go on.

        enough : work after which it is not gone along for the first time
        """
        down, up, gain = range(last - 1, 0, -1), range(1, last + 1), np.inf
        for n in range(self.ways.rounds):
            limit = min(LEAST if gain < STILL_PAYS else enough if n == 0 else np.inf, self.effort.work)
            if self.work > limit or self.is_over():
                return 0.0
            gain = self.go_along(down if n % 2 else up, self.ways.later, limit)
        return 0.0 if np.isinf(gain) else gain

    def doubt(self, i: int) -> float:
        """How far the error at a place is above the line between its neighbours', as a share of what they differ by.

        Where it is, or nearly, that number of groups most often has a better solution, which was not found.
        """
        nearby = self.solutions[i - 1 : i + 2]
        if len(nearby) < 3 or any(map(self.landscape.is_exact, nearby[:2])):
            return -np.inf
        before, here, after = (solution.value for solution in nearby)
        return (here - (before + after) / 2) / max(before - after, SAME * before)

    def crown(self, last: int) -> None:
        """The largest number from starts of its own, as many as it takes: all others come down from it.

        What the way up has led to counts as one of them.
        """
        grown = self.pools[last][0]
        errors = [grown.value]
        for _ in range(STARTS):
            found = self.improved(self.at(last), n_fresh=1)
            self.keep(last, found)
            self.keep(last, self.crossed(last, found))
            errors += [one.value for one in found if grown.K == one.K]
            is_clear = sum(error <= ABOUT * self.pools[last][0].value for error in errors) >= 2
            if is_clear or self.is_over() or self.landscape.is_exact(self.pools[last][0]):
                break

    def crossed(self, i: int, found: Sequence[Solution]) -> list[Solution]:
        """What the best of solutions and of those that are kept for a number lead to, taken together."""
        here = self.at(i)
        pairs = [(one, other) for one, other in product(found, self.pools[i]) if not _is_alike(one, other)]
        crossed = self.workers.map(lambda pair: here.crossed(pair[1], pair[0]), pairs)
        self.work += here.crossing_pass * here.cost(self.pools[i][0].K) * len(pairs)
        return self.polished(here, [groups for groups in crossed if groups is not None])

    def go_along(self, places: range, ways: tuple[Way, ...], limit: float) -> float:
        """Numbers by their places, each from the one before, while the work is less than this.

        Returns the sum of the shares by which errors fell.
        """
        gain = 0.0
        for i in places:
            if self.work > limit or self.is_over():
                break
            gain += self.look(i, [i - places.step], ways, 0)
        return gain

    def look(self, i: int, neighbours: Sequence[int], ways: tuple[Way, ...], n_fresh: int) -> float:
        """A number by its place, from its neighbours, in some ways, and from so many starts of its own.

        Returns the share by which its error falls.
        """
        before = self.pools[i][0]
        for neighbour in neighbours:
            if neighbour < len(self.pools):
                self.visit(i, neighbour)
        if n_fresh:
            known = self.pools[i][0]
            self.keep(i, self.begun(i, n_fresh))
            self.brought += self.fall(i, known)
        if not self.landscape.is_exact(self.pools[i][0]):
            self.keep(i, self.taken(i, "borrow", self.ways.borrow, self.pools[i][:1]))
            for way in ways:
                self.keep(i, self.followed(way, i))
            self.keep(i, self.refined(i))
            self.keep(i, self.taken(i, "swap", self.ways.swap, self.pools[i][:1]))
        return self.fall(i, before)

    def fall(self, i: int, before: Solution) -> float:
        """The share by which the error at a place has fallen since a solution was the best."""
        return 0.0 if self.landscape.is_exact(before) else 1 - self.pools[i][0].value / before.value

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
        """Where a lineage leads from what is known of a number."""
        pool, shake = self.pools[i], self.ways.shake if way == "shaken" else None
        one = 0 if shake is None or self.rng.random() < 0.5 else int(self.rng.integers(len(pool)))
        return self.improved(self.at(i), [pool[one]], is_strong=way == "stronger", shake=shake)

    def begun(self, i: int, n_fresh: int) -> list[Solution]:
        """Where so many starts of its own lead, or a lineage."""
        here, begin, K, best = self.at(i), self.ways.begin, self.pools[i][0].K, self.pools[i][0].value
        if begin is None:
            return self.improved(here, n_fresh=1)
        seeds = self.rng.integers(2**31, size=min(n_fresh, FRESH_EACH * K))
        found = self.workers.map(lambda seed: begin(here, best, np.random.default_rng(seed)), seeds)
        return self.counted(here, found)

    def counted(self, here: PathLandscape, found: Sequence[Solution]) -> list[Solution]:
        """Solutions whose passes count as work."""
        self.work += sum(one.passes * here.cost(one.K) for one in found)
        return list(found)

    def is_untried(self, i: int, way: str | int, solution: Solution) -> bool:
        """Whether a way on has not been tried from a solution, as it is about to be.

        A way is to borrow, to swap, to refine, or for a neighbour, by its place, to make use of what is known of it.
        """
        is_new = (i, way, solution.value) not in self.tried
        self.mark(i, way, solution)
        return is_new

    def mark(self, i: int, way: str | int, solution: Solution) -> None:
        """Keep in mind that a way on has been tried."""
        self.tried.add((i, way, solution.value))

    def keep(self, i: int, found: list[Solution]) -> None:
        """Keep solutions if they are among the best."""
        known = self.pools[i]
        self.pools[i] = _best([*known, *(one for one in found if one.K == known[0].K)])

    def polished(self, here: PathLandscape, proposals: list[NDArray]) -> list[Solution]:
        """The local optima that proposals lead to."""
        found = self.workers.map(here.polish, proposals)
        return self.counted(here, found)

    def taken(self, i: int, name: str, take: Borrow | None, starts: Sequence[Solution]) -> list[Solution]:
        """What groups of solutions that have more of them lead to, from those of a number that are new."""
        here, larger = self.at(i), self.solutions[i + 1 :]
        if take is None or not larger:
            return []
        new = [one for one in starts if self.is_untried(i, name, one)]
        found = self.workers.map(lambda start: take(here, start, larger), new)
        return self.counted(here, found)

    def refined(self, i: int) -> list[Solution]:
        """What the best of a number lead to by themselves, as far as they are new."""
        here, refine = self.at(i), self.ways.refine
        if refine is None:
            return []
        new = [one for one in self.pools[i][:REFINED] if self.is_untried(i, "refine", one)]
        seeds = self.rng.integers(2**31, size=len(new))
        found = self.workers.map(
            lambda pair: refine(here, pair[0], np.random.default_rng(pair[1])), zip(new, seeds, strict=True)
        )
        for one in found:  # where columns are as good as they get
            self.mark(i, "refine", one)
        return self.counted(here, found)

    def improved(
        self,
        here: PathLandscape,
        starts: Sequence[Solution] = (),
        n_fresh: int = 0,
        is_strong: bool = True,
        shake: Shake | None = None,
    ) -> list[Solution]:
        """Where lineages end from the starts given, and some with starts of their own; the best first."""
        begun: list[Solution | None] = [*starts, *[None] * n_fresh]
        seeds = [int(seed) for seed in self.rng.integers(2**31, size=len(begun))]
        strength = int(is_strong and not here.is_tiny)  # where rows are few, it is dear beside the rest
        lineages = [Lineage(seed, start, strength, shake=shake) for seed, start in zip(seeds, begun, strict=True)]
        self.workers.map(lambda lineage: self.lead(lineage, here), lineages)
        self.work += sum(lineage.work for lineage in lineages)
        return _best([lineage.best for lineage in lineages if lineage.best is not None])

    def lead(self, lineage: Lineage, here: PathLandscape) -> None:
        """Let a lineage go on for a while."""
        if lineage.shake is not None:
            lineage.advance(here, self.moves, SHAKES, SHAKES)  # it does not end before
            return
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
