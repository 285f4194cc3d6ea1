"""What users touch: scikit-learn estimators, and the penalty path."""

from madbayes.estimators.clusters import DPMeans
from madbayes.estimators.covariance import CovarianceDPMeans
from madbayes.estimators.features import BPMeans, KFeatures, StepwiseKFeatures
from madbayes.estimators.path import penalty_path

__all__ = ["BPMeans", "CovarianceDPMeans", "DPMeans", "KFeatures", "StepwiseKFeatures", "penalty_path"]
