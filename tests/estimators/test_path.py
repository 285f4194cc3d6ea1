"""penalty_path as its user sees it: what it refuses, what it warns of, and what its answer does not depend on."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, penalty_path
from madbayes.engine.climb import Effort
from madbayes.engine.path import PenaltyPath, WeakEvidenceWarning
from madbayes.estimators import path as path_module
from madbayes.estimators.problem import dominant_share
from madbayes.model import MeansCovariances

KINDS = ("clusters", "features", "covariances")
by_kind = pytest.mark.parametrize("kind", KINDS)
by_squares = pytest.mark.parametrize("kind", KINDS[:2])


@pytest.fixture
def three():
    """Three clusters that nobody can miss."""
    rng = np.random.default_rng(3)
    return np.repeat([[0.0, 0.0], [20.0, 0.0], [0.0, 30.0]], 20, axis=0) + rng.normal(size=(60, 2))


@pytest.fixture
def cloud():
    """One long cloud."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 1)) * [3.0, 2.0, 2.0] + rng.normal(size=(80, 3))


def quietly(X, kind="clusters", **options):
    """Without the warnings, which have tests of their own."""
    options = {"max_components": 5, "n_null": 2, "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidenceWarning)
        return penalty_path(X, kind, **options)


def bits(path, X):
    """All numbers of a path, and the groups of each distinct row of its table."""
    order = np.unique(np.asarray(X)[path.rows], axis=0, return_index=True)[1]
    groups = [solution.groups[order] for solution in path.solutions]
    parameters = [part for solution in path.solutions for part in arrays(solution.A)]
    numbers = [part.tobytes() for part in (path.n_components, path.losses, *groups, *parameters)]
    return numbers, path.null_ratios, path.n_outliers


def arrays(A):
    """The arrays among the parameters of groups."""
    return tuple(A) if isinstance(A, MeansCovariances) else (A,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "groups"}, ["kind='groups'", "'clusters', 'features'"]),
        ({"kind": 1}, ["kind=1", "'clusters', 'features'"]),
        ({"max_components": 0}, ["max_components=0", "an integer >= 1 or None"]),
        ({"max_components": 2.5}, ["max_components=2.5", "an integer >= 1 or None"]),
        ({"max_components": True}, ["max_components=True", "an integer >= 1 or None"]),
        ({"min_rows": 0}, ["min_rows=0", "a finite number > 0 or None"]),
        ({"min_rows": -1.5}, ["min_rows=-1.5", "a finite number > 0 or None"]),
        ({"min_rows": np.nan}, ["min_rows=nan", "a finite number > 0 or None"]),
        ({"max_rows": 1}, ["max_rows=1", "an integer >= 2"]),
        ({"max_rows": "all"}, ["max_rows='all'", "an integer >= 2"]),
        ({"n_null": -1}, ["n_null=-1", "an integer >= 0"]),
        ({"n_null": None}, ["n_null=None", "an integer >= 0"]),
        ({"thorough": "yes"}, ["thorough='yes'", "True or False"]),
        ({"n_jobs": 0}, ["n_jobs=0", "None, a positive integer, or -1"]),
        ({"n_jobs": 1.5}, ["n_jobs=1.5", "None, a positive integer, or -1"]),
        ({"random_state": "seed"}, ["random_state='seed'", "an integer from 0"]),
        ({"sample_weight": [1.0] * 59 + [-2.0]}, ["sample_weight", "-2", "weights >= 0"]),
        ({"sample_weight": [1.0] * 59}, ["sample_weight", "(59,)", "(60,)"]),
        ({"sample_weight": [0.0] * 60}, ["sample_weight", "zero for all rows", "positive weight"]),
        ({"sample_weight": [np.inf] * 60}, ["sample_weight", "infinity", "finite numbers"]),
    ],
)
def test_arguments_that_are_refused(three, options, words):
    with pytest.raises(ValueError, match=".*".join(map(re.escape, words))):
        penalty_path(three, **options)


def test_tables_that_are_refused(three):
    with pytest.raises(ValueError, match=r"X contains 1 NaN and 1 inf values.*column 0: 1 NaN, 0 inf; 1: 0 NaN, 1 inf"):
        penalty_path(np.vstack([three, [[np.nan, np.inf]]]))
    with pytest.raises(ValueError, match=r"X must hold numbers only.*column 'name'"):
        penalty_path(pd.DataFrame({"x": [1.0, 2.0], "name": ["a", "b"]}))
    with pytest.raises(ValueError, match="squares leave the range"):
        penalty_path(three * 1e150)
    for nothing in (np.zeros((0, 2)), np.zeros((3, 0)), np.zeros(3)):
        with pytest.raises(ValueError, match="array"):
            penalty_path(nothing)


@by_kind
def test_a_cloud_is_warned_of(kind, cloud):
    with pytest.warns(WeakEvidenceWarning, match="weak evidence for groups. No groups found") as caught:
        path = penalty_path(cloud, kind, max_components=5, random_state=0)
    assert [warning.filename for warning in caught] == [__file__]
    assert path.candidates == []
    assert str(path).startswith("No groups found")


@by_squares
def test_a_column_on_another_scale_is_warned_of(kind, three):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        penalty_path(three * [1.0, 1e4], kind, max_components=4, n_null=1, random_state=0)
    first = caught[0]
    assert first.category is WeakEvidenceWarning
    assert re.search(r"column 1 has \d+% of the variance.*comparable scales", str(first.message))
    assert first.filename == __file__


def test_fits_warn_of_a_column_on_another_scale(three):
    with pytest.warns(WeakEvidenceWarning, match=r"column 1 has \d+% of the variance") as caught:
        DPMeans(random_state=0).fit(three * [1.0, 1000.0])
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPMeans(random_state=0).fit(three)


@pytest.mark.parametrize(
    ("spreads", "share"),
    [([1, 10], 0.99), ([1, 2.9], None), ([10] + [1] * 29, 0.78), ([10, 4] + [1] * 28, None), ([10] + [1] * 150, None)],
)
def test_one_column_decides_if_it_has_most_of_the_variance_and_much_more_than_any_other(spreads, share):
    found = dominant_share(np.square(np.array(spreads, dtype=float)) * 1e300 / 1e2)
    assert found is None if share is None else found == pytest.approx(share, abs=0.01)
    assert dominant_share(np.zeros(3)) is None


def test_one_column_decides_alone_by_right():
    x = np.repeat([0.0, 30.0, 70.0], 20) + np.random.default_rng(0).normal(size=60)
    assert penalty_path(x[:, None], "clusters", max_components=5, random_state=0).best == 3


def test_clear_groups_are_not_warned_of(three):
    path = penalty_path(three, "clusters", max_components=6, random_state=0)
    assert (path.best, path.candidates[0]) == (3, 3)
    assert str(path).startswith("3 groups: best for penalties from ")
    lo, hi = path.intervals[3]
    assert lo < path.suggest() < hi
    assert path.at(path.suggest()) is path.for_k(3)


@pytest.mark.parametrize("seed", range(3))
def test_without_features_there_are_none_or_the_base_alone(seed):
    """Not one that stands for part of a cloud."""
    noise = np.random.default_rng(seed).normal(size=(100, 10))
    for X, K in ((noise, 0), (noise + 20.0, 1)):
        path = quietly(X, "features")
        assert (path.best, path.candidates, path.has_base) == (K, [], K == 1)
        with pytest.warns(WeakEvidenceWarning, match="No groups found"):
            model = BPMeans(random_state=0).fit(X)
        assert model.allocations_.shape == (100, K)
        assert model.allocations_.all()
        assert model.transform(X).shape == (100, K)


@pytest.mark.parametrize("seed", range(3))
def test_a_single_feature_is_found(seed):
    """Of part of the rows, far from what noise leads to: no warning."""
    rng = np.random.default_rng(seed)
    Z = rng.random((100, 1)) < 0.4
    X = Z * (3 * rng.normal(size=(1, 10))) + 0.3 * rng.normal(size=(100, 10))
    path = penalty_path(X, "features", random_state=0)
    assert (path.best, path.candidates, path.has_base) == (1, [1], False)
    assert str(path).startswith("1 group: best for penalties from ")
    assert path.ratio > 5 * path.null_ratio
    assert_array_equal(BPMeans(random_state=0).fit(X).allocations_, Z)


@by_squares
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (5, 5), (6, 20), (12, 50)])
def test_as_many_groups_as_rows_are_no_answer(shape, kind):
    """They leave nothing unexplained, in groupless tables too."""
    for seed in range(3):
        path = quietly(np.random.default_rng(seed).normal(size=shape), kind, max_components=None, n_null=24)
        assert path.candidates == []
        assert path.best == (kind == "clusters")


SPARSE = {
    "clipped": lambda g: np.maximum(g.normal(size=(200, 5)) - 0.5, 0.0),
    "clipped and correlated": lambda g: np.maximum(g.normal(size=(200, 2)) @ g.normal(size=(2, 5)) - 0.5, 0.0),
    "zero-inflated": lambda g: g.exponential(size=(200, 4)) * (g.random((200, 4)) < 0.4),
    "signed": lambda g: g.normal(size=(200, 5)) * (g.random((200, 5)) < 0.4),
    "rare counts": lambda g: g.poisson(0.3, (200, 5)).astype(float),
}


@by_squares
@pytest.mark.parametrize("draw", SPARSE.values(), ids=SPARSE)
def test_numbers_that_are_mostly_zero_make_no_groups(draw, kind):
    """They are far from normal, but independent or in one cloud."""
    for seed in range(2):
        path = quietly(draw(np.random.default_rng(seed)), kind, max_components=None, n_null=24, thorough=False)
        assert path.best == (kind == "clusters")


@pytest.mark.parametrize("seed", range(3))
def test_features_without_noise_are_found(seed):
    """Four shapes of zeros and ones, each in columns of its own."""
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(4), np.ones(9)) * (rng.random((4, 36)) < 0.7)
    X = rng.integers(2, size=(100, 4)) @ A
    assert quietly(X, "features", max_components=None, n_null=24, thorough=False).best == 4


@by_squares
def test_groups_of_rows_that_are_mostly_zero_are_found(kind):
    rng = np.random.default_rng(0)
    centres = rng.exponential(3.0, size=(4, 8)) * (rng.random((4, 8)) < 0.4)
    X = np.maximum(centres[rng.integers(4, size=200)] + 0.2 * rng.normal(size=(200, 8)), 0.0)
    assert quietly(X, kind, max_components=None, n_null=24, thorough=False).best == 4


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e3])
def test_weights_do_not_make_clusters_with_covariances(weight):
    """A long cloud; groupless tables weigh as much as the table does."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 1)) * [3.0, 2.0, 1.0, 2.0] + rng.normal(size=(150, 4))
    with pytest.warns(WeakEvidenceWarning, match="No groups found"):
        model = CovarianceDPMeans(random_state=0).fit(X, sample_weight=np.full(150, weight))
    assert model.n_clusters_ == 1


@by_kind
@pytest.mark.parametrize("X", [np.zeros((6, 2)), np.full((6, 2), 7.0), [[3.0, 4.0]], [[0.0]]], ids=str)
def test_nothing_to_choose(kind, X):
    """No warning either. A table of zeros needs no feature, any other that is constant needs one."""
    path = penalty_path(X, kind, random_state=0)
    assert path.best == (1 if kind != "features" or np.any(X) else 0)
    assert path.ratio is None
    assert path.n_components[-1] == path.best
    assert path.sse[-1] <= 1e-20 * max(path.sse[0], 1)
    assert str(path).startswith("There was no number of groups to choose")


@by_kind
def test_the_kind_decides_what_solutions_are(kind, three):
    path = quietly(three, kind)
    assert isinstance(path, PenaltyPath)
    assert_array_equal(path.n_components, np.arange(kind != "features", 6))
    for K, solution in zip(path.n_components, path.solutions, strict=True):
        assert path.for_k(K) is solution
        assert arrays(solution.A)[0].shape == (K, 2)
        assert solution.groups.shape == ((60, K) if kind == "features" else (60,))
    assert (np.diff(path.sse) <= 0).all()


@by_squares
def test_squared_errors_are_those_of_the_solutions(kind, three):
    """Of the user's rows, in their order."""
    shuffled = np.random.default_rng(0).permutation(three)
    path = quietly(shuffled, kind)
    assert_array_equal(path.rows, np.arange(60))
    for loss, solution in zip(path.losses, path.solutions, strict=True):
        fitted = solution.A[solution.groups] if kind == "clusters" else solution.groups @ solution.A
        assert loss == pytest.approx(((shuffled - fitted) ** 2).sum(), rel=1e-9)


def test_errors_of_covariances_are_those_of_the_solutions(three):
    """c log|I + S_k / Phi| summed over clusters, with Phi the scatter of each column and c = 1."""
    shuffled = np.random.default_rng(0).permutation(three)
    path = quietly(shuffled, "covariances")
    scatter = ((shuffled - shuffled.mean(axis=0)) ** 2).sum(axis=0)
    for loss, solution in zip(path.losses, path.solutions, strict=True):
        parts = [shuffled[solution.groups == k] for k in range(solution.K)]
        centred = [(part - part.mean(axis=0)) / np.sqrt(scatter) for part in parts]
        expected = sum(np.linalg.slogdet(np.eye(2) + part.T @ part)[1] for part in centred)
        assert loss == pytest.approx(expected, rel=1e-9)


def test_groups_are_those_of_the_users_rows(three):
    """Shuffled, one row without weight, some rows twice, two set aside; and of a sample, only its rows."""
    rng = np.random.default_rng(0)
    planted, X = (
        np.repeat([0, 1, 2, 0, 3], [20, 20, 20, 5, 2]),
        np.vstack([three, three[:5], [[900.0, 0], [0, -900.0]]]),
    )
    order, weights = rng.permutation(67), np.ones(67)
    X, planted = X[order], planted[order]
    weights[9] = 0
    path = quietly(X, sample_weight=weights)
    assert_array_equal(path.outliers, np.flatnonzero(planted == 3))
    assert_array_equal(path.rows, np.delete(np.arange(67), [9, *path.outliers]))
    assert adjusted_rand_score(path.for_k(3).groups, planted[path.rows]) == 1.0
    sampled = quietly(X, sample_weight=weights, max_rows=40)
    assert len(sampled.rows) + len(sampled.outliers) == 40
    assert adjusted_rand_score(sampled.for_k(3).groups, planted[sampled.rows]) == 1.0


@by_squares
def test_the_order_of_rows_does_not_matter(kind, three):
    """With covariances, sums over all rows are rounded in another way."""
    shuffled = np.random.default_rng(0).permutation(three)
    one, two = (quietly(X, "covariances") for X in (three, shuffled))
    assert_allclose(one.sse, two.sse, rtol=1e-9)
    assert bits(quietly(three, kind), three) == bits(quietly(shuffled, kind), shuffled)


@by_squares
def test_weights_are_repeated_rows(kind, three):
    times = np.random.default_rng(1).integers(0, 4, size=60)
    copies = np.repeat(three, times, axis=0)
    once, repeated = quietly(three, kind, sample_weight=times), quietly(copies, kind)
    assert_allclose(once.sse, repeated.sse, rtol=1e-9)
    assert once.best == repeated.best
    assert bits(once, three) == bits(repeated, copies)


@by_squares
def test_the_scale_of_weights_scales_errors(kind, three):
    plain, heavy = quietly(three, kind), quietly(three, kind, sample_weight=np.full(60, 4.0))
    assert_allclose(heavy.sse, 4 * plain.sse, rtol=1e-9)
    assert heavy.best == plain.best
    assert heavy.suggest() == pytest.approx(4 * plain.suggest())


@by_squares
def test_units_scale_errors(kind, three):
    plain, scaled = quietly(three, kind), quietly(three * 1024, kind)
    assert_allclose(scaled.sse, 1024.0**2 * plain.sse, rtol=1e-9)
    assert scaled.best == plain.best
    assert_allclose(list(scaled.ratios.values()), list(plain.ratios.values()), rtol=1e-6)


@by_kind
def test_the_same_bits_for_any_number_of_threads(kind, cloud):
    one, two = (quietly(cloud, kind, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert bits(one, cloud) == bits(two, cloud)


@by_kind
def test_seeds_reproduce(kind, cloud):
    expected = bits(quietly(cloud, kind), cloud)
    assert bits(quietly(cloud, kind), cloud) == expected
    assert bits(quietly(cloud, kind, random_state=np.random.RandomState(0)), cloud) == expected


@by_kind
def test_tables_of_other_libraries(kind, three):
    table = np.round(three)
    expected = bits(quietly(table, kind), table)
    for other in (pd.DataFrame(table, columns=["a", "b"]), table.tolist(), table.astype(int), np.asfortranarray(table)):
        assert bits(quietly(other, kind), table) == expected
    single = quietly(table.astype(np.float32), kind)
    assert_allclose(single.sse, quietly(table, kind).sse, rtol=1e-5)


def test_the_cap_is_kept(three):
    path = quietly(three, "clusters", max_components=2)
    assert path.n_components[-1] == len(path.for_k(2).A) == 2
    assert path.best <= 2
    with pytest.raises(ValueError, match="K=3 is not on the path"):
        path.for_k(3)
    assert quietly(three, "clusters", max_components=3).best == 3


def test_a_sample_of_many_rows():
    """A third of the rows stands for all: its errors are estimates of theirs."""
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=900)
    X = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])[labels] + rng.normal(size=(900, 2))
    path = quietly(X, "clusters", max_rows=300)
    assert path.best == 4
    assert len(path.for_k(4).groups) == 300
    total = ((X - X.mean(axis=0)) ** 2).sum()
    # The four distances vary little, so the mean of 300 is within a few percent.
    assert path.sse[0] == pytest.approx(total, rel=0.1)
    noise = sum(((X[labels == k] - X[labels == k].mean(axis=0)) ** 2).sum() for k in range(4))
    assert path.sse[3] == pytest.approx(noise, rel=0.25)


def test_rows_far_away_are_set_aside(three):
    X = np.vstack([three, [[900.0, 0.0], [-700.0, 800.0]]])
    path = quietly(X)
    assert (path.best, path.n_outliers) == (3, 2)
    # With room for them and nothing too small to count, they are groups.
    assert quietly(X, min_rows=0.5, max_components=6).n_outliers == 0


def test_rows_that_are_set_aside_are_named_as_the_user_counts_them(three):
    """Far rows among the others, one of them without weight, some rows twice."""
    far = 300 * np.eye(len(three[0]))[:2]
    X = np.vstack([far[:1], three, three[:5], far[1:], -far[:1]])
    weights = np.ones(len(X))
    weights[-1] = 0
    path = penalty_path(X, "clusters", sample_weight=weights, random_state=0)
    assert path.best == 3
    assert path.outliers == [0, len(X) - 2]
    assert json.loads(json.dumps(path.to_dict()))["outliers"] == path.outliers
    fitted = DPMeans(random_state=0).fit(X, sample_weight=weights)
    assert fitted.path_.outliers == path.outliers


def test_a_group_of_equal_rows_is_not_tiny():
    """Eighty rows of a thousand: what counts is how many there are, not how many differ."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [30.0, 0.0]], 460, axis=0) + rng.integers(-1, 2, size=(920, 2))
    X = np.vstack([X, np.tile([0.0, 40.0], (80, 1))])
    path = quietly(X)
    assert path.n_outliers == 0
    assert path.best == 3


def test_without_groupless_tables(three):
    path = quietly(three, n_null=0)
    assert path.null_ratio is None
    assert path.best == 3


@pytest.mark.parametrize(("times", "n_outliers"), [(2, 2), (5, 0)])
def test_a_heavy_row_is_as_many_equal_rows(three, times, n_outliers):
    """Two far rows are too few to be a group, five are enough: in one row or in several."""
    far = [[900.0, 0.0]]
    once, copied = np.vstack([three, far]), np.vstack([three, np.repeat(far, times, axis=0)])
    heavy = quietly(once, sample_weight=[1.0] * 60 + [times])
    assert bits(heavy, once) == bits(quietly(copied), copied)
    assert heavy.n_outliers == n_outliers


def test_plain_values_of_a_table(three):
    plain = quietly(three).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["best"] == 3


def test_a_thorough_path_may_take_more_work(three, monkeypatch):
    """Only that: it is compared with as many groupless tables."""
    efforts, whole = [], path_module.find_path

    def find_path(*args, effort, **options):
        efforts.append(effort)
        return whole(*args, effort=effort, **options)

    monkeypatch.setattr(path_module, "find_path", find_path)
    for thorough in (True, False):
        quietly(three, n_null=1, thorough=thorough)
    quietly(three, n_null=1)
    most, less, default = efforts
    assert most.work > less.work == Effort().work  # as in estimators
    assert most._replace(work=less.work) == less
    assert default == most
