import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from madbayes import CovarianceDPMeans, DPMeans, paper
from madbayes.model import FullCovarianceGaussian, KnownCovarianceGaussian

SHARED = np.array([[4.0, 1.5], [1.5, 1.0]])


@pytest.fixture
def stripes():
    """Two long thin clusters side by side, and their labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [60, 40])
    return rng.normal(size=(100, 2)) * [20.0, 0.3] + np.outer(labels, [0.0, 4.0]), labels


def scatters(model, X, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    parts = []
    for k in range(model.n_clusters_):
        rows = model.labels_ == k
        R = X[rows] - np.average(X[rows], axis=0, weights=weights[rows])
        parts.append((R.T * weights[rows]) @ R)
    return np.array(parts)


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
@pytest.mark.parametrize(
    "shape",
    [{"prior_covariance": np.diag([4e4, 10.0])}, {"covariances": np.diag([400.0, 0.1])}],
    ids=["learned", "known"],
)
def test_separates_long_clusters_that_round_ones_cannot(stripes, shape):
    X, labels = stripes
    model = CovarianceDPMeans(random_state=0, **shape).fit(X)
    assert_array_equal(model.labels_, labels)
    assert (model.covariances_[:, 0, 0] > 100 * model.covariances_[:, 1, 1]).all()
    for round_ones in (DPMeans(random_state=0), DPMeans(0, max_clusters=2, random_state=0)):
        assert adjusted_rand_score(labels, round_ones.fit(X).labels_) < 0.2


def test_a_given_start_is_enough_to_separate_long_clusters(stripes):
    X, labels = stripes
    start = np.array([[0.0, 0.0], [0.0, 4.0]])
    model = CovarianceDPMeans(0.5, prior_covariance=np.diag([4e4, 10.0]), init=start).fit(X)
    assert_array_equal(model.labels_, labels)


@pytest.mark.parametrize("penalty", [1.0, 4.0, "3%"])
@pytest.mark.parametrize("weights", [None, np.arange(18) % 3])
def test_a_shared_known_covariance_is_dp_means_in_other_coordinates(X, penalty, weights):
    model = CovarianceDPMeans(penalty, covariances=SHARED, random_state=0).fit(X, sample_weight=weights)
    whitened = np.linalg.solve(np.linalg.cholesky(SHARED), X.T).T
    peer = DPMeans(penalty, random_state=0).fit(whitened, sample_weight=weights)
    assert_allclose(model.objective_, peer.objective_)
    assert_allclose(model.penalty_, peer.penalty_)
    assert adjusted_rand_score(model.labels_, peer.labels_) == 1
    assert_array_equal(model.covariances_, [SHARED] * model.n_clusters_)


def test_each_known_covariance_stays_with_its_cluster(blobs):
    X, _ = blobs
    known = np.array([np.eye(2), 2 * np.eye(2), SHARED])
    model = CovarianceDPMeans(5.0, covariances=known, random_state=0).fit(X)
    assert model.n_clusters_ == 3
    used = [next(i for i in range(3) if np.array_equal(S, known[i])) for S in model.covariances_]
    assert sorted(used) == [0, 1, 2]
    R = X - model.cluster_centers_[model.labels_]
    squares = np.einsum("nd,nde,ne->n", R, np.linalg.inv(model.covariances_)[model.labels_], R)
    assert_allclose(model.objective_, squares.sum() + 2 * 5.0)
    distances = [np.einsum("nd,de,ne->n", X - m, np.linalg.inv(S), X - m)
                 for m, S in zip(model.cluster_centers_, model.covariances_, strict=True)]  # fmt: skip
    assert_array_equal(model.labels_, np.argmin(distances, axis=0))
    assert_allclose(model.transform(X), np.sqrt(distances).T)


def test_fewer_clusters_than_known_covariances(X):
    known = np.array([np.eye(2), SHARED, 3 * np.eye(2)])
    model = CovarianceDPMeans(1e6, covariances=known).fit(X)
    assert model.n_clusters_ == 1
    assert any(np.array_equal(model.covariances_[0], S) for S in known)
    assert model.labels_.shape == (18,)


@pytest.mark.parametrize("c", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("weights", [None, np.arange(18) % 4])
def test_loss_at_the_optimum(X, c, weights):
    model = CovarianceDPMeans(0.5, covariance_penalty=c, prior_covariance=SHARED, random_state=0)
    model.fit(X, sample_weight=weights)
    S = scatters(model, X, weights)
    assert_allclose(model.covariances_, (S + SHARED) / c)
    expected = c * np.linalg.slogdet(np.eye(2) + np.linalg.solve(SHARED, S)).logabsdet.sum()
    assert_allclose(model.sse_, expected)
    assert_allclose(model.objective_, expected + 0.5 * (model.n_clusters_ - 1))


@pytest.mark.parametrize("c", [0.3, 7.0])
def test_the_default_prior_is_the_scatter_of_the_table_column_by_column(X, c):
    table = np.column_stack([X, np.full(len(X), 5.0)])
    weights = np.arange(1.0, len(X) + 1)
    mean = np.average(table, axis=0, weights=weights)
    Phi = np.diag(weights @ (table - mean) ** 2)
    Phi[2, 2] = 1.0
    options = {"covariance_penalty": c, "random_state": 0}
    default = CovarianceDPMeans(0.05, **options).fit(table, sample_weight=weights)
    given = CovarianceDPMeans(0.05, prior_covariance=Phi, **options).fit(table, sample_weight=weights)
    assert_allclose(default.objective_, given.objective_)
    assert_allclose(default.covariances_, given.covariances_)


@pytest.mark.parametrize("units", [[1e-8, 1e8], [1e3, 1e3], [1e-60, 1e60]])
def test_units_of_the_columns_do_not_matter(X, units):
    reference = CovarianceDPMeans(0.1, random_state=0).fit(X)
    model = CovarianceDPMeans(0.1, random_state=0).fit(X * units)
    assert_array_equal(model.labels_, reference.labels_)
    assert_allclose(model.objective_, reference.objective_)


def test_an_offset_does_not_matter(X):
    X = np.round(X, 3)
    reference = CovarianceDPMeans(0.1, random_state=0).fit(X)
    model = CovarianceDPMeans(0.1, random_state=0).fit(X + 1e8)
    assert_array_equal(model.labels_, reference.labels_)
    assert_allclose(model.objective_, reference.objective_, rtol=1e-5)


def test_runs_can_be_replayed(X):
    model = CovarianceDPMeans(0.1, prior_covariance=SHARED, search="paper", n_init=4, random_state=0).fit(X)
    assert [run.seed is None for run in model.runs_] == [True, False, False, False]
    for run in model.runs_:
        order = None if run.seed is None else np.random.default_rng(run.seed).permutation(len(X))
        replayed = paper.covariance_dp_means(X, 0.1, FullCovarianceGaussian(SHARED, 1.0), order=order)
        assert run.value == pytest.approx(replayed.value, rel=1e-12)


def test_init_with_centres(X):
    model = CovarianceDPMeans(0.1, covariances=SHARED, search="paper", init=X[:3]).fit(X)
    (run,) = model.runs_
    replayed = paper.covariance_dp_means(X, 0.1, KnownCovarianceGaussian(SHARED), X[:3])
    assert run.value == pytest.approx(replayed.value, rel=1e-12)


@pytest.mark.parametrize("shape", [{}, {"covariances": np.eye(64)}], ids=["learned", "known"])
def test_a_table_in_single_precision_is_not_copied_into_double(shape):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(20_000, 64)) + 8 * rng.normal(size=(3, 64))[rng.integers(3, size=20_000)]).astype(np.float32)
    model = CovarianceDPMeans(500.0, init=X[:3], search="paper", **shape)
    model.fit(X[:500])  # what is loaded at first use is not counted
    tracemalloc.start()
    try:
        model.fit(X).predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.n_clusters_ > 1
    assert peak < 0.7 * X.size * 8


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_columns_that_are_almost_the_same(dtype, noise, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=200)
    X = np.column_stack([x, x + noise * rng.normal(size=200)]).astype(dtype)
    model = CovarianceDPMeans(1.0, prior_covariance=1e-6 * np.eye(2), random_state=0).fit(X)
    assert_array_equal(model.labels_, model.predict(X))
    assert_allclose(-model.score(X), model.objective_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"covariance_penalty": 0}, "covariance_penalty=0"),
        ({"covariance_penalty": -1.0}, "covariance_penalty=-1.0"),
        ({"covariance_penalty": np.nan}, "covariance_penalty=nan"),
        ({"covariance_penalty": "much"}, "covariance_penalty='much'"),
        ({"prior_covariance": 1.0}, r"prior_covariance has shape \(\)"),
        ({"prior_covariance": np.eye(3)}, r"prior_covariance has shape \(3, 3\)"),
        ({"prior_covariance": np.stack([np.eye(2)] * 2)}, r"prior_covariance has shape \(2, 2, 2\)"),
        ({"prior_covariance": np.zeros((2, 2))}, "prior_covariance has the eigenvalue 0"),
        ({"prior_covariance": np.full((2, 2), np.nan)}, "prior_covariance"),
        ({"prior_covariance": "wide"}, "prior_covariance"),
        ({"covariances": -np.eye(2)}, "covariances has the eigenvalue -1"),
        ({"covariances": [[1.0, 0.5], [0.0, 1.0]]}, "covariances is not .*symmetric"),
        ({"covariances": np.ones((1, 1, 2, 2))}, r"covariances has shape \(1, 1, 2, 2\)"),
        ({"covariances": np.zeros((0, 2, 2))}, r"covariances has shape \(0, 2, 2\)"),
        ({"covariances": [["a", "b"], ["c", "d"]]}, "covariances"),
        ({"covariances": np.eye(2) * 1j}, "covariances"),
        ({"covariances": [np.eye(2)] * 2, "max_clusters": 3}, "max_clusters=3 .* 2 covariances"),
        ({"covariances": [np.eye(2)] * 2, "init": np.zeros((3, 2))}, "init has 3 centres"),
    ],
)
def test_bad_parameters(X, parameters, message):
    with pytest.raises(ValueError, match=message):
        CovarianceDPMeans(1.0, **parameters).fit(X)
