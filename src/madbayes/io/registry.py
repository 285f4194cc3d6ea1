"""The classes that model files may hold. Loading imports nothing else."""

import sys
from functools import cache
from importlib import import_module

import numpy as np

# Estimators and steps: their parameters are stored, and every attribute that fit has set.
CLUSTERS = ("madbayes.DPMeans", "madbayes.CovarianceDPMeans")
FEATURES = ("madbayes.BPMeans", "madbayes.KFeatures", "madbayes.StepwiseKFeatures")
STEPS = (
    "sklearn.preprocessing.StandardScaler",
    "sklearn.preprocessing.RobustScaler",
    "sklearn.preprocessing.MinMaxScaler",
    "sklearn.preprocessing.MaxAbsScaler",
    "sklearn.preprocessing.Normalizer",
    "sklearn.preprocessing.OneHotEncoder",
    "sklearn.preprocessing.OrdinalEncoder",
    "sklearn.preprocessing.FunctionTransformer",
    "sklearn.decomposition.PCA",
    "sklearn.decomposition.TruncatedSVD",
    "sklearn.impute.SimpleImputer",
    "sklearn.impute.MissingIndicator",
    "sklearn.compose.ColumnTransformer",
    "sklearn.pipeline.Pipeline",
)
ESTIMATORS = CLUSTERS + FEATURES + STEPS
# Attributes that steps have only since some version of scikit-learn, and what says the same in files of earlier ones.
LATER = {"sklearn.impute.SimpleImputer": {"_fill_dtype": "_fit_dtype"}}
# Classes that say themselves what to store: ``_to_state()`` gives a dictionary, the class method ``_from_state`` takes
# it. They may come with an extra, so that they are imported only when a file names them.
OWN_STATE = ("madbayes.tables.Recipe",)
# Named tuples, data classes and the like: all their fields are stored.
RECORDS = (
    "madbayes.paper.Run",
    "madbayes.paper.Result",
    "madbayes.engine.search.Search",
    "madbayes.engine.search.Solution",
    "madbayes.engine.online.Pieces",
    "madbayes.engine.online_features.FeatureSums",
    "madbayes.engine.path.PenaltyPath",
    "madbayes.estimators.checkpoints.Checkpoint",
    "madbayes.model.BetaBernoulli",
    "madbayes.model.CRP",
    "madbayes.model.DirichletMultinomial",
    "madbayes.model.FullCovarianceGaussian",
    "madbayes.model.Gaussian",
    "madbayes.model.IBP",
    "madbayes.model.KnownCovarianceGaussian",
    "madbayes.model.MeansCovariances",
    "madbayes.model.Objective",
    "sklearn.compose.make_column_selector",
)
# Functions of NumPy that a FunctionTransformer may have.
FUNCTIONS = ("abs", "cbrt", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sqrt", "square")
# Types that stand for a dtype in the parameters of scikit-learn.
TYPES: dict[str, type] = {
    **{kind.__name__: kind for kind in (bool, float, int, object, str)},
    **{f"numpy.{kind.__name__}": kind for kind in {np.number, np.integer, np.floating, np.generic}},
    **{f"numpy.{kind.__name__}": kind for kind in {np.dtype(code).type for code in "?bhilqBHILQefdgUSO"}},
}


def resolve(name: str) -> type:
    """The class of this name, which must be one of the above."""
    if name not in ESTIMATORS + OWN_STATE + RECORDS:
        raise KeyError(f"{name!r} is not a class that model files may hold")
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


@cache
def _names(kinds: tuple[str, ...]) -> dict[type, str]:
    return {resolve(name): name for name in kinds}


def name_of(cls: type, kinds: tuple[str, ...]) -> str | None:
    """The name of exactly this class among some of the above; a subclass has none."""
    return _names(kinds).get(cls)


def own_state_name(cls: type) -> str | None:
    """The name of a class that says itself what to store; one that nobody has imported has no objects."""
    for name in OWN_STATE:
        module, _, attribute = name.rpartition(".")
        if getattr(sys.modules.get(module), attribute, None) is cls:
            return name
    return None


def supported() -> str:
    """What can be saved, in words."""
    return ", ".join(name.rpartition(".")[2] for name in ESTIMATORS + OWN_STATE)
