"""Memory: how much may be used, and how much is."""

import os
import re
import sys
from numbers import Integral
from pathlib import Path
from typing import Any

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_memory(value: Any, name: str = "memory") -> int | None:
    """An amount of memory in bytes.

    Parameters
    ----------
    value : int, str or None
        Bytes, or text such as "600MB", "2 GB" or "1.5GiB"; a MB has a million bytes, a MiB 2²⁰. None is no limit.
    name : str, default="memory"
        What an error calls it.

    Returns
    -------
    int or None

    Examples
    --------
    >>> from madbayes.sources import parse_memory
    >>> parse_memory("600MB"), parse_memory("1.5GiB"), parse_memory(4096), parse_memory(None)
    (600000000, 1610612736, 4096, None)
    """
    if value is None:
        return None
    found = 0
    if not isinstance(value, bool) and isinstance(value, Integral):
        found = int(value)
    elif isinstance(value, str) and (
        parts := re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)(I?)B\s*", value, re.IGNORECASE)
    ):
        units = BINARY_UNITS if parts[3] else UNITS
        found = int(float(parts[1]) * units.get(parts[2].upper(), 0))
    if found < 1:
        raise ValueError(
            f'{name}={value!r} is not accepted: give a number of bytes > 0, text such as "600MB" or "1.5GiB", or None'
        )
    return found


def resident_memory() -> int:
    """Bytes of memory that this process has now; the most it ever had, where the system does not tell.

    Examples
    --------
    >>> from madbayes.sources import resident_memory
    >>> resident_memory() > 1_000_000
    True
    """
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
