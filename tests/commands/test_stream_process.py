"""A table that does not fit in the memory allowed, through the command as a process of its own."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import madbayes

# The most memory that the process had, as it tells at its end. It is not asked for by its parent: what that is told
# includes the memory of the parent itself when the process began.
SCRIPT = """
import atexit, pathlib, sys
from madbayes.cli import main

def tell():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    peak = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    pathlib.Path(sys.argv[-1]).with_name("peak").write_text(peak)

atexit.register(tell)
main()
"""
FILES, ROWS, COLUMNS, GROUPS = 8, 50_000, 40, 5
LIMIT = 600


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """128 MB of numbers, of which a fit in memory makes several copies."""
    folder = tmp_path_factory.mktemp("large") / "table"
    folder.mkdir()
    centres = 5 * np.random.default_rng(0).normal(size=(GROUPS, COLUMNS))
    for n in range(FILES):
        rng = np.random.default_rng(n + 1)
        X = centres[truth_of(n)] + rng.normal(size=(ROWS, COLUMNS))
        columns = {f"c{d}": X[:, d] for d in range(COLUMNS)}
        table = pa.table({"id": np.arange(n * ROWS, (n + 1) * ROWS), **columns})
        pq.write_table(table, folder / f"{n}.parquet", row_group_size=10_000)
    return folder


def truth_of(n):
    return np.random.default_rng(100 + n).integers(GROUPS, size=ROWS)


def start(*words):
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def peak_of(*words, out):
    """Megabytes of a command that ends well."""
    process = start(*words, "--out", out)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return int((out.parent / "peak").read_text()) * 1024 / 1e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells the most memory in /proc")
def test_memory_stays_below_the_limit_and_every_row_has_its_group(large, tmp_path):
    options = ["--memory-limit", f"{LIMIT}MB", "--penalty", "2%", "--refits", 0, "--jobs", 1]
    peak = peak_of("fit", large, *options, out=tmp_path / "fit")
    assert peak < LIMIT
    for n in range(FILES):
        found = pd.read_parquet(tmp_path / "fit" / "assignments" / f"{n}.parquet")
        assert found["id"].tolist() == list(range(n * ROWS, (n + 1) * ROWS))
        assert len(set(zip(truth_of(n), found["label"], strict=True))) == GROUPS
    assert peak_of("apply", tmp_path / "fit", large, "--memory-limit", f"{LIMIT}MB", out=tmp_path / "apply") < LIMIT
    whole = tmp_path / "whole.parquet"
    pd.read_parquet(large).to_parquet(whole)
    # So much less than in memory.
    assert peak_of("fit", whole, "--penalty", "2%", "--refits", 0, "--jobs", 1, out=tmp_path / "memory") > 1.4 * LIMIT
    sizes = [pd.read_parquet(tmp_path / place / "components.parquet")["size"] for place in ("fit", "memory")]
    assert sizes[0].tolist() == sizes[1].tolist()


def test_ctrl_c_while_rows_are_read_leaves_nothing(large, tmp_path):
    (tmp_path / "spill").mkdir()
    options = ["--memory-limit", f"{LIMIT}MB", "--spill-dir", tmp_path / "spill", "--log-json"]
    process = start("fit", large, *options, "--out", tmp_path / "out")
    try:
        for line in process.stderr:
            if json.loads(line)["message"].startswith("file 3 of"):
                break
        assert list((tmp_path / "spill").iterdir())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "stopped before there was a result; none was written" in err
    assert [path.name for path in tmp_path.iterdir() if path.name != "peak"] == ["spill"]
    assert not list((tmp_path / "spill").iterdir())


def test_ctrl_c_while_groups_are_looked_for_keeps_the_best_so_far(tmp_path):
    X = np.random.default_rng(0).normal(size=(60_000, 30))
    (tmp_path / "hard").mkdir()
    pd.DataFrame(X).add_prefix("c").to_parquet(tmp_path / "hard" / "a.parquet")
    process = start("fit", tmp_path / "hard", "--penalty", "0.1%", "--log-json", "--out", tmp_path / "out")
    try:
        for line in process.stderr:
            if json.loads(line).get("step") == "fit":
                break
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "the best result so far" in err
    assert " of 60 000 rows." in out
    assert json.loads((tmp_path / "out" / "run.json").read_text())["interrupted"] is True
    labels = pd.read_parquet(tmp_path / "out" / "assignments" / "a.parquet")["label"]
    assert np.array_equal(
        labels, madbayes.load(tmp_path / "out" / "model.madbayes").predict(pd.read_parquet(tmp_path / "hard"))
    )
