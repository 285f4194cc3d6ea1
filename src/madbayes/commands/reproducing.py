"""``madbayes reproduce``: the paper's experiments."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from madbayes.commands.console import bars
from madbayes.commands.errors import Code, errors_in_one_line, stop
from madbayes.commands.options import check_jobs
from madbayes.experiments import dice, faces, tabletop
from madbayes.experiments.parts import Experiment, Progress, check_folder, run
from madbayes.experiments.tabletop_setup import PENALTY

reproduce = typer.Typer(help="The paper's experiments, its tables and figures next to ours.", no_args_is_help=True)

Out = Annotated[
    Path | None, typer.Option(help="Folder for the results.  [default: reproduced-EXPERIMENT]", show_default=False)
]
Data = Annotated[Path | None, typer.Option(help="Folder with the pictures; without it, generated ones stand in.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same answers.")]
Jobs = Annotated[int, typer.Option(help="Threads; -1 is all cores.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few restarts and short chains, to see that it works.")]


@reproduce.command(name="tabletop")
def reproduce_tabletop(
    data: Data = None,
    out: Out = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    penalty: Annotated[float, typer.Option(help="The price of one more feature.")] = PENALTY,
    quick: Quick = False,
) -> None:
    """Four objects on a table: squared errors, features as pictures, clusters, running times, Gibbs samplers."""
    check_options(penalty, jobs)
    reproduce_one(
        "tabletop", out, lambda: tabletop.experiment(data, penalty=penalty, seed=seed, n_jobs=jobs, quick=quick)
    )


@reproduce.command(name="faces")
def reproduce_faces(
    data: Data = None,
    out: Out = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    penalty: Annotated[
        float | None, typer.Option(help="The price of one more feature; by default one at which three are best.")
    ] = None,
    quick: Quick = False,
) -> None:
    """Aligned faces: features beside clusters."""
    check_options(penalty, jobs)
    reproduce_one("faces", out, lambda: faces.experiment(data, penalty=penalty, seed=seed, n_jobs=jobs, quick=quick))


@reproduce.command(name="dice")
def reproduce_dice(out: Out = None, seed: Seed = 0, jobs: Jobs = -1, quick: Quick = False) -> None:
    """Dice and bars, whose features are known."""
    check_options(None, jobs)
    reproduce_one("dice", out, lambda: dice.experiment(seed=seed, n_jobs=jobs, quick=quick))


def check_options(penalty: float | None, jobs: int) -> None:
    """A price is a positive number, and there is at least one thread."""
    with errors_in_one_line(as_json=False):
        check_jobs(jobs)
    if penalty is not None and not 0 < penalty < float("inf"):
        stop(f"--penalty {penalty:g}: it must be a positive number")


def reproduce_one(name: str, out: Path | None, make: Callable[[], Experiment]) -> None:
    """Run an experiment; say what is going on, what was found, and where it is."""
    folder = Path(f"reproduced-{name}") if out is None else out
    try:
        with bars() as progress:
            experiment = read(name, folder, make, progress)
            outcome = run(experiment, folder, progress)
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What is finished is in {folder}; the same command goes on from there.", err=True)
        raise typer.Exit(Code.INTERRUPTED) from None
    except OSError as error:
        stop(error)
    for sentence in outcome.verdict:
        typer.echo(f"- {sentence}")
    if outcome.kept:
        typer.echo(f"There already, not computed again: {', '.join(outcome.kept)}.")
    typer.echo(f"Everything on one page: {outcome.page}")


def read(name: str, folder: Path, make: Callable[[], Experiment], progress: Progress) -> Experiment:
    """The data, if there is a place for the results; what they are is said."""
    progress("Pictures", 0, 0)
    try:
        check_folder(folder, name)
        experiment = make()
    except ValueError as error:
        stop(error)
    for sentence in experiment.about:
        typer.echo(sentence)
    return experiment
