import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from hypothesis import settings

# The same examples in every run: a failure that comes and goes is not a test.
settings.register_profile("madbayes", derandomize=True, deadline=None, print_blob=True, max_examples=40)
settings.load_profile("madbayes")


@pytest.fixture(scope="session", params=range(int(os.environ.get("MADBAYES_SEEDS", "1"))))
def seed(request: pytest.FixtureRequest) -> int:
    """One seed in ordinary runs; MADBAYES_SEEDS=100 runs the test with a hundred."""
    return request.param


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The pictures are not part of the project; ``.ci/run`` says where they are, and the tests fail if they are not."""
    if item.get_closest_marker("pictures") and "MADBAYES_DATA" not in os.environ:
        pytest.skip("MADBAYES_DATA names no folder with the tabletop pictures")


@pytest.fixture
def seconds():
    """``with seconds(60):`` makes a loop without end a failure instead of a hang."""

    def stop(*_):
        raise TimeoutError("took too long")

    @contextmanager
    def limit(duration):
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, duration)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    return limit


@pytest.fixture
def spill(tmp_path):
    """A folder for temporary files, which must be empty in the end; no thread is left either."""
    folder = tmp_path / "spill"
    folder.mkdir()
    yield folder
    gc.collect()
    assert not list(folder.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("madbayes")]


@pytest.fixture(scope="module")
def cluster():
    """Two Dask workers, each a process."""
    from distributed import LocalCluster

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, **options) as cluster:
        yield cluster


@pytest.fixture
def lonely_scheduler(tmp_path):
    """A Dask scheduler and a worker in processes of their own; the scheduler can be killed."""
    place = str(tmp_path / "scheduler.json")
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python, local = [sys.executable, "-m"], ["--scheduler-file", place, "--no-dashboard"]
    address = ["--host", "127.0.0.1", "--port", "0"]
    with (
        subprocess.Popen([*python, "distributed.cli.dask_scheduler", *local, *address], **options) as scheduler,
        subprocess.Popen([*python, "distributed.cli.dask_worker", *local, "--no-nanny"], **options) as worker,
    ):
        yield scheduler, place
        for process in (worker, scheduler):
            process.kill()
