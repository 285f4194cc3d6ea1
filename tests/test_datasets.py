from math import sqrt

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.datasets import make_bars, make_cambridge, make_dice, make_linear_gaussian, make_mixture

FEATURE_MAKERS = (make_linear_gaussian, make_bars, make_cambridge, make_dice)


def linear_gaussian(N, D, K, sigma, p, seed):
    """The reference instances, to be reproduced number by number."""
    g = default_rng(seed)
    Z = g.random((N, K)) < p
    A = g.normal(size=(K, D))
    return Z @ A + sigma * g.normal(size=(N, D))


def pictures(A, N, sigma, p, seed):
    """The same, with given features."""
    g = default_rng(seed)
    Z = g.random((N, len(A))) < p
    return Z @ A + sigma * g.normal(size=(N, A.shape[1]))


def mixture(N, D, K, sep, seed):
    """The reference instances, to be reproduced number by number."""
    g = default_rng(seed)
    mu = g.normal(size=(K, D)) * sep / sqrt(2)
    z = g.integers(K, size=N)
    X = mu[z] + g.normal(size=(N, D))
    return X - X.mean(0)


@pytest.mark.parametrize("seed", [0, 204])
@pytest.mark.parametrize(("N", "D", "K", "sigma", "p"), [(200, 50, 8, 0.5, 0.5), (500, 64, 16, 0.5, 0.15)])
def test_linear_gaussian_reproduces_the_reference_instances(N, D, K, sigma, p, seed):
    data = make_linear_gaussian(N, D, K, noise=sigma, probability=p, random_state=seed)
    assert_array_equal(data.X, linear_gaussian(N, D, K, sigma, p, seed))


def test_linear_gaussian_defaults():
    assert_array_equal(make_linear_gaussian(random_state=3).X, linear_gaussian(200, 50, 8, 0.5, 0.5, 3))


@pytest.mark.parametrize(("N", "D", "K", "sep"), [(2000, 10, 20, 4), (2000, 2, 15, 5), (5000, 16, 40, 3)])
def test_mixture_reproduces_the_reference_instances(N, D, K, sep):
    assert_array_equal(make_mixture(N, D, K, separation=sep, random_state=1).X, mixture(N, D, K, sep, seed=1))


@pytest.mark.parametrize(("size", "n_rows"), [(5, 300), (8, 500)])
def test_bars_reproduce_the_reference_instances(size, n_rows):
    bars = np.zeros((2 * size, size, size))
    for i in range(size):
        bars[i, i, :] = 1
        bars[size + i, :, i] = 1
    expected = pictures(bars.reshape(2 * size, -1), n_rows, sigma=0.3, p=0.3, seed=1)
    assert_array_equal(make_bars(n_rows, size=size, random_state=1).X, expected)


def test_cambridge_reproduces_the_reference_instance():
    show = ["010111", "111101", "010111", "100111", "110010", "111010"]
    together = np.array([[int(pixel) for pixel in line] for line in show])
    corners = np.zeros((4, 6, 6))
    for k, (top, left) in enumerate([(0, 0), (0, 3), (3, 0), (3, 3)]):
        corners[k, top : top + 3, left : left + 3] = together[top : top + 3, left : left + 3]
    expected = pictures(corners.reshape(4, 36), N=100, sigma=0.5, p=0.5, seed=1)
    assert_array_equal(make_cambridge(random_state=1).X, expected)


@pytest.mark.parametrize("make", FEATURE_MAKERS)
def test_without_noise_rows_are_sums_of_features(make, seed):
    X, Z, A = make(noise=0, random_state=seed)
    assert_array_equal(X, Z @ A)
    assert Z.dtype == np.uint8
    assert set(np.unique(Z)) == {0, 1}


@pytest.mark.parametrize("make", FEATURE_MAKERS)
def test_noise_and_probability_are_what_they_say(make, seed):
    X, Z, A = make(2000, noise=0.25, probability=0.2, random_state=seed)
    assert_allclose((X - Z @ A).std(), 0.25, rtol=0.05)
    assert_allclose(Z.mean(), 0.2, atol=0.02)


@pytest.mark.parametrize("make", [*FEATURE_MAKERS, make_mixture])
def test_random_state(make):
    assert_array_equal(make(random_state=5).X, make(random_state=5).X)
    assert_array_equal(make(random_state=5).X, make(random_state=np.random.default_rng(5)).X)
    assert not np.array_equal(make(random_state=5).X, make(random_state=6).X)
    assert make().X.shape == make(random_state=5).X.shape


@pytest.mark.parametrize("pixels", [1, 2, 3, 4, 7])
def test_dice_pips_are_round_and_in_their_cells(pixels):
    A = make_dice(5, side=3, pixels=pixels).A.reshape(9, 3 * pixels, 3 * pixels)
    for k, picture in enumerate(A):
        cells = picture.reshape(3, pixels, 3, pixels).swapaxes(1, 2).reshape(9, pixels, pixels)
        pip = cells[k]
        assert_array_equal(np.delete(cells, k, axis=0), 0)
        assert_array_equal(pip, pip.T)
        assert_array_equal(pip, pip[::-1])
        assert pip[pixels // 2, pixels // 2] == pip.max() > 0
        assert pip.max() <= 1


def test_dice_pips_have_soft_corners():
    pip = make_dice(1, side=1, pixels=4).A.reshape(4, 4)
    assert_array_equal(pip[1:3, 1:3], 1)
    assert 0 < pip[0, 1] < 1
    assert pip[0, 0] == 0


def test_mixture_labels_and_centers_describe_the_rows(seed):
    X, labels, centers = make_mixture(20000, 3, 4, random_state=seed)
    assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    assert set(labels) == {0, 1, 2, 3}
    means = np.stack([X[labels == k].mean(axis=0) for k in range(4)])
    assert_allclose(means, centers, atol=0.1)  # five thousand rows each: standard error 0.014
    assert_allclose((X - centers[labels]).std(), 1, atol=0.02)


def test_mixture_separation_is_the_distance_of_centers_in_a_column(seed):
    centers = make_mixture(10, 200, 200, separation=3.0, random_state=seed).centers
    first, second = centers[::2], centers[1::2]
    assert_allclose(np.sqrt(((first - second) ** 2).mean()), 3.0, rtol=0.02)
