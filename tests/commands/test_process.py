"""The command as a process of its own: signals, exit codes, full disks."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from tests.commands.helpers import make_table

import madbayes

COMMAND = [sys.executable, "-m", "madbayes.cli"]
FILES = 6


def run(*words, **options):
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=300, **options)


def start(*words):
    return subprocess.Popen([*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_step(process, name):
    """Lines of the log until a step begins."""
    lines = []
    for line in process.stderr:
        lines.append(json.loads(line))
        if lines[-1].get("step") == name and "seconds" not in lines[-1]:
            return lines
    raise AssertionError(f"there was no step {name!r}: {lines}")


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """A table whose groups take long to find."""
    path = tmp_path_factory.mktemp("hard") / "hard.npy"
    np.save(path, np.random.default_rng(0).normal(size=(3000, 30)))
    return path


@pytest.mark.parametrize("options", [["--penalty", "0.3%"], ["--groups", "12"], []], ids=["penalty", "groups", "auto"])
def test_ctrl_c_keeps_the_best_result_so_far(options, hard, tmp_path):
    process = start("fit", hard, *options, "--out", tmp_path / "out", "--log-json", "--jobs", 2)
    try:
        lines = wait_for_step(process, "fit")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    lines += [json.loads(line) for line in err.splitlines()]
    assert process.returncode == 130, (lines, out)
    assert any("the best result so far" in line["message"] for line in lines)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["interrupted"] is True
    assert len(list((tmp_path / "out").iterdir())) == FILES
    labels = pd.read_parquet(tmp_path / "out" / "assignments.parquet")["label"]
    assert np.array_equal(madbayes.load(tmp_path / "out" / "model.madbayes")[-1].labels_, labels)
    assert " of 3000 rows." in out


def test_ctrl_c_before_there_is_anything_writes_nothing(tmp_path):
    pd.DataFrame(np.random.default_rng(0).normal(size=(60_000, 40))).to_csv(tmp_path / "t.csv")
    process = start("fit", tmp_path / "t.csv", "--out", tmp_path / "out", "--log-json")
    try:
        wait_for_step(process, "read")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "madbayes: stopped before there was a result; none was written" in err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_kernels_are_there_before_ctrl_c_ends_with_a_result(table, tmp_path):
    """Interrupting their import would leave half of it behind, and nothing could be found with that."""
    code = (
        "import sys; from madbayes.commands import app, fitting; name = 'madbayes.engine.kernels'; "
        "assert name not in sys.modules; fitting.find = lambda *_: sys.exit(7 if name in sys.modules else 8); app()"
    )
    words = [sys.executable, "-c", code, "fit", str(table), "--out", str(tmp_path / "out")]
    assert subprocess.run(words, capture_output=True, timeout=120).returncode == 7


def test_a_process_that_is_ended_leaves_nothing(hard, tmp_path):
    process = start("fit", hard, "--penalty", "2%", "--out", tmp_path / "out", "--log-json", "--jobs", 1)
    try:
        wait_for_step(process, "fit")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_exit_codes_of_the_real_command(tmp_path, table, result):
    assert run("fit", tmp_path / "nowhere.csv").returncode == 2
    assert run("fit", table, "--kind", "chairs").returncode == 2
    assert run("fit", table, "--out", result).returncode == 4
    one = run("fit", table, "--penalty", "99%", "--refits", 0, "--out", tmp_path / "one")
    assert one.returncode == 0, one.stderr
    assert run("compare", result, tmp_path / "one", "--max-moved", "10%").returncode == 3


def test_files_that_may_not_grow_leave_nothing(table, tmp_path):
    """As on a disk that is full: the system refuses to write more."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    found = run("fit", table, "--penalty", "5%", "--refits", 0, "--out", tmp_path / "out", preexec_fn=small_files)
    assert found.returncode == 4, found.stderr
    assert "madbayes: the file is too large, nothing was written" in found.stderr
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_full_is_one_line(result):
    with open("/dev/full", "w") as full:
        found = subprocess.run([*COMMAND, "info", str(result)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 4
    assert "madbayes: the disk is full: what was to be printed is lost" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_reader_who_has_enough_is_no_error_message(result):
    found = subprocess.run(
        f"{sys.executable} -m madbayes.cli info {result} --json | head -c 1", shell=True, capture_output=True, text=True
    )
    assert "Traceback" not in found.stderr
    assert "madbayes:" not in found.stderr


def test_completion_knows_the_commands_and_their_values():
    environment = {"_MADBAYES_COMPLETE": "complete_bash", "COMP_WORDS": "madbayes fit --kind ", "COMP_CWORD": "3"}
    code = "import sys; sys.argv[0] = 'madbayes'; from madbayes.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert found.stdout.split() == ["clusters", "features"]


def test_a_table_is_read_the_same_by_one_thread_as_by_two(tmp_path):
    make_table(200, seed=2).to_csv(tmp_path / "t.csv", index=False)
    for jobs in (1, 2):
        found = run("fit", tmp_path / "t.csv", "--jobs", jobs, "--out", tmp_path / f"out{jobs}", "--refits", 4)
        assert found.returncode == 0, found.stderr
    for name in ("assignments.parquet", "components.parquet", "path.json"):
        assert (tmp_path / "out1" / name).read_bytes() == (tmp_path / "out2" / name).read_bytes()
