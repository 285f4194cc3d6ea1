"""How often the number of groups is found, and what the path costs; prints tables in Markdown.

python benchmarks/choosing_k.py              all of it, about an hour on one core
python benchmarks/choosing_k.py --quick      one seed each
python benchmarks/choosing_k.py settings     one part: settings, fresh, groupless or cost
python benchmarks/choosing_k.py cost --tables bars tabletop --seeds 12 --first-seed 800    paths with other seeds
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from madbayes import DPMeans, KFeatures, penalty_path
from madbayes.engine.path import PenaltyPath, WeakEvidenceWarning

DATA = Path(os.environ.get("MADBAYES_DATA", Path(__file__).resolve().parents[1] / ".." / "shared" / "data"))
CORNERS = ["010111010", "111101111", "100110111", "111010010"]
PATH_LENGTH = 16
# Errors of a path are to be no farther above those of separate fits.
EXCESS = 1e-3


class Case(NamedTuple):
    """A kind of table whose number of groups is known."""

    name: str
    kind: str
    make: Callable[[Generator], NDArray]
    right: tuple[int, ...]  # none of them where there are no groups
    cap: int | None = None


def linear_gaussian(g: Generator, N: int, D: int, K: int, sigma: float, p: float) -> NDArray:
    """Rows with any of K normal features."""
    Z = g.random((N, K)) < p
    A = g.normal(size=(K, D))
    return Z @ A + sigma * g.normal(size=(N, D))


def with_features(g: Generator, A: NDArray, N: int, p: float, sigma: float) -> NDArray:
    """Rows with any of the features given."""
    return (g.random((N, len(A))) < p) @ A + sigma * g.normal(size=(N, A.shape[1]))


def cambridge() -> NDArray:
    """Four shapes, each in a corner of its own."""
    A = np.zeros((4, 6, 6))
    for k, shape in enumerate(CORNERS):
        top, left = 3 * (k // 2), 3 * (k % 2)
        A[k, top : top + 3, left : left + 3] = np.array(list(shape), dtype=float).reshape(3, 3)
    return A.reshape(4, -1)


def bars(size: int) -> NDArray:
    """All horizontal and vertical bars."""
    A = np.zeros((2 * size, size, size))
    for i in range(size):
        A[i, i] = A[size + i, :, i] = 1
    return A.reshape(2 * size, -1)


def with_base(g: Generator, K: int, N: int, D: int, sigma: float) -> NDArray:
    """Features beside one that all rows have."""
    Z, A, base = g.random((N, K)) < 0.5, g.normal(size=(K, D)), 2 * g.normal(size=D)
    return Z @ A + base + sigma * g.normal(size=(N, D))


def mixture(g: Generator, N: int, D: int, K: int, separation: float) -> NDArray:
    """Normal clusters about normal centres."""
    centres = g.normal(size=(K, D)) * separation / np.sqrt(2)
    X = centres[g.integers(K, size=N)] + g.normal(size=(N, D))
    return X - X.mean(axis=0)


def blobs(g: Generator, K: int, D: int, distance: float, sizes: list[int]) -> NDArray:
    """Normal clusters of these sizes, no two centres nearer than ``distance`` standard deviations."""
    centres, width = np.zeros((0, D)), 2 * distance
    while len(centres) < K:
        new, width = g.uniform(-width, width, size=D), 1.01 * width
        if all(np.linalg.norm(new - centre) > distance for centre in centres):
            centres = np.vstack([centres, new])
    labels = np.repeat(np.arange(K), sizes)
    return centres[labels] + g.normal(size=(len(labels), D))


def with_far_rows(g: Generator) -> NDArray:
    """Eight clusters, and five rows far from all and from each other."""
    far = g.normal(size=(5, 6))
    far *= 200 * np.arange(1, 6)[:, None] / np.linalg.norm(far, axis=1, keepdims=True)
    return np.vstack([blobs(g, 8, 6, 10, [30] * 8), far])


def nested(g: Generator) -> NDArray:
    """Two clusters of four clusters each."""
    corners = 6 * np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    side = np.array([60.0, 0.0, 0.0])
    X = np.repeat(np.vstack([corners - side, corners + side]), 20, axis=0)
    return X + g.normal(size=X.shape)


def one_factor(g: Generator, N: int, D: int) -> NDArray:
    """A long normal cloud."""
    return g.normal(size=(N, 1)) * g.uniform(0.5, 3, size=D) + g.normal(size=(N, D))


def tabletop() -> NDArray:
    """The pictures as the README beside them says."""
    from PIL import Image

    files = [DATA / "tabletop" / f"Picture_{i}.jpg" for i in range(1, 101)]
    X = np.stack([np.asarray(Image.open(file), dtype=np.float64).ravel() / 255 for file in files]) / np.sqrt(99)
    U, lengths, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return np.asarray(U * lengths)


def settings() -> Iterator[Case]:
    """Thirteen kinds of tables with features."""

    def case(name: str, K: int, make: Callable[[Generator], NDArray]) -> Case:
        return Case(name, "features", make, (K,), K + 4)

    for K in (4, 8):
        for sigma in (0.5, 1.0, 1.5, 2.0):
            yield case(f"LG{K} σ={sigma:g}", K, partial(linear_gaussian, N=200, D=50, K=K, sigma=sigma, p=0.5))
    yield case("LG8 σ=1 p=.2", 8, lambda g: linear_gaussian(g, 200, 50, 8, 1, 0.2))
    yield case("LG8 σ=1 N=1000", 8, lambda g: linear_gaussian(g, 1000, 50, 8, 1, 0.5))
    yield case("cambridge", 4, lambda g: with_features(g, cambridge(), 100, 0.5, 0.5))
    yield case("bars 5×5", 10, lambda g: with_features(g, bars(5), 300, 0.3, 0.5))
    yield case("LG6 σ=1 and a base", 7, lambda g: with_base(g, 6, 200, 50, 1.0))


def fresh() -> list[Case]:
    """Tables of other shapes, with the path as long as it likes."""
    makers: list[tuple[str, str, tuple[int, ...], Callable[[Generator], NDArray]]] = [
        ("3 blobs, D=2", "clusters", (3,), lambda g: blobs(g, 3, 2, 8, [50] * 3)),
        ("5 blobs, D=2", "clusters", (5,), lambda g: blobs(g, 5, 2, 10, [40] * 5)),
        ("2 blobs, D=5", "clusters", (2,), lambda g: blobs(g, 2, 5, 7, [50] * 2)),
        ("5 of unequal sizes", "clusters", (5,), lambda g: blobs(g, 5, 5, 8, [100, 50, 30, 15, 10])),
        ("8 blobs, D=10", "clusters", (8,), lambda g: blobs(g, 8, 10, 8, [40] * 8)),
        ("6 overlapping, D=10", "clusters", (6,), lambda g: mixture(g, 300, 10, 6, 3)),
        (
            "12 blobs, t noise",
            "clusters",
            (12,),
            lambda g: blobs(g, 12, 8, 14, [30] * 12) + 0.5 * g.standard_t(3, size=(360, 8)),
        ),
        ("8 blobs and 5 far rows", "clusters", (8,), with_far_rows),
        ("2 × 4 nested", "clusters", (2, 8), nested),
        ("40 blobs, D=10", "clusters", (40,), lambda g: blobs(g, 40, 10, 12, [10] * 40)),
        ("sparse, K=10 p=.1", "features", (10,), lambda g: linear_gaussian(g, 300, 40, 10, 0.5, 0.1)),
        ("4 and a base", "features", (5,), lambda g: with_base(g, 4, 200, 30, 0.5)),
        (
            "t noise, K=6",
            "features",
            (6,),
            lambda g: linear_gaussian(g, 200, 40, 6, 0.1, 0.4) + 0.5 * g.standard_t(3, size=(200, 40)),
        ),
        ("few columns, K=3", "features", (3,), lambda g: linear_gaussian(g, 150, 10, 3, 0.4, 0.5)),
        (
            "positive, K=6",
            "features",
            (6,),
            lambda g: with_features(g, g.exponential(size=(6, 30)), 200, 0.3, 0.3),
        ),
        ("two, K=2", "features", (2,), lambda g: linear_gaussian(g, 150, 20, 2, 0.7, 0.5)),
        ("twelve, K=12", "features", (12,), lambda g: linear_gaussian(g, 300, 60, 12, 1, 0.4)),
    ]
    return [Case(name, kind, make, right) for name, kind, right, make in makers]


def groupless() -> list[Case]:
    """Clouds without groups, long, skewed, heavy-tailed, flat and mostly empty ones."""
    makers: dict[str, Callable[[Generator], NDArray]] = {
        "normal, D=10": lambda g: g.normal(size=(200, 10)),
        "normal, D=50": lambda g: g.normal(size=(200, 50)),
        "one factor, D=10": lambda g: one_factor(g, 200, 10),
        "one factor, D=4": lambda g: one_factor(g, 300, 4),
        "two factors, D=20": lambda g: g.normal(size=(200, 2)) @ g.normal(size=(2, 20)) * 2 + g.normal(size=(200, 20)),
        "long normal, D=2": lambda g: g.normal(size=(100, 2)) @ [[2, 1], [0, 1]],
        "lognormal, D=5": lambda g: np.exp(g.normal(size=(200, 5))),
        "mildly lognormal, D=10": lambda g: np.exp(0.5 * g.normal(size=(200, 10))),
        "skewed factor, D=5": lambda g: np.exp(0.3 * one_factor(g, 200, 5)),
        "gamma factor, D=6": lambda g: (
            g.gamma(2, size=(200, 1)) * g.uniform(0.5, 2, size=6) + g.gamma(1, size=(200, 6))
        ),
        "t, D=6": lambda g: g.standard_t(3, size=(200, 6)),
        "t factor, D=6": lambda g: 2 * g.standard_t(3, size=(200, 1)) + g.standard_t(3, size=(200, 6)),
        "uniform, D=2": lambda g: g.uniform(size=(200, 2)),
        "uniform, D=3": lambda g: g.uniform(size=(200, 3)),
        "uniform off the origin, D=10": lambda g: g.uniform(size=(200, 10)) + 5,
        "clipped normal, D=5": lambda g: np.maximum(g.normal(size=(200, 5)) - 0.5, 0.0),
        "clipped factors, D=5": lambda g: np.maximum(g.normal(size=(200, 2)) @ g.normal(size=(2, 5)) - 0.5, 0.0),
        "zero-inflated, D=4": lambda g: g.exponential(size=(200, 4)) * (g.random((200, 4)) < 0.4),
        "rare counts, D=5": lambda g: g.poisson(0.3, (200, 5)).astype(np.float64),
    }
    return [Case(name, kind, make, (), 10) for name, make in makers.items() for kind in ("clusters", "features")]


def count(cases: list[Case], seeds: list[int]) -> None:
    """How often the answer is right, and what it is otherwise."""
    print("\n| table | groups | right | other answers | CPU seconds a table |\n|---|---|---|---|---|", flush=True)
    total = 0
    for case in cases:
        began = time.process_time()
        answers = [answer(case, case.make(default_rng(seed)), seed) for seed in seeds]
        wrong = [str(found or "none") for found in answers if not is_right(case, found)]
        took = (time.process_time() - began) / len(seeds)
        right, total = len(seeds) - len(wrong), total + len(seeds) - len(wrong)
        groups = " and ".join(map(str, case.right)) or "none"
        print(
            f"| {case.name} ({case.kind}) | {groups} | {right} of {len(seeds)} | {', '.join(wrong)} | {took:.1f} |",
            flush=True,
        )
    print(f"\n{total} of {len(cases) * len(seeds)}", flush=True)


def answer(case: Case, X: NDArray, seed: int) -> list[int]:
    """The numbers that are offered, the best first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidenceWarning)
        return penalty_path(X, case.kind, max_components=case.cap, random_state=seed).candidates


def is_right(case: Case, found: list[int]) -> bool:
    """Whether the first of them is right; where there are several right ones, whether all are offered."""
    if len(case.right) > 1:
        return set(case.right) <= set(found)
    return found[:1] == list(case.right)


def path_tables() -> dict[str, tuple[str, Callable[[], NDArray]]]:
    """Tables whose paths are compared with separate fits, by name, with the kind of their groups."""
    return {
        "LG6": ("features", lambda: linear_gaussian(default_rng(0), 200, 50, 6, 0.5, 0.5)),
        "LG16": ("features", lambda: linear_gaussian(default_rng(0), 500, 64, 16, 0.5, 0.5)),
        "LG16-sparse": ("features", lambda: linear_gaussian(default_rng(0), 500, 64, 16, 0.5, 0.15)),
        "bars": ("features", lambda: with_features(default_rng(0), bars(8), 500, 0.3, 0.3)),
        "tabletop": ("features", tabletop),
        "mixture": ("clusters", lambda: mixture(default_rng(1), 2000, 10, 20, 4)),
    }


def cost(tables: list[str], seeds: list[int], n_fits: int) -> None:
    """The path up to 16 groups against fits of 16, and its errors against medians of separate fits of each number."""
    print("\n| table | path | fit of 16 | ratio | within 0.1 % | largest excess of each path |", flush=True)
    print("|---|---|---|---|---|---|", flush=True)
    numbers = range(1, PATH_LENGTH + 1)
    for name in tables:
        kind, make = path_tables()[name]
        X = make()
        paths = [timed(whole_path, kind, X, seed) for seed in seeds]
        fits = [[timed(separate, kind, X, K, seed) for K in numbers] for seed in range(n_fits)]
        ours = np.mean([seconds for _, seconds in paths])
        theirs = np.mean([of_one[-1][1] for of_one in fits])
        errors = np.median([[error for error, _ in of_one] for of_one in fits], axis=0)
        excess = [path.sse[1 - path.n_components[0] :] / errors - 1 for path, _ in paths]
        within = sum(one.max() <= EXCESS for one in excess)
        words = ", ".join(f"{one.max():.2%} at K={one.argmax() + 1}" for one in excess)
        costs = f"{ours:.2f} s | {theirs:.2f} s | {ours / theirs:.2f}"
        print(f"| {name} ({kind}) | {costs} | {within} of {len(seeds)} | {words} |", flush=True)


def timed(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """What a function gives, and the CPU seconds it takes."""
    began = time.process_time()
    return function(*args), time.process_time() - began


def whole_path(kind: str, X: NDArray, seed: int) -> PenaltyPath:
    """All numbers up to 16 and one more, with the groupless tables they are compared with, on all rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidenceWarning)
        return penalty_path(X, kind, max_components=PATH_LENGTH, max_rows=len(X), random_state=seed)


def separate(kind: str, X: NDArray, K: int, seed: int) -> float:
    """The squared error of a fit of so many groups."""
    model = KFeatures(K, random_state=seed) if kind == "features" else DPMeans(0, max_clusters=K, random_state=seed)
    return model.fit(X).sse_


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["settings", "fresh", "groupless", "cost"])
    parser.add_argument("--seeds", type=int, default=5, help="tables of each kind, or paths for the cost")
    parser.add_argument("--quick", action="store_true", help="one table of each kind")
    parser.add_argument("--tables", nargs="+", choices=list(path_tables()), help="for the cost; all if not given")
    parser.add_argument("--first-seed", type=int, default=0, help="of the paths for the cost")
    parser.add_argument("--fits", type=int, default=8, help="of each number of groups, for the cost")
    options = parser.parse_args()
    n_seeds = 1 if options.quick else options.seeds
    if "settings" in options.parts:
        count(list(settings()), [200 + i for i in range(n_seeds)])
        count([Case("tabletop", "features", lambda g: tabletop(), (5,), 9)], [0])
    if "fresh" in options.parts:
        count(fresh(), [900 + i for i in range(n_seeds)])
    if "groupless" in options.parts:
        count(groupless(), [500 + i for i in range(n_seeds)])
    if "cost" in options.parts:
        seeds = [options.first_seed + i for i in range(n_seeds)]
        cost(options.tables or list(path_tables()), seeds, 1 if options.quick else options.fits)


if __name__ == "__main__":
    main()
