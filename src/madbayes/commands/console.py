"""What a command says while it works: to people, or to programs that read its log."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import rich.progress
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.status import Status

from madbayes.experiments.parts import Progress

log = logging.getLogger("madbayes")


class PlainHandler(logging.Handler):
    """A line of text for each thing that is said, above the bar where there is one."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        self.console.print(
            f"{'Note: ' if record.levelno >= logging.WARNING else ''}{record.getMessage()}", soft_wrap=True
        )


class JSONHandler(logging.Handler):
    """A JSON object for each thing that is said, one in a line."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message with its time, level and data."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "data", {}),
        }
        self.console.file.write(json.dumps(line, default=str) + "\n")
        self.console.file.flush()


class Talk:
    """Says what is going on and measures how long it takes."""

    def __init__(self, console: Console, *, bar: bool) -> None:
        self.console, self.bar = console, bar
        self._shown: tuple[Status, str] | None = None
        self.timings: dict[str, float] = {}

    @contextmanager
    def step(self, words: str, name: str) -> Iterator[None]:
        """A part of the work: shown while it lasts, its seconds kept under a name."""
        began = perf_counter()
        log.debug("%s", words, extra=data(step=name))
        if not self.bar:
            yield
        else:
            with self.console.status(f"{words} ...") as status:
                self._shown = status, words
                yield
            self._shown = None
        seconds = self.timings[name] = round(perf_counter() - began, 3)
        log.debug("%s: %.1f s", words, seconds, extra=data(step=name, seconds=seconds))

    def progress(self, words: str, **values: Any) -> None:
        """How far a step has come."""
        log.debug("%s", words, extra=data(**values))
        if self._shown is not None:
            status, step = self._shown
            status.update(f"{step}: {words} ...")


@contextmanager
def talking(*, log_json: bool = False, quiet: bool = False) -> Iterator[Talk]:
    """What is logged goes to standard error, warnings too; as text, or as lines of JSON.

    With ``quiet`` only warnings are said.
    """
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    handler = JSONHandler(console) if log_json else PlainHandler(console)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if log_json else logging.WARNING if quiet else logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is for developers
            warnings.simplefilter("default", UserWarning)
            # Said in the summary, and by the names of columns.
            warnings.filterwarnings("ignore", r"weak evidence for groups|column \d+ has .* of the variance")
            warnings.showwarning = lambda message, *_: log.warning("%s", message)
            yield Talk(console, bar=console.is_terminal and not log_json)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def bars() -> Iterator[Progress]:
    """A line with a bar for what is going on; on what is no terminal, a line of text for each thing that begins."""
    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        warnings.catch_warnings(),
        rich.progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display,
    ):
        warnings.showwarning = lambda message, *_: console.print(f"Note: {message}")
        tasks: dict[str, TaskID] = {}

        def show(words: str, done: int, total: int) -> None:
            if words not in tasks:
                for old in tasks.values():
                    display.remove_task(old)
                tasks.clear()
                tasks[words] = display.add_task(words, total=None)
                if not console.is_terminal:
                    console.print(words)
            if total:
                display.update(tasks[words], completed=done, total=total)

        yield show


def data(**values: Any) -> dict[str, Any]:
    """Values for programs that read the log, beside the words for people."""
    return {"data": values}
