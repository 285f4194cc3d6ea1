"""Where a fit has come to, written down after every pass, so that the next one with the same folder goes on there.

What is written does not grow with the number of rows: the groups, the objective on the way, and what was found out
before the first pass over all rows. It is replaced in one step, so that there is always a whole one.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.path import PenaltyPath
from madbayes.files import FolderError
from madbayes.io import ModelFileError, load_record, save_record
from madbayes.paper import Run

NAME = "checkpoint.madbayes"
# Parameters that change how a fit is done, not what it finds.
HOW = {"n_jobs", "verbose", "memory_limit", "spill_dir", "checkpoint", "time_limit", "max_iter", "device", "init"}
# These may be objects that do not say which they are; a state that is there was made with those of then.
HOW |= {"random_state", "search"}


@dataclass(frozen=True)
class Checkpoint:
    """The state of a fit."""

    problem: dict[str, Any]  # what is fitted to what
    penalty: float
    A: NDArray[np.float64]
    trace: list[float]  # the objective so far
    path: PenaltyPath | None = None
    runs: list[Run] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    converged: bool = True  # of a search; passes over all rows find out themselves


class Checkpoints:
    """The folder that the state of a fit is written to.

    Parameters
    ----------
    folder : path
        It is made if it is not there.
    problem : dict
        What is fitted to what: a state of something else is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], problem: Mapping[str, Any]) -> None:
        self.path, self.problem = Path(folder) / NAME, dict(problem)
        check_folder(folder)
        self.state = self._read()

    def _read(self) -> Checkpoint | None:
        """The state that is there, if there is one."""
        if not self.path.exists():
            return None
        try:
            state = load_record(self.path)
        except (ModelFileError, IsADirectoryError) as error:
            what = str(error).partition(": ")[0]  # without what to do about a model
            raise ModelFileError(f"checkpoint: {what}: name another folder, or remove that file") from error
        if not isinstance(state, Checkpoint):
            raise ModelFileError(f"{str(self.path)!r} is no state of a fit: name another folder for checkpoint")
        if odd := [name for name, value in self.problem.items() if state.problem.get(name) != value]:
            name = odd[0]
            raise ValueError(
                f"checkpoint: {str(self.path)!r} is the state of another fit, its {name} is "
                f"{state.problem.get(name)!r} and not {self.problem[name]!r}: name another folder, or remove that file"
            )
        return state

    def begin(self, **state: Any) -> None:
        """Write what is known before the first pass."""
        self._write(Checkpoint(self.problem, **state))

    def advance(self, A: NDArray, trace: list[float]) -> None:
        """Write where a pass has led to."""
        assert self.state is not None
        self._write(replace(self.state, A=A, trace=list(trace)))

    def _write(self, state: Checkpoint) -> None:
        save_record(state, self.path)
        self.state = state


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Make the folder, and find out now whether it can be written to: the first state comes after a long search."""
    path, name = Path(folder), os.fspath(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"checkpoint={name!r} is a file: name a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        words = f"checkpoint={name!r} cannot be written to ({error.strerror}): name another folder"
        raise FolderError(error.errno, words) from error


def problem_of(estimator: Any, shape: tuple[int, int], dtype: np.dtype, mean: NDArray, scatter: NDArray) -> dict:
    """What is fitted to what, in values that can be compared; mean and squared error of each column tell tables."""
    params = {name: repr(value) for name, value in estimator.get_params(deep=False).items() if name not in HOW}
    digest = sha256(np.stack([mean, scatter]).tobytes()).hexdigest()
    table = {"number of rows": shape[0], "number of columns": shape[1], "dtype": str(dtype), "table": digest[:16]}
    return {"estimator": type(estimator).__name__, **params, **table}
