"""The search against the paper's restarts on tables whose best value is known; prints a table in Markdown.

Both have the same wall time and the same threads, and are stopped when they reach the best known value.

python benchmarks/search.py --find 600 --first-seed 1000 --seeds 1 tabletop-K6    looks for a best known value itself
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, product
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from instances import BEST_KNOWN, INSTANCES, Instance, tabletop_folder

from madbayes.engine.allocation import CHUNK, bp_means, k_features
from madbayes.engine.blocks import Workers
from madbayes.engine.centres import Table
from madbayes.engine.partition import dp_means
from madbayes.engine.search import Search, Solution, search
from madbayes.engine.seeding import seed_features

# A value within this share of the best known is that value.
SAME = 1e-6
# The search itself would end when lineages agree; here it goes on until it hits.
ENDLESS = Search(agreement=10**9, max_lineages=None, max_moves=None)


class Over(Exception):
    """The value is reached, or the time is over."""


class Trial(NamedTuple):
    """What one seed came to."""

    value: float
    seconds: float  # until the best known value was reached, infinite if it was not


class Watch:
    """Looks at every value, and at the clock."""

    def __init__(self, target: float, seconds: float, clock: Callable[[], float] = perf_counter) -> None:
        self.target, self.limit, self.clock, self.began = target * (1 + SAME), seconds, clock, clock()
        self.value, self.found, self.hit = np.inf, 0.0, np.inf

    def see(self, value: float) -> None:
        """Stops what is going on when there is nothing to wait for."""
        elapsed = self.clock() - self.began
        if elapsed <= self.limit and value < self.value:
            self.value, self.found = value, elapsed
            if value <= self.target:
                self.hit = min(self.hit, elapsed)
        if self.hit < np.inf or elapsed > self.limit:
            raise Over


def seeds_from(seed: int) -> Iterator[int]:
    """As many as are wanted."""
    rng = np.random.default_rng(seed)
    return (int(rng.integers(2**31)) for _ in count())


def ours(instance: Instance, seed: int, watch: Watch, workers: Workers, options: Search = ENDLESS) -> None:
    """The search, watched wherever a descent ends."""
    landscape = instance.landscape()

    def watched(polish: Callable[..., Solution]) -> Callable[..., Solution]:
        def see(*arguments: object, **options: object) -> Solution:
            solution = polish(*arguments, **options)
            if instance.K is None or solution.K <= instance.K:
                watch.see(solution.value)
            return solution

        return see

    descent = "descend" if instance.kind == "features" else "polish"
    for name in (descent, "polish_near", "taken_over", *(stronger.name for stronger in landscape.stronger)):
        setattr(landscape, name, watched(getattr(landscape, name)))
    search(landscape, instance.moves, options, seeds_from(seed), workers)


def restarts(instance: Instance, seed: int, watch: Watch, workers: Workers) -> None:
    """The paper's algorithm from one ++ seed, or one order of the rows, after the other; in ever larger batches."""
    seeds, size = seeds_from(seed), 1
    run = run_features if instance.kind == "features" else run_clusters
    while True:
        batch = [next(seeds) for _ in range(size * workers.n_threads)]
        watch.see(min(run(instance, batch, workers)))
        size = min(2 * size, CHUNK)


def run_features(instance: Instance, seeds: list[int], workers: Workers) -> list[float]:
    """K-features, or BP-means where there is a price."""
    X, K, penalty = instance.X, instance.K, instance.penalty
    parts = [seeds[i :: workers.n_threads] for i in range(workers.n_threads)]

    def some(seeds: list[int]) -> list[float]:
        starts = seed_features(X, K, seeds, penalty=penalty, workers=Workers(1))
        if K is None:
            results = bp_means(X, penalty, starts, workers=Workers(1))
        else:
            results = k_features(X, K, starts, workers=Workers(1))
        return [result.value for result in results]

    return [value for values in workers.map(some, parts) for value in values]


def run_clusters(instance: Instance, seeds: list[int], workers: Workers) -> list[float]:
    """DP-means on rows in random orders."""
    table = Table.of(instance.X, None)

    def one(seed: int) -> float:
        order = np.random.default_rng(seed).permutation(len(instance.X))
        return dp_means(table, instance.penalty, order=order, workers=Workers(1)).value

    return workers.map(one, seeds)


def attempt(how: Callable[..., None], instance: Instance, seed: int, target: float, seconds: float) -> Trial:
    """One seed of one side."""
    with Workers(2) as workers:
        watch = Watch(target, seconds)
        with suppress(Over):
            how(instance, seed, watch, workers)
    return Trial(watch.value, watch.hit)


def find(name: str, seconds: float, seed: int) -> None:
    """The lowest value that one long search on one thread comes to, and after how much CPU time."""
    instance, watch = INSTANCES[name](), Watch(-np.inf, seconds, process_time)
    with Workers(1) as workers, suppress(Over):
        ours(instance, seed, watch, workers)
    print(f"{name}: {watch.value!r} after {watch.found:.0f} of {seconds:g} s with seed {seed}", flush=True)


def default(instance: Instance, seed: int) -> Trial:
    """The search as it ends by itself: its value, and how long that took."""
    with Workers(2) as workers:
        began = perf_counter()
        best = search(instance.landscape(), instance.moves, Search(), seeds_from(seed), workers)[0].value
        return Trial(best, perf_counter() - began)


def median_time(trials: list[Trial], limit: float) -> float:
    """Of the seeds that hit and those that did not, the latter beyond the limit."""
    return statistics.median(min(trial.seconds, limit) for trial in trials)


def cell(trials: list[Trial], best: float, limit: float) -> str:
    """Value, hits and time of one side."""
    value = statistics.median(trial.value for trial in trials) / best
    hits = sum(trial.seconds < np.inf for trial in trials)
    time = median_time(trials, limit)
    return f"{value:.6f} | {hits}/{len(trials)} | {f'{time:.3g} s' if time < limit else f'> {limit:g} s'}"


def ratio(paper: list[Trial], own: list[Trial], limit: float) -> str:
    """How many times as fast, at least so many where the paper's restarts do not hit."""
    times = median_time(paper, limit), median_time(own, limit)
    return "" if times[1] >= limit else f"{'> ' if times[0] >= limit else ''}{times[0] / times[1]:.3g}×"


def compare(name: str, seconds: float, seeds: Sequence[int]) -> None:
    """A line of the table."""
    instance, best = INSTANCES[name](), BEST_KNOWN[name]["value"]
    attempt(ours, instance, 99, 0.0, 0.2)  # compiles what there is to compile
    attempt(restarts, instance, 99, 0.0, 0.2)
    own = [attempt(ours, instance, seed, best, seconds) for seed in seeds]
    paper = [attempt(restarts, instance, seed, best, seconds) for seed in seeds]
    ends = [default(instance, seed) for seed in seeds]
    hits = sum(trial.value <= best * (1 + SAME) for trial in ends)
    by_itself = f"{hits}/{len(ends)}, {statistics.median(trial.seconds for trial in ends):.3g} s"
    sides = f"{cell(paper, best, seconds)} | {cell(own, best, seconds)} | {ratio(paper, own, seconds)}"
    print(f"| {name} | {sides} | {by_itself} |", flush=True)
    lowest = min(trial.value for trial in own + paper + ends)
    if lowest < best * (1 - SAME):
        print(f"{name}: {lowest!r} is below the best known value {best!r}", file=sys.stderr)


def main() -> None:
    """The instances named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="*", metavar="instance", help=f"some of {', '.join(INSTANCES)}")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each seed and side, 8 if not given")
    parser.add_argument("--seeds", type=int, default=5, help="how many, 5 if not given")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them, 0 if not given")
    parser.add_argument("--find", type=float, metavar="SECONDS", help="one search so long for each seed, in CPU time")
    options = parser.parse_args()
    unknown = [name for name in options.instances if name not in INSTANCES]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(INSTANCES)}")
    names = options.instances or list(INSTANCES)
    if not tabletop_folder().is_dir():
        left_out = [name for name in names if name.startswith("tabletop")]
        names = [name for name in names if name not in left_out]
        if left_out:
            print(f"no pictures in {tabletop_folder()} (MADBAYES_DATA names the folder above it): without {left_out}")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.find is not None:
        for name, seed in product(names, seeds):
            find(name, options.find, seed)
        return
    print(
        "| instance | restarts: value / best | hits | time to hit | search: value / best | hits | time to hit | ",
        end="",
    )
    print("as fast | search by itself: hits, time |\n|---|---|---|---|---|---|---|---|---|")
    for name in names:
        compare(name, options.seconds, seeds)


if __name__ == "__main__":
    main()
