import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import paper
from madbayes.datasets import make_linear_gaussian
from madbayes.engine.blocks import Workers
from madbayes.engine.seeding import seed_features
from madbayes.experiments.restarts import best_of, restarts


def centred(seed):
    X = make_linear_gaussian(30, 10, 3, noise=0.2, random_state=seed).X
    return X - X.mean(axis=0)


def starts(X, penalty, seeds):
    with Workers(1) as workers:
        return seed_features(X, None, seeds, penalty=penalty, workers=workers)


def test_starts_are_those_of_a_table_in_which_the_base_pays(seed):
    """Far from the origin it does, and once it is there, the residuals and all that follows are the same."""
    X, penalty, seeds = centred(seed), 5.0, [1, 2, 3]
    found = starts(X, penalty, seeds)
    for (Z, A), number in zip(found, seeds, strict=True):
        expected_Z, expected_A = paper.seed_features(X + 100.0, penalty=penalty, random_state=number)
        assert_array_equal(Z, expected_Z)
        assert_allclose(A[1:], expected_A[1:], atol=1e-9)
        assert_allclose(A[0], 0, atol=1e-12)


def test_a_base_alone_where_nothing_else_pays(seed):
    ((Z, A),) = starts(centred(seed), 1e6, [0])
    assert Z.shape == (30, 1)
    assert Z.all()
    assert_allclose(A, 0, atol=1e-12)


def test_restarts_are_runs_of_the_paper_from_there(seed):
    """Not centred: there rounding decides which rows keep the base."""
    X, penalty, seeds = centred(seed) + 1.0, 5.0, [4, 5]
    some = starts(X, penalty, seeds)
    for found, (Z, A) in zip(restarts(X, penalty, seeds), some, strict=True):
        assert_allclose(found.value, paper.bp_means(X, penalty, Z, A).value)
    for found, (Z, _) in zip(restarts(X, penalty, seeds, collapsed=True), some, strict=True):
        assert_allclose(found.value, paper.collapsed_bp_means(X, penalty, Z).value)


def test_the_best_is_the_lowest(seed):
    results = restarts(centred(seed), 5.0, list(range(8)), n_jobs=2)
    assert best_of(results).value == np.min([result.value for result in results])
