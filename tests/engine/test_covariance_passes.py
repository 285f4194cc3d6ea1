"""Clusters with covariances on parts: the serial pass in the corresponding order, sums by brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.engine import covariance as engine
from madbayes.engine import covariance_passes, homes
from madbayes.engine.blocks import Workers
from madbayes.engine.covariance_passes import Follower, descend
from madbayes.engine.homes import LocalHome
from madbayes.model import (
    CRP,
    DirichletMultinomial,
    FullCovarianceGaussian,
    KnownCovarianceGaussian,
    MeansCovariances,
    Objective,
)
from madbayes.model.likelihoods import mahalanobis
from madbayes.model.priors import one_hot
from madbayes.paper.result import RELATIVE_GAIN

ALONE = Workers(1)
LIKELIHOODS = {
    "learned": FullCovarianceGaussian(np.diag([3.0, 5.0]), 2.0),
    "known": KnownCovarianceGaussian(np.array([[1.0, 0.3], [0.3, 2.0]])),
    "slots": KnownCovarianceGaussian(np.stack([np.diag([1.0 + k, 2.0]) for k in range(5)])),
}


@pytest.fixture(params=[3, 11, 1000])
def small(request, monkeypatch):
    """Rows of a part, which differ from test to test; proposals of two rows at a time, or of all."""
    size = request.param
    monkeypatch.setattr(homes, "part_rows", lambda N, D: [slice(i, min(i + size, N)) for i in range(0, N, size)])
    monkeypatch.setattr(covariance_passes, "PROPOSALS", 2 if size < 1000 else 256)
    return size


def blobs(seed, N=70, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 2)) * 5
    return (centres[rng.integers(6, size=N)] + rng.normal(size=(N, 2))).astype(dtype)


def serial_order(X, weights, A, likelihood, slots, threshold, negligible, cap, size):
    """Rows that propose nothing, then, in rounds, rows that join what was opened and those that propose."""
    N = len(X)
    closest = mahalanobis(X.astype(float), *A).min(axis=1)

    def far(rows, distances):
        return [n for n in rows if weights[n] * distances[n] > threshold and distances[n] > negligible]

    waiting = far(range(N), closest)
    order = [n for n in range(N) if n not in waiting]
    taken, distances, first = list(slots), closest.copy(), True
    while waiting:
        still = waiting if first else far(waiting, distances)
        order += [n for n in waiting if n not in still]
        proposed = []
        for begin in range(0, N, size):
            proposed += [n for n in still if begin <= n < begin + size][: covariance_passes.PROPOSALS]
        for n in proposed:
            free = [k for k in range(likelihood.n_slots) if k not in taken] if likelihood.n_slots else [0]
            may = free if likelihood.n_slots or len(taken) < cap else []
            if may and far([n], distances):
                taken.append(may[0])
                new = MeansCovariances(X[n : n + 1].astype(float), likelihood.initial_covariance(may[0])[None])
                distances = np.minimum(distances, mahalanobis(X.astype(float), *new)[:, 0])
        order += proposed
        waiting, first = [n for n in still if n not in proposed], False
    return np.array(order)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cap", [None, 4])
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("start", range(3))
def test_a_pass_is_the_serial_pass_in_the_corresponding_order(start, name, cap, weighted, small, seed):
    X, likelihood = blobs(100 * seed + start), LIKELIHOODS[name]
    cap = likelihood.n_slots or cap
    weights = np.random.default_rng(seed).random(len(X)) + 0.5 if weighted else None
    penalty = 0.1 if name == "learned" else 6.0
    threshold = (1 + RELATIVE_GAIN) * penalty
    rows = Follower(LocalHome(X, weights, ALONE), likelihood)
    rows.begin(X[:2])
    rows.drop_empty()
    A, slots = rows.fitted, list(rows.slots)
    limit = np.inf if cap is None else cap
    rows.look(A, threshold if len(slots) < limit else np.inf)
    opened = rows.open_clusters(threshold, limit)
    masses = np.ones(len(X)) if weights is None else weights
    order = serial_order(X, masses, A, likelihood, slots, threshold, rows.negligible, limit, small)
    assert sorted(order) == list(range(len(X)))

    prior = CRP() if cap is None else DirichletMultinomial(cap)
    serial = engine.Descent(engine.Table.of(X, weights), Objective(likelihood, prior, penalty), order, cap, ALONE)
    state = serial.start(X[:2].astype(float))
    after = serial.step(state, serial.look(state))
    assert after is not None
    rows.drop_empty()
    labels = np.concatenate(list(rows.labels()))
    assert opened > 0
    assert_array_equal(np.array(rows.slots)[labels] if likelihood.n_slots else labels, after.labels)
    found = rows.fitted
    wanted = MeansCovariances(*(part[after.used] for part in after.A))
    by_place = np.argsort(rows.slots) if likelihood.n_slots else np.arange(len(found.means))
    assert_allclose(found.means[by_place], wanted.means, rtol=1e-9)
    assert_allclose(found.covariances[by_place], wanted.covariances, rtol=1e-9)
    Z = one_hot(labels, len(found.means))
    assert_allclose(rows.loss(found), likelihood.loss(X, Z, found, weights), rtol=1e-9)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_descent_falls_and_ends_at_rest(name, dtype, small, seed):
    X, likelihood = blobs(seed, dtype=dtype), LIKELIHOODS[name]
    run = descend(LocalHome(X, None, ALONE), likelihood, 6.0, X[:1])
    assert run.converged
    assert (np.diff(run.trace) <= 1e-9).all()
    again = descend(LocalHome(X, None, ALONE), likelihood, 6.0, run.A)
    assert again.value <= run.value * (1 + 1e-12)


def test_threads_change_nothing(small, seed):
    X = blobs(seed, 300)
    found = []
    for n_jobs in (1, 3):
        with Workers(n_jobs) as workers:
            found.append(descend(LocalHome(X, None, workers), LIKELIHOODS["learned"], 6.0, X[:1]))
    assert found[0].trace == found[1].trace
    assert_array_equal(found[0].A.covariances, found[1].A.covariances)
