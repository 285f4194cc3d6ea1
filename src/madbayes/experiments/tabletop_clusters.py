"""What clustering makes of the same pictures: a cluster for each combination of objects, or averages of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from madbayes import DPMeans, StepwiseKFeatures
from madbayes.experiments.codes import group_numbers
from madbayes.experiments.figures import plot_pictures
from madbayes.experiments.parts import Findings, Rows, Work
from madbayes.experiments.restarts import k_means
from madbayes.experiments.tabletop_setup import Effort, Tabletop

# Clusters tried before giving up to reach the squared error of the features.
MOST = 60


def findings(table: Tabletop, effort: Effort, work: Work) -> Findings:
    """DP-means and K-means beside the features."""
    X = table.X
    options: dict[str, Any] = {"random_state": effort.seed, "n_jobs": effort.n_jobs}
    features: Any = StepwiseKFeatures(effort.penalty, **options).fit(X)
    K = features.n_components_
    codes = group_numbers(features.allocations_)
    n_codes = int(codes.max()) + 1
    work.progress("Clusters", 0, 0)
    dp, few, many = (
        DPMeans(effort.penalty, **options).fit(X),
        k_means(X, K, options),
        k_means(X, n_codes, options),
    )
    needed = as_good(X, features.sse_, K, options, work)
    rows = [
        {
            "model": "features",
            "groups": K,
            "squared error": features.sse_,
            "combinations in a group": None,
            "adjusted Rand index": None,
        },
        cluster_row(f"DP-means at penalty {effort.penalty:g}", dp, codes),
        cluster_row("K-means, as many clusters as features", few, codes),
        cluster_row("K-means, as many as combinations", many, codes),
        cluster_row("K-means, as many as match the squared error", needed, codes),
    ]
    means = table.projection.pictures(few.cluster_centers_)
    titles = [f"{combinations(codes[few.labels_ == k])} combinations" for k in range(len(means))]
    figures = {
        f"Means of {K} clusters: averages of combinations": plot_pictures(list(means), titles, n_columns=len(means))
    }
    return Findings(words(rows, n_codes, needed.sse_ <= features.sse_), {"clusters": rows}, figures)


def as_good(X: NDArray, sse: float, K: int, options: dict[str, Any], work: Work) -> DPMeans:
    """The fewest clusters with no more than this squared error."""
    while (model := k_means(X, K, options)).sse_ > sse and min(MOST, len(X)) > K:
        work.progress("Clusters that match the squared error of the features", K, MOST)
        K += 1
    return model


def combinations(codes: NDArray) -> int:
    """How many combinations of features there are among some pictures."""
    return len(np.unique(codes))


def cluster_row(name: str, model: DPMeans, codes: NDArray) -> dict[str, Any]:
    """A line about a clustering."""
    mixed = [combinations(codes[model.labels_ == k]) for k in range(model.n_clusters_)]
    return {
        "model": name,
        "groups": model.n_clusters_,
        "squared error": model.sse_,
        "combinations in a group": float(np.mean(mixed)),
        "adjusted Rand index": float(adjusted_rand_score(codes, model.labels_)),
    }


def words(rows: Rows, n_codes: int, reached: bool) -> list[str]:
    """The paper's claim, with numbers."""
    features, dp, few, many, needed = rows
    reach = f"{needed['groups']} clusters are needed" if reached else f"Even {needed['groups']} clusters are not enough"
    return [
        f"{features['groups']} features have a squared error of {features['squared error']:.1f}; {few['groups']} "
        f"clusters {few['squared error']:.1f}, each a mean of {few['combinations in a group']:.1f} combinations of "
        f"objects. {reach} to be as good as the features.",
        f"With {many['groups']} clusters, one for each of the {n_codes} combinations, the adjusted Rand index with "
        f"the combinations is {many['adjusted Rand index']:.2f}; DP-means at the same penalty makes {dp['groups']} "
        f"clusters with {dp['combinations in a group']:.1f} combinations in each.",
    ]
