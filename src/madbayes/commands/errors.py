"""How commands end: exit codes, and errors in one line that says what to do."""

import errno
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from madbayes.files import FolderError
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


def stop(error: Exception | str, code: Code = Code.WRONG, *, as_json: bool = False) -> NoReturn:
    """What a user can do something about, in one line; with ``--json`` on standard output too, for programs."""
    words = " ".join(str(error).split())
    typer.echo(f"madbayes: {words}", err=True)
    if as_json:
        typer.echo(json.dumps({"error": words, "exit_code": int(code)}, indent=1))
    raise typer.Exit(code) from None


def one_line(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what a user can put right into a line and an exit code; anything else is a bug and shows where.

    To be used as a decorator of commands.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        with errors_in_one_line(as_json=options.get("as_json", False)):
            command(*args, **options)

    return run


@contextmanager
def errors_in_one_line(*, as_json: bool) -> Iterator[None]:
    """The same for a block."""
    try:
        yield
    except (TableError, ModelFileError, UsageError) as error:
        stop(error, as_json=as_json)
    except KeyboardInterrupt:
        stop("stopped before there was a result; none was written", Code.INTERRUPTED, as_json=as_json)
    except MemoryError:
        words = "there is not enough memory: use fewer columns (--columns), principal components (--pca) or fewer rows"
        stop(words, as_json=as_json)
    except BrokenPipeError:  # whoever reads the output has enough of it
        raise
    except OSError as error:
        stop(place_words(error), Code.UNWRITTEN, as_json=as_json)


class Commands(TyperGroup):
    """Commands that tell of a command line that cannot be understood in one line too."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the options of all commands."""
        with usage_in_one_line(as_json="--json" in args):
            context = super().make_context(info_name, args, parent, **extra)
            context.meta["json"] = "--json" in args
            return context

    def invoke(self, ctx: Any) -> Any:
        """Read the options of one command, and run it."""
        with usage_in_one_line(as_json=ctx.meta["json"]):
            return super().invoke(ctx)


@contextmanager
def usage_in_one_line(*, as_json: bool) -> Iterator[None]:
    """What Typer says in a box, in one line; by its own class, for it may bring a Click of its own."""
    try:
        yield
    except typer.BadParameter.__base__ as error:  # type: ignore[misc]
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = error.ctx.command_path if error.ctx else "madbayes"
        stop(f"{error.format_message().rstrip('.')}: see {command} --help", as_json=as_json)


def place_words(error: OSError) -> str:
    """What is wrong with a place, and what to do."""
    if isinstance(error, FolderError):
        return str(error).replace("by spill_dir", "with --spill-dir").replace("checkpoint=", "--checkpoint ")
    if error.errno in FULL and error.filename is None:  # it is no file, then
        return f"{FULL[error.errno]}: what was to be printed is lost, files that were written are in their place"
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
