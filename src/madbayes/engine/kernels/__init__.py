"""Compiled loops over blocks of rows. They hold no lock, call no library, and import nothing else of this package.

Arguments are marked IN, OUT or INOUT; buffers belong to the caller.
"""

from madbayes.engine.kernels.clusters import (
    add_rows,
    collapsed_clusters,
    decide_rows,
    move_rows,
    open_clusters,
    pending_rows,
    row_distances,
    squared_distance,
    two_least,
    two_least_narrow,
)
from madbayes.engine.kernels.codes import search_codes
from madbayes.engine.kernels.collapsed import collapsed_rows
from madbayes.engine.kernels.features import (
    count_pairs,
    give_feature,
    open_features,
    row_errors,
    seed_run,
    solve_grams,
    sweep_bits,
    take_residual,
)

__all__ = [
    "add_rows",
    "collapsed_clusters",
    "collapsed_rows",
    "count_pairs",
    "decide_rows",
    "give_feature",
    "move_rows",
    "open_clusters",
    "open_features",
    "pending_rows",
    "row_distances",
    "row_errors",
    "search_codes",
    "seed_run",
    "solve_grams",
    "squared_distance",
    "sweep_bits",
    "take_residual",
    "two_least",
    "two_least_narrow",
]
