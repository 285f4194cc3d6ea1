"""What is minimised: a likelihood, a prior and the price of one more group.

The functions below name the objectives of the paper. All of them are the same class with other parts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes.model.likelihoods import CollapsedGaussian, FullCovarianceGaussian, Gaussian, Likelihood, Weights
from madbayes.model.priors import CRP, IBP, BetaBernoulli, DirichletMultinomial, Prior


@dataclass(frozen=True)
class Objective:
    """Small-variance limit of -2 sigma2 log p(X, Z, A).

    Parameters
    ----------
    likelihood, prior
        The model: see :mod:`madbayes.model.likelihoods` and :mod:`madbayes.model.priors`.
    penalty : float
        The price of one more group, lambda squared in the paper.
    log_mass : float
        The prior's mass is exp(log_mass - penalty / (2 sigma2)). With ``penalty=0`` it stays fixed.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import CRP, Gaussian, Objective
    >>> objective = Objective(Gaussian(), CRP(), penalty=3.0)
    >>> X = np.array([[0.0], [2.0], [10.0]])
    >>> Z = np.array([[1, 0], [1, 0], [0, 1]])
    >>> objective(X, Z)  # squared error 2 about the cluster means, one cluster after the first
    5.0
    >>> abs(objective.at(1e-6, X, Z) - objective(X, Z)) < 1e-3
    True
    """

    likelihood: Likelihood
    prior: Prior
    penalty: float = 0.0
    log_mass: float = 0.0

    def __post_init__(self) -> None:
        if self.prior.kind not in self.likelihood.kinds:
            raise ValueError(
                f"{type(self.likelihood).__name__} is a likelihood for {' and '.join(self.likelihood.kinds)}, "
                f"but {type(self.prior).__name__} is a prior over {self.prior.kind}"
            )

    def __call__(self, X: NDArray, Z: NDArray, A: Any = None, sample_weight: Weights = None) -> float:
        """Value at (Z, A); at (Z, the best A for it) when A is not given.

        Rows of weight zero do not count at all: a group that only they use is not charged.
        """
        if sample_weight is not None and not np.all(sample_weight):
            counted = sample_weight > 0
            X, Z, sample_weight = X[counted], Z[counted], sample_weight[counted]
        if A is None:
            A = self.likelihood.fit(X, Z, sample_weight)
        return self.likelihood.loss(X, Z, A, sample_weight) + self.prior.penalty(Z, self.penalty)

    def at(self, sigma2: float, X: NDArray, Z: NDArray, A: Any = None) -> float:
        """-2 sigma2 log p(X, Z, A), exactly, before the limit."""
        if A is None:
            A = self.likelihood.fit(X, Z)
        log_mass = self.log_mass - self.penalty / (2 * sigma2)
        return -2 * sigma2 * (self.likelihood.log_prob(X, Z, A, sigma2) + self.prior.log_prob(Z, log_mass))


def dp_means_objective(penalty: float) -> Objective:
    """Squared error plus one penalty for each cluster after the first.

    Paper: equation (3).
    """
    return Objective(Gaussian(), CRP(), penalty)


def bp_means_objective(penalty: float) -> Objective:
    """Squared error plus one penalty for each feature.

    Paper: equation (6).
    """
    return Objective(Gaussian(), IBP(), penalty)


def collapsed_dp_means_objective(penalty: float) -> Objective:
    """Squared error about the empirical cluster means plus one penalty for each cluster after the first.

    Paper: equation (8).
    """
    return Objective(CollapsedGaussian(), CRP(), penalty)


def collapsed_bp_means_objective(penalty: float) -> Objective:
    """Squared error about the least-squares features plus one penalty for each feature.

    Paper: equation (10).
    """
    return Objective(CollapsedGaussian(), IBP(), penalty)


def k_means_objective(K: int) -> Objective:
    """Squared error with at most K clusters.

    Paper: section 4.2.
    """
    return Objective(Gaussian(), DirichletMultinomial(K))


def capped_dp_means_objective(K: int, penalty: float) -> Objective:
    """DP-means with at most K clusters.

    Paper: equation (12).
    """
    return Objective(Gaussian(), DirichletMultinomial(K), penalty)


def k_features_objective(K: int) -> Objective:
    """Squared error with at most K features.

    Paper: equation (14).
    """
    return Objective(Gaussian(), BetaBernoulli(K))


def capped_bp_means_objective(K: int, penalty: float) -> Objective:
    """BP-means with at most K features.

    Paper: equation (15).
    """
    return Objective(Gaussian(), BetaBernoulli(K), penalty)


def covariance_objective(penalty: float, prior_covariance: NDArray, covariance_penalty: float = 1.0) -> Objective:
    """DP-means with a covariance for each cluster.

    Paper: Appendix E, made bounded below.
    """
    return Objective(FullCovarianceGaussian(prior_covariance, covariance_penalty), CRP(), penalty)
