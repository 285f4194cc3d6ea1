"""Models as files: one file, no pickle; loading runs no code that the file brings along.

The layout is described in ``docs/persistence.md``.
"""

import os
import warnings
from typing import Any

import numpy as np
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from madbayes.io.archive import ModelFileError, open_archive, read_arrays, write_archive
from madbayes.io.values import Decoder, Encoder

__all__ = ["ModelFileError", "load", "metadata", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    model : estimator of madbayes or scikit-learn Pipeline
        Fitted. The steps of a pipeline may be scalers (StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler,
        Normalizer), encoders (OneHotEncoder, OrdinalEncoder), SimpleImputer, PCA, TruncatedSVD, FunctionTransformer
        with a function of NumPy, a ColumnTransformer of these, or a pipeline.
    path : path
        Usually with the ending ``.madbayes``. A file that is there is replaced in one step, when the new one is
        complete.

    Raises
    ------
    TypeError
        If the model holds something that cannot be stored; the message says what and where.
    sklearn.exceptions.NotFittedError
        If the model, or a step of the pipeline, is not fitted.

    See Also
    --------
    load

    Examples
    --------
    >>> import numpy as np
    >>> import madbayes
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0], [10.0, 2.0]])
    >>> path = getfixture("tmp_path") / "model.madbayes"
    >>> madbayes.save(madbayes.DPMeans(penalty=20.0).fit(X), path)
    >>> madbayes.load(path).predict(X)
    array([1, 1, 0, 0, 0], dtype=int32)
    """
    import madbayes

    if isinstance(model, type) or not hasattr(model, "fit"):
        raise TypeError(f"cannot save {model!r:.80}: give a fitted model or pipeline")
    _check_fitted(model)
    encoder = Encoder()
    state = encoder.encode(model, type(model).__name__)
    versions = {"madbayes": madbayes.__version__, "scikit_learn": sklearn.__version__, "numpy": np.__version__}
    write_archive(path, {**versions, "model": state}, encoder.arrays)


def _check_fitted(model: Any) -> None:
    """Every step of a pipeline too: one that was exchanged after the fit would be found out much later."""
    if isinstance(model, Pipeline):
        for _, step in model.steps:
            if hasattr(step, "fit"):
                _check_fitted(step)
    else:
        check_is_fitted(model)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save` has written.

    Nothing in the file is executed and only classes of a fixed list are made, so that a file from a stranger can do no
    worse than to hold a bad model.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator or Pipeline
        As it was saved: the same parameters, the same fitted attributes, the same predictions to the last bit.

    Raises
    ------
    ModelFileError
        If the file is not a model, is broken, or was written by a newer version.

    Warns
    -----
    UserWarning
        If it has steps of another version of scikit-learn.
    """
    with open_archive(path) as (archive, head):
        decoder = Decoder(read_arrays(archive, head["members"]))
        if head["model"]["$"] not in ("estimator", "state"):
            raise ValueError("it holds something else than a model")
        model = decoder.decode(head["model"])
        check_is_fitted(model)
    _compare_versions(decoder.steps, str(head.get("scikit_learn")))
    return model


def save_record(record: Any, path: str | os.PathLike[str]) -> None:
    """Write values that are no model, such as the state of a fit, in the same way: one of the classes of a fixed list.

    Parameters
    ----------
    record : named tuple or data class
    path : path
    """
    import madbayes

    encoder = Encoder()
    state = encoder.encode(record, type(record).__name__)
    write_archive(path, {"madbayes": madbayes.__version__, "model": state}, encoder.arrays)


def load_record(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save_record` has written.

    Parameters
    ----------
    path : path

    Raises
    ------
    ModelFileError
        If the file is something else, or is broken.
    """
    with open_archive(path) as (archive, head):
        return Decoder(read_arrays(archive, head["members"])).decode(head["model"])


def _compare_versions(steps: list[str], written: str) -> None:
    """Say so if steps come from another scikit-learn: their attributes may mean something else here."""
    here = sklearn.__version__
    if steps and written.split(".")[:2] != here.split(".")[:2]:
        names = ", ".join(sorted({step.rpartition(".")[2] for step in steps} - {"Pipeline"}) or ["Pipeline"])
        words = (
            f"the file has steps of scikit-learn {written[:20]} ({names}), and {here} is installed here: compare what "
            "they give with what they gave, or install that version"
        )
        warnings.warn(words, UserWarning, stacklevel=3)


def metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, without making the model.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
        ``version`` of the format; versions of ``madbayes``, ``scikit_learn`` and ``numpy`` that wrote it; ``class`` of
        the model.
    """
    with open_archive(path) as (_, head):
        names = ("version", "madbayes", "scikit_learn", "numpy")
        return {**{name: head[name] for name in names}, "class": head["model"]["class"]}
