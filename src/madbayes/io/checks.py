"""Whether what a file says about a model fits together: compiled code takes it at its word."""

from typing import Any

import numpy as np

from madbayes.engine.checks import is_number
from madbayes.engine.online import Pieces
from madbayes.engine.online_features import FeatureSums
from madbayes.engine.path import PenaltyPath
from madbayes.engine.search import Solution
from madbayes.model import MeansCovariances, Objective
from madbayes.paper import Result

# For each attribute its kind of numbers and its shape: K groups, D columns, N rows.
CLUSTERS = {"cluster_centers_": ("f", "KD"), "labels_": ("i", "N"), "covariances_": ("f", "KDD")}
FEATURES = {"components_": ("f", "KD"), "allocations_": ("u", "NK")}
BOTH = {
    "_sizes": ("f", "K"),
    "group_ids_": ("i", "K"),
    "_column_means": ("f", "D"),
    "_column_scales": ("f", "D"),
    "feature_names_in_": ("O", "D"),
}
# What partial_fit goes on from; K counts pieces of clusters here, or features of which some may be hidden.
PIECES = {"weights": ("f", "K"), "means": ("f", "KD"), "scatters": ("f", "K"), "groups": ("i", "K")}
SUMS = {"pairs": ("f", "KK"), "A": ("f", "KD"), "shown": ("b", "K")}
NUMBERS = ("_total", "unusual_error_", "objective_", "sse_", "penalty_", "penalty_share_")
NEEDED = {
    *("n_features_in_", "_objective", "_sizes", "_column_means", "_column_scales"),
    *("optimality_gap_", "n_iter_", "converged_", "group_ids_", "_group_origins", "_next_group_id"),
    *NUMBERS,
}


def check_fitted(model: Any) -> None:
    """Refuse a fitted model whose parts do not fit together.

    Parameters
    ----------
    model : estimator of madbayes
        Fitted; one that is not, as the start of another may be, has nothing to check.
    """
    is_clusters = hasattr(model, "max_clusters")
    count, groups, parts = (
        ("n_clusters_", "labels_", CLUSTERS) if is_clusters else ("n_components_", "allocations_", FEATURES)
    )
    if not any(name.endswith("_") for name in vars(model)):
        return
    needed = NEEDED | {count} | set(parts)
    if not hasattr(model, "covariances"):
        needed -= {"covariances_"}
    _complete(model, count)
    if missing := sorted(name for name in needed if not hasattr(model, name)):
        raise ValueError(f"the model lacks {', '.join(missing)}")
    lengths = {"K": getattr(model, count), "D": model.n_features_in_, "N": len(getattr(model, groups))}
    for name, (kind, letters) in {**parts, **BOTH}.items():
        if hasattr(model, name):
            _check_array(name, getattr(model, name), kind, letters, lengths)
    if not isinstance(model._objective, Objective):
        raise ValueError("the model has no objective")
    _check_values(model, lengths["K"])
    if hasattr(model, "_seen"):
        _check_seen(model._seen, lengths["K"], lengths["D"])
    if hasattr(model, "path_"):
        _check_path(model.path_, model.n_features_in_)


def _complete(model: Any, count: str) -> None:
    """What the first files did not have yet: names and ids of groups, and the error from which on rows are unusual."""
    if not hasattr(model, "group_ids_") and getattr(model, count, None) == len(model._sizes):
        names = getattr(model, "group_names_", None)
        model._name_groups(None)
        model.group_names_ = model.group_names_ if names is None else names
    if not hasattr(model, "unusual_error_"):
        model.unusual_error_ = np.inf


def _check_values(model: Any, K: int) -> None:
    """Numbers that are numbers, and a name for each group."""
    if type(K) is not int or not (model.n_jobs is None or type(model.n_jobs) is int):
        raise ValueError("the number of groups or of threads is no whole number")
    if wrong := [name for name in NUMBERS if not is_number(getattr(model, name))]:
        raise ValueError(f"{wrong[0]} is no number")
    if model.optimality_gap_ is not None and not is_number(model.optimality_gap_):
        raise ValueError("optimality_gap_ is no number")
    names = model.group_names_
    if type(names) is not list or len(names) != K or not all(type(name) is str for name in names):
        raise ValueError(f"group_names_ are no names of {K} groups")
    if len(set(names)) < K:
        raise ValueError("two groups have one name")
    origins, end = model._group_origins, model._next_group_id
    if type(origins) is not list or len(origins) != K or not all(type(origin) is str for origin in origins):
        raise ValueError(f"_group_origins are not those of {K} groups")
    if type(end) is not int or len({i for i in model.group_ids_.tolist() if 0 <= i < end}) < K:
        raise ValueError("an id is given to two groups, or was never given")


def _check_seen(seen: Any, K: int, D: int) -> None:
    """Statistics of the rows seen that fit together, and the model."""
    if not isinstance(seen, Pieces | FeatureSums):
        raise ValueError("the model has no statistics of the rows seen")
    kinds, rows = (PIECES, seen.weights) if isinstance(seen, Pieces) else (SUMS, seen.shown)
    for name, (kind, letters) in kinds.items():
        _check_array(name, getattr(seen, name), kind, letters, {"K": len(rows), "D": D})
    if isinstance(seen, Pieces):
        fits = np.array_equal(np.unique(seen.groups), np.arange(K)) and bool((seen.weights > 0).all())
    else:
        fits = int(seen.shown.sum()) == K and is_number(seen.error) and bool(np.isfinite(seen.pairs).all())
    if not fits:
        raise ValueError("the statistics of the rows seen do not fit the groups")


def _check_path(path: Any, D: int) -> None:
    """Solutions for consecutive numbers of groups, each with its squared error."""
    if not isinstance(path, PenaltyPath):
        raise ValueError("path_ is no penalty path")
    counts, n = np.asarray(path.n_components), len(path.solutions)
    if counts.dtype.kind != "i" or not n or not np.array_equal(counts, counts[:1] + np.arange(n)):
        raise ValueError("the numbers of groups on the path are not consecutive")
    _check_array("losses", path.losses, "f", "N", {"N": n})
    if not np.isfinite(path.losses).all():
        raise ValueError("losses of the path are not finite")
    for K, solution in zip(counts.tolist(), path.solutions, strict=True):
        A = solution.A if isinstance(solution, Solution | Result) else None
        _check_array("A", A.means if isinstance(A, MeansCovariances) else A, "f", "KD", {"K": K, "D": D})


def _check_array(name: str, value: Any, kind: str, letters: str, lengths: dict[str, int]) -> None:
    shape = tuple(lengths[letter] for letter in letters)
    if not isinstance(value, np.ndarray) or value.dtype.kind != kind or value.shape != shape:
        raise ValueError(f"{name} is no array of shape {shape}")
    if letters.startswith("KD") and not np.isfinite(value).all():
        raise ValueError(f"{name} has numbers that are not finite")
