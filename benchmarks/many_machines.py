"""Passes over rows on Dask workers: rows a second with one and two of them, bytes on the wire, and what a pass costs.

Everything is measured in one run; prints a table in Markdown. Workers are processes with one thread each.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from numpy.typing import NDArray
from scipy.optimize import nnls

from madbayes.backends.dask import DaskHome
from madbayes.engine import cluster_passes, feature_passes
from madbayes.engine.blocks import Workers
from madbayes.engine.homes import LocalHome, Moments

COLUMNS, GROUPS = 64, 32
# Iterations that are timed: groups that overlap do not converge in so few.
PASSES = 10


@contextmanager
def workers(n_workers: int) -> Iterator[Client]:
    """So many processes on this machine."""
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def made_there(n_rows: int, n_chunks: int) -> da.Array:
    """Rows that overlapping groups have drawn, made by the workers chunk by chunk."""

    def chunk(block_info: Any = None) -> NDArray[np.float32]:
        shape, place = block_info[None]["chunk-shape"], block_info[None]["chunk-location"]
        centres = np.random.default_rng(0).normal(size=(GROUPS, COLUMNS)).astype(np.float32)
        rng = np.random.default_rng([1, place[0]])
        return centres[rng.integers(GROUPS, size=shape[0])] + rng.standard_normal(shape, dtype=np.float32)

    lengths = tuple(len(rows) for rows in np.array_split(np.empty(n_rows, dtype=bool), n_chunks))
    return da.map_blocks(chunk, chunks=(lengths, (COLUMNS,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))


class Bench:
    """A table on the workers of a client, and the centres that passes begin with."""

    def __init__(self, client: Client, n_rows: int, n_chunks: int) -> None:
        self.home = DaskHome(made_there(n_rows, n_chunks), client=client)
        self.known = Moments.of(self.home)
        self.start = self.home.take(np.linspace(0, n_rows - 1, GROUPS).astype(int))[0].astype(float)

    def descend(self) -> tuple[float, int]:
        """Seconds of an iteration of K-means, and how many there were; the first look at all rows is not in it."""
        times: list[float] = []
        cluster_passes.descend(
            self.home, self.known, 0.0, self.start, K=GROUPS, max_iter=PASSES, watch=lambda run: note(times)
        )
        return (times[-1] - times[0]) / (len(times) - 1), len(times) - 1

    def full(self) -> tuple[float, int]:
        """Seconds of a pass that compares all rows with all centres and adds up all of them."""
        rows, begin = cluster_passes.Follower(self.home, self.known), time.perf_counter()
        rows.look(self.start)
        return time.perf_counter() - begin, 1

    def sweep(self) -> tuple[float, int]:
        """Seconds of an iteration of K-features, and how many there were."""
        times: list[float] = []
        feature_passes.descend(
            self.home, self.known, 0.0, self.start[:8], K=8, max_iter=PASSES, watch=lambda run: note(times)
        )
        return (times[-1] - times[0]) / (len(times) - 1), len(times) - 1


def note(times: list[float]) -> bool:
    """The time; the run goes on."""
    times.append(time.perf_counter())
    return False


def row(what: str, figure: str, target: str) -> None:
    """A line of the table."""
    print(f"| {what} | {figure} | {target} |", flush=True)


def efficiency(options: argparse.Namespace) -> None:
    """The same table on one worker and on two, in turns."""
    with workers(1) as one, workers(2) as two:
        benches = [Bench(client, options.rows, options.chunks) for client in (one, two)]
        shape = f"N={options.rows:.3g} D={COLUMNS} K={GROUPS} float32 in {options.chunks} chunks"
        for what, measure in (("K-means iteration", Bench.descend), ("pass that looks at all rows", Bench.full)):
            for bench in benches:
                measure(bench)  # compiles
            times = np.array([[measure(bench)[0] for bench in benches] for _ in range(options.rounds)])
            alone, both = np.median(times, axis=0)
            figure = f"{alone * 1e3:.4g} ms and {both * 1e3:.4g} ms, {options.rows / both:.3g} rows/s with two"
            row(f"{what}, 1 and 2 workers, {shape}", f"{figure}; efficiency {alone / both / 2:.3f}", "0.85")


def count_writes() -> None:
    """From now on this process counts what it writes to others."""
    from distributed.comm import tcp

    sockets: Any = tcp.TCP
    write, sockets.written = sockets.write, 0

    async def counted(comm: Any, *arguments: Any, **options: Any) -> int:
        n_bytes = await write(comm, *arguments, **options)
        sockets.written += n_bytes
        return n_bytes

    sockets.write = counted


def written() -> int:
    """What this process has counted."""
    from distributed.comm import tcp

    sockets: Any = tcp.TCP
    return sockets.written


def wire(options: argparse.Namespace) -> None:
    """All that is written to sockets by client, scheduler and workers, for N rows and 4 N in as many chunks."""
    with workers(2) as client:
        count_writes()  # the client, and the scheduler, which is in the same process
        client.run(count_writes)

        def sent(function: Callable[[], Any]) -> tuple[int, float, Any]:
            before, begin = written() + sum(client.run(written).values()), time.perf_counter()
            found, taken = function(), time.perf_counter() - begin
            return written() + sum(client.run(written).values()) - before, taken, found

        idle, taken, _ = sent(lambda: time.sleep(5))
        rate = idle / taken
        row("bytes a second while nothing is done", f"{rate:.4g}", "taken off below")
        for what, measure in (("K-means", Bench.descend), ("K-features with K=8", Bench.sweep)):
            for n_rows in (options.rows // 16, options.rows // 4):
                bench = Bench(client, n_rows, options.chunks)
                n_bytes, taken, (_, iterations) = sent(lambda: measure(bench))
                name = f"bytes of an iteration, {what}, N={n_rows:.3g} in {options.chunks} chunks"
                row(name, f"{(n_bytes - rate * taken) / (iterations + 1):.4g}", "the same for all N")


def overhead(options: argparse.Namespace) -> None:
    """A pass over so few rows that all of it is messages."""
    with workers(2) as client:
        for n_chunks in (2, options.chunks):
            bench = Bench(client, 20 * GROUPS, n_chunks)
            for what, measure in (("K-means", Bench.descend), ("K-features with K=8", Bench.sweep)):
                measure(bench)
                taken = statistics.median(measure(bench)[0] for _ in range(options.rounds))
                name = f"iteration of {what}, N={20 * GROUPS} in {n_chunks} chunks, 2 workers"
                row(name, f"{taken * 1e3:.4g} ms", "50 ms")


def row_costs() -> NDArray[np.float64]:
    """Seconds for each row, entry, and entry and group, of a pass that looks at all rows in one thread."""
    rng, terms, times = np.random.default_rng(0), [], []
    for D, K in ((16, 8), (16, 64), (64, 8), (64, 32), (64, 128), (256, 8), (256, 64)):
        X = rng.normal(size=(2**23 // D, D)).astype(np.float32)
        with Workers(1) as alone:
            home = LocalHome(X, None, alone)
            known, taken = Moments.of(home), []
            for _ in range(5):
                rows, begin = cluster_passes.Follower(home, known), time.perf_counter()
                rows.look(X[:K])
                taken.append(time.perf_counter() - begin)
        terms.append([1.0, D, D * K])
        times.append(statistics.median(taken) / len(X))
    scale = np.array(times)[:, None]  # so that shares of the times are fitted, not the longest of them
    costs, _ = nnls(np.array(terms) / scale, np.ones(len(times)))
    for term, measured in zip(terms, times, strict=True):
        predicted = costs @ term
        name = f"a row of a full pass, one thread, D={term[1]:.0f} K={term[2] / term[1]:.0f} float32"
        row(name, f"{measured * 1e9:.1f} ns; the model says {predicted * 1e9:.1f} ns", "")
    return costs


def message_costs(options: argparse.Namespace) -> tuple[float, float]:
    """Seconds of a pass over next to no rows: with no worker, and for each."""
    counts, times = (1, 2, 4, 8), []
    for n_workers in counts:
        with workers(n_workers) as client:
            bench = Bench(client, 20 * GROUPS, n_workers)
            bench.descend()
            times.append(statistics.median(bench.descend()[0] for _ in range(options.rounds)))
        row(f"iteration of K-means, N={20 * GROUPS}, {n_workers} workers", f"{times[-1] * 1e3:.4g} ms", "")
    each, fixed = np.polyfit(counts, times, 1)
    return float(fixed), float(each)


def model(options: argparse.Namespace) -> None:
    """What a pass costs, fitted to measurements, and what that says about a billion rows."""
    per_row, per_entry, per_product = row_costs()
    name = "seconds of a full pass: N (a + b D + c D K) / workers + d + e workers"
    fixed, each = message_costs(options)
    found = f"a={per_row * 1e9:.2f} ns, b={per_entry * 1e9:.3f} ns, c={per_product * 1e9:.4f} ns"
    row(name, f"{found}, d={fixed * 1e3:.1f} ms, e={each * 1e3:.2f} ms", "")
    for n_workers in (1, 10, 100, 1000):
        work = 1e9 * (per_row + per_entry * COLUMNS + per_product * COLUMNS * GROUPS) / n_workers
        talk = max(fixed, 0.0) + each * n_workers
        share = f"{work / (work + talk):.0%} of it work"
        row(f"so, N=1e9 D={COLUMNS} K={GROUPS} on {n_workers} workers", f"{work + talk:.3g} s a pass, {share}", "")


def main() -> None:
    """All of it, or the parts that are named."""
    parts = {f.__name__: f for f in (efficiency, wire, overhead, model)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*parts], metavar="PART", help=", ".join(parts))
    parser.add_argument("--rows", type=int, default=4_000_000, help="of the table that is timed; bytes take a quarter")
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many is shown")
    options = parser.parse_args()
    print("| what | measured | target |\n|---|---|---|")
    for name in options.parts:
        parts[name](options)


if __name__ == "__main__":
    main()
