"""The price of a group: how the answer changes with the penalty.

Left and middle: the path, that is, the penalties at which each number of clusters is best, and the squared error for
each number. Below: the clusters at three penalties. Six clusters are best over the widest range.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from madbayes import DPMeans, penalty_path

CENTRES = np.array([[0, 0], [3, 0.5], [1.2, 3], [12, 0], [14.5, 2.5], [12, 9]])


def main() -> None:
    """Look at all penalties at once, then at three of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    X = np.repeat(CENTRES, 60, axis=0) + 0.55 * rng.normal(size=(360, 2))
    path = penalty_path(X, "clusters", random_state=0)
    print(path)

    figure = Figure(figsize=(10, 7), layout="constrained")
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False)
    path.plot(above.subplots(1, 2))
    for K, axis in zip((2, 3, path.best), below.subplots(1, 3), strict=True):
        model = DPMeans(penalty=path.suggest(K), random_state=0).fit(X)
        axis.scatter(X[:, 0], X[:, 1], c=[f"C{k}" for k in model.labels_], s=8)
        axis.set(title=f"penalty {model.penalty_:.0f}: {model.n_clusters_} clusters", xticks=[], yticks=[])
        print(f"penalty {model.penalty_:.0f}: {model.n_clusters_} clusters, squared error {model.sse_:.0f}")
    figure.savefig(out / "penalty.png", dpi=110)


if __name__ == "__main__":
    main()
