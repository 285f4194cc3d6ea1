"""A table in a file against the same table in memory: seconds, and the most memory; prints a table in Markdown.

python benchmarks/out_of_core.py                  2e7 rows of 32 columns, 2.6 GB of disk and as much memory
python benchmarks/out_of_core.py --rows 2000000   a tenth of that
python benchmarks/out_of_core.py clusters         one part: clusters, or features (of a tenth of the rows)
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

D, K = 32, 16


def make(path: Path, n_rows: int) -> None:
    """Rows of K clusters in the format of NumPy, written block by block."""
    rng = np.random.default_rng(0)
    centres = 1.2 * rng.normal(size=(K, D))
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_rows, D))
    for begin in range(0, n_rows, 10**6):
        n = min(10**6, n_rows - begin)
        rows[begin : begin + n] = centres[rng.integers(K, size=n)] + rng.standard_normal((n, D), dtype=np.float32)
    rows.flush()


def most_memory() -> int:
    """Bytes that this process has had at most; what getrusage says may be its parent's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def fit(kind: str, path: Path, limit: str, where: str, jobs: int) -> None:
    """Fit once, and say how long it took and how much memory the process has ever had."""
    from madbayes import DPMeans, KFeatures

    warnings.simplefilter("ignore")
    model: DPMeans | KFeatures = DPMeans(0, max_clusters=K, random_state=0, n_jobs=jobs)
    if kind == "features":
        model = KFeatures(6, random_state=0, n_jobs=jobs, max_iter=10)
    # What is compiled, or read from the cache of compiled code, is so before the clock starts.
    model.fit(np.random.default_rng(1).normal(size=(6000, D)).astype(np.float32))
    X = np.load(path, mmap_mode="r")
    if where == "memory":
        X = np.array(X)
    else:
        model.set_params(memory_limit=limit)
    began = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - began
    print(
        json.dumps({"seconds": seconds, "peak": most_memory(), "objective": model.objective_, "passes": model.n_iter_})
    )


def measured(*args: str) -> dict:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--fit", *args]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    """All of it, or the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["clusters", "features"], metavar="PART")
    parser.add_argument("--rows", type=float, default=2e7)
    parser.add_argument("--limit", default="600MB")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fit", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        kind, path, where = options.fit
        fit(kind, Path(path), options.limit, where, options.jobs)
        return
    print("| what | in a file | in memory | of its throughput | most memory, file and memory |\n|---|---|---|---|---|")
    for kind in options.parts:
        n_rows = int(options.rows if kind == "clusters" else options.rows / 10)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.npy"
            make(path, n_rows)
            compare(kind, path, n_rows, options)


def compare(kind: str, path: Path, n_rows: int, options: argparse.Namespace) -> None:
    """Both ways in turn; a line of the table."""
    found: dict[str, list[dict]] = {"memory": [], "file": []}
    for _ in range(options.repeats):
        for where, runs in found.items():
            runs.append(measured(kind, str(path), where, "--limit", options.limit, "--jobs", str(options.jobs)))
    assert len({run["objective"] for runs in found.values() for run in runs}) == 1
    here, there = (float(np.median([run["seconds"] for run in found[where]])) for where in ("memory", "file"))
    peaks = [max(run["peak"] for run in found[where]) / 1e6 for where in ("file", "memory")]
    what = f"{kind}, N={n_rows:.0e} D={D} float32, {options.limit}"
    seconds = f"{there:.1f} s | {here:.1f} s | {here / there:.0%}"
    print(f"| {what} | {seconds} | {peaks[0]:.0f} MB, {peaks[1]:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
