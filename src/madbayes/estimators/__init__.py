"""What users touch: scikit-learn estimators."""

from madbayes.estimators.clusters import DPMeans
from madbayes.estimators.covariance import CovarianceDPMeans
from madbayes.estimators.features import BPMeans, KFeatures, StepwiseKFeatures

__all__ = ["BPMeans", "CovarianceDPMeans", "DPMeans", "KFeatures", "StepwiseKFeatures"]
