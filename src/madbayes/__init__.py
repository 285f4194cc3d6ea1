"""Find groups in data without being told how many there are.

Clusters put each row in one group, features put it in any number of groups.
"""

from madbayes.comparison import match, stability
from madbayes.engine.path import WeakEvidenceWarning
from madbayes.estimators import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures, penalty_path

__version__ = "0.1.0"
__all__ = [
    "BPMeans",
    "CovarianceDPMeans",
    "DPMeans",
    "KFeatures",
    "StepwiseKFeatures",
    "WeakEvidenceWarning",
    "match",
    "penalty_path",
    "stability",
]
