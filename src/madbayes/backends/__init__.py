"""Other homes for the rows of a table."""

from typing import Any


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask; it is not imported to find out."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")
