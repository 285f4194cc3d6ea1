"""Columns of Z with all others as they are: what they explain, the best of them, and where they lead."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from madbayes.engine import columns, feature_search, kernels
from madbayes.engine.columns import STEPS, better_column
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.model import bp_means_objective


def table(N, D, K, seed, weighted=False):
    """Normal numbers, of which features explain something but nothing stands out; codes; weights."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, size=N) if weighted else np.ones(N)
    return rng.normal(size=(N, D)), rng.integers(2, size=(N, K), dtype=np.uint8), weights


def error_of(X, Z, weights):
    """Squared error by a library's least squares."""
    roots = np.sqrt(weights)[:, None]
    A = np.linalg.lstsq(roots * Z, roots * X, rcond=None)[0]
    return float(((roots * (X - Z @ A)) ** 2).sum())


def least_squares(X, Z, weights):
    """R, Z, A and P as the search takes them."""
    P = np.linalg.inv((Z.T * weights) @ Z)
    A = P @ (Z.T * weights) @ X
    return X - Z @ A, Z, A, P, weights


def changed_column(Z, found):
    (k,) = np.flatnonzero((found != Z).any(axis=0))
    return k


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_steps", [1, 2, 30])
@pytest.mark.parametrize("seed", range(5))
def test_how_much_a_column_explains_is_followed(seed, n_steps, weighted, monkeypatch):
    """After any number of flips it is what least squares say, beside the column there was."""
    X, Z, weights = table(25, 6, 3, seed, weighted)
    gains, whole = [], kernels.search_column
    monkeypatch.setattr(kernels, "search_column", lambda *args: gains.append(whole(*args)) or gains[-1])
    monkeypatch.setattr(columns, "STEPS", n_steps)
    found = better_column(*least_squares(X, Z, weights), np.random.default_rng(0))
    assert found is not None  # of random columns all can be better
    without = error_of(X, np.delete(Z, changed_column(Z, found), axis=1), weights)
    expected = (without - error_of(X, found, weights)) / (without - error_of(X, Z, weights))
    assert gains[-1] == pytest.approx(expected, rel=1e-9)
    assert gains[-1] > 1


def test_the_best_of_all_columns_is_found_nearly_always():
    """Of 512 columns, or 1024 with ten rows, by least squares of each."""
    found_best = 0
    for seed, weighted in product(range(20), (False, True)):
        X, Z, weights = table(9 + seed % 2, 2, 2, seed, weighted)
        found = better_column(*least_squares(X, Z, weights), np.random.default_rng(0))
        k, found = (0, Z) if found is None else (changed_column(Z, found), found)
        others = np.delete(Z, k, axis=1)
        all_columns = product((0, 1), repeat=len(X))
        lowest = min(error_of(X, np.column_stack([others, column]), weights) for column in all_columns)
        assert error_of(X, found, weights) <= error_of(X, Z, weights) * (1 + 1e-12)
        found_best += error_of(X, found, weights) <= lowest * (1 + 1e-9)
    assert found_best >= 36  # of 40


def test_steps_that_do_not_help_lead_to_better_columns(monkeypatch):
    """Single flips alone end earlier: with one step for each row they have ended here."""
    lower = 0
    for seed in range(20):
        X, Z, weights = table(40, 5, 1, seed)
        errors = []
        for n_steps in (40, STEPS):
            monkeypatch.setattr(columns, "STEPS", n_steps)
            found = better_column(*least_squares(X, Z, weights), np.random.default_rng(0))
            errors.append(error_of(X, found, weights))
        assert errors[1] <= errors[0] * (1 + 1e-12)
        lower += errors[1] < errors[0] * (1 - 1e-9)
    assert lower >= 3


def test_rows_that_weigh_nothing_keep_their_codes():
    """The others change as if they were alone."""
    X, Z, weights = table(60, 4, 2, 0)
    weights[::3] = 0.0
    found = better_column(*least_squares(X, Z, weights), np.random.default_rng(0))
    assert_array_equal(found[::3], Z[::3])
    kept = weights > 0
    alone = better_column(*least_squares(X[kept], Z[kept], weights[kept]), np.random.default_rng(0))
    assert_array_equal(found[kept], alone)
    assert error_of(X, found, weights) < error_of(X, Z, weights)


@given(st.integers(0, 2**16), st.booleans(), st.sampled_from([0.0, 3.0]))
def test_refining_raises_no_objective(seed, weighted, penalty):
    """With the same random numbers it is the same; the value is that of the objective."""
    X, Z, weights = table(40, 6, 4, seed, weighted)
    limit = {"K": 4} if penalty == 0.0 else {}
    landscape = FeatureLandscape.of(X, penalty, weights if weighted else None, **limit)
    start = landscape.polish(Z)
    found, again = (landscape.refined(start, np.random.default_rng(seed)) for _ in range(2))
    assert found.value <= start.value * (1 + 1e-12)
    assert found.value == pytest.approx(bp_means_objective(penalty)(X, found.groups, found.A, weights), rel=1e-9)
    assert found.passes > 1
    assert_array_equal(found.groups, again.groups)


def test_refining_leads_out_of_optima_of_collapsed_bp_means():
    """No single bit of these can be changed for the better, and features follow; of a feature, many rows can."""
    better = 0
    for seed in range(20):
        X, Z, _ = table(60, 10, 4, seed)
        landscape = FeatureLandscape.of(X, 0.0, K=4)
        start = landscape.polish_collapsed(landscape.polish(Z))
        better += landscape.refined(start, np.random.default_rng(0)).value < 0.999 * start.value
    assert better >= 10


def test_nothing_is_refined_where_there_is_nothing_or_too_much(monkeypatch):
    X, Z, _ = table(40, 6, 4, 0)
    landscape = FeatureLandscape.of(X, 0.0)
    rng, exact = np.random.default_rng(0), FeatureLandscape.of(Z @ X[:4], 0.0).polish(Z)
    for here, solution in (
        (landscape, landscape.simplest()),
        (FeatureLandscape.of(Z @ X[:4], 0.0), exact),
    ):
        assert_array_equal(here.refined(solution, rng).groups, solution.groups)
    start = landscape.polish(Z)
    assert landscape.refined(start, rng).value < start.value
    monkeypatch.setattr(feature_search, "COLUMNS_ROWS", 39)
    assert landscape.refined(start, rng) == start._replace(passes=1)
