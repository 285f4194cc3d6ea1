"""Threads change how fast an answer comes, never the answer."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_info

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures
from madbayes.engine.blocks import Workers, row_blocks


def table(dtype=np.float64, N=12_000, offset=0.0):
    """Enough rows for several blocks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 30)) + 4 * rng.normal(size=(5, 30))[rng.integers(5, size=N)]
    assert N < 9000 or len(row_blocks(*X.shape)) > 1
    return (X + offset).astype(dtype)


MODELS = [
    DPMeans(200.0, search="paper", n_init=2, random_state=0),
    DPMeans(20_000.0, n_init=2, random_state=0),
    DPMeans(0.0, max_clusters=6, n_init=2, random_state=0),
    DPMeans(200.0, search="paper", collapsed=True, n_init=1, random_state=0),
    BPMeans(2e5, n_init=2, random_state=0),
    KFeatures(3, n_init=2, random_state=0),
    pytest.param(CovarianceDPMeans(1.0, init=table()[:4], random_state=0), id="learned covariances"),
    pytest.param(
        CovarianceDPMeans(200.0, covariances=np.eye(30), search="paper", n_init=2, random_state=0),
        id="known covariance",
    ),
]


def answer(model, X, n_jobs):
    model = model.set_params(n_jobs=n_jobs).fit(X)
    groups = (
        (model.labels_, model.cluster_centers_)
        if hasattr(model, "labels_")
        else (model.allocations_, model.components_)
    )
    if hasattr(model, "covariances_"):
        groups += (model.covariances_,)
    values = np.array([run.value for run in model.runs_])
    return [part.tobytes() for part in (*groups, values)] + [model.objective_]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_same_bits_for_any_number_of_threads(model, dtype):
    X = table(dtype)
    expected = answer(model, X, 1)
    assert answer(model, X, 2) == expected
    assert answer(model, X, 4) == expected


@pytest.mark.parametrize("model", [BPMeans(100.0), KFeatures(3), DPMeans(100.0), CovarianceDPMeans(0.05)], ids=str)
def test_the_same_bits_for_many_restarts_of_a_small_table(model):
    X = table(N=100)
    model.set_params(search="paper", n_init=70, random_state=0)
    assert answer(model, X, 1) == answer(model, X, 2)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4])
@pytest.mark.parametrize(
    "model",
    [
        DPMeans(200.0, search="paper", n_init=1),
        CovarianceDPMeans(0.0, max_clusters=6, search="paper", n_init=1),
        CovarianceDPMeans(200.0, covariances=np.eye(30), search="paper", n_init=1),
        DPMeans(20_000.0, n_init=1, random_state=0),
    ],
    ids=["DPMeans", "learned covariances", "known covariance", "best"],
)
def test_single_precision_does_not_change_labels(model, offset):
    """The same numbers, once as float32 and once as float64."""
    X = table(np.float32, offset=offset)
    single, double = (clone(model).fit(X.astype(dtype)) for dtype in (np.float32, np.float64))
    np.testing.assert_array_equal(single.labels_, double.labels_)
    assert single.n_clusters_ > 1


@pytest.mark.parametrize("model", [KFeatures(4, n_init=1, random_state=0), BPMeans(2e5, n_init=1, random_state=0)])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4])
def test_single_precision_does_not_change_allocations(model, offset):
    """The run itself, not only its last pass over the rows, must not drown in rounding."""
    X = table(np.float32, offset=offset)
    single, double = (clone(model).fit(X.astype(dtype)) for dtype in (np.float32, np.float64))
    np.testing.assert_array_equal(single.allocations_, double.allocations_)
    assert single.runs_[0].iterations == double.runs_[0].iterations
    assert single.runs_[0].value == pytest.approx(double.runs_[0].value, rel=1e-5)


def test_fits_in_several_threads_at_once_and_leave_blas_as_it_was():
    X, before = table(N=2000), [pool["num_threads"] for pool in threadpool_info()]
    expected = answer(DPMeans(3000.0, n_init=1, random_state=0), X, 1)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(answer, DPMeans(3000.0, n_init=1, random_state=0), X, 2) for _ in range(8)]
    assert all(future.result() == expected for future in futures)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_fits_in_worker_processes():
    X = table(N=500)
    expected = answer(DPMeans(3000.0, n_init=1, random_state=0), X, 1)
    found = Parallel(n_jobs=2)(delayed(answer)(DPMeans(3000.0, n_init=1, random_state=0), X, 2) for _ in range(2))
    assert found == [expected, expected]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fits_after_a_fork():
    X = table(N=500)
    expected = answer(DPMeans(3000.0, n_init=1, random_state=0), X, 2)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(answer, (DPMeans(3000.0, n_init=1, random_state=0), X, 2)).get(timeout=60) == expected


def test_results_come_in_the_order_of_the_items():
    with Workers(3) as workers:
        assert workers.map(lambda x: x * x, range(50)) == [x * x for x in range(50)]


def test_an_error_in_a_worker_is_raised():
    with Workers(2) as workers, pytest.raises(ZeroDivisionError):
        workers.map(lambda x: 1 / x, [1, 0])
