"""Two days: do the groups of Monday come back on Tuesday?

The same five kinds of visitors on both days, except that one kind stays away on Tuesday and a new one comes. ``match``
puts the groups of two fits side by side, and a group with no partner is gone; ``stability`` says which groups of one
fit come back when it is made of half of the rows.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from madbayes import DPMeans, match, stability

KINDS = np.array([[0, 0], [7, 0], [0, 7], [7, 7], [14, 3], [-7, 4]])


def make_day(kinds: list[int], seed: int) -> np.ndarray:
    """Sixty visitors of each kind."""
    rng = np.random.default_rng(seed)
    return np.repeat(KINDS[kinds], 60, axis=0) + rng.normal(size=(60 * len(kinds), 2))


def main() -> None:
    """Fit both days, compare them on the rows of Tuesday, draw both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    monday, tuesday = make_day([0, 1, 2, 3, 4], seed=1), make_day([0, 1, 2, 3, 5], seed=2)
    first, second = DPMeans(random_state=0).fit(monday), DPMeans(random_state=0).fit(tuesday)
    rows = np.vstack([monday, tuesday])
    found = match(first.predict(rows), second.predict(rows))
    print(f"Monday's groups and their partners on Tuesday: {found}")
    again = stability(monday, first, n_refits=10, random_state=0)
    print(again)

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    colours = {int(b): f"C{a}" for a, b in enumerate(found.order)}
    left.scatter(monday[:, 0], monday[:, 1], c=[f"C{k}" for k in first.labels_], s=10)
    right.scatter(tuesday[:, 0], tuesday[:, 1], c=[colours.get(int(k), "black") for k in second.labels_], s=10)
    box = {"color": "white", "alpha": 0.8}
    for k, (x, y) in enumerate(first.cluster_centers_):
        left.annotate(f"{k}: {again.group_agreement[k]:.2f}", (x, y), ha="center", bbox=box)
    left.set(title="Monday, with the stability of each group")
    right.set(title="Tuesday, in Monday's colours; the new group is black")
    figure.savefig(out / "two_days.png", dpi=110)


if __name__ == "__main__":
    main()
