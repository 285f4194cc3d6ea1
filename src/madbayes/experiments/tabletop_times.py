"""The table of running times: the Gibbs sampler, the paper's three algorithms, and the default search."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes import BPMeans, StepwiseKFeatures
from madbayes.engine.gibbs import sample
from madbayes.experiments.parts import Findings, Progress, Work
from madbayes.experiments.restarts import restarts
from madbayes.experiments.tabletop_setup import Effort, Tabletop
from madbayes.paper.gibbs import IBPGibbs

# Restarts between two reports of progress.
BATCH = 100
# Above the lowest value by no more than this share: the same.
SAME = 1e-9


class Measured(NamedTuple):
    """An algorithm's runs."""

    n_runs: int
    seconds: float
    K: int  # features of the best run
    value: float = float("nan")  # its objective
    n_best: int | None = None  # runs that end there


class Printed(NamedTuple):
    """A line of the paper's table."""

    per_run: float
    total: float
    K: int


PAPER = {
    "IBP Gibbs": Printed(8500, 8500, 10),
    "collapsed BP-means": Printed(11, 11000, 5),
    "BP-means": Printed(0.36, 360, 6),
    "stepwise K-features": Printed(0.10, 155, 5),
}


def findings(table: Tabletop, effort: Effort, work: Work) -> Findings:
    """All algorithms, one after the other, on the same machine.

    Others may use it, too: of some repeats the shortest counts.
    """
    X = table.X
    work.progress("Compiling, which is not counted", 0, 0)
    for algorithm in algorithms(X, effort._replace(n_restarts=2, n_stepwise=2, n_sweeps=2)).values():
        algorithm(lambda words, done, total: None)
    measured: dict[str, Measured] = {}
    for name, algorithm in algorithms(X, effort).items():
        work.progress(name, 0, 0)
        repeats = [algorithm(work.progress) for _ in range(effort.n_repeats)]
        measured[name] = min(repeats, key=lambda found: found.seconds)
    rows = [row(name, found, measured["IBP Gibbs"].seconds) for name, found in measured.items()]
    return Findings(words(measured, effort), {"running times": rows}, {}, {"penalty": effort.penalty})


def algorithms(X: NDArray, effort: Effort) -> dict[str, Callable[[Progress], Measured]]:
    """The lines of the table: what each runs, given somebody to report to."""
    return {
        "IBP Gibbs": lambda report: run_gibbs(X, effort),
        "collapsed BP-means": lambda report: run_restarts("collapsed BP-means", True, X, effort, report),
        "BP-means": lambda report: run_restarts("BP-means", False, X, effort, report),
        "stepwise K-features": lambda report: run_stepwise(X, effort),
        'search="best"': lambda report: run_best(X, effort),
    }


def run_gibbs(X: NDArray, effort: Effort) -> Measured:
    """One chain with the initial values of Griffiths and Ghahramani; all three parameters are sampled from there."""
    model = IBPGibbs(
        mass=1.0, rho2=0.5, sample_sigma2=True, sample_rho2=True, sample_mass=True, random_state=effort.seed
    )
    began = perf_counter()
    chain = sample(model, X, effort.n_sweeps, log_joint=False)
    return Measured(1, perf_counter() - began, int(chain.K[-1]))


def run_restarts(name: str, collapsed: bool, X: NDArray, effort: Effort, report: Progress) -> Measured:
    """Restarts, in batches so that there is something to report."""
    seeds = np.random.default_rng(effort.seed).integers(2**31, size=effort.n_restarts).tolist()
    runs: list[Any] = []
    began = perf_counter()
    for i in range(0, len(seeds), BATCH):
        report(name, i, len(seeds))
        runs += restarts(X, effort.penalty, seeds[i : i + BATCH], collapsed=collapsed, n_jobs=effort.n_jobs)
    return summary(runs, perf_counter() - began)


def run_stepwise(X: NDArray, effort: Effort) -> Measured:
    """K = 1, 2, ... until one more does not pay."""
    model = StepwiseKFeatures(
        effort.penalty, search="paper", n_init=effort.n_stepwise, random_state=effort.seed, n_jobs=effort.n_jobs
    )
    began = perf_counter()
    model.fit(X)
    return summary(model.runs_, perf_counter() - began)


def run_best(X: NDArray, effort: Effort) -> Measured:
    """The shortest of searches with 1, 2, 4, ... lineages that reaches what the whole search finds."""
    goal = BPMeans(effort.penalty, random_state=effort.seed, n_jobs=effort.n_jobs).fit(X).objective_
    for n_lineages in (1, 2, 4, 8, 16, 40):
        model = BPMeans(effort.penalty, n_init=n_lineages, random_state=effort.seed, n_jobs=effort.n_jobs)
        began = perf_counter()
        model.fit(X)
        seconds = perf_counter() - began
        if model.objective_ <= goal * (1 + SAME):
            break
    return Measured(1, seconds, model.n_components_, model.objective_)


def summary(runs: list[Any], seconds: float) -> Measured:
    """What the best run found, and how many found the same."""
    best = min(runs, key=lambda run: run.value)
    n_best = int(np.sum([run.value <= best.value * (1 + SAME) for run in runs]))
    return Measured(len(runs), seconds, best.K, best.value, n_best)


def row(name: str, found: Measured, gibbs_seconds: float) -> dict[str, Any]:
    """A line of the table, the paper's beside ours."""
    paper = PAPER.get(name)
    return {
        "algorithm": name,
        "runs": found.n_runs,
        "seconds per run": found.seconds / found.n_runs,
        "seconds in all": found.seconds,
        "features": found.K,
        "objective": found.value,
        "runs that end there": found.n_best,
        "Gibbs / this": gibbs_seconds / found.seconds,
        "paper: per run": paper and paper.per_run,
        "paper: in all": paper and paper.total,
        "paper: features": paper and paper.K,
        "paper: Gibbs / this": paper and PAPER["IBP Gibbs"].total / paper.total,
    }


def words(measured: dict[str, Measured], effort: Effort) -> list[str]:
    """The ratios to the Gibbs sampler, whatever they are."""
    gibbs, best = measured["IBP Gibbs"], measured['search="best"']
    others = [name for name in PAPER if name != "IBP Gibbs"]
    ratios = [
        f"{measured[name].n_runs} runs of {name} {gibbs.seconds / measured[name].seconds:.2g} "
        f"(the paper: {PAPER['IBP Gibbs'].total / PAPER[name].total:.2g})"
        for name in others
    ]
    found = [f"{name} {measured[name].K} (the paper: {paper.K})" for name, paper in PAPER.items()]
    lowest = {name: measured[name].value for name in others}
    missed = [name for name, value in lowest.items() if value > best.value * (1 + SAME)]
    others_reach = f"restarts of {', '.join(missed)} stay above" if missed else "so did the best restarts"
    return [
        f"{effort.n_sweeps} sweeps of the Gibbs sampler in compiled code took {gibbs.seconds:.2g} s on a thread. That "
        f"time over the time of all restarts: {', '.join(ratios)}.",
        f"Features found at a penalty of {effort.penalty:g}: {', '.join(found)}.",
        f'search="best" reached {best.value:.6g} with {best.K} features in {best.seconds:.2g} s; {others_reach}.',
    ]
