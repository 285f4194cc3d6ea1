"""The theorems of the paper: every objective is the limit of an exact posterior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import invwishart, multivariate_normal

from madbayes.model import (
    CRP,
    IBP,
    BetaBernoulli,
    CollapsedGaussian,
    DirichletMultinomial,
    FullCovarianceGaussian,
    Gaussian,
    KnownCovarianceGaussian,
    MeansCovariances,
    Objective,
    bp_means_objective,
    capped_bp_means_objective,
    capped_dp_means_objective,
    collapsed_bp_means_objective,
    collapsed_dp_means_objective,
    covariance_objective,
    dp_means_objective,
    k_features_objective,
    k_means_objective,
)
from madbayes.model.likelihoods import cluster_scatters, least_squares
from madbayes.model.priors import one_hot

D, K = 3, 3
PHI = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
CLUSTER_LIKELIHOODS = [
    Gaussian(rho2=2.0),
    CollapsedGaussian(rho2=2.0),
    FullCovarianceGaussian(PHI, 1.7),
    KnownCovarianceGaussian(PHI),
    KnownCovarianceGaussian(np.stack([PHI, np.eye(D), 2 * PHI])),
]
PAIRINGS = [
    *[(likelihood, prior) for likelihood in CLUSTER_LIKELIHOODS for prior in (CRP(), DirichletMultinomial(4))],
    *[(likelihood, prior) for likelihood in CLUSTER_LIKELIHOODS[:2] for prior in (IBP(), BetaBernoulli(4))],
]
# Finite priors have a second limit: the mass does not change with the variance.
LIMITS = [
    *[(likelihood, prior, 3.0, 0.0) for likelihood, prior in PAIRINGS],
    *[(likelihood, prior, 0.0, np.log(0.6)) for likelihood, prior in PAIRINGS if hasattr(prior, "K")],
]


def random_clustering(rng, N):
    return one_hot(np.append(np.arange(K), rng.integers(K, size=N - K)), K)


def random_state(likelihood, prior, rng, N=8):
    X = rng.normal(size=(N, D))
    Z = random_clustering(rng, N) if prior.kind == "clusters" else (rng.random((N, K)) < 0.5).astype(np.uint8)
    A = rng.normal(size=(K, D))
    if isinstance(likelihood, FullCovarianceGaussian | KnownCovarianceGaussian):
        roots = rng.normal(size=(K, D, D))
        covariances = roots @ roots.swapaxes(1, 2) + np.eye(D)
        if isinstance(likelihood, KnownCovarianceGaussian):
            covariances = likelihood.fit(X, Z).covariances
        A = MeansCovariances(A, covariances)
    return X, Z[:, Z.any(axis=0)] if prior.kind == "features" else Z, A


@pytest.mark.parametrize(("likelihood", "prior", "penalty", "log_mass"), LIMITS)
def test_the_objective_is_the_limit(likelihood, prior, penalty, log_mass, seed):
    """-2 sigma2 log p(X, Z, A) tends to the objective at the rate sigma2 log(1 / sigma2).

    Paper: equation (2).
    """
    rng = np.random.default_rng(seed)
    objective = Objective(likelihood, prior, penalty, log_mass)
    X, Z, A = random_state(likelihood, prior, rng)
    if not isinstance(A, MeansCovariances):
        A = A[: Z.shape[1]]
    limit = objective(X, Z, A)
    for variance in (1e-3, 1e-5, 1e-7, 1e-9):
        distance = abs(objective.at(variance, X, Z, A) - limit)
        assert distance <= 10 * X.size * variance * np.log(1 / variance)


def test_gaussian_log_prob_is_that_of_independent_normals():
    rng = np.random.default_rng(0)
    X, Z, A = random_state(Gaussian(), IBP(), rng)
    A = A[: Z.shape[1]]
    data = multivariate_normal.logpdf((X - Z @ A).ravel(), cov=0.3 * np.eye(X.size))
    prior = multivariate_normal.logpdf(A.ravel(), cov=2.0 * np.eye(A.size))
    assert Gaussian(rho2=2.0).log_prob(X, Z, A, 0.3) == pytest.approx(data + prior)


@pytest.mark.parametrize("prior", [CRP(), IBP()], ids=repr)
def test_collapsed_log_prob_integrates_the_means_out(prior):
    """Each column of X is Gaussian with covariance sigma2 I + rho2 ZZ'."""
    X, Z, _ = random_state(Gaussian(), prior, np.random.default_rng(1))
    covariance = 0.3 * np.eye(len(X)) + 2.0 * Z.astype(float) @ Z.T
    expected = multivariate_normal.logpdf(X.T, cov=covariance).sum()
    assert CollapsedGaussian(rho2=2.0).log_prob(X, Z, None, 0.3) == pytest.approx(expected)


def test_collapsed_log_prob_with_more_features_than_rows():
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(2, D)), np.array([[1, 0, 1], [0, 1, 1]])
    covariance = 0.3 * np.eye(2) + Z @ Z.T
    expected = multivariate_normal.logpdf(X.T, cov=covariance).sum()
    assert CollapsedGaussian().log_prob(X, Z, None, 0.3) == pytest.approx(expected)


def test_full_covariance_log_prob_is_normal_inverse_wishart():
    likelihood = FullCovarianceGaussian(PHI, covariance_penalty=1.7, rho2=2.0)
    X, Z, A = random_state(likelihood, CRP(), np.random.default_rng(3))
    sigma2, labels = 0.3, Z.argmax(axis=1)
    expected = sum(
        multivariate_normal.logpdf(x, A.means[k], sigma2 * A.covariances[k]) for x, k in zip(X, labels, strict=True)
    )
    expected += sum(multivariate_normal.logpdf(m, cov=2.0 * np.eye(D)) for m in A.means)
    expected += sum(invwishart.logpdf(S, df=1.7 / sigma2, scale=PHI / sigma2) for S in A.covariances)
    assert likelihood.log_prob(X, Z, A, sigma2) == pytest.approx(expected)


@pytest.mark.parametrize("penalty", [0.0, 2.0])
@given(seed=st.integers(0, 10**6))
def test_collapsed_objectives_are_the_joint_ones_at_least_squares(penalty, seed):
    """The trace formula, the empirical means and the joint objective at its best A are one number."""
    rng = np.random.default_rng(seed)
    X, clusters, _ = random_state(Gaussian(), CRP(), rng)
    features = random_state(Gaussian(), IBP(), rng)[1]
    for Z, joint, collapsed in (
        (clusters, dp_means_objective(penalty), collapsed_dp_means_objective(penalty)),
        (features, bp_means_objective(penalty), collapsed_bp_means_objective(penalty)),
    ):
        projection = Z @ np.linalg.pinv(Z)
        by_trace = np.trace(X.T @ (np.eye(len(X)) - projection) @ X) + joint.prior.penalty(Z, penalty)
        A = np.linalg.lstsq(Z.astype(float), X, rcond=None)[0]
        assert collapsed(X, Z) == pytest.approx(by_trace)
        assert joint(X, Z, A) == pytest.approx(by_trace)
        assert joint(X, Z) == pytest.approx(by_trace)
    means = np.stack([X[column == 1].mean(axis=0) for column in clusters.T])
    scatters = cluster_scatters(X, clusters, means)
    by_means = np.trace(scatters, axis1=1, axis2=2).sum() + penalty * (K - 1)
    assert collapsed_dp_means_objective(penalty)(X, clusters) == pytest.approx(by_means)


def test_named_objectives_charge_what_the_paper_says():
    rng = np.random.default_rng(4)
    X, Z, A = random_state(Gaussian(), CRP(), rng)
    error = ((X - Z @ A) ** 2).sum()
    charges = {
        dp_means_objective(7.0): 2 * 7.0,
        bp_means_objective(7.0): 3 * 7.0,
        k_means_objective(3): 0.0,
        capped_dp_means_objective(3, 7.0): 2 * 7.0,
        k_features_objective(3): 0.0,
        capped_bp_means_objective(3, 7.0): 3 * 7.0,
        capped_dp_means_objective(2, 7.0): np.inf,
        k_features_objective(2): np.inf,
    }
    for objective, charge in charges.items():
        assert objective(X, Z, A) == pytest.approx(error + charge)


@given(seed=st.integers(0, 10**6), c=st.floats(0.2, 5.0))
def test_covariance_objective_at_its_best_covariances(seed, c):
    rng = np.random.default_rng(seed)
    X, Z, A = random_state(FullCovarianceGaussian(PHI), CRP(), rng)
    objective = covariance_objective(3.0, PHI, c)
    fitted = objective.likelihood.fit(X, Z)
    scatters = cluster_scatters(X, Z, fitted.means)
    determinants = [c * np.log(np.linalg.det(np.eye(D) + np.linalg.inv(PHI) @ S)) for S in scatters]
    best = sum(determinants) + 2 * 3.0
    assert objective(X, Z) == pytest.approx(best)
    assert best >= 0
    assert objective(X, Z, A) >= best - 1e-9
    literal = sum(
        np.trace((S + PHI) @ np.linalg.inv(Sigma)) + c * np.log(np.linalg.det(Sigma))
        - c * np.log(np.linalg.det(PHI / c)) - c * D
        for S, Sigma in zip(cluster_scatters(X, Z, A.means), A.covariances, strict=True)
    )  # fmt: skip
    assert objective(X, Z, A) == pytest.approx(literal + 2 * 3.0)


@pytest.mark.parametrize(("likelihood", "prior"), PAIRINGS)
@given(seed=st.integers(0, 10**6))
def test_a_weight_is_a_number_of_copies(likelihood, prior, seed):
    rng = np.random.default_rng(seed)
    X, Z, _ = random_state(likelihood, prior, rng)
    copies = rng.integers(1, 4, size=len(X))
    objective = Objective(likelihood, prior, 2.0)
    weighted = objective(X, Z, sample_weight=copies.astype(float))
    assert weighted == pytest.approx(objective(np.repeat(X, copies, axis=0), np.repeat(Z, copies, axis=0)))


def test_rows_of_weight_zero_do_not_count():
    X, Z = np.array([[0.0], [2.0], [50.0]]), np.array([[1, 0], [1, 0], [0, 1]])
    weights = np.array([1.0, 1.0, 0.0])
    assert dp_means_objective(5.0)(X, Z, sample_weight=weights) == dp_means_objective(5.0)(X[:2], Z[:2]) == 2.0


def test_least_squares_with_dependent_columns_and_offsets():
    rng = np.random.default_rng(5)
    Z = (rng.random((20, 3)) < 0.5).astype(float)
    Z = np.column_stack([Z, Z[:, 0] + Z[:, 1], np.zeros(20)])
    X = rng.normal(size=(20, 4)) + 1e8
    best = X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    residual = X - Z @ least_squares(X, Z)
    assert (residual**2).sum() == pytest.approx((best**2).sum(), rel=1e-9)


def test_least_squares_gradient_vanishes():
    rng = np.random.default_rng(6)
    X, Z, weights = rng.normal(size=(9, 2)), (rng.random((9, 3)) < 0.5).astype(float), rng.random(9) + 0.1
    A = least_squares(X, Z, weights)
    np.testing.assert_allclose(Z.T @ (weights[:, None] * (X - Z @ A)), 0, atol=1e-12)


def test_pairings_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="FullCovarianceGaussian is a likelihood for clusters, but IBP"):
        Objective(FullCovarianceGaussian(PHI), IBP(), 1.0)
