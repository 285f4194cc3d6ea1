"""How many: squared errors of K-means, silhouettes, and the path.

Eight groups in ten columns. All three point to eight; an elbow has to be seen by eye, and the highest silhouette exists
in any table. The path also says how clear it is: the range of penalties at which eight clusters are best is far wider
than tables without groups make it at eight (dashed).
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from madbayes import penalty_path


def main() -> None:
    """Run all three on the same table and draw them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(2)
    centres = 2.4 / np.sqrt(2) * rng.normal(size=(8, 10))
    X = centres[rng.integers(8, size=500)] + rng.normal(size=(500, 10))
    numbers = np.arange(2, 15)
    fits = [KMeans(K, n_init=3, random_state=0).fit(X) for K in numbers]
    silhouettes = [silhouette_score(X, fit.labels_) for fit in fits]
    path = penalty_path(X, "clusters", random_state=0)
    print(f"best silhouette: {numbers[np.argmax(silhouettes)]} clusters")
    print(path)

    figure = Figure(figsize=(11, 3.5), layout="constrained")
    elbow, silhouette, ranges = figure.subplots(1, 3)
    elbow.plot(numbers, [fit.inertia_ for fit in fits], "o-")
    elbow.set(title="K-means: the elbow", xlabel="clusters", ylabel="squared error")
    silhouette.plot(numbers, silhouettes, "o-")
    silhouette.set(title="K-means with silhouettes", xlabel="clusters", ylabel="mean silhouette")
    ratios = {K: ratio for K, ratio in path.ratios.items() if K in numbers}
    ranges.bar(list(ratios), list(ratios.values()), color=["C1" if path.best == K else "C0" for K in ratios])
    ranges.axhline(path.null_ratio, color="black", linestyle="--", label=f"without groups, at {path.best}")
    ranges.set(title="the path", xticks=numbers[::2], xlabel="clusters", ylabel="highest by lowest penalty")
    ranges.legend(loc="center right")
    figure.savefig(out / "elbow.png", dpi=110)


if __name__ == "__main__":
    main()
