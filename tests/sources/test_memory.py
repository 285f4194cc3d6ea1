import sys
from pathlib import Path

import numpy as np
import pytest

from madbayes.sources import parse_memory, resident_memory


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        (1, 1),
        (np.int64(12), 12),
        ("600MB", 600_000_000),
        (" 2 gb ", 2_000_000_000),
        ("1.5GiB", 3 * 2**29),
        (".5kB", 500),
        ("7B", 7),
        ("1TiB", 2**40),
    ],
)
def test_amounts(value, wanted):
    assert parse_memory(value) == wanted


@pytest.mark.parametrize("value", [0, -5, True, 1.5, "", "MB", "5", "5XB", "-1MB", "0GB", "1iB", "nan GB", [1], "1e9"])
def test_what_is_no_amount(value):
    with pytest.raises(ValueError, match=r"limit=.* is not accepted: give a number of bytes"):
        parse_memory(value, "limit")


def test_memory_grows_by_what_is_used():
    before = resident_memory()
    block = np.ones(10_000_000)
    assert 0.8 * block.nbytes < resident_memory() - before < 1.5 * block.nbytes


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_where_the_system_does_not_tell(monkeypatch, platform, unit):
    import resource

    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(sys, "platform", platform)
    assert resident_memory() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
