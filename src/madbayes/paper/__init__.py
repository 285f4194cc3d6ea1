"""How the paper does it: every algorithm as printed, in plain NumPy. The oracle and the classroom."""

from madbayes.paper.clusters import collapsed_dp_means, covariance_dp_means, dp_means, k_means
from madbayes.paper.exhaustive import allocations, exhaustive, partitions
from madbayes.paper.features import bp_means, collapsed_bp_means, k_features, k_features_path, stepwise_k_features
from madbayes.paper.minimise import minimise
from madbayes.paper.result import Result, Run, restarts
from madbayes.paper.seeding import farthest_first_penalty, seed_clusters, seed_features

__all__ = [
    "Result",
    "Run",
    "allocations",
    "bp_means",
    "collapsed_bp_means",
    "collapsed_dp_means",
    "covariance_dp_means",
    "dp_means",
    "exhaustive",
    "farthest_first_penalty",
    "k_features",
    "k_features_path",
    "k_means",
    "minimise",
    "partitions",
    "restarts",
    "seed_clusters",
    "seed_features",
    "stepwise_k_features",
]
