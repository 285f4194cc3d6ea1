"""Codes of rows against brute force, on whole numbers where squared errors are exact."""

from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from madbayes.engine import codes
from madbayes.engine.blocks import Workers
from madbayes.engine.codes import EXACT_LIMIT

best_codes = partial(codes.best_codes, workers=Workers(1))


def whole(*shape, largest=4):
    return arrays(np.int64, shape, elements=st.integers(-largest, largest))


@st.composite
def problems(draw, max_components):
    """X and A in whole numbers: rows of A often repeat, vanish or add up to others."""
    D, K = draw(st.integers(1, 4)), draw(st.integers(0, max_components))
    return draw(whole(5, D, largest=8)), draw(whole(K, D))


def many(K, *, largest=3, count=40):
    """Random problems in whole numbers with K features."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        D = rng.integers(1, 7)
        yield rng.integers(-2 * largest, 2 * largest + 1, (20, D)), rng.integers(-largest, largest + 1, (K, D))


def squared_errors(X, Z, A):
    return ((X - Z.astype(np.int64) @ A) ** 2).sum(axis=1)


def brute_force(X, A):
    """The least squared error of each row, over all codes."""
    codes = np.array(list(product([0, 1], repeat=len(A))), dtype=np.int64).reshape(2 ** len(A), len(A))
    return np.stack([((X - code @ A) ** 2).sum(axis=1) for code in codes]).min(axis=0)


def assert_no_flip_helps(X, Z, A):
    errors = squared_errors(X, Z, A)
    for bits in [*combinations(range(len(A)), 1), *combinations(range(len(A)), 2)]:
        flipped = Z.copy()
        flipped[:, bits] = 1 - flipped[:, bits]
        assert (squared_errors(X, flipped, A) >= errors).all()


@given(problems(max_components=7))
def test_no_code_has_a_smaller_error(problem):
    X, A = problem
    assert_array_equal(squared_errors(X, best_codes(X, A), A), brute_force(X, A))


@pytest.mark.parametrize("D", [1, 3, 9, 10, 20])
def test_no_code_has_a_smaller_error_at_the_limit(D, seed):
    rng = np.random.default_rng(seed)
    X, A = rng.integers(-9, 10, (30, D)), rng.integers(-4, 5, (EXACT_LIMIT, D))
    assert_array_equal(squared_errors(X, best_codes(X, A), A), brute_force(X, A))


@pytest.mark.parametrize("K", [1, 4, 10])
def test_no_code_has_a_smaller_error_in_floats(K, seed):
    rng = np.random.default_rng(seed)
    X, A = rng.normal(size=(50, 3)), rng.normal(size=(K, 3))
    codes = np.array(list(product([0, 1], repeat=K)))
    least = np.stack([((X - code @ A) ** 2).sum(axis=1) for code in codes]).min(axis=0)
    np.testing.assert_allclose(((X - best_codes(X, A) @ A) ** 2).sum(axis=1), least, rtol=1e-9, atol=1e-12)


@given(problems(max_components=5), st.sampled_from([10**4, 10**6, 10**8]))
def test_a_large_offset_does_no_harm(problem, offset):
    X, A = problem
    A = np.vstack([np.full((1, X.shape[1]), offset), A])
    X = X + offset
    assert_array_equal(squared_errors(X, best_codes(X, A), A), brute_force(X, A))


@pytest.mark.parametrize("length", [10**4, 10**8])
def test_components_that_nearly_cancel(length, seconds, seed):
    """Rows of A far longer than the rows of X, which only sums of them are near."""
    rng = np.random.default_rng(seed)
    half = rng.integers(-length, length, (6, 4))
    A = np.vstack([half, rng.integers(-3, 4, (6, 4)) - half])
    X = rng.integers(-4, 5, (20, 4))
    few = A[[0, 1, 2, 6, 7, 8]]
    assert_array_equal(squared_errors(X, best_codes(X, few), few), brute_force(X, few))
    with seconds(60):
        assert_no_flip_helps(X, best_codes(X, A), A)


def test_descent_ends_among_codes_of_equal_error(seconds):
    """Rounding made it go round and round here."""
    signs = ["-+-", "00-", "+0-", "++-", "--0", "0++", "00+", "000", "+++", "0+0", "-0+"]
    A = np.array([["-0+".index(sign) - 1 for sign in row] for row in signs])
    X = np.array([[-1, 1, 0]])
    with seconds(60):
        assert_no_flip_helps(X, best_codes(X, A), A)


@pytest.mark.parametrize("K", [11, 13])
def test_above_the_limit_no_flip_of_one_or_two_bits_helps(K, seconds):
    for X, A in many(K):
        with seconds(60):
            assert_no_flip_helps(X, best_codes(X, A), A)


@pytest.mark.parametrize("K", [11, 13])
def test_above_the_limit_many_rows_are_still_solved_exactly(K, seconds, seed):
    """Independent features, rows that are sums of them: the error is zero and the code is found."""
    rng = np.random.default_rng(seed)
    A, Z = rng.normal(size=(K, 2 * K)), rng.integers(0, 2, (40, K))
    with seconds(60):
        assert_array_equal(best_codes(Z @ A, A), Z)


@given(problems(max_components=EXACT_LIMIT), st.data())
def test_the_code_of_a_row_depends_on_no_other_row(problem, data):
    X, A = problem
    rows = data.draw(st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=len(X)))
    assert_array_equal(best_codes(X[rows], A), best_codes(X, A)[rows])


@pytest.mark.parametrize("K", [3, 10, 11, 14])
def test_the_code_of_a_row_depends_on_no_other_row_among_many(K, seconds):
    for X, A in many(K):
        with seconds(60):
            together = best_codes(X, A)
            alone = np.vstack([best_codes(x[None], A) for x in X])
            assert_array_equal(together, alone)
            assert_array_equal(together[::3], best_codes(X[::3], A))


@pytest.mark.parametrize("K", [5, 12])
def test_blocks_of_rows_do_not_change_the_codes(K, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X, A = rng.normal(size=(50, 4)), rng.normal(size=(K, 4))
    whole_table = best_codes(X, A)
    monkeypatch.setattr(codes, "row_blocks", lambda n_rows, _: [slice(i, i + 7) for i in range(0, n_rows, 7)])
    assert_array_equal(best_codes(X, A), whole_table)


def test_of_equal_codes_the_one_with_fewest_ones():
    A = np.array([[1.0], [1.0], [2.0], [0.0]])
    X = np.array([[2.0], [1.0], [0.0], [-1.0]])
    assert_array_equal(best_codes(X, A), [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_without_components_codes_are_empty():
    Z = best_codes(np.ones((3, 2)), np.zeros((0, 2)))
    assert Z.shape == (3, 0)
    assert Z.dtype == np.uint8
