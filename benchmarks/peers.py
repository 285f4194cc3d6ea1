"""Whole fits against other libraries, growth with the size of the table, and memory; prints tables in Markdown.

`make bench` makes the environments in which the other libraries live.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from engine import blobs, row, seconds
from madbayes import BPMeans, DPMeans, KFeatures
from madbayes.engine import allocation
from madbayes.engine.blocks import Workers

ROOT = Path(__file__).resolve().parents[1]
TIMES = "| what | ours | baseline | ratio | baseline is |\n|---|---|---|---|---|"
GROWTH = "| time of | exponent in N | exponent in K |\n|---|---|---|"
MEMORY = "| fit | beyond X and the answer | target | K | seconds |\n|---|---|---|---|---|"
# HDBSCAN's time in so many columns grows with the square of the rows: it is given this many seconds, and a sample.
HDBSCAN_LIMIT, HDBSCAN_ROWS = 240, 20_000


class Peer(NamedTuple):
    """What another library made of the table."""

    seconds: float
    labels: NDArray
    errors: int  # exceptions that its compiled code could not raise, and printed


def peer_fit(
    environment: str, estimator: str, X: NDArray, n_jobs: int, limit: float | None = None, **parameters: Any
) -> Peer:
    """Fit in another environment; raises TimeoutExpired past the limit."""
    python = ROOT / environment / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"There is no {environment} here: `make bench` makes it, or `make {environment}/.installed`.")
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        command = [str(python), str(Path(__file__).with_name("peer_fit.py")), estimator, json.dumps(parameters), folder]
        with subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": str(n_jobs), "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, errors = process.communicate(timeout=limit)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
                raise
        if process.returncode:
            raise SystemExit(f"{estimator} failed in {environment}:\n{errors[-1000:]}")
        labels = np.load(Path(folder) / "labels.npy")
    return Peer(json.loads(printed)["seconds"], labels, errors.count("Exception ignored"))


def groups(labels: NDArray) -> int:
    """How many groups have rows; the noise of HDBSCAN, -1, is none."""
    return len(np.unique(labels[labels >= 0]))


def objective(X: NDArray, labels: NDArray, penalty: float) -> float:
    """The DP-means objective of these labels: means refitted, every group after the first paid for."""
    error = 0.0
    for label in np.unique(labels):
        rows = X[labels == label].astype(np.float64)
        error += float(((rows - rows.mean(axis=0)) ** 2).sum())
    return error + (groups(labels) - 1) * penalty


def pdc_dp_means(n_jobs: int) -> None:
    """The table of `whole_fit` in engine.py, given to another DP-means; one fit of it, as it takes seconds."""
    for D in (64, 128):
        X = blobs(200_000, D, 100)
        penalty = 6.0 * D
        model = DPMeans(penalty, search="paper", n_init=1, n_jobs=n_jobs)
        ours = seconds(lambda: model.fit(X))
        # One cluster to begin with, as its documentation does and as ours does.
        peer = peer_fit(
            ".venv-pdc", "pdc_dp_means.DPMeans", X, n_jobs, n_clusters=1, n_init=1, delta=penalty, random_state=0
        )
        J, its = objective(X, model.labels_, penalty), objective(X, peer.labels, penalty)
        note = f"`pdc-dp-means` 0.0.8; K={model.n_clusters_} and {groups(peer.labels)}, objective {J:.7g} and {its:.7g}"
        if peer.errors:
            note += f", {peer.errors} exceptions in its compiled code"
        row(f"whole DP-means fit, N=2e5 D={D} float32", ours, peer.seconds, note)


def searches(n_jobs: int) -> None:
    """The same table: the searches and the automatic penalty, scikit-learn being told the number of clusters."""
    for D in (64, 128):
        X = blobs(200_000, D, 100)
        penalty = 6.0 * D
        with threadpool_limits(n_jobs):
            peer = KMeans(100, n_init=1, random_state=0)
            baseline = seconds(lambda: peer.fit(X), 1)
        for name, model in {
            '`search="paper"`': DPMeans(penalty, search="paper", random_state=0, n_jobs=n_jobs),
            '`search="best"`': DPMeans(penalty, search="best", random_state=0, n_jobs=n_jobs),
            '`penalty="auto"`': DPMeans("auto", random_state=0, n_jobs=n_jobs),
        }.items():
            ours = seconds(lambda: model.fit(X), 1)
            note = (
                f"`KMeans(100, n_init=1)`; K={model.n_clusters_}, squared error {model.sse_ / peer.inertia_:.3f} of its"
            )
            row(f"DP-means {name}, N=2e5 D={D} float32", ours, baseline, note)


def mixed_table(N: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Eight groups of unequal sizes in 40 columns, whose units differ by seven orders of magnitude."""
    rng = np.random.default_rng(0)
    labels = rng.choice(8, size=N, p=np.arange(4, 12) / 60)
    normal = rng.normal(size=(8, 16))[labels] + rng.normal(size=(N, 16))
    skewed = np.exp(0.5 * (rng.normal(size=(8, 8))[labels] + rng.normal(size=(N, 8))))
    counts = rng.poisson(rng.uniform(1, 12, size=(8, 6))[labels])
    noise = rng.normal(size=(N, 10))
    X = np.column_stack([normal, skewed, counts, noise])
    return X * rng.permutation(np.logspace(-3, 4, X.shape[1])), labels


class Found(NamedTuple):
    """Labels and the time they took."""

    seconds: float
    labels: NDArray


def timed(labels_of: Callable[[], NDArray]) -> Found:
    """One call: these take long enough."""
    start = time.perf_counter()
    labels = labels_of()
    return Found(time.perf_counter() - start, labels)


def best_silhouette(X: NDArray, n_jobs: int) -> NDArray:
    """K-means for K = 2, ..., 30; the labels of the highest silhouette on a sample."""
    best, labels = -1.0, np.zeros(len(X), dtype=np.int32)
    with threadpool_limits(n_jobs):
        for K in range(2, 31):
            found = KMeans(K, n_init="auto", random_state=0).fit(X).labels_
            score = silhouette_score(X, found, sample_size=5000, random_state=0)
            if score > best:
                best, labels = score, found
    return labels


def automatic(X: NDArray, n_jobs: int) -> Found:
    """Ours, after a fit of a few rows that compiles what is not in the cache yet."""
    DPMeans(random_state=0, n_jobs=n_jobs).fit(X[:2000])
    return timed(lambda: DPMeans(penalty="auto", random_state=0, n_jobs=n_jobs).fit(X).labels_)


def compare(what: str, ours: Found, baseline: Found, planted: NDArray, name: str, scaling: float) -> None:
    """A row with the numbers of groups and how well they agree with what was planted."""
    K = " and ".join(str(groups(found.labels)) for found in (ours, baseline))
    agreement = " and ".join(f"{adjusted_rand_score(planted, found.labels):.3f}" for found in (ours, baseline))
    row(what, scaling + ours.seconds, scaling + baseline.seconds, f"{name}; K={K} (planted 8), ARI {agreement}")


def unknown_number(n_jobs: int) -> None:
    """A table in mixed units to groups, nobody being told how many; everyone's time includes the scaling."""
    table, planted = mixed_table(200_000)
    start = time.perf_counter()
    X = StandardScaler().fit_transform(table)
    scaling = time.perf_counter() - start
    ours, what = automatic(X, n_jobs), '`DPMeans(penalty="auto")`, '
    silhouette = timed(lambda: best_silhouette(X, n_jobs))
    compare(what + "N=2e5 D=40", ours, silhouette, planted, "best silhouette of `KMeans`, K = 2…30", scaling)

    def hdbscan(rows: slice, limit: float | None) -> Found:
        size = 500 * len(planted[rows]) // len(planted)
        options = {"min_cluster_size": size, "core_dist_n_jobs": n_jobs}
        return Found(*peer_fit(".venv-hdbscan", "hdbscan.HDBSCAN", X[rows], n_jobs, limit, **options)[:2])

    sample = slice(HDBSCAN_ROWS)
    few = automatic(X[sample], n_jobs)
    share = scaling * HDBSCAN_ROWS / len(X)
    compare(what + "N=2e4 D=40", few, hdbscan(sample, None), planted[sample], "`HDBSCAN` 0.8.44", share)
    try:
        compare(what + "N=2e5 D=40", ours, hdbscan(slice(None), HDBSCAN_LIMIT), planted, "`HDBSCAN` 0.8.44", scaling)
    except subprocess.TimeoutExpired:
        note = f"`HDBSCAN` 0.8.44, stopped after {HDBSCAN_LIMIT} s: the ratio is a lower bound"
        row(what + "N=2e5 D=40", scaling + ours.seconds, scaling + HDBSCAN_LIMIT, note)


class Planted(NamedTuple):
    """A table in single precision made of groups."""

    X: NDArray[np.float32]
    Z: NDArray[np.uint8]
    A: NDArray[np.float32]


def plant(N: int, D: int, K: int, *, clusters: bool) -> Planted:
    """X = ZA + noise; a row has one group, or each with probability 0.3."""
    rng = np.random.default_rng(0)
    A = (4 if clusters else 1) * rng.standard_normal((K, D), dtype=np.float32)
    Z = np.eye(K, dtype=bool)[rng.integers(K, size=N)] if clusters else rng.random((N, K), dtype=np.float32) < 0.3
    X = 0.5 * rng.standard_normal((N, D), dtype=np.float32)
    X += Z.astype(np.float32) @ A
    return Planted(X, Z.astype(np.uint8), A)


def iteration_times(function: Callable[[], tuple[float, int]]) -> float:
    """Median seconds of an iteration, after one run that is not counted."""
    function()
    return statistics.median(duration / iterations for duration, iterations in (function() for _ in range(5)))


def dp_means_iteration(N: int, D: int, K: int, n_jobs: int) -> float:
    """From the planted means and at a price that opens nothing."""
    X, _, A = plant(N, D, K, clusters=True)
    model = DPMeans(1e9, init=A, search="paper", n_jobs=n_jobs)

    def run() -> tuple[float, int]:
        (only,) = model.fit(X).runs_
        return only.seconds, only.iterations

    return iteration_times(run)


def k_features_iteration(N: int, D: int, K: int, n_jobs: int) -> float:
    """From the planted features; not by the estimator, whose last look at the rows takes longer than the run."""
    X, Z, A = plant(N, D, K, clusters=False)

    def run() -> tuple[float, int]:
        start = time.perf_counter()
        (result,) = allocation.k_features(X, K, [(Z, A)], workers=workers)
        return time.perf_counter() - start, result.iterations

    with Workers(n_jobs) as workers:
        return iteration_times(run)


def product(N: int, D: int, K: int, n_jobs: int) -> float:
    """The matrix product that each of them contains."""
    X, _, A = plant(N, D, K, clusters=False)
    with threadpool_limits(n_jobs, user_api="blas"):
        return seconds(lambda: X @ A.T, 5)


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of the time in logarithmic scales."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(n_jobs: int) -> None:
    """How the time of an iteration grows: that of a run over its iterations, so what precedes the first counts too.

    With K there are 128 columns, as features may not outnumber them.
    """
    rows, numbers = [10_000, 31_623, 100_000, 316_228, 1_000_000], [8, 16, 32, 64, 128]
    for name, function in {
        "DP-means iteration": dp_means_iteration,
        "K-features iteration": k_features_iteration,
        "the product XA'": product,
    }.items():
        by_rows = [function(N, 32, 16, n_jobs) for N in rows]
        by_number = [function(100_000, 128, K, n_jobs) for K in numbers]
        ends = (f"{times[0] * 1e3:.3g} to {times[-1] * 1e3:.3g} ms" for times in (by_rows, by_number))
        in_N, in_K = exponent(rows, by_rows), exponent(numbers, by_number)
        print(f"| {name} | {in_N:.2f} ({next(ends)}) | {in_K:.2f} ({next(ends)}) |", flush=True)


def memory_status(field: str) -> float:
    """MiB that Linux reports of this process."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise SystemExit("the memory of a process is read from /proc/self/status, which Linux alone has")
    return int(found[1]) / 1024


def memory_models(n_jobs: int) -> dict[str, Any]:
    """Fits to be looked at; those that start from fitted components get them later, as `init`.

    From seeds of their own, features are few: with 16 of them and a poor start, the last look at the rows takes
    minutes.
    """
    options: dict[str, Any] = {"search": "paper", "n_init": 1, "max_iter": 10, "random_state": 0, "n_jobs": n_jobs}
    return {
        "`DPMeans`": DPMeans(600.0, max_clusters=16, **options),
        "`KFeatures`, seeded": KFeatures(4, **options),
        "`BPMeans`, seeded": BPMeans(200.0, max_components=4, **options),
        "`KFeatures`, from components": KFeatures(16, **options),
        "`BPMeans`, from components": BPMeans(200.0, max_components=16, **options),
    }


def memory_groups(model: Any) -> int:
    """At most how many groups a model may have."""
    names = ("max_clusters", "max_components", "n_components")
    return next(getattr(model, name) for name in names if hasattr(model, name))


def extra_memory(name: str, N: int, n_jobs: int) -> tuple[float, int, float]:
    """In a process of its own: MiB at the peak of fit beyond what was there before and what it leaves; K; seconds."""
    warnings.simplefilter("ignore")  # ten iterations do not always suffice, and need not
    model = memory_models(n_jobs)[name]
    clusters = isinstance(model, DPMeans)
    X, Z, A = plant(N, 100, memory_groups(model), clusters=clusters)
    few = slice(20_000)
    if name.endswith("components"):
        model.set_params(init=KFeatures(len(A), init=(Z[few], A)).fit(X[few]))
    copy(model).fit(X[few])  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, start = memory_status("VmRSS"), time.perf_counter()
    model.fit(X)
    duration, peak = time.perf_counter() - start, memory_status("VmHWM")
    answer = model.labels_ if clusters else model.allocations_
    K = model.n_clusters_ if clusters else model.n_components_
    return peak - before - answer.nbytes / 2**20, K, duration


def memory(n_jobs: int) -> None:
    """A long table: half as long where two gigabytes are not free."""
    free = int(re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())[1])  # type: ignore[index]
    N = 1_000_000 if free > 2 * 2**20 else 500_000
    for name in memory_models(n_jobs):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            extra, K, duration = pool.submit(extra_memory, name, N, n_jobs).result()
        print(f"| {name}, N={N:.0e} D=100 float32 | {extra:.0f} MiB | 128 MiB | {K} | {duration:.3g} |", flush=True)


def main() -> None:
    """All of it, or the parts that are named."""
    parts = {
        TIMES: (pdc_dp_means, searches, unknown_number),
        GROWTH: (growth,),
        MEMORY: (memory,),
    }
    names = [part.__name__ for some in parts.values() for part in some]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=names, metavar="PART", help=", ".join(names))
    parser.add_argument("--jobs", type=int, default=2, help="threads on both sides")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(names):
        parser.error(f"no part is called {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    for header, some in parts.items():
        chosen = [part for part in some if part.__name__ in options.parts]
        if chosen:
            print(f"\n{header}")
        for part in chosen:
            part(options.jobs)


if __name__ == "__main__":
    main()
