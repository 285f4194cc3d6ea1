"""How many groups there are in the kinds of tables that `benchmarks/choosing_k.py` counts, one of each kind."""

import warnings

import numpy as np
import pytest
from benchmarks.choosing_k import fresh, groupless, is_right, settings

from madbayes import penalty_path
from madbayes.engine.path import WeakEvidenceWarning

SETTINGS = {case.name: case for case in settings()}
FRESH = {case.name: case for case in fresh() if case.kind == "clusters"}
GROUPLESS = {case.name: case for case in groupless() if case.kind == "clusters"}


def found(case, seed):
    """The numbers that are offered, the best first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidenceWarning)
        X = case.make(np.random.default_rng(seed))
        return penalty_path(X, case.kind, max_components=case.cap, random_state=seed).candidates


def test_there_are_thirteen_settings():
    assert len(SETTINGS) == 13


@pytest.mark.parametrize("name", SETTINGS)
def test_the_number_of_features_is_found(name):
    """With the last of the seeds that the settings are counted with."""
    assert is_right(SETTINGS[name], found(SETTINGS[name], 204))


@pytest.mark.parametrize("name", [name for name in FRESH if "overlapping" not in name])
def test_the_number_of_clusters_is_found(name):
    """Those that overlap are told in four tables of five."""
    assert is_right(FRESH[name], found(FRESH[name], 904))


@pytest.mark.parametrize("name", GROUPLESS)
def test_clouds_have_no_clusters(name):
    """Long, skewed, heavy-tailed and flat ones."""
    assert found(GROUPLESS[name], 504) == []
