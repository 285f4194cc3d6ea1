import numpy as np
import pytest
from sklearn.base import clone

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures

QUICK = [
    DPMeans(5.0, n_init=3, random_state=0),
    BPMeans(5.0, n_init=3, random_state=0),
    KFeatures(2, n_init=3, random_state=0),
    StepwiseKFeatures(5.0, n_init=3, random_state=0),
    CovarianceDPMeans(0.1, n_init=3, random_state=0),
]


def by_name(model):
    return type(model).__name__


@pytest.fixture(params=QUICK, ids=by_name)
def model(request):
    """Each estimator, unfitted and quick."""
    return clone(request.param)


@pytest.fixture(params=[QUICK[0], QUICK[4]], ids=by_name)
def clusterer(request):
    return clone(request.param)


@pytest.fixture(params=QUICK[1:4], ids=by_name)
def featurer(request):
    return clone(request.param)


@pytest.fixture
def X():
    """Two clusters, one of them away from the origin; no two rows alike."""
    rng = np.random.default_rng(7)
    return np.vstack([rng.normal(size=(10, 2)), rng.normal(size=(8, 2)) + 8])


@pytest.fixture
def more():
    """The same kind of table with too many rows for a search of features to end with a proof."""
    rng = np.random.default_rng(7)
    return np.vstack([rng.normal(size=(15, 2)), rng.normal(size=(12, 2)) + 8])


@pytest.fixture
def blobs():
    """Three clusters so far apart that nobody can miss them, and their labels."""
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], [40, 30, 20])
    return np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 30.0]])[labels] + rng.normal(size=(90, 2)), labels
