"""Customers: segments of a table whose columns have different units.

Income is in euros, age in years, visits are a count per month: unscaled, income would decide alone. The columns are
scaled, the number of segments is found, and the segments are told in the units of the table.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from madbayes import DPMeans

# age in years, income in euros, visits per month, basket in euros
SEGMENTS = {
    "students": (22, 14_000, 9, 11),
    "families": (38, 52_000, 5, 85),
    "retired": (70, 31_000, 12, 30),
    "well off": (51, 110_000, 2, 140),
}
SPREAD = (4, 5_000, 1.2, 8)


def make_customers(n_rows: int = 600, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Customers and the segment each was drawn from."""
    rng = np.random.default_rng(seed)
    segments = rng.choice(len(SEGMENTS), size=n_rows, p=[0.3, 0.35, 0.2, 0.15])
    rows = np.array(list(SEGMENTS.values()))[segments] + rng.normal(size=(n_rows, 4)) * SPREAD
    table = pd.DataFrame(rows, columns=["age", "income", "visits", "basket"])
    return table, pd.Series(np.array(list(SEGMENTS))[segments])


def main() -> None:
    """Find the segments, print them in units of the table, draw two columns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    customers, truth = make_customers()
    scaled = StandardScaler().set_output(transform="pandas").fit_transform(customers)
    model = DPMeans(random_state=0).fit(scaled)
    print(f"{model.n_clusters_} segments of {len(customers)} customers; their means:")
    print(customers.groupby(model.labels_).mean().round(0).astype(int).to_string())
    print(
        f"Adjusted Rand index with the segments they were drawn from: {adjusted_rand_score(truth, model.labels_):.2f}"
    )

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for k in range(model.n_clusters_):
        rows = customers[model.labels_ == k]
        axis.scatter(rows["age"], rows["income"] / 1000, s=12, label=f"segment {k}: {len(rows)} customers")
    axis.set(xlabel="age in years", ylabel="income in 1000 euros", title="Segments found, their number not given")
    axis.legend()
    figure.savefig(out / "customers.png", dpi=120)


if __name__ == "__main__":
    main()
