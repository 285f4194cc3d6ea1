"""Best solutions for one number of groups after the other, each from its neighbours and from a start of its own."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.search import STRIDE, Landscape, Lineage, Move, Solution
from madbayes.paper.result import RELATIVE_GAIN


class PathLandscape(Landscape, Protocol):
    """A table in which numbers of groups are neighbours."""

    least: int  # the smallest number of groups there can be
    negligible: float  # squared error that is rounding

    def with_K(self, K: int) -> Self:
        """The same table with exactly K groups, at no price."""

    def grown(self, solution: Solution, rng: np.random.Generator) -> list[NDArray]:
        """Assignments with one group more."""

    def shrunk(self, solution: Solution) -> list[NDArray]:
        """Assignments with one group less."""

    def simplest(self) -> Solution:
        """The solution with the smallest number of groups."""


def solve_path(
    landscape: PathLandscape,
    moves: Mapping[str, Move],
    most: int,
    *,
    patience: int,
    n_fresh: int,
    rng: np.random.Generator,
    workers: Workers,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Solution]:
    """Solutions with the smallest number of groups, one more, ..., at most ``most``, as long as there is error left.

    Upwards, each number of groups is searched from its smaller neighbour and from ``n_fresh`` starts of its own. Then
    neighbours are tried once more, downwards and upwards, until that lowers nothing.
    """
    solutions = [landscape.simplest()]
    while solutions[-1].value > landscape.negligible and most > solutions[-1].K and not is_over():
        last = solutions[-1]
        here = landscape.with_K(last.K + 1)
        start = _best_of(here, here.grown(last, rng), workers)
        found = _improve(here, moves, start, patience, n_fresh, rng, workers)
        if found.K <= last.K:  # nothing is left to explain
            break
        solutions.append(found)
    while not is_over() and _try_neighbours(landscape, solutions, rng, workers):
        pass
    return solutions


def _improve(
    here: PathLandscape,
    moves: Mapping[str, Move],
    start: Solution,
    patience: int,
    n_fresh: int,
    rng: np.random.Generator,
    workers: Workers,
) -> Solution:
    """The best of a lineage from the start given, and of some with starts of their own."""
    seeds = [int(seed) for seed in rng.integers(2**31, size=n_fresh + 1)]
    lineages = [Lineage(seeds[0], start), *map(Lineage, seeds[1:])]

    def finish(lineage: Lineage) -> None:
        while not lineage.ended:
            lineage.advance(here, moves, patience, STRIDE)

    workers.map(finish, lineages)
    return min((lineage.best for lineage in lineages if lineage.best is not None), key=lambda best: best.value)


def _best_of(here: PathLandscape, proposals: list[NDArray], workers: Workers) -> Solution:
    return min(workers.map(here.polish, proposals), key=lambda solution: solution.value)


def _try_neighbours(
    landscape: PathLandscape, solutions: list[Solution], rng: np.random.Generator, workers: Workers
) -> bool:
    """Every number of groups from its larger, then from its smaller neighbour; whether that lowered anything."""
    lowered = False
    for i, source in _visits(len(solutions)):
        here = landscape.with_K(solutions[i].K)
        proposals = here.shrunk(solutions[source]) if source > i else here.grown(solutions[source], rng)
        found = _best_of(here, proposals, workers)
        if found.value < solutions[i].value - RELATIVE_GAIN * abs(solutions[i].value):
            solutions[i], lowered = found, True
    return lowered


def _visits(length: int) -> Iterator[tuple[int, int]]:
    """Who is visited from where: downwards, then upwards; the first is what it is."""
    for i in range(length - 2, 0, -1):
        yield i, i + 1
    for i in range(1, length):
        yield i, i - 1
