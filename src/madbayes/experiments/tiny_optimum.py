"""How often the best of many restarts of the paper's algorithms is the enumerated optimum, on tiny tables."""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from madbayes import paper
from madbayes.datasets import make_linear_gaussian, make_mixture
from madbayes.model import Objective, bp_means_objective, dp_means_objective
from madbayes.paper import Result


def clusters(seed: int) -> NDArray:
    """Eight rows around three means in the plane."""
    return make_mixture(8, 2, 3, separation=4.0, random_state=seed).X


def features(seed: int) -> NDArray:
    """Five rows made of two features."""
    return make_linear_gaussian(5, 4, 2, noise=0.5, random_state=seed).X


def dp_run(X: NDArray, penalty: float, seed: int) -> Result:
    """DP-means with the rows in random order."""
    return paper.dp_means(X, penalty, order=np.random.default_rng(seed).permutation(len(X)))


def collapsed_dp_run(X: NDArray, penalty: float, seed: int) -> Result:
    """Collapsed DP-means with the rows in random order."""
    return paper.collapsed_dp_means(X, penalty, order=np.random.default_rng(seed).permutation(len(X)))


def bp_run(X: NDArray, penalty: float, seed: int) -> Result:
    """BP-means from ++ seeds."""
    return paper.bp_means(X, penalty, *paper.seed_features(X, penalty=penalty, random_state=seed))


def collapsed_bp_run(X: NDArray, penalty: float, seed: int) -> Result:
    """Collapsed BP-means from ++ seeds."""
    return paper.collapsed_bp_means(X, penalty, paper.seed_features(X, penalty=penalty, random_state=seed)[0])


def optimum(X: NDArray, objective: Objective) -> float:
    """The least value of all groupings. With as many independent features as rows the squared error is zero."""
    if objective.prior.kind == "clusters":
        return paper.exhaustive(X, objective).value
    fewer = paper.exhaustive(X, objective, max_components=len(X) - 1).value
    return min(fewer, len(X) * objective.penalty)


def report(
    make: Callable[[int], NDArray],
    objective_at: Callable[[float], Objective],
    runs: Sequence[Callable[[NDArray, float, int], Result]],
    n_tables: int,
    n_restarts: int,
    share: float,
) -> None:
    """Print, for each algorithm, on how many tables it hits and how far above the optimum it is in the mean."""
    tables = [make(seed) for seed in range(n_tables)]
    penalties = [share * ((X - X.mean(axis=0)) ** 2).sum() for X in tables]
    optima = [optimum(X, objective_at(p)) for X, p in zip(tables, penalties, strict=True)]
    for run in runs:
        best = [
            min(run(X, penalty, seed).value for seed in range(n_restarts))
            for X, penalty in zip(tables, penalties, strict=True)
        ]
        ratios = np.array(best) / optima
        hits = int((ratios < 1 + 1e-9).sum())
        print(f"{run.__name__.removesuffix('_run'):<14} {hits:>3} of {n_tables}   mean ratio {ratios.mean():.3f}")


def main() -> None:
    """Run both kinds of tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=60, help="tables of each kind")
    parser.add_argument("--restarts", type=int, default=200, help="restarts on each table")
    parser.add_argument("--share", type=float, default=0.2, help="penalty as a share of the one-group squared error")
    options = parser.parse_args()
    print(f"best of {options.restarts} restarts, penalty {options.share:.0%} of the one-group squared error")
    for make, objective_at, runs in (
        (clusters, dp_means_objective, [dp_run, collapsed_dp_run]),
        (features, bp_means_objective, [bp_run, collapsed_bp_run]),
    ):
        report(make, objective_at, runs, options.tables, options.restarts, options.share)


if __name__ == "__main__":
    main()
