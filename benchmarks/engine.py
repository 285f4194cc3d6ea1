"""The engine against named baselines, as ratios measured in one run; prints a table in Markdown."""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from madbayes import DPMeans, paper
from madbayes.datasets import make_linear_gaussian
from madbayes.engine import allocation, partition
from madbayes.engine.blocks import Workers
from madbayes.engine.kernels import Limits
from madbayes.engine.seeding import seed_features

PENALTY = 200.0  # for the restarts: finds 4 to 11 features
PRICE = 1e9  # for passes that open nothing


def seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Median time of some calls, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def row(what: str, ours: float, baseline: float, note: str, *, faster: bool = True) -> None:
    """A line of the table: how many times as fast as the baseline, or how many times its time."""
    ratio = f"{baseline / ours:.1f}× as fast" if faster else f"{ours / baseline:.2f}× its time"
    print(f"| {what} | {ours * 1e3:.4g} ms | {baseline * 1e3:.4g} ms | {ratio} | {note} |", flush=True)


def restarts(n_jobs: int) -> None:
    """Many restarts of a small table, seeding included on both sides."""
    X = make_linear_gaussian(100, 100, 5, noise=0.5, random_state=0).X
    seeds, few = range(1000), range(30)

    def paper_k_features() -> None:
        for seed in few:
            paper.k_features(X, 5, *paper.seed_features(X, 5, random_state=seed))

    def paper_bp_means() -> None:
        for seed in few:
            paper.bp_means(X, PENALTY, *paper.seed_features(X, penalty=PENALTY, random_state=seed))

    def paper_collapsed() -> None:
        for seed in range(3):
            paper.collapsed_bp_means(X, PENALTY, paper.seed_features(X, penalty=PENALTY, random_state=seed)[0])

    with Workers(n_jobs) as workers:
        ours = seconds(
            lambda: allocation.k_features(X, 5, seed_features(X, 5, seeds, workers=workers), workers=workers)
        )
        row("K-features, one of 1000 restarts", ours / 1000, seconds(paper_k_features) / 30, "`paper.k_features`")

        def starts(seeds: range) -> list:
            return seed_features(X, None, seeds, penalty=PENALTY, workers=workers)

        ours = seconds(lambda: allocation.bp_means(X, PENALTY, starts(seeds), workers=workers))
        row("BP-means, one of 1000 restarts", ours / 1000, seconds(paper_bp_means) / 30, "`paper.bp_means`")
        ours = seconds(lambda: allocation.collapsed_bp_means(X, PENALTY, starts(range(100)), workers=workers))
        note = "`paper.collapsed_bp_means`"
        row("collapsed BP-means, one of 100 restarts", ours / 100, seconds(paper_collapsed, 1) / 3, note)


def blobs(N: int, D: int, K: int, seed: int = 0) -> NDArray[np.float32]:
    """Well separated clusters."""
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(K, D))
    return (centres[rng.integers(K, size=N)] + rng.normal(size=(N, D))).astype(np.float32)


def k_features_iteration(n_jobs: int) -> None:
    """A late iteration on a long table against the two matrix products it cannot do without."""
    N, D, K = 1_000_000, 100, 16
    rng = np.random.default_rng(0)
    Z, A = (rng.random((N, K), dtype=np.float32) < 0.3), rng.normal(size=(K, D)).astype(np.float32)
    X = Z.astype(np.float32) @ A
    X += 0.5 * rng.standard_normal((N, D), dtype=np.float32)
    table = allocation.Table.of(X, None)
    state = allocation.State.of((Z.astype(np.uint8), A), K)
    limits, Zf = Limits(K, 0, 0.0, np.inf, 0.0, 1e-12), Z.astype(np.float32)
    with Workers(n_jobs) as workers:
        allocation.advance(table, state, limits, workers)
        ours = seconds(lambda: allocation.advance(table, state, limits, workers))
    with threadpool_limits(n_jobs, user_api="blas"):
        products = seconds(lambda: (X @ A.T, Zf.T @ X))
    row("K-features iteration, N=1e6 D=100 K=16 float32", ours, products, "the products XA' and Z'X", faster=False)


def late_pass(table: partition.Table, run: partition.Clusters, workers: Workers) -> partition.Clusters:
    """Assign, open nothing, move the means."""
    state = partition.assign(table, run.A, run.assignment, run.shifts, PRICE, workers)
    state, _ = partition.open_pass(table, run.A, state, PRICE, None, np.inf, workers)
    return partition.fit(table, state, run.A, PRICE, workers, run)


def dp_means_pass(n_jobs: int) -> None:
    """Passes of DP-means against iterations of scikit-learn's K-means from the same centres, 3 to 12 of both."""
    for D, K in ((2, 20), (16, 50), (64, 100), (128, 100)):
        X, shape = blobs(200_000, D, K), f"N=2e5 D={D} K={K} float32"
        centres = paper.seed_clusters(X[:5000], K, random_state=0)
        table = partition.Table.of(X, None)
        with Workers(n_jobs) as workers:
            early = partition.start(table, centres, PRICE, workers)
            early = late_pass(table, early, workers)

            def ten_passes() -> None:
                run = early
                for _ in range(10):
                    run = late_pass(table, run, workers)

            def full_pass() -> None:
                late_pass(table, partition.forgetful(early), workers)

            def opening_pass() -> None:
                partition.dp_means(table, 6.0 * D, max_iter=1, workers=workers)

            ours, full, opening = seconds(ten_passes) / 10, seconds(full_pass), seconds(opening_pass)
        with threadpool_limits(n_jobs):
            times = [
                seconds(lambda i=i: KMeans(K, init=centres, n_init=1, max_iter=i, tol=0).fit(X))  # type: ignore[misc]
                for i in (2, 12)
            ]
        lloyd, note = (times[1] - times[0]) / 10, "scikit-learn Lloyd iteration"
        row(f"DP-means pass, {shape}", ours, lloyd, note, faster=False)
        row(f"the same looking at all rows, {shape}", full, lloyd, note, faster=False)
        row(f"first DP-means pass, opens K={K}, {shape}", opening, lloyd, note, faster=False)


def whole_fit(n_jobs: int) -> None:
    """From the table to 100 clusters, scikit-learn being told that number."""
    for D in (64, 128):
        X = blobs(200_000, D, 100)
        penalty = 6.0 * D  # rows are at D from their centre and at 32 D from others, on average
        model = DPMeans(penalty, search="paper", n_init=1, n_jobs=n_jobs)
        ours = seconds(lambda: model.fit(X))
        with threadpool_limits(n_jobs):
            peer = KMeans(100, n_init=1, random_state=0)
            baseline = seconds(lambda: peer.fit(X), 1)
        note = f"`KMeans(100, n_init=1)`; K={model.n_clusters_}, squared error {model.sse_ / peer.inertia_:.3f} of its"
        row(f"whole DP-means fit, N=2e5 D={D} float32", ours, baseline, note)


def stream(n_jobs: int) -> None:
    """A batch after the other, scikit-learn being told the number of clusters; and all rows at once."""
    batches = np.split(blobs(400_000, 32, 16), 40)
    whole = np.concatenate(batches)
    ours, baseline = DPMeans(n_jobs=n_jobs, random_state=0), MiniBatchKMeans(16, n_init=10, random_state=0)
    with threadpool_limits(n_jobs):
        times = []
        for model in (ours, baseline):
            model.partial_fit(batches[0])
            marks = [time.perf_counter()]
            for X in batches[1:]:
                model.partial_fit(X)
                marks.append(time.perf_counter())
            times.append(statistics.median(np.diff(marks)))
        full = DPMeans(ours.penalty_, n_jobs=n_jobs, random_state=0).fit(whole)
        inertia = -baseline.score(whole)
    found = f"K={ours.n_clusters_}, {len(batches[0]) / times[0]:.2g} rows a second and {len(batches[0]) / times[1]:.2g}"
    values = (
        f"squared error {ours.sse_ / inertia:.4f} of its, objective {ours.objective_ / full.objective_:.6f} of `fit`"
    )
    note = f"`MiniBatchKMeans(16).partial_fit`; {found}, {values}"
    row("`DPMeans().partial_fit`, batches of N=1e4 D=32 float32", times[0], times[1], note, faster=False)


def start_up() -> None:
    """Import and first fit with an empty cache, each in a process of its own."""

    def process(code: str, **environment: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "", **environment})
        return time.perf_counter() - start

    ours, baseline = (
        statistics.median(process(f"import {name}") for _ in range(5)) for name in ("madbayes", "sklearn.cluster")
    )
    row("`import madbayes`", ours, baseline, "`import sklearn.cluster`", faster=False)
    for name in ("DPMeans", "BPMeans", "KFeatures"):
        code = f"import numpy, madbayes; madbayes.{name}().fit(numpy.random.default_rng(0).normal(size=(200, 5)))"
        with tempfile.TemporaryDirectory() as folder:
            cold = process(code, NUMBA_CACHE_DIR=folder)
            warm = process(code, NUMBA_CACHE_DIR=folder)
        row(f"first `{name}().fit` ever", cold, warm, "the same with the kernels in the cache", faster=False)


def main() -> None:
    """All of it, or the parts that are named."""
    parts = {f.__name__: f for f in (restarts, k_features_iteration, dp_means_pass, whole_fit, stream)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*parts, "start_up"], metavar="PART")
    parser.add_argument("--jobs", type=int, default=2, help="threads on both sides")
    options = parser.parse_args()
    print("| what | ours | baseline | ratio | baseline is |\n|---|---|---|---|---|")
    for name in options.parts:
        if name == "start_up":
            start_up()
        else:
            parts[name](options.jobs)


if __name__ == "__main__":
    main()
