"""Wine: three cultivars found among 178 bottles without their labels.

Thirteen chemical measurements, scaled. Left: the clusters, drawn on two principal components. Right: how many bottles
of each cultivar each cluster holds.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, confusion_matrix
from sklearn.preprocessing import StandardScaler

from madbayes import DPMeans


def main() -> None:
    """Fit, compare with the cultivars, draw both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    wine = load_wine()
    X = StandardScaler().fit_transform(wine.data)
    model = DPMeans(random_state=0).fit(X)
    table = confusion_matrix(wine.target, model.labels_)[:3, : model.n_clusters_]
    print(model.path_)
    print(f"Adjusted Rand index with the cultivars: {adjusted_rand_score(wine.target, model.labels_):.2f}")

    figure = Figure(figsize=(9, 4), layout="constrained")
    scatter, counts = figure.subplots(1, 2, width_ratios=[3, 2])
    plane = PCA(2, svd_solver="full").fit(X)
    points, centres = plane.transform(X), plane.transform(model.cluster_centers_)
    scatter.scatter(points[:, 0], points[:, 1], c=[f"C{k}" for k in model.labels_], s=14)
    scatter.scatter(centres[:, 0], centres[:, 1], marker="X", s=120, color="black")
    scatter.set(xlabel="first component", ylabel="second component", title=f"{model.n_clusters_} clusters found")
    counts.imshow(table, cmap="Blues")
    for (i, j), n in np.ndenumerate(table):
        counts.text(j, i, n, ha="center", va="center", color="white" if n > table.max() / 2 else "black")
    counts.set(xlabel="cluster", ylabel="cultivar", title="bottles")
    counts.set(xticks=range(table.shape[1]), yticks=range(3))
    figure.savefig(out / "wine.png", dpi=120)


if __name__ == "__main__":
    main()
