import os
import signal
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
