"""How far a fit is: told to the callbacks of scikit-learn 1.9, printed where the user asks, and when to stop.

Before scikit-learn 1.9 there are no callbacks: the same calls then tell nobody. A fit is a task with parts ("path",
"search"), and a part is made of steps; all hooks are called by the thread that called ``fit``.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from itertools import count
from time import perf_counter
from typing import Any

import sklearn

from madbayes.engine.climb import Watch
from madbayes.engine.path import users_level
from madbayes.engine.search import Lineage

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A fit that tells nobody."""

        @property
        def set_callbacks(self) -> None:
            """Not available: reading it raises an AttributeError that says so."""
            raise AttributeError(f"callbacks need scikit-learn 1.9, and this is {sklearn.__version__}: use verbose=1")

        def _init_callback_context(self, **task: Any) -> "Nobody":
            return Nobody()

    def with_callbacks(method: Callable) -> Callable:
        """Nothing but the frame that scikit-learn puts around a method: warnings count frames."""

        @wraps(method)
        def managed(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return managed


# Steps of a search.
STEPS = 50
# Numbers of groups a path must have before an interrupt finds something to keep.
ENOUGH = 3

# The attributes of the model that would be fitted now.
Attributes = Callable[[], dict[str, Any]]


class Nobody:
    """Stands in the place of a context of callbacks, and tells nobody."""

    def subcontext(self, **task: Any) -> "Nobody":
        """The context of a part."""
        return self

    def call_on_fit_task_begin(self, **data: Any) -> "Nobody":
        """A task begins."""
        return self

    def call_on_fit_task_end(self, **data: Any) -> bool:
        """A task ends; whether to stop."""
        return False


class Progress:
    """Tasks within tasks, told to callbacks. A callback that returns True stops the whole fit.

    Parameters
    ----------
    context : CallbackContext, optional
        Whom to tell.
    verbose : int
        Whether to print lines.
    data : dict
        What callbacks may ask for: the estimator, X, y, metadata.
    """

    def __init__(self, context: Any = None, verbose: int = 0, **data: Any) -> None:
        self.context, self.verbose, self.data = context or Nobody(), verbose, data
        self.stopped: str | None = None  # by whom
        self.context.call_on_fit_task_begin(**data)

    def end(self, attributes: dict[str, Any] | None = None) -> None:
        """Everything is done."""
        self.context.call_on_fit_task_end(**self.data, reconstruction_attributes=attributes)

    @contextmanager
    def part(self, name: str, size: int | None = 0) -> Iterator[None]:
        """A part of the task, with so many parts itself at most; None where nobody knows."""
        outer = self.context
        self.context = outer.subcontext(task_name=name, max_subtasks=size)
        try:
            self.context.call_on_fit_task_begin(**self.data)
            yield
            self.context.call_on_fit_task_end(**self.data)
        finally:
            self.context = outer

    @contextmanager
    def steps(self, name: str, size: int | None, each: str) -> Iterator["Steps"]:
        """A part made of so many steps at most, and what each of them is called."""
        with self.part(name, size):
            steps = Steps(self, size, each)
            yield steps
            steps.close()

    def say(self, words: str) -> None:
        """Print a line where the user wants to read it."""
        if self.verbose:
            print(words)


class Steps:
    """The steps of a part, one after the other: where one ends the next begins."""

    def __init__(self, progress: Progress, limit: int | None, name: str) -> None:
        self.progress, self.context, self.limit, self.name = progress, progress.context, limit, name
        self.count = 0
        self.open: Any = None
        self._begin()

    def _begin(self) -> None:
        if self.limit is None or self.count < self.limit:
            self.open = self.context.subcontext(task_name=self.name)
            self.open.call_on_fit_task_begin(**self.progress.data)

    def end(self, attributes: Attributes | None = None) -> None:
        """A step is done."""
        if self.open is None:
            return
        task, self.open, self.count = self.open, None, self.count + 1
        if task.call_on_fit_task_end(**self.progress.data, reconstruction_attributes=attributes):
            self.progress.stopped = "by a callback"
        else:
            self._begin()

    def reach(self, share: float, attributes: Attributes) -> None:
        """Such a share of the part is done; where it is the whole, the steps that are left need not be made."""
        assert self.limit is not None
        attributes = cache(attributes)  # the same after every step that ends now
        done = int(share * self.limit) if share < 1 else self.count + 1
        while self.count < done and not self.progress.stopped:
            self.end(attributes)

    def close(self) -> None:
        """No more steps."""
        if self.open is not None:
            self.open.call_on_fit_task_end(**self.progress.data)


class Budget:
    """How long a search may go on: until time is over, or the user or a callback stops it; never without a result.

    Parameters
    ----------
    seconds : float, optional
        The time there is.
    progress : Progress, optional
        Who else may stop it.
    attributes : function, optional
        The attributes of the model fitted with given groups.
    """

    def __init__(
        self,
        seconds: float | None,
        progress: Progress | None = None,
        attributes: Callable[[Any], dict[str, Any]] = lambda A: {},
    ) -> None:
        self.start, self.seconds, self.n_runs = perf_counter(), seconds, 0
        self.progress, self.attributes = progress or Progress(), attributes
        self.watch: Callable[[float, list[Lineage]], None] = lambda share, lineages: None

    def begin(self) -> None:
        """The time begins to run."""
        self.start = perf_counter()

    def is_spent(self) -> bool:
        """Whether no further restart may begin."""
        over = self.seconds is not None and perf_counter() - self.start > self.seconds
        return self.n_runs > 0 and (over or self.progress.stopped is not None)

    def interrupt(self) -> None:
        """Stop with what is there; to be called while a KeyboardInterrupt is handled."""
        if not self.n_runs:
            raise
        self.progress.stopped = "by an interrupt"
        warnings.warn(
            f"interrupted: keeping the best of {self.n_runs} finished restarts", UserWarning, stacklevel=users_level()
        )

    def advance(self, share: float, lineages: list[Lineage]) -> None:
        """Such a share of what may be done is done."""
        self.watch(share, lineages)


class PathWatch(Watch):
    """Tells how far the path behind penalty="auto" is."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.name, self.n_tables = progress, type(progress.data["estimator"]).__name__, 0

    def is_over(self) -> bool:
        """Whether to end with what is there."""
        return self.progress.stopped is not None

    @contextmanager
    def table(self, most: int) -> Iterator[Callable[[], bool]]:
        """A table of which up to so many numbers of groups are looked at."""
        with self.progress.steps("numbers of groups", most, "number of groups") as steps:
            asked = count()

            def looked() -> bool:
                if number := next(asked):  # at first nothing is done
                    if number <= most:  # then come second looks
                        self.progress.say(f"{self.name}: {number} of at most {most} numbers of groups looked at")
                    steps.end()
                return self.is_over()

            yield looked
        self.n_tables += 1

    def interrupt(self, n_found: int) -> None:
        """Stop with what is there; to be called while a KeyboardInterrupt is handled."""
        if not self.n_tables and n_found < ENOUGH:
            raise
        self.progress.stopped = "by an interrupt"
        words = "interrupted: the number of groups is chosen with less evidence than there might be"
        warnings.warn(words, UserWarning, stacklevel=users_level())
