"""Weights: a long table stood for by some hundred weighted rows.

Twenty thousand rows are rounded to a grid, and each cell is one row that weighs as much as it has rows. The clusters of
the cells, at the same penalty, are nearly those of the whole table.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score

from madbayes import DPMeans
from madbayes.datasets import make_mixture


def main() -> None:
    """Fit the cells and the whole table, compare, draw the cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    X = make_mixture(20_000, 2, 6, separation=14.0, random_state=5).X
    cells, which, counts = np.unique(np.round(X), axis=0, return_inverse=True, return_counts=True)
    sums = [np.bincount(which.ravel(), column) for column in X.T]
    means = np.column_stack(sums) / counts[:, None]
    light = DPMeans(penalty="1%", random_state=0).fit(means, sample_weight=counts)
    full = DPMeans(penalty=light.penalty_, random_state=0).fit(X)
    print(f"{len(X)} rows in {len(cells)} cells")
    print(f"clusters: {light.n_clusters_} of the cells, {full.n_clusters_} of the whole table")
    print(f"adjusted Rand index of the two: {adjusted_rand_score(full.labels_, light.predict(X)):.3f}")
    shift = np.abs(full.cluster_centers_ - light.cluster_centers_).max()
    print(f"largest distance of two centres in a column: {shift:.4f}")

    figure = Figure(figsize=(6.5, 5), layout="constrained")
    axis = figure.subplots()
    axis.scatter(means[:, 0], means[:, 1], s=counts / 4, c=[f"C{k}" for k in light.labels_], alpha=0.6)
    axis.scatter(
        light.cluster_centers_[:, 0],
        light.cluster_centers_[:, 1],
        marker="X",
        s=110,
        color="black",
        label="centres of the cells",
    )
    axis.scatter(
        full.cluster_centers_[:, 0],
        full.cluster_centers_[:, 1],
        marker="+",
        s=110,
        color="white",
        label="centres of the whole table",
    )
    axis.set(title=f"{len(X)} rows as {len(cells)} weighted ones")
    axis.legend(facecolor="lightgrey")
    figure.savefig(out / "weights.png", dpi=120)


if __name__ == "__main__":
    main()
