"""What computes a result."""

import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "fsspec")


def versions() -> dict[str, str]:
    """Versions of Python, madbayes and what it stands on, as far as that is installed."""
    import madbayes

    found = {"python": platform.python_version(), "madbayes": madbayes.__version__, "platform": sys.platform}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
