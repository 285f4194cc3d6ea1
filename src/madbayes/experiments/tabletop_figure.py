"""Example pictures, their codes, and the features as pictures."""

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from madbayes import BPMeans, StepwiseKFeatures, match
from madbayes.experiments.codes import code_of, on_a_base
from madbayes.experiments.figures import around_grey, plot_pictures
from madbayes.experiments.parts import Findings, Rows, Work
from madbayes.experiments.restarts import best_of, restarts
from madbayes.experiments.tabletop_setup import Effort, Tabletop
from madbayes.paper import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A feature is where its picture is above this share of its largest value.
LOUD = 0.3
N_EXAMPLES = 4
# Of the penalty, at which BP-means is restarted.
FACTORS = (0.6, 1.0, 1.5, 2.0)


class Object(NamedTuple):
    """What a feature beside the base does to the pictures."""

    place: NDArray[np.bool_]  # its pixels
    adds: bool  # whether there is more to be seen with it than without
    least_with: float  # of the pictures with it, how much of it is there at least
    most_without: float  # and at most in those without it


def findings(table: Tabletop, effort: Effort, work: Work) -> Findings:
    """The paper's figure, and whether the codes are those of objects."""
    model = StepwiseKFeatures(effort.penalty, random_state=effort.seed, n_jobs=effort.n_jobs).fit(table.X)
    (Z, A), projection = on_a_base(table.X, model.allocations_), table.projection
    if not (len(A) and Z[:, 0].all()):
        return Findings([f"No base: none of the {len(A)} features is in all pictures."], {"codes": combinations(Z)}, {})
    base, X = projection.pictures(A[:1])[0], projection.pictures(table.X)
    objects = [look_at(part, base, X, z == 1) for part, z in zip(projection.parts(A[1:]), Z[:, 1:].T, strict=True)]
    caption = "Examples and their codes; the same rebuilt; the base and the other features, each added or subtracted"
    figures = {caption: draw(table, Z, A, objects)}
    restarted = {factor * effort.penalty: Pair.at(factor * effort.penalty, table, effort, work) for factor in FACTORS}
    for penalty, pair in restarted.items():
        if (extra := pair.surplus(table.X)) is not None:
            words_of = (
                f"What the best of the BP-means restarts has at a penalty of {penalty:g} beside the optimal features"
            )
            figures[words_of] = draw_parts(projection.parts(extra))
    rows = [row(k, Z, found) for k, found in enumerate(objects, 1)]
    tables = {
        "features": rows,
        "codes": combinations(Z),
        "restarts of BP-means": [p.row(x) for x, p in restarted.items()],
    }
    verdict = [*words(rows, Z, overlap(objects)), restart_words(restarted, effort)]
    return Findings(verdict, tables, figures)


class Pair(NamedTuple):
    """The best of the paper's restarts of BP-means, and the best that is known."""

    restarted: Result
    lowest: BPMeans

    @classmethod
    def at(cls, penalty: float, table: Tabletop, effort: Effort, work: Work) -> Self:
        """Both at a penalty."""
        work.progress(f"Restarts of BP-means at a penalty of {penalty:g}", 0, 0)
        seeds = np.random.default_rng(effort.seed).integers(2**31, size=effort.n_restarts).tolist()
        lowest = BPMeans(penalty, random_state=effort.seed, n_jobs=effort.n_jobs).fit(table.X)
        return cls(best_of(restarts(table.X, penalty, seeds, n_jobs=effort.n_jobs)), lowest)

    @property
    def n_surplus(self) -> int:
        """How many features the restarts have too many."""
        return max(self.restarted.K - self.lowest.n_components_, 0)

    def surplus(self, X: NDArray) -> NDArray | None:
        """The features that have no partner in the optimum, if there are too many."""
        if not self.n_surplus:
            return None
        Z, A = on_a_base(X, self.restarted.Z)
        return A[match(on_a_base(X, self.lowest.allocations_)[0], Z).unmatched[1]]

    def row(self, penalty: float) -> dict[str, Any]:
        """A line about them."""
        return {
            "penalty": penalty,
            "features": self.restarted.K,
            "optimal": self.lowest.n_components_,
            "objective": self.restarted.value,
            "lowest": self.lowest.objective_,
        }


def look_at(part: NDArray, base: NDArray, X: NDArray, has: NDArray[np.bool_]) -> Object:
    """Where a feature is, whether it adds something, and how clearly pictures have it or not.

    How much of it is in a picture is told by its own pixels only: 1 if it is there as in the mean, 0 if not at all.
    """
    strength = np.abs(part).max(axis=-1)
    place = strength > LOUD * strength.max()
    pattern = part[place].ravel()
    rest = X[:, place].reshape(len(X), -1) - base[place].ravel()
    amount = rest @ pattern / (pattern @ pattern)
    return Object(place, detail(base + part, place) > detail(base, place), amount[has].min(), amount[~has].max())


def detail(picture: NDArray, place: NDArray[np.bool_]) -> float:
    """How much there is to see in a place: the differences of neighbouring pixels. A bare table has little of it."""
    down, across = np.abs(np.diff(picture, axis=0)), np.abs(np.diff(picture, axis=1))
    return float(down[place[1:]].sum() + across[place[:, 1:]].sum())


def overlap(objects: list[Object]) -> float:
    """The largest share of a feature's place that belongs to another one, too."""
    shares = [
        (a.place & b.place).sum() / min(a.place.sum(), b.place.sum())
        for i, a in enumerate(objects)
        for b in objects[:i]
    ]
    return float(max(shares, default=0.0))


def row(k: int, Z: NDArray, found: Object) -> dict[str, Any]:
    """A line about a feature."""
    return {
        "feature": k,
        "pictures": int(Z[:, k].sum()),
        "does": "add" if found.adds else "subtract",
        "share of the picture": float(found.place.mean()),
        "least with it": found.least_with,
        "most without it": found.most_without,
    }


def combinations(Z: NDArray) -> Rows:
    """How many pictures have each code."""
    codes, counts = np.unique(Z, axis=0, return_counts=True)
    return [{"code": code_of(code), "pictures": int(n)} for code, n in zip(codes, counts, strict=True)]


def examples(Z: NDArray) -> NDArray[np.intp]:
    """The first pictures with the base alone, and with ever other codes."""
    _, first = np.unique(Z, axis=0, return_index=True)
    by_features = first[np.argsort(Z[first].sum(axis=1), kind="stable")]
    return by_features[np.linspace(0, len(first) - 1, min(N_EXAMPLES, len(first))).astype(int)]


def draw(table: Tabletop, Z: NDArray, A: NDArray, objects: list[Object]) -> "Figure":
    """Examples in the first line, what is made of them in the second, the features in the third."""
    projection, shown = table.projection, examples(Z)
    signs = np.array([1 if found.adds else -1 for found in objects])
    n_columns = max(len(shown), len(A))
    blank = [np.ones(projection.shape)] * (n_columns - len(shown))
    pictures = [*projection.pictures(table.X[shown]), *blank, *projection.pictures(Z[shown] @ A), *blank]
    pictures += [*projection.pictures(A[:1]), *around_grey(projection.parts(A[1:]), signs)]
    titles = [code_of(z) for z in Z[shown]] + [""] * len(blank) + ["rebuilt"] * len(shown) + [""] * len(blank)
    titles += ["base", *(f"feature {k} ({'add' if found.adds else 'subtract'})" for k, found in enumerate(objects, 1))]
    return plot_pictures(pictures, titles, n_columns=n_columns)


def draw_parts(parts: NDArray) -> "Figure":
    """What features add or take away, grey where they do nothing."""
    return plot_pictures(list(around_grey(parts)), [""] * len(parts), n_columns=max(3, len(parts)))


def words(rows: Rows, Z: NDArray, shared: float) -> list[str]:
    """Whether every feature is one object."""
    clear = all(row["least with it"] > row["most without it"] for row in rows)
    n_codes = len(np.unique(Z, axis=0))
    told = "there is no picture about which they could be in doubt" if clear else "some pictures are NOT clear"
    return [
        f"{Z.shape[1]} features: a base in all pictures and {len(rows)} others in places of their own "
        f"(largest overlap {shared:.0%}); {n_codes} of {2 ** len(rows)} combinations occur. "
        f"Measured in these places alone, {told}.",
        "A feature is marked add if there is more detail in its place with it than without it, else subtract.",
    ]


def restart_words(restarted: dict[float, Pair], effort: Effort) -> str:
    """What the paper's BP-means ends with."""
    found = [
        f"{pair.restarted.K} features at a penalty of {penalty:g} (the objective is "
        f"{pair.restarted.value / pair.lowest.objective_ - 1:.1%} above the lowest)"
        for penalty, pair in restarted.items()
    ]
    too_many = any(pair.n_surplus for pair in restarted.values())
    like = " Some of them are superfluous, like the sixth of the paper." if too_many else ""
    return f"The best of {effort.n_restarts} restarts of BP-means has {', '.join(found)}.{like}"
