"""Outliers: five far rows beside three groups.

Five rows that belong nowhere would be worth a cluster each. Groups of less than one row in a hundred are set aside
before the number is chosen, so three clusters are found; the five have the largest errors, and a threshold on
``score_samples`` finds them.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from madbayes import DPMeans


def main() -> None:
    """Fit, mark the rows that fit worst, draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    groups = np.repeat([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]], 200, axis=0) + rng.normal(size=(600, 2))
    far = np.array([[16.0, 12.0], [-11.0, 9.0], [18.0, -8.0], [-9.0, -10.0], [4.0, -14.0]])
    X = np.vstack([groups, far])
    model = DPMeans(random_state=0).fit(X)
    print(model.path_)
    errors = model.score_samples(X)[:, 0]
    unusual = errors > 3 * np.quantile(errors, 0.99)
    print(f"{model.n_clusters_} clusters; rows marked unusual: {np.flatnonzero(unusual).tolist()}")

    figure = Figure(figsize=(6, 5), layout="constrained")
    axis = figure.subplots()
    axis.scatter(X[:, 0], X[:, 1], c=[f"C{k}" for k in model.labels_], s=10)
    axis.scatter(X[unusual, 0], X[unusual, 1], s=120, facecolors="none", edgecolors="black", label="unusual")
    axis.scatter(
        model.cluster_centers_[:, 0], model.cluster_centers_[:, 1], marker="X", s=120, color="black", label="centre"
    )
    axis.set(title=f"{model.n_clusters_} clusters, {unusual.sum()} rows far from all")
    axis.legend()
    figure.savefig(out / "outliers.png", dpi=120)


if __name__ == "__main__":
    main()
