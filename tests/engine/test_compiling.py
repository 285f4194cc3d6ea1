"""Kernels compile with or without a folder for their cache, and the user is told when that takes long."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numba
import pytest

from madbayes.engine.kernels import compiling


def test_without_a_cache_folder_kernels_compile_in_each_process(monkeypatch):
    """Numba refuses to cache, at decoration, where no folder can be written to."""

    def njit(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(compiling, "njit", njit)

    @compiling.compiled(fastmath=compiling.REORDER)
    def double(x):
        return 2 * x

    assert double(21) == 42
    assert double.signatures


def test_kernels_are_cached_where_that_is_possible():
    from madbayes.engine.kernels import squared_distance

    assert squared_distance.targetoptions["nogil"]
    assert squared_distance._cache.cache_path


def first_fit(cache):
    """What a fit in a process of its own says, with this folder for the cache."""
    code = "import numpy, madbayes; madbayes.KFeatures(2).fit(numpy.random.default_rng(0).normal(size=(50, 3)))"
    command, environment = [sys.executable, "-c", code], {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stderr


def test_the_first_fit_says_that_it_compiles_and_the_second_nothing(tmp_path):
    assert compiling.MESSAGE in first_fit(tmp_path)
    assert first_fit(tmp_path) == ""


@pytest.fixture
def told(monkeypatch, capsys):
    """What is said when kernels of some modules compile for some seconds each."""
    clock = [0.0]
    monkeypatch.setattr(compiling, "perf_counter", lambda: clock[0])

    class Timer:
        def __init__(self, seconds, say):
            self.due, self.say, self.cancelled = clock[0] + seconds, say, False

        def start(self):
            timers.append(self)

        def cancel(self):
            self.cancelled = True

    timers = []
    monkeypatch.setattr(compiling, "Timer", Timer)

    def compile_all(*kernels):
        listener = compiling.Announcement()
        for module, seconds in kernels:
            function = SimpleNamespace(__module__=module)
            happening = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})
            listener.on_start(happening)
            listener.on_start(happening)
            listener.on_end(happening)
            clock[0] += seconds
            for timer in timers:
                if not timer.cancelled and timer.due < clock[0]:
                    timer.say()
            listener.on_end(happening)
        return capsys.readouterr().err.count(compiling.MESSAGE)

    return compile_all


def test_the_message_comes_once_and_when_compiling_has_taken_long_in_all(told):
    ours = "madbayes.engine.kernels.features"
    assert told((ours, 1.9)) == 0
    assert told((ours, 0.8), (ours, 0.8), (ours, 0.8), (ours, 9.0)) == 1
    assert told(("somebody.else", 100.0)) == 0
