"""Whether what a file says about a model fits together: compiled code takes it at its word."""

from typing import Any

import numpy as np

from madbayes.model import Objective

# For each attribute its kind of numbers and its shape: K groups, D columns, N rows.
CLUSTERS = {"cluster_centers_": ("f", "KD"), "labels_": ("i", "N"), "covariances_": ("f", "KDD")}
FEATURES = {"components_": ("f", "KD"), "allocations_": ("u", "NK")}
BOTH = {
    "_sizes": ("f", "K"),
    "_column_means": ("f", "D"),
    "_column_scales": ("f", "D"),
    "feature_names_in_": ("O", "D"),
}
NEEDED = {"n_features_in_", "_objective", "_sizes", "_column_means", "_column_scales"}


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
    if not hasattr(model, count):
        return
    needed = NEEDED | {count} | set(parts)
    if not hasattr(model, "covariances"):
        needed -= {"covariances_"}
    if missing := sorted(name for name in needed if not hasattr(model, name)):
        raise ValueError(f"the model lacks {', '.join(missing)}")
    lengths = {"K": getattr(model, count), "D": model.n_features_in_, "N": len(getattr(model, groups))}
    for name, (kind, letters) in {**parts, **BOTH}.items():
        if hasattr(model, name):
            _check_array(name, getattr(model, name), kind, letters, lengths)
    if not isinstance(model._objective, Objective):
        raise ValueError("the model has no objective")


def _check_array(name: str, value: Any, kind: str, letters: str, lengths: dict[str, int]) -> None:
    shape = tuple(lengths[letter] for letter in letters)
    if not isinstance(value, np.ndarray) or value.dtype.kind != kind or value.shape != shape:
        raise ValueError(f"{name} is no array of shape {shape}")
    if letters.startswith("KD") and not np.isfinite(value).all():
        raise ValueError(f"{name} has numbers that are not finite")
