"""How commands end: exit codes, and errors in one line that says what to do."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import NoReturn

import typer

from madbayes.io import ModelFileError
from madbayes.tables import TableError


class Code(IntEnum):
    """What a command tells the shell."""

    DONE = 0
    FAILED = 1
    WRONG = 2  # the command line, the table or the model
    MOVED = 3  # compare: more rows have moved than allowed
    UNWRITTEN = 4  # no place for the results
    INTERRUPTED = 130


class UsageError(ValueError):
    """Something about the command line that its writer can put right."""


class PlaceError(OSError):
    """Results that cannot go where they should."""


FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file is too large"}


def stop(error: Exception | str, code: Code = Code.WRONG) -> NoReturn:
    """What a user can do something about, in one line."""
    words = " ".join(str(error).split())
    typer.echo(f"madbayes: {words}", err=True)
    raise typer.Exit(code) from None


@contextmanager
def one_line() -> Iterator[None]:
    """Turn what a user can put right into a line and an exit code; anything else is a bug and shows where.

    To be used as a decorator of commands.
    """
    try:
        yield
    except (TableError, ModelFileError, UsageError) as error:
        stop(error)
    except KeyboardInterrupt:
        stop("stopped before there was a result; none was written", Code.INTERRUPTED)
    except MemoryError:
        stop("there is not enough memory: use fewer columns (--columns), principal components (--pca) or fewer rows")
    except BrokenPipeError:  # whoever reads the output has enough of it
        raise
    except OSError as error:
        stop(place_words(error), Code.UNWRITTEN)


def place_words(error: OSError) -> str:
    """What is wrong with a place, and what to do."""
    if error.errno in FULL:
        return f"{FULL[error.errno]}, nothing was written: free some space, or name another place with --out"
    if isinstance(error, PermissionError):
        return f"{error.filename or 'the place for the results'} may not be written to: name another place with --out"
    return str(error)


class Interrupts:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.happened = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember, and raise KeyboardInterrupt as Python does."""
        self.happened = True
        signal.default_int_handler(number, frame)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Notice Ctrl-C even if whoever is interrupted keeps a result and goes on."""
    seen = Interrupts()
    before = signal.signal(signal.SIGINT, seen.handle)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
