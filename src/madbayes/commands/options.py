"""Options that commands share, and settings that can be read back from a run."""

import json
import shlex
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from madbayes.commands.errors import UsageError
from madbayes.estimators import validation
from madbayes.sources import parse_memory
from madbayes.sources.places import is_url


class Kind(StrEnum):
    """One group per row, or any number."""

    clusters = "clusters"
    features = "features"


class Scale(StrEnum):
    """How numbers are made comparable."""

    none = "none"
    standard = "standard"
    robust = "robust"


class BadRows(StrEnum):
    """What to do about rows that cannot be used."""

    error = "error"
    quarantine = "quarantine"


class Missing(StrEnum):
    """What to do about missing values."""

    error = "error"
    drop = "drop"
    median = "median"


# What an earlier result has decided for those that continue it, and the penalty that it had.
DECIDED = ("columns", "leave_out", "id_column", "scale", "pca", "missing")
SAME = "same"

TABLE, HOW, RESULT, LARGE = "The table", "How to look for groups", "The result", "More rows than memory"

DataFile = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, Feather or Arrow, NPY or NPZ, a folder of pictures or of Parquet files, or a URL of "
        "Parquet files such as s3://bucket/folder.",
        show_default=False,
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A folder that fit has written, or its model.madbayes.")
]
KindOption = Annotated[
    Kind, typer.Option(help="One group per row, or any number of groups per row.", rich_help_panel=HOW)
]
PenaltyOption = Annotated[
    str,
    typer.Option(
        metavar="auto|FLOAT|2%|same",
        help="The price of one more group: a number in squared units of the scaled columns, a share of the squared "
        "error of one group, what the table suggests, or the same as in --init for as many rows.",
        rich_help_panel=HOW,
    ),
]
GroupsOption = Annotated[
    int | None,
    typer.Option(metavar="K", help="About so many groups, instead of a penalty.", rich_help_panel=HOW),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B,...",
        help="Use these columns only; can be given several times.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
LeaveOutOption = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B,...", help="Do not use these columns.", show_default=False, rich_help_panel=TABLE),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The column that identifies rows; it stays beside the groups and is not used to find them.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
ScaleOption = Annotated[
    Scale | None,
    typer.Option(
        help="Divide each number column by its standard deviation, by its spread between the quartiles, or not."
        "  [default: standard for tables, none for arrays and pictures]",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
PcaOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Keep N principal components.", show_default=False, rich_help_panel=TABLE),
]
MissingOption = Annotated[
    Missing,
    typer.Option(help="Missing values: refuse, drop their rows, or fill in the median.", rich_help_panel=TABLE),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        metavar="600MB",
        help="Memory to go by: a Parquet file is read in blocks too, as folders and URLs of them always are.",
        show_default=False,
        rich_help_panel=LARGE,
    ),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep the state of the fit here; a fit that was killed goes on from it.",
        show_default=False,
        rich_help_panel=LARGE,
    ),
]
SpillOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="For temporary files: twice the numbers of the table.  [default: the system's place for such files]",
        show_default=False,
        rich_help_panel=LARGE,
    ),
]
BadRowsOption = Annotated[
    BadRows | None,
    typer.Option(
        help="Rows of Parquet files that cannot be used: refuse them, or put them aside.  [default: error]",
        show_default=False,
        rich_help_panel=LARGE,
    ),
]
InitOption = Annotated[
    Path | None,
    typer.Option(
        metavar="MODEL",
        help="Continue an earlier result, a folder or its model: groups that survive keep their ids and names, columns "
        "are treated as they were, and the penalty is the same for as many rows unless one is given.",
        show_default=False,
        rich_help_panel=HOW,
    ),
]
SeedOption = Annotated[int, typer.Option(metavar="N", help="Same seed, same answer.", rich_help_panel=HOW)]
JobsOption = Annotated[int, typer.Option(metavar="N", help="Threads; -1 is all cores.", rich_help_panel=HOW)]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is there.", rich_help_panel=RESULT)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RESULT)]
LogOption = Annotated[
    bool, typer.Option("--log-json", help="Say what is going on as lines of JSON.", rich_help_panel=RESULT)
]


@dataclass(frozen=True)
class Settings:
    """All that a fit depends on."""

    data: str | None = None
    kind: str = "clusters"
    penalty: str = "auto"
    groups: int | None = None
    columns: list[str] | None = None
    leave_out: list[str] | None = None
    id_column: str | None = None
    scale: str | None = None
    pca: int | None = None
    missing: str = "error"
    init: str | None = None
    seed: int = 0
    refits: int = 10
    jobs: int = -1
    memory_limit: str | None = None
    checkpoint: str | None = None
    spill_dir: str | None = None
    bad_rows: str | None = None

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory."""
        return parse_memory(self.memory_limit)

    @property
    def puts_aside(self) -> bool:
        """Whether rows that cannot be used are put aside."""
        return self.bad_rows == BadRows.quarantine

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def settings_of(context: typer.Context, config: Path | None) -> Settings:
    """What the command line says, and for the rest what an earlier run says."""
    values = {} if config is None else read_config(config)
    given = context.params
    for name in (field.name for field in fields(Settings)):
        if name in given and (is_given(context, name) or name not in values):
            values[name] = source_name(given[name]) if name == "data" else plain_option(given[name])
    if not values.get("data"):
        raise UsageError("name a table: madbayes fit DATA, or --config RUN.json of an earlier run")
    explicit = {name for name in ("penalty", "groups") if is_given(context, name)}
    if explicit == {"penalty", "groups"}:
        raise UsageError("--penalty and --groups: give one of them, for either decides the other")
    if explicit == {"penalty"}:
        values["groups"] = None
    if values.get("init") is not None:
        check_continued(context)
        if not explicit and config is None:
            values["penalty"] = SAME
    return checked(Settings(**values))


def check_continued(context: typer.Context) -> None:
    """Refuse options that an earlier result has decided."""
    if given := [name for name in DECIDED if is_given(context, name)]:
        raise UsageError(
            f"--{given[0].replace('_', '-')} does not go with --init: columns are treated as in that result, so that "
            "the two can be compared"
        )


def checked(settings: Settings) -> Settings:
    """Settings that a fit can go by, wherever they come from."""
    for name, choices in (("kind", Kind), ("scale", Scale), ("missing", Missing), ("bad_rows", BadRows)):
        value = getattr(settings, name)
        if value not in list(choices) and not (name in ("scale", "bad_rows") and value is None):
            refuse(name, value, f"one of {', '.join(choices)}")
    for name, least, most in (("groups", 1, None), ("pca", 1, None), ("seed", 0, 2**32 - 1), ("refits", 0, None)):
        check_whole(name, getattr(settings, name), least, most)
    check_jobs(settings.jobs)
    for name in ("columns", "leave_out"):
        value = getattr(settings, name)
        if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            refuse(name, value, "names of columns")
    for name in ("data", "id_column", "init", "memory_limit", "checkpoint", "spill_dir"):
        if not isinstance(getattr(settings, name), str | None):
            refuse(name, getattr(settings, name), "a name")
    if settings.penalty == SAME and settings.init is None:
        raise UsageError("--penalty same: name the earlier result that has it, --init MODEL")
    if settings.groups is None and settings.penalty != SAME:
        penalty_of(settings.penalty)
    check_memory(settings)
    return settings


def check_memory(settings: Settings) -> None:
    """An amount of memory, and a folder that is there."""
    try:
        parse_memory(settings.memory_limit)
    except ValueError:
        refuse("memory_limit", settings.memory_limit, "an amount such as 600MB or 1.5GiB")
    if settings.spill_dir is not None and not Path(settings.spill_dir).is_dir():
        raise UsageError(f"--spill-dir {settings.spill_dir}: is no folder; make it, or name another")


def refuse(name: str, value: Any, accepted: str) -> NoReturn:
    """Say what a setting may be."""
    raise UsageError(f"--{name.replace('_', '-')} {value}: give {accepted}")


def check_whole(name: str, value: Any, least: int, most: int | None) -> None:
    """A whole number in a range; groups and principal components need not be given."""
    if value is None and name in ("groups", "pca"):
        return
    if type(value) is not int or value < least or (most is not None and value > most):
        refuse(name, value, f"a whole number from {least} {'on' if most is None else f'to {most}'}")


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line; by name, for Typer may bring a Click of its own."""
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def source_name(source: str | None) -> str | None:
    """A table by a name that means the same in every folder."""
    return source if not source or is_url(source) else str(Path(source).absolute())


def plain_option(value: Any) -> Any:
    """Options in terms of JSON."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Path):
        return str(value.absolute())
    return list(value) or None if isinstance(value, list | tuple) else value


def read_config(path: Path) -> dict[str, Any]:
    """The settings of an earlier run."""
    try:
        return known_settings(json.loads(path.read_text(encoding="utf-8"))["settings"], f"--config {path}")
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"--config {path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"--config {path}: is no run.json, which madbayes fit writes") from None


def known_settings(values: Any, place: str) -> dict[str, Any]:
    """Settings from a file, whose names are those that there are."""
    if not isinstance(values, dict):
        raise UsageError(f"{place}: is no run.json, which madbayes fit writes")
    if strange := set(values) - {field.name for field in fields(Settings)}:
        raise UsageError(f"{place}: unknown settings {sorted(strange)}; it may be of a newer madbayes")
    return dict(values)


def penalty_of(text: Any) -> float | str:
    """A number, a share, or "auto"."""
    try:
        value: float | str = float(text)
    except (TypeError, ValueError):
        value = text
    with suppress(ValueError):
        # At no price each row would be a group.
        if not isinstance(text, bool) and 0 not in (choice := validation.check_penalty(value)):
            return value if choice.value is None else choice.value
    raise UsageError(f"--penalty {text}: give a positive number, a share such as 2%, or auto")


def check_jobs(jobs: Any) -> None:
    """At least one thread."""
    if type(jobs) is not int or jobs == 0 or jobs < -1:
        raise UsageError(f"--jobs {jobs}: it must be a number of threads, or -1 for all cores")


def names_of(given: list[str] | None, known: list[str]) -> list[str] | None:
    """Names of columns, separated by commas unless a column is called so."""
    if not given:
        return None
    return [name for one in given for name in ([one] if one in known else one.split(","))]


def current_command() -> str:
    """The command line as it was typed."""
    return shlex.join(["madbayes", *sys.argv[1:]])
