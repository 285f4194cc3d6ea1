"""The limit: a posterior becomes an objective.

For several ways to group the same rows, minus two sigma squared times the exact log posterior, over sigma squared. As
sigma squared goes to zero each curve tends to the DP-means objective of its grouping (dashed), so in the end the most
probable grouping is the one with the lowest objective.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from madbayes import DPMeans
from madbayes.model import dp_means_objective
from madbayes.model.priors import one_hot

PENALTY = 15.0


def main() -> None:
    """Follow four groupings to the limit and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 10, axis=0) + rng.normal(size=(30, 2))
    objective, variances = dp_means_objective(PENALTY), np.logspace(1, -4, 60)

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    for K in (1, 2, 3, 4):
        labels = DPMeans(penalty=0, max_clusters=K, random_state=0).fit(X).labels_
        Z = one_hot(labels, K)
        values, limit = [objective.at(sigma2, X, Z) for sigma2 in variances], objective(X, Z)
        (line,) = axis.plot(variances, values, label=f"{K} clusters")
        axis.axhline(limit, color=line.get_color(), linestyle="--", linewidth=1)
        print(f"K={K}: objective {limit:.1f}; at sigma2=1 {objective.at(1.0, X, Z):.1f}, at 1e-4 {values[-1]:.1f}")
    axis.invert_xaxis()
    axis.set(xscale="log", xlabel="sigma squared", ylabel="-2 sigma² log p(X, Z, A)", ylim=(0, 600))
    axis.set_title(f"The exact posterior tends to the objective (penalty {PENALTY:g})")
    axis.legend()
    figure.savefig(out / "small_variance.png", dpi=120)


if __name__ == "__main__":
    main()
