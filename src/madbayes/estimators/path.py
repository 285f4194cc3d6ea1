"""Which penalties each number of groups is best for."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from madbayes.engine.blocks import Workers
from madbayes.engine.climb import THOROUGH_EFFORT, Effort
from madbayes.engine.path import PenaltyPath, warn_of_weak_evidence
from madbayes.engine.path_search import find_path
from madbayes.estimators import validation
from madbayes.estimators.base import PATH_LENGTH
from madbayes.estimators.clusters import DPMeans
from madbayes.estimators.covariance import CovarianceDPMeans
from madbayes.estimators.features import BPMeans
from madbayes.estimators.intake import take_in
from madbayes.estimators.problem import Problem, in_the_users_rows, row_weight, tiny_group, warn_of_scales

# The estimators whose objective it is, with its defaults.
KINDS = {"clusters": DPMeans, "features": BPMeans, "covariances": CovarianceDPMeans}


def penalty_path(
    X: ArrayLike,
    kind: str = "features",
    *,
    max_components: int | None = None,
    min_rows: float | None = None,
    max_rows: int = 500,
    n_null: int = 24,
    thorough: bool = True,
    sample_weight: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> PenaltyPath:
    """Best solutions for every number of groups, and the penalties at which each is best.

    The number whose interval of penalties is widest on a logarithmic scale is the natural one, if its interval is
    wider than those of tables without groups: clouds with the same covariance and columns as skewed and heavy-tailed.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Finite numbers; also tables that are not in memory, as in ``fit``.
    kind : {"features", "clusters", "covariances"}
        Any number of groups per row, or one; or one, and groups have covariances of their own as in
        :class:`CovarianceDPMeans`, whose objective then takes the place of the squared error.
    max_components : int, optional
        The largest number of groups to choose; by default numbers up to 16 are looked at, and more where the error
        falls most steeply there.
    min_rows : float, optional
        Groups with fewer rows are set aside before the number is chosen; by default one row in a hundred, at least 3.
        The lightest row counts as one, a row of five times its weight as five. More than a tenth of all rows are never
        set aside.
    max_rows : int, default=500
        A table of more rows is represented by a sample of this many, losses being those of all rows.
    n_null : int, default=24
        Tables without groups to compare with, at most; 1 to 8 unless the matter is in doubt, 0 for none.
    thorough : bool, default=True
        Go on where that still lowers squared errors of features: nearly all are then those of separate fits with so
        many groups, or lower. Estimators with ``penalty="auto"`` do not, as that seldom changes which number is best.
        Clusters are looked for with the same care either way.
    sample_weight : array-like of shape (n_rows,), optional
        Weights multiply squared errors, never the penalty.
    random_state : int, RandomState instance, optional
        Same seed, same answer, whatever ``n_jobs``.
    n_jobs : int, optional
        Threads: None is 1, -1 all cores.

    Returns
    -------
    PenaltyPath
        ``str`` of it gives the answer in words.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import penalty_path
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0) + rng.normal(size=(60, 2))
    >>> path = penalty_path(X, "clusters", max_components=6, random_state=0)
    >>> path.best
    3
    >>> lo, hi = path.intervals[3]
    >>> lo < path.suggest() < hi
    True
    """
    validation.check_choice("kind", kind, tuple(KINDS))
    validation.check_count("max_components", max_components, other=None)
    validation.check_positive("min_rows", min_rows, optional=True)
    validation.check_count("max_rows", max_rows, minimum=2)
    validation.check_count("n_null", n_null, minimum=0)
    validation.check_flag("thorough", thorough)
    validation.check_jobs(n_jobs)
    rows, random = take_in(BaseEstimator(), X), validation.check_random(random_state)
    with Workers(n_jobs) as workers:
        whole = Problem.of(rows, sample_weight, random, workers, lambda n_rows: n_rows > max_rows)
        estimator = KINDS[kind]()
        likelihood = estimator._likelihood(whole)
        if kind != "covariances":  # these learn the scales
            warn_of_scales(whole)
        sample = whole.sample(max_rows)
        table = sample.canonical()
        path = find_path(
            estimator._kind_of(likelihood),
            table.X,
            table.sample_weight,
            cap=max_components,
            limit=PATH_LENGTH + 1,  # one more to judge the last
            min_weight=tiny_group(sample) if min_rows is None else min_rows * row_weight(whole),
            row_weight=row_weight(sample),
            effort=(THOROUGH_EFFORT if thorough else Effort())._replace(n_null=n_null),
            rng=np.random.default_rng(whole.seeds(1)[0]),
            workers=workers,
        )
    path = in_the_users_rows(path, sample, table)
    warn_of_weak_evidence(path)
    return path
