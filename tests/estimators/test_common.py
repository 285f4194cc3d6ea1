"""The rules that scikit-learn has for all estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures

COPIES = {"check_sample_weight_equivalence_on_dense_data": "a start draws rows, of which copies are more"}
EXPECTED_TO_FAIL = {BPMeans: COPIES, StepwiseKFeatures: COPIES}


def checks():
    for estimator in (DPMeans, BPMeans, KFeatures, StepwiseKFeatures, CovarianceDPMeans):
        expected = EXPECTED_TO_FAIL.get(estimator, {})
        yield from estimator_checks_generator(estimator(), expected_failed_checks=expected, mark="xfail")


def name_of(part):
    return part.func.__name__ if hasattr(part, "func") else type(part).__name__


@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=name_of)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
