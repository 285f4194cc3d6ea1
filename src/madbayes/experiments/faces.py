"""Features and clusters of aligned faces."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from madbayes import DPMeans, KFeatures, StepwiseKFeatures, match, penalty_path
from madbayes.experiments.codes import code_of, group_numbers, on_a_base
from madbayes.experiments.figures import plot_pictures
from madbayes.experiments.parts import Experiment, Findings, Part, Rows, Work, data_digest
from madbayes.experiments.restarts import k_means
from madbayes.experiments.scenes import make_faces
from madbayes.experiments.tabletop_errors import interval_rows
from madbayes.pictures import Projection, load_faces, project

N_FEATURES = 3
PAPER_CODES = {"100": 139, "110": 106, "101": 80, "111": 75}
PAPER_CLUSTERS = {3: (154, 151, 95), 4: (121, 150, 74, 55)}
SOURCE = (
    "The paper uses the FEI face database of Thomaz and Giraldi (2010): 200 people, each neutral and smiling, aligned "
    "and grey. Its terms forbid to pass it on: put your own copy in a folder and name it with --data."
)


class Faces(NamedTuple):
    """The pictures as a table."""

    projection: Projection
    Z: NDArray[np.uint8] | None  # which face has what, where that is known
    about: str

    @property
    def X(self) -> NDArray:
        """What is fitted."""
        return self.projection.X


class Effort(NamedTuple):
    """What the findings depend on."""

    penalty: float | None  # None: one at which three features are best
    seed: int
    n_jobs: int | None
    n_null: int
    n_stepwise: int  # restarts of K-features for each K


def faces(data: str | Path | None, seed: int, quick: bool) -> Faces:
    """The faces in a folder, or generated ones without a folder."""
    if data is not None:
        projection = load_faces(data)
        return Faces(projection, None, f"{len(projection.X)} pictures of faces from a folder.")
    counts = (35, 27, 20, 18) if quick else tuple(PAPER_CODES.values())
    pictures, Z = make_faces(counts, random_state=seed)  # type: ignore[arg-type]
    projection = project(pictures, 100, scale=1 / np.sqrt(len(Z) - 1))
    return Faces(projection, Z, f"Generated pictures of faces, in the proportions that the paper counts. {SOURCE}")


def experiment(
    data: str | Path | None = None,
    *,
    penalty: float | None = None,
    seed: int = 0,
    n_jobs: int | None = -1,
    quick: bool = False,
) -> Experiment:
    """The parts of the experiment, ready to run.

    Parameters
    ----------
    data : path, optional
        Folder with aligned grey pictures; generated ones without it.
    penalty : float, optional
        The price of one more feature; by default the middle of those at which three are best.
    seed : int
        Same seed, same answers.
    n_jobs : int, optional
        Threads.
    quick : bool
        Fewer generated faces.

    Returns
    -------
    Experiment
    """
    table = faces(data, seed, quick)
    effort = Effort(penalty, seed, n_jobs, n_null=1, n_stepwise=20) if quick else Effort(penalty, seed, n_jobs, 5, 300)
    settings = {key: value for key, value in effort._asdict().items() if key != "n_jobs"}
    parts = [
        Part("features", "Features and clusters of faces", partial(findings, table, effort), settings),
        Part("two", "Two features and two clusters", partial(two_findings, table, effort), settings),
    ]
    title = "Faces: the paper's experiment and ours"
    return Experiment("faces", title, [table.about], data_digest(table.X), parts)


def findings(table: Faces, effort: Effort, work: Work) -> Findings:
    """Three features, three clusters, four clusters."""
    options: dict[str, Any] = {"random_state": effort.seed, "n_jobs": effort.n_jobs}
    work.progress("The path of penalties", 0, 0)
    path = penalty_path(table.X, "features", max_components=N_FEATURES + 3, n_null=effort.n_null, **options)
    penalty = effort.penalty or path.suggest(N_FEATURES if N_FEATURES in path.intervals else None)
    work.progress("Features and clusters", 0, 0)
    model = StepwiseKFeatures(penalty, search="paper", n_init=effort.n_stepwise, **options).fit(table.X)
    Z, A = on_a_base(table.X, model.allocations_)
    clusters = {K: k_means(table.X, K, options) for K in PAPER_CLUSTERS}
    codes = code_rows(Z)
    sizes = [row for K, found in clusters.items() for row in cluster_rows(K, found)]
    tables = {"feature combinations": codes, "clusters": sizes, "best for": interval_rows(path)}
    verdict = words(Z, path, penalty, clusters) + truth_words(table, Z)
    return Findings(verdict, tables, draw(table, Z, A, clusters), {"penalty": penalty, "features": len(A)})


def code_rows(Z: NDArray) -> Rows:
    """How many faces have each code, the paper's counts beside them where there are such codes."""
    codes, counts = np.unique(Z, axis=0, return_counts=True)
    names = [code_of(code) for code in codes]
    return [{"code": c, "faces": int(n), "paper": PAPER_CODES.get(c)} for c, n in zip(names, counts, strict=True)]


def cluster_rows(K: int, model: DPMeans) -> Rows:
    """Sizes of clusters, largest first, the paper's in the same order."""
    sizes = sorted(np.bincount(model.labels_), reverse=True)
    paper = sorted(PAPER_CLUSTERS[K], reverse=True)
    return [
        {"clusters": K, "cluster": k + 1, "faces": int(n), "paper": p}
        for k, (n, p) in enumerate(zip(sizes, paper, strict=False))
    ]


def draw(table: Faces, Z: NDArray, A: NDArray, clusters: dict[int, DPMeans]) -> dict[str, Any]:
    """Examples, the base and the base with each feature, and the means of the clusters."""
    projection = table.projection
    names, first = np.unique(Z, axis=0, return_index=True)
    figures = {
        "A face for each code": plot_pictures(
            list(projection.pictures(table.X[first])), [code_of(code) for code in names], n_columns=max(4, len(first))
        )
    }
    if len(A) and Z[:, 0].all():
        together = projection.pictures(np.vstack([A[:1], A[:1] + A[1:]]))
        titles = ["base", *(f"base + feature {k}" for k in range(1, len(A)))]
        figures["Features"] = plot_pictures(list(together), titles, n_columns=4)
    for K, found in clusters.items():
        sizes = np.bincount(found.labels_)
        means = list(projection.pictures(found.cluster_centers_))
        figures[f"Means of {K} clusters"] = plot_pictures(means, [f"{n} faces" for n in sizes], n_columns=4)
    return figures


def words(Z: NDArray, path: Any, penalty: float, clusters: dict[int, DPMeans]) -> list[str]:
    """How many features there are, at which penalties, and what clusters have to do with them."""
    K, codes = Z.shape[1], group_numbers(Z)
    based = "one of them a base that all faces have" if K and Z[:, 0].all() else "none of them in all faces"
    interval = path.intervals.get(N_FEATURES)
    over = "at no penalty" if interval is None else "for penalties from {:.3g} to {:.3g}".format(*interval)
    same = [f"{adjusted_rand_score(codes, found.labels_):.2f} with {n}" for n, found in clusters.items()]
    return [
        f"Stepwise K-features at a penalty of {penalty:.4g} chooses {K} features, {based}; {N_FEATURES} are best "
        f"{over}, and the widest range is that of {path.best}. The paper's penalty of 5 is on a scale that it does not "
        "state.",
        f"Groups of faces by their features beside clusters: the adjusted Rand index is {' and '.join(same)} clusters "
        "(1: the same groups).",
    ]


def truth_words(table: Faces, Z: NDArray) -> list[str]:
    """How far the features are what the faces were made of, where that is known."""
    if table.Z is None:
        return []
    truth = np.column_stack([np.ones(len(table.Z), dtype=np.uint8), table.Z])
    share = match(truth, Z).agreement
    return [f"The features agree with what the generated faces were drawn with in {share:.1%} of the memberships."]


def two_findings(table: Faces, effort: Effort, work: Work) -> Findings:
    """Two clusters, two features, and two features of which all faces have one.

    A constant column, long beside the others, makes a base: the features of every face must add up to it.
    """
    options: dict[str, Any] = {"random_state": effort.seed, "n_jobs": effort.n_jobs}
    X = table.X
    constant = 10 * np.sqrt((X**2).sum())
    clusters, free = k_means(X, 2, options), KFeatures(2, **options).fit(X)
    based = KFeatures(2, **options).fit(np.column_stack([X, np.full(len(X), constant)]))
    rows = [
        {"model": "2 clusters", "groups": 2, "squared error": clusters.sse_, "adjusted Rand index": 1.0},
        two_row("2 features", free, clusters),
        two_row("2 features on a base", based, clusters),
    ]
    return Findings(two_words(rows), {"two": rows}, {})


def two_row(name: str, model: KFeatures, clusters: DPMeans) -> dict[str, Any]:
    """A line about two features, beside two clusters."""
    codes = group_numbers(model.allocations_)
    return {
        "model": name,
        "groups": int(codes.max()) + 1,
        "squared error": model.sse_,
        "adjusted Rand index": float(adjusted_rand_score(clusters.labels_, codes)),
    }


def two_words(rows: Rows) -> list[str]:
    """Whether two features are two clusters."""
    clusters, free, based = rows
    same = based["groups"] == 2 and np.isclose(based["squared error"], clusters["squared error"], rtol=1e-6)
    more = "Without it they say more than two clusters, which the paper overlooks." if free["groups"] > 2 else ""
    return [
        f"Two features with a base in all faces {'are' if same else 'are NOT'} the two clusters (squared errors "
        f"{based['squared error']:.4g} and {clusters['squared error']:.4g}). Without a base two features make "
        f"{free['groups']} groups ({free['squared error']:.4g}). {more}".rstrip(),
    ]
