"""Tables so small that the best solution can be proved: does the default search end there? Prints a table in Markdown.

python benchmarks/tiny.py            200 tables of clusters and 200 of features, some minutes
python benchmarks/tiny.py --tables 20
"""

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from madbayes import BPMeans, DPMeans, KFeatures
from madbayes.certificates import Certificate, optimal_clusters, optimal_features

# A value within this share of the squares of the table is that value.
SAME = 1e-9


def noise(g: Generator, N: int, D: int) -> NDArray:
    """No groups at all."""
    return g.normal(size=(N, D))


def whole_numbers(g: Generator, N: int, D: int) -> NDArray:
    """Small ones, so that many solutions are equally good."""
    return g.integers(-3, 4, size=(N, D)).astype(float)


def sums(g: Generator, N: int, D: int) -> NDArray:
    """Of two features, and a little noise."""
    return g.integers(2, size=(N, 2)) @ g.normal(size=(2, D)) + 0.2 * g.normal(size=(N, D))


MAKERS = (noise, whole_numbers, sums)


def table(seed: int, most: int) -> tuple[NDArray, NDArray | None, float, int]:
    """Up to so many rows; weights in every fourth; a penalty, and a number of groups."""
    g = default_rng(seed)
    X = MAKERS[seed % 3](g, int(g.integers(4, most + 1)), int(g.integers(1, 4)))
    weights = g.exponential(size=len(X)) + 0.05 if seed % 4 == 0 else None
    share = np.exp(g.uniform(np.log(0.01), np.log(0.5)))
    return X, weights, share * float((X**2).sum()), int(g.integers(1, 4))


def clusters(seed: int) -> tuple[float, Certificate, NDArray]:
    """At a price, with a limit to their number in every second table."""
    X, weights, penalty, K = table(seed, 11)
    cap = K if seed % 2 else None
    model = DPMeans(penalty, max_clusters=cap, random_state=seed).fit(X, sample_weight=weights)
    return model.objective_, optimal_clusters(X, penalty, max_clusters=cap, sample_weight=weights), X


def features(seed: int) -> tuple[float, Certificate, NDArray]:
    """At a price, or of a given number in every second table."""
    X, weights, penalty, K = table(seed, 7)
    if seed % 2:
        value = KFeatures(K, random_state=seed).fit(X, sample_weight=weights).objective_
        return value, optimal_features(X, K=K, sample_weight=weights), X
    value = BPMeans(penalty, random_state=seed).fit(X, sample_weight=weights).objective_
    return value, optimal_features(X, penalty, sample_weight=weights), X


def count(name: str, fit: Callable[[int], tuple[float, Certificate, NDArray]], n_tables: int) -> None:
    """A line of the table."""
    proved, missed = 0, []
    for seed in range(n_tables):
        value, best, X = fit(seed)
        proved += best.proved
        if value > best.value + SAME * float((X**2).sum()):
            missed.append(seed)
    print(f"| {name} | {n_tables} | {proved} | {n_tables - len(missed)} | {missed or ''} |", flush=True)


def main() -> None:
    """Both kinds of groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200, help="of each kind of groups, 200 if not given")
    n_tables = parser.parse_args().tables
    warnings.simplefilter("ignore")  # fewer features than asked for where nothing is left to explain
    print("| groups | tables | optimum proved | reached by the search | seeds of those missed |\n|---|---|---|---|---|")
    count("clusters, 4 to 11 rows", clusters, n_tables)
    count("features, 4 to 7 rows", features, n_tables)


if __name__ == "__main__":
    main()
