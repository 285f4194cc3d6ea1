"""The histogram of K over Gibbs samplers with many initial values."""

from collections import Counter
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes import BPMeans
from madbayes.engine.blocks import Workers
from madbayes.engine.gibbs import sample
from madbayes.experiments.figures import plot_counts
from madbayes.experiments.parts import Findings, Rows, Work
from madbayes.experiments.tabletop_setup import Effort, Tabletop
from madbayes.paper.gibbs import IBPGibbs

# Means of K in the last draws and in as many before them that differ by more than this: not converged.
SHIFT = 1.0
MASSES, MEAN_NOISES = (0.01, 1.0), (0.1, 10.0)


class Setting(NamedTuple):
    """Where a chain starts."""

    mass: float
    rho2: float
    seed: list[int]


def findings(table: Tabletop, effort: Effort, work: Work) -> Findings:
    """Every start with every pair of initial values."""
    rows: Rows = []
    for number, (name, start) in enumerate(starts(table.X, effort).items()):
        words = f"Gibbs samplers that start with {name}"
        rows += work.piece(f"gibbs-{number + 1}", lambda: chains(name, number, start, table.X, effort, work, words))  # noqa: B023
    settled = [row for row in rows if row["converged"]]
    counts = Counter(K for row in settled for K in row["draws of K"])
    counted = dict(sorted(counts.items()))
    figures = {f"Numbers of features in the last {effort.n_draws} draws": plot_counts(counted, "features")}
    histogram = [{"features": K, "draws": n} for K, n in counted.items()] or [{"features": None, "draws": 0}]
    short = [{key: value for key, value in row.items() if key != "draws of K"} for row in rows]
    return Findings(words_of(rows, counted, effort), {"histogram": histogram, "chains": short}, figures)


def starts(X: NDArray, effort: Effort) -> dict[str, Any]:
    """The four initialisations."""
    rng = np.random.default_rng(effort.seed)
    found = BPMeans(effort.penalty, random_state=effort.seed, n_jobs=effort.n_jobs).fit(X)
    return {
        "1 shared feature": np.ones((len(X), 1)),
        "5 random features": rng.integers(2, size=(len(X), 5)),
        "10 random features": rng.integers(2, size=(len(X), 10)),
        "the BP-means result": (found.allocations_, found.components_),
    }


def chains(name: str, number: int, start: Any, X: NDArray, effort: Effort, work: Work, words: str) -> Rows:
    """Chains from one start, in threads: each has a seed of its own."""
    grid = product(np.geomspace(*MASSES, effort.n_grid), np.geomspace(*MEAN_NOISES, effort.n_grid))
    settings = [Setting(mass, rho2, [effort.seed, number, i]) for i, (mass, rho2) in enumerate(grid)]
    done: list[int] = []

    def one(setting: Setting) -> dict[str, Any]:
        found = {"start": name, **chain(setting, start, X, effort)}
        done.append(1)
        work.progress(words, len(done), len(settings))
        return found

    work.progress(words, 0, len(settings))
    with Workers(effort.n_jobs) as workers:
        return workers.map(one, settings)


def chain(setting: Setting, start: Any, X: NDArray, effort: Effort) -> dict[str, Any]:
    """The last draws of K, and whether they are where the draws before them were."""
    model = IBPGibbs(
        mass=setting.mass,
        rho2=setting.rho2,
        sample_sigma2=True,
        sample_rho2=True,
        sample_mass=True,
        random_state=np.random.default_rng(setting.seed),
    )
    K = sample(model, X, effort.n_sweeps, init=start, log_joint=False).K
    last, before = K[-effort.n_draws :], K[-2 * effort.n_draws : -effort.n_draws]
    shift = float(last.mean() - before.mean())
    return {
        "mass": setting.mass,
        "mean-noise": setting.rho2,
        "mean K": float(last.mean()),
        "least K": int(last.min()),
        "largest K": int(last.max()),
        "shift": shift,
        "converged": abs(shift) <= SHIFT,
        "draws of K": last.tolist(),
    }


def words_of(rows: Rows, counts: dict[int, int], effort: Effort) -> list[str]:
    """The range of K, and the settings that did not converge."""
    failed = [row for row in rows if not row["converged"]]
    rule = (
        f"a chain counts as converged if the mean of K in its last {effort.n_draws} draws and in the {effort.n_draws} "
        f"before differ by no more than {SHIFT:g}"
    )
    listed = [f"{row['start']}, mass {row['mass']:.3g}, mean-noise {row['mean-noise']:.3g}" for row in failed]
    words = [f"{len(rows) - len(failed)} of {len(rows)} Gibbs samplers converged; {rule}."]
    words += [f"Not converged: {'; '.join(listed)}."] if listed else []
    if counts:
        most, who = max(counts, key=lambda K: counts[K]), "The others" if failed else "They"
        words.append(
            f"{who} end with {min(counts)} to {max(counts)} features, most often {most}; the paper never saw fewer "
            f"than 7. {'That is so here, too.' if min(counts) >= 7 else 'Here fewer do occur.'}"
        )
    return words
