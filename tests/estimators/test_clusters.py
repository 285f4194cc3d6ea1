import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from madbayes import DPMeans, paper
from madbayes.datasets import make_mixture


def test_found_by_hand():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [12.0]])
    model = DPMeans(9.0).fit(X)
    assert_array_equal(model.labels_, [1, 1, 0, 0, 0])
    assert_allclose(model.cluster_centers_, [[11.0], [0.5]])
    assert (model.sse_, model.objective_, model.n_clusters_) == (2.5, 11.5, 2)


@pytest.mark.parametrize("search", ["best", "paper"])
@pytest.mark.parametrize("collapsed", [False, True])
def test_finds_clusters_that_are_far_apart(search, collapsed, blobs):
    X, labels = blobs
    model = DPMeans(100.0, collapsed=collapsed, search=search, random_state=0).fit(X)
    assert_array_equal(model.labels_, labels)
    centers = [X[labels == k].mean(axis=0) for k in range(3)]
    assert_allclose(model.cluster_centers_, centers)
    assert_allclose(model.objective_, ((X - np.take(centers, labels, axis=0)) ** 2).sum() + 2 * 100.0)


@pytest.mark.parametrize("start", range(6))
def test_with_a_cap_and_no_penalty_it_is_k_means(start):
    X = make_mixture(200, 3, 6, random_state=start).X
    C = X[np.random.default_rng(start).choice(len(X), 5, replace=False)]
    model = DPMeans(0, max_clusters=5, init=C, search="paper").fit(X)
    peer = KMeans(5, init=C, n_init=1, tol=0, algorithm="lloyd").fit(X)
    assert_allclose(model.objective_, peer.inertia_)
    assert_allclose(sorted(model.cluster_centers_.tolist()), sorted(peer.cluster_centers_.tolist()))


def test_k_means_with_weights_is_k_means_with_copies():
    X = make_mixture(60, 2, 4, random_state=1).X
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    model = DPMeans(0, max_clusters=4, init=X[:4], search="paper")
    weighted = model.fit(X, sample_weight=weights).objective_
    copied = model.fit(np.repeat(X, weights, axis=0)).objective_
    assert_allclose(weighted, copied)


def test_without_a_penalty_every_distinct_row_is_a_cluster(X):
    model = DPMeans(0).fit(np.vstack([X, X[:5]]))
    assert model.n_clusters_ == len(X)
    assert_allclose(model.objective_, 0, atol=1e-20)


@pytest.mark.parametrize("cap", [1, 2, 5, 10**6])
def test_never_more_clusters_than_the_cap(X, cap):
    model = DPMeans(1e-3, max_clusters=cap, random_state=0).fit(X)
    assert model.n_clusters_ == min(cap, len(X))


def test_a_share_is_of_the_squared_error_about_the_mean(X):
    weights = np.arange(1.0, len(X) + 1)
    model = DPMeans("2%", random_state=0).fit(X, sample_weight=weights)
    mean = np.average(X, axis=0, weights=weights)
    assert_allclose(model.penalty_, 0.02 * (weights @ ((X - mean) ** 2).sum(axis=1)))
    assert_allclose(model.penalty_share_, 0.02)
    same = DPMeans(model.penalty_, random_state=0).fit(X, sample_weight=weights)
    assert same.objective_ == model.objective_
    assert_allclose(same.penalty_share_, 0.02)


def test_distances_and_score_samples(X):
    model = DPMeans(5.0).fit(X)
    new = X[:7] + 1
    squares = cdist(new, model.cluster_centers_, "sqeuclidean")
    assert_allclose(model.transform(new), np.sqrt(squares))
    assert_array_equal(model.predict(new), squares.argmin(axis=1))
    nearest, second = np.sort(squares, axis=1)[:, :2].T
    assert_allclose(model.score_samples(new), np.column_stack([nearest, second - nearest]))
    assert_allclose(-model.score(new), nearest.sum() + 5.0 * (model.n_clusters_ - 1))


def test_with_one_cluster_the_margin_is_infinite(X):
    samples = DPMeans(1e9).fit(X).score_samples(X)
    assert_allclose(samples[:, 0], ((X - X.mean(axis=0)) ** 2).sum(axis=1))
    assert np.isposinf(samples[:, 1]).all()


def test_init_with_centres(X):
    C = X[[0, 1, -1]]
    model = DPMeans(5.0, init=C, search="paper").fit(X)
    (run,) = model.runs_
    assert run.seed == "init"
    assert_allclose(run.value, paper.dp_means(X, 5.0, C).value)


def test_init_with_a_fitted_model(X):
    first = DPMeans(5.0, n_init=1).fit(X)
    second = DPMeans(5.0, init=first).fit(X)
    assert second.objective_ == first.objective_
    assert_array_equal(second.labels_, first.labels_)


def test_more_restarts_from_the_same_centres(X):
    C = X[:2]
    model = DPMeans(5.0, init=C, search="paper", n_init=4, random_state=0).fit(X)
    assert len(model.runs_) == 4
    for run in model.runs_[1:]:
        order = np.random.default_rng(run.seed).permutation(len(X))
        assert run.value == paper.dp_means(X, 5.0, C, order=order).value


def test_large_clusters_come_first_and_equal_ones_by_their_centre():
    X = np.array([[9.0, 2.0], [0.0, 3.0], [0.0, 1.0], [50.0, 0.0], [50.0, 0.0]])
    assert_array_equal(DPMeans(1e-3).fit(X).cluster_centers_, X[[3, 2, 1, 0]])
    weights = [3, 1, 1, 1, 1]
    assert_array_equal(DPMeans(1e-3).fit(X, sample_weight=weights).cluster_centers_, X[[0, 3, 2, 1]])


@pytest.mark.parametrize("offset", [1e4, 1e8])
@pytest.mark.parametrize("collapsed", [False, True])
def test_an_offset_does_not_matter(blobs, offset, collapsed):
    X, _ = blobs
    X = np.round(X, 3)
    near = DPMeans(20.0, collapsed=collapsed, random_state=0).fit(X)
    far = DPMeans(20.0, collapsed=collapsed, random_state=0).fit(X + offset)
    assert far.n_clusters_ == near.n_clusters_
    assert_array_equal(far.labels_, near.labels_)
    assert_allclose(far.objective_, near.objective_, rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-100, 1e-8, 1e8, 1e100])
@pytest.mark.parametrize("penalty", [20.0, "2%", "auto"])
def test_units_do_not_matter(blobs, unit, penalty, seconds):
    X, _ = blobs
    reference = DPMeans(penalty, random_state=0).fit(X)
    penalty = penalty if isinstance(penalty, str) else penalty * unit**2
    with seconds(60):
        model = DPMeans(penalty, random_state=0).fit(unit * X)
    assert_array_equal(model.labels_, reference.labels_)
    assert_allclose(model.objective_ / unit**2, reference.objective_)
    assert_allclose(model.penalty_share_, reference.penalty_share_)


@pytest.mark.parametrize("unit", [1e-100, 1e-8, 1e8, 1e100])
def test_the_unit_of_weights_does_not_matter(blobs, unit):
    X, _ = blobs
    weights = np.arange(1, len(X) + 1)
    reference = DPMeans(random_state=0).fit(X, sample_weight=weights)
    model = DPMeans(random_state=0).fit(X, sample_weight=unit * weights)
    assert_array_equal(model.labels_, reference.labels_)
    assert_allclose(model.objective_ / unit, reference.objective_)


def test_describe(blobs):
    X, labels = blobs
    groups = DPMeans(100.0).fit(X).describe(n_columns=1)
    assert [group["size"] for group in groups] == [40, 30, 20]
    assert_allclose([group["share"] for group in groups], [4 / 9, 3 / 9, 2 / 9])
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    for k, column in ((1, 0), (2, 1)):
        ((name, value, distance),) = groups[k]["columns"]
        assert name == f"x{column}"
        assert_allclose(value, X[labels == k, column].mean())
        assert_allclose(distance, (value - mean[column]) / deviation[column])
