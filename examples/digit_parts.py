"""Digits: a base, and what handwritten digits add to it or take away.

Twelve features of 400 pictures of 8 x 8 pixels. The first is in all pictures; the others add ink (dark) or take it
away (light), each on a scale of its own here. A picture has any number of them, so they are places of ink, not
whole digits. The number is given: digits speak for no number of features in particular, and ``penalty="auto"`` says so.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from madbayes import DPMeans, KFeatures
from madbayes.display import plot_images


def main() -> None:
    """Fit twelve features, say how well they rebuild the pictures, draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    X = load_digits().data[:400] / 16
    model = KFeatures(12, n_init=1, random_state=0).fit(X)
    clusters = DPMeans(penalty=0, max_clusters=12, random_state=0).fit(X)
    total = ((X - X.mean(axis=0)) ** 2).sum()
    print(f"left unexplained by 12 features: {model.sse_ / total:.0%} of the variance")
    print(f"left unexplained by 12 clusters: {clusters.sse_ / total:.0%}")
    print(f"pictures with the first feature: {model.allocations_[:, 0].mean():.0%}")
    print(f"features in a picture, mean: {model.allocations_.sum(axis=1).mean():.1f}")

    parts = model.components_ / np.abs(model.components_).max(axis=1, keepdims=True)
    rebuilt = model.inverse_transform(model.transform(X[:6]))
    titles = [f"feature {k}" for k in range(12)] + [f"row {n}" for n in range(6)] + ["rebuilt"] * 6
    plot_images(np.vstack([parts, X[:6], rebuilt]), (8, 8), titles, n_columns=6).savefig(
        out / "digit_parts.png", dpi=120
    )


if __name__ == "__main__":
    main()
