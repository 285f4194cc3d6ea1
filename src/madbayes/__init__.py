"""Find groups in data without being told how many there are.

Clusters put each row in one group, features put it in any number of groups.
"""

from madbayes.comparison import match, stability
from madbayes.engine.path import WeakEvidenceWarning
from madbayes.estimators import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures, penalty_path
from madbayes.io import ModelFileError, load, save

__version__ = "0.1.0"
__all__ = [
    "BPMeans",
    "CovarianceDPMeans",
    "DPMeans",
    "KFeatures",
    "ModelFileError",
    "StepwiseKFeatures",
    "WeakEvidenceWarning",
    "load",
    "match",
    "penalty_path",
    "save",
    "stability",
]
