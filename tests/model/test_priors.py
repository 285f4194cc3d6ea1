"""The priors against the sequential constructions they are derived from."""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from madbayes.model import CRP, IBP, BetaBernoulli, DirichletMultinomial
from madbayes.model.priors import one_hot
from madbayes.paper import allocations, partitions

MASSES = [0.3, 1.0, 2.5]


def restaurant(Z, mass):
    """Probability of a clustering, customer by customer."""
    total = 1.0
    for n, table in enumerate(Z.argmax(axis=1)):
        seated = Z[:n, table].sum()
        total *= (seated if seated else mass) / (mass + n)
    return total


def buffet(Z, mass):
    """Probability of a matrix, customer by customer, new dishes taking the next free columns."""
    total, served = 1.0, 0
    for n, row in enumerate(Z):
        old, new = row[:served], int(row[served:].sum())
        chances = Z[:n, :served].sum(axis=0) / (n + 1)
        total *= np.prod(np.where(old, chances, 1 - chances)) * poisson.pmf(new, mass / (n + 1))
        served += new
    return total


def in_buffet_order(Z):
    """Whether every dish stands where the customer who first took it found the next free column."""
    first = [np.flatnonzero(column)[0] for column in Z.T]
    return first == sorted(first)


@pytest.mark.parametrize("mass", MASSES)
def test_crp_is_the_restaurant_and_sums_to_one(mass):
    probabilities = [np.exp(CRP().log_prob(Z, np.log(mass))) for Z in partitions(6)]
    np.testing.assert_allclose(probabilities, [restaurant(Z, mass) for Z in partitions(6)], rtol=1e-12)
    assert sum(probabilities) == pytest.approx(1)


@pytest.mark.parametrize("mass", MASSES)
def test_ibp_is_the_buffet_summed_over_column_orders(mass):
    for Z in allocations(3, 3, repeats=True):
        orders = {Z[:, list(order)].tobytes(): Z[:, list(order)] for order in permutations(range(Z.shape[1]))}
        expected = sum(buffet(order, mass) for order in orders.values() if in_buffet_order(order))
        assert np.exp(IBP().log_prob(Z, np.log(mass))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mass", MASSES)
def test_ibp_number_of_features_is_poisson(mass):
    """The classes with K features add up to the Poisson probability of K at mass times the harmonic number."""
    totals = Counter()
    for Z in allocations(3, 5, repeats=True):
        totals[Z.shape[1]] += np.exp(IBP().log_prob(Z, np.log(mass)))
    harmonic = 1 + 1 / 2 + 1 / 3
    for K, total in totals.items():
        assert total == pytest.approx(poisson.pmf(K, mass * harmonic))


@pytest.mark.parametrize("mass", MASSES)
def test_dirichlet_multinomial_is_the_urn_and_sums_to_one(mass):
    N, K, total = 4, 3, 0.0
    for labels in product(range(K), repeat=N):
        urn = np.prod([(labels[:n].count(k) + mass) / (n + K * mass) for n, k in enumerate(labels)])
        probability = np.exp(DirichletMultinomial(K).log_prob(one_hot(np.array(labels), K), np.log(mass)))
        assert probability == pytest.approx(urn, rel=1e-12)
        total += probability
    assert total == pytest.approx(1)


@pytest.mark.parametrize("mass", MASSES)
def test_beta_bernoulli_is_the_urn_and_sums_to_one(mass):
    N, K, total = 3, 2, 0.0
    for bits in product([0, 1], repeat=N * K):
        Z = np.array(bits).reshape(N, K)
        chances = [(Z[:n].sum(axis=0) + mass) / (n + mass + 1) for n in range(N)]
        urn = np.prod([np.where(z, q, 1 - q) for z, q in zip(Z, chances, strict=True)])
        probability = np.exp(BetaBernoulli(K).log_prob(Z, np.log(mass)))
        assert probability == pytest.approx(urn, rel=1e-12)
        total += probability
    assert total == pytest.approx(1)


@pytest.mark.parametrize("prior", [CRP(), IBP(), DirichletMultinomial(5), BetaBernoulli(5)], ids=repr)
@given(seed=st.integers(0, 10**6), log_mass=st.floats(-3, 2))
def test_exchangeable_over_rows_and_columns(prior, seed, log_mass):
    rng = np.random.default_rng(seed)
    Z = prior.sample(5, log_mass, rng)
    shuffled = Z[rng.permutation(len(Z))][:, rng.permutation(Z.shape[1])]
    assert prior.log_prob(shuffled, log_mass) == pytest.approx(prior.log_prob(Z, log_mass))


@pytest.mark.parametrize("prior", [CRP(), DirichletMultinomial(2)], ids=repr)
def test_cluster_samples_have_the_stated_probabilities(prior):
    rng, N, draws, log_mass = np.random.default_rng(0), 3, 20_000, np.log(0.7)
    seen = Counter(prior.sample(N, log_mass, rng).tobytes() for _ in range(draws))
    all_Z = partitions(N)
    if isinstance(prior, DirichletMultinomial):
        all_Z = (one_hot(np.array(labels), 2) for labels in product(range(2), repeat=N))
    assert_frequencies(seen, {Z.tobytes(): np.exp(prior.log_prob(Z, log_mass)) for Z in all_Z}, draws)


@pytest.mark.parametrize("prior", [IBP(), BetaBernoulli(2)], ids=repr)
def test_feature_samples_have_the_stated_probabilities(prior):
    def key(Z):
        return b"".join(sorted(column.tobytes() for column in Z[:, Z.any(axis=0)].T))

    rng, N, draws, log_mass = np.random.default_rng(0), 2, 20_000, np.log(0.7)
    seen = Counter(key(prior.sample(N, log_mass, rng)) for _ in range(draws))
    if isinstance(prior, IBP):
        expected = {key(Z): np.exp(prior.log_prob(Z, log_mass)) for Z in allocations(N, 2, repeats=True)}
    else:
        expected = Counter()
        for bits in product([0, 1], repeat=2 * N):
            Z = np.array(bits, dtype=np.uint8).reshape(N, 2)
            expected[key(Z)] += np.exp(prior.log_prob(Z, log_mass))
    assert_frequencies(seen, expected, draws)


def assert_frequencies(seen, expected, draws):
    for outcome, probability in expected.items():
        error = np.sqrt(probability * (1 - probability) / draws)
        assert abs(seen[outcome] / draws - probability) < 5 * error


def test_the_mass_may_underflow():
    Z = np.eye(3, dtype=np.uint8)
    for prior in (CRP(), IBP(), DirichletMultinomial(4), BetaBernoulli(4)):
        assert np.isfinite(prior.log_prob(Z, -1e6))


@pytest.mark.parametrize("prior", [DirichletMultinomial(2), BetaBernoulli(2)], ids=repr)
def test_finite_priors_exclude_more_groups(prior):
    Z = np.eye(3, dtype=np.uint8)
    assert prior.log_prob(Z, 0.0) == -np.inf
    assert prior.penalty(Z, 1.0) == np.inf
