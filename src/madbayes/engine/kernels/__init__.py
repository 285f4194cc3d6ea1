"""Compiled loops over blocks of rows. They hold no lock, call no library, and import nothing else of this package.

Arguments are marked IN, OUT or INOUT; buffers belong to the caller.
"""

from madbayes.engine.kernels.cluster_search import (
    Clustering,
    best_cut,
    descend,
    distances_to,
    principal_scores,
    seed_gains,
)
from madbayes.engine.kernels.clusters import add_rows, collapsed_clusters, nearest_rows, open_clusters, squared_distance
from madbayes.engine.kernels.codes import search_codes
from madbayes.engine.kernels.collapsed import run_collapsed
from madbayes.engine.kernels.features import (
    Limits,
    Scratch,
    count_pairs,
    drop_dependent,
    open_features,
    refill,
    row_errors,
    run_all,
    seed_runs,
    solve,
    sweep_bits,
)
from madbayes.engine.kernels.search import polish

__all__ = [
    "Clustering",
    "Limits",
    "Scratch",
    "add_rows",
    "best_cut",
    "collapsed_clusters",
    "count_pairs",
    "descend",
    "distances_to",
    "drop_dependent",
    "nearest_rows",
    "open_clusters",
    "open_features",
    "polish",
    "principal_scores",
    "refill",
    "row_errors",
    "run_all",
    "run_collapsed",
    "search_codes",
    "seed_gains",
    "seed_runs",
    "solve",
    "squared_distance",
    "sweep_bits",
]
