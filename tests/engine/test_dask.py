"""Fits inside a worker of a Dask cluster, several at once in one process."""

import os

import numpy as np
from distributed import Client, LocalCluster

from madbayes import BPMeans, DPMeans


def table():
    """Enough rows for several blocks."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(12_000, 30)) + 4 * rng.normal(size=(5, 30))[rng.integers(5, size=12_000)]


def test_fits_in_two_threads_of_a_worker_give_the_same_bits(seconds):
    def answer(model, X):  # within the test, so that it travels by value: workers cannot import tests
        model.fit(X)
        names = ("labels_", "cluster_centers_", "allocations_", "components_")
        parts = [getattr(model, name).tobytes() for name in names if hasattr(model, name)]
        return os.getpid(), [*parts, model.objective_]

    X, models = table(), [DPMeans(200.0), BPMeans(2e5)]
    for model in models:
        model.set_params(n_init=2, random_state=0, n_jobs=2)
    expected = [answer(model, X)[1] for model in models]
    with (
        seconds(120),
        LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        found = client.gather([client.submit(answer, model, X, pure=False) for model in models * 2])
    assert [bits for _, bits in found] == expected * 2
    assert os.getpid() not in {process for process, _ in found}
    assert len({process for process, _ in found}) == 1
