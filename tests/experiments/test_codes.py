import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import match
from madbayes.experiments.codes import code_of, group_numbers, on_a_base


def features(seed, K=3):
    rng = np.random.default_rng(seed)
    Z = np.column_stack([np.ones(40), rng.integers(2, size=(40, K - 1))]).astype(np.uint8)
    return Z, rng.normal(size=(K, 5))


def test_two_features_that_share_the_rows_are_a_base_and_a_difference(seed):
    Z, A = features(seed)
    either = Z.copy()
    either[:, 0] -= Z[:, 1]  # now a row has the first or the second
    B = A.copy()
    B[1] += A[0]
    assert_allclose(either @ B, Z @ A)
    told, C = on_a_base(Z @ A, either)
    assert told[:, 0].all()
    assert_allclose(told @ C, Z @ A)
    assert match(Z, told).agreement == 1


def test_the_other_features_are_told_by_the_fewer_and_come_in_order(seed):
    Z, A = features(seed, K=4)
    told, C = on_a_base(Z @ A, Z)
    sizes = told.sum(axis=0, dtype=int)
    assert sizes[0] == 40
    assert (sizes[1:] <= 20).all()
    assert (np.diff(sizes) <= 0).all()
    assert_allclose(told @ C, Z @ A)


def test_without_a_base_the_codes_stay():
    Z = np.array([[1, 0], [0, 1], [0, 0], [1, 1]], dtype=np.uint8)
    A = np.array([[1.0, 2.0], [3.0, -1.0]])
    told, C = on_a_base(Z @ A, Z)
    assert_array_equal(told, Z)
    assert_allclose(C, A)


def test_no_features():
    told, C = on_a_base(np.ones((3, 2)), np.zeros((3, 0), dtype=np.uint8))
    assert (told.shape, C.shape) == ((3, 0), (0, 2))


@pytest.mark.parametrize(("z", "code"), [([1, 0, 1], "101"), ([], "")])
def test_bits_as_text(z, code):
    assert code_of(np.array(z)) == code


def test_equal_codes_have_equal_numbers():
    numbers = group_numbers(np.array([[1, 0], [0, 1], [1, 0]]))
    assert numbers[0] == numbers[2] != numbers[1]
