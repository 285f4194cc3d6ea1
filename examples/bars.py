"""Bars: ten overlapping bars found in noisy pictures, their number not given.

Each picture shows some of five horizontal and five vertical bars; where bars cross, they add up. Top to bottom: some of
the pictures, the bars they were made of, and the features found, matched to the bars by the rows that have them.
"""

import argparse
from pathlib import Path

import numpy as np

from madbayes import BPMeans, match
from madbayes.datasets import make_bars
from madbayes.display import plot_images


def main() -> None:
    """Fit, match with the bars, draw all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    X, Z, A = make_bars(noise=0.3, random_state=0)
    model = BPMeans(penalty="2%", random_state=0).fit(X)
    found = match(Z, model.allocations_)
    print(f"{model.n_components_} features found; {found.agreement:.1%} of the memberships are those of the bars")

    rows = np.vstack([X[:10], A, model.components_[found.order]])
    titles = [f"picture {n}" for n in range(10)] + [f"bar {k}" for k in range(10)] + ["found"] * 10
    plot_images(rows, (5, 5), titles, n_columns=10).savefig(out / "bars.png", dpi=100)


if __name__ == "__main__":
    main()
