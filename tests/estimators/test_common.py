"""The rules that scikit-learn has for all estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures


def checks():
    for estimator in (DPMeans, BPMeans, KFeatures, StepwiseKFeatures, CovarianceDPMeans):
        yield from estimator_checks_generator(estimator())


def name_of(part):
    return part.func.__name__ if hasattr(part, "func") else type(part).__name__


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=name_of)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
