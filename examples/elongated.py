"""Elongated clusters: a known shape, and what squared distance makes of it.

Two long, thin groups side by side. Squared distance cuts them across. If the covariance within a group is known, from
repeated measurements for example, ``CovarianceDPMeans`` measures distances by it and finds both, and their number.
Where the shape has to be learned, a Gaussian mixture does better: the paper's objective charges for the shape of a
cluster once, however many rows it has, and told nothing it finds one cluster here.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

from madbayes import CovarianceDPMeans, DPMeans

SHAPE = np.array([[36.0, 18.0], [18.0, 9.36]])


def main() -> None:
    """Fit all four, print how well each finds the groups, draw three of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 100)
    X = rng.multivariate_normal([0, 0], SHAPE, size=200) + np.outer(truth, [0, 5])
    labels = {
        "DPMeans, told the number": DPMeans(penalty=0, max_clusters=2, random_state=0).fit_predict(X),
        "CovarianceDPMeans, told the shape": CovarianceDPMeans(covariances=SHAPE, random_state=0).fit_predict(X),
        "BayesianGaussianMixture(2)": BayesianGaussianMixture(n_components=2, n_init=5, random_state=0).fit_predict(X),
        "CovarianceDPMeans, told nothing": CovarianceDPMeans(penalty=4.0, random_state=0).fit_predict(X),
    }
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for i, (name, found) in enumerate(labels.items()):
        score, K = adjusted_rand_score(truth, found), len(np.unique(found))
        print(f"{name}: {K} clusters, adjusted Rand index with the groups {abs(score):.2f}")
        if i < len(axes):
            axes[i].scatter(X[:, 0], X[:, 1], c=[f"C{k}" for k in found], s=10)
            axes[i].set_title(f"{name}\nadjusted Rand index {abs(score):.2f}", fontsize="medium")
    figure.savefig(out / "elongated.png", dpi=110)


if __name__ == "__main__":
    main()
