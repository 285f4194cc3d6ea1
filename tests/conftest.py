import os

import pytest
from hypothesis import settings

# The same examples in every run: a failure that comes and goes is not a test.
settings.register_profile("madbayes", derandomize=True, deadline=None, print_blob=True, max_examples=40)
settings.load_profile("madbayes")


@pytest.fixture(scope="session", params=range(int(os.environ.get("MADBAYES_SEEDS", "1"))))
def seed(request: pytest.FixtureRequest) -> int:
    """One seed in ordinary runs; MADBAYES_SEEDS=100 runs the test with a hundred."""
    return request.param
