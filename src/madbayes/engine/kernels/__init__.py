"""Compiled loops over blocks of rows. They hold no lock, call no library, and import nothing else of this package.

Arguments are marked IN, OUT or INOUT; buffers belong to the caller. Numba's cache does not notice when a kernel in
another file changes that a cached one calls: whoever edits kernels deletes ``__pycache__`` first (``make clean``).
"""

from madbayes.engine.kernels.annealing import anneal
from madbayes.engine.kernels.cluster_search import (
    Clustering,
    best_cut,
    descend,
    distances_to,
    principal_scores,
    seed_gains,
)
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
from madbayes.engine.kernels.collapsed import run_collapsed
from madbayes.engine.kernels.columns import search_column
from madbayes.engine.kernels.covariance_search import (
    Ellipses,
    descend_ellipses,
    fit_ellipses,
    merge_pairs,
    own_squares,
    prefix_costs,
)
from madbayes.engine.kernels.features import (
    count_pairs,
    drop_dependent,
    eliminate,
    row_errors,
    seed_runs,
    solve,
    sweep_bits,
)
from madbayes.engine.kernels.runs import Limits, Scratch, open_features, refill, run_all
from madbayes.engine.kernels.search import best_end, polish

__all__ = [
    "Clustering",
    "Ellipses",
    "Limits",
    "Scratch",
    "add_rows",
    "anneal",
    "best_cut",
    "best_end",
    "collapsed_clusters",
    "count_pairs",
    "decide_rows",
    "descend",
    "descend_ellipses",
    "distances_to",
    "drop_dependent",
    "eliminate",
    "fit_ellipses",
    "merge_pairs",
    "move_rows",
    "open_clusters",
    "open_features",
    "own_squares",
    "pending_rows",
    "polish",
    "prefix_costs",
    "principal_scores",
    "refill",
    "row_distances",
    "row_errors",
    "run_all",
    "run_collapsed",
    "search_codes",
    "search_column",
    "seed_gains",
    "seed_runs",
    "solve",
    "squared_distance",
    "sweep_bits",
    "two_least",
    "two_least_narrow",
]
