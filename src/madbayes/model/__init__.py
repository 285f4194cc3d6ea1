"""What is minimised: priors, likelihoods, and the objectives they become in the small-variance limit."""

from madbayes.model.likelihoods import (
    CollapsedGaussian,
    FullCovarianceGaussian,
    Gaussian,
    KnownCovarianceGaussian,
    Likelihood,
    MeansCovariances,
)
from madbayes.model.objective import (
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
from madbayes.model.priors import CRP, IBP, BetaBernoulli, DirichletMultinomial, Prior

__all__ = [
    "CRP",
    "IBP",
    "BetaBernoulli",
    "CollapsedGaussian",
    "DirichletMultinomial",
    "FullCovarianceGaussian",
    "Gaussian",
    "KnownCovarianceGaussian",
    "Likelihood",
    "MeansCovariances",
    "Objective",
    "Prior",
    "bp_means_objective",
    "capped_bp_means_objective",
    "capped_dp_means_objective",
    "collapsed_bp_means_objective",
    "collapsed_dp_means_objective",
    "covariance_objective",
    "dp_means_objective",
    "k_features_objective",
    "k_means_objective",
]
