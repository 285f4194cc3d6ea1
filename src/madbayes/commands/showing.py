"""``madbayes demo``: a table and pictures that are made up, from data to report."""

from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from madbayes.commands import options, results
from madbayes.commands.console import log, talking
from madbayes.commands.errors import Code, interrupts, one_line
from madbayes.commands.fitting import fit_table
from madbayes.commands.options import Settings
from madbayes.commands.results import open_model
from madbayes.datasets import make_dice
from madbayes.display import plot_model
from madbayes.display.figures import png_of
from madbayes.files import write_whole

SIDE, PIXELS = 2, 4
CUSTOMERS, DICE = "customers.csv", "dice.npy"
# Customers of four kinds: how many, age, income, orders a year, share of returns, how they order, newsletter.
KINDS = (
    (220, 27, 28_000, 18, 0.30, ("app", "web", "shop"), 0.8),
    (180, 45, 62_000, 9, 0.08, ("web", "app", "shop"), 0.5),
    (130, 68, 31_000, 3, 0.04, ("shop", "web", "app"), 0.1),
    (70, 39, 145_000, 30, 0.15, ("web", "app", "shop"), 0.6),
)


@one_line
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for data and results.")] = Path("madbayes-demo"),
    force: options.ForceOption = False,
    seed: options.SeedOption = 0,
    jobs: options.JobsOption = -1,
) -> None:
    """Two examples from data to report: customers in a CSV (clusters), and pictures of dice (features)."""
    with talking() as talk, interrupts() as stopped:
        options.checked(Settings(seed=seed, jobs=jobs))
        results.check_folder(out, force=force)
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / CUSTOMERS, make_customers(seed).to_csv(index=False).encode())
        X = make_dice(side=SIDE, pixels=PIXELS, noise=0.3, random_state=seed).X
        write_array(out / DICE, X.reshape(len(X), SIDE * PIXELS, SIDE * PIXELS))
        for name, kind, missing in ((CUSTOMERS, "clusters", "median"), (DICE, "features", "error")):
            place = out / Path(name).stem
            log.info("\n$ madbayes fit %s --kind %s --missing %s --out %s", out / name, kind, missing, place)
            settings = Settings(str((out / name).absolute()), kind, missing=missing, seed=seed, jobs=jobs)
            outcome = fit_table(settings, place, talk, stopped, force=force)
            typer.echo(f"{outcome.words}\n")
            if stopped.happened:
                raise typer.Exit(Code.INTERRUPTED)
        write_picture(out / "dice.png", X, open_model(out / Path(DICE).stem).model)
    for name in (CUSTOMERS, DICE):
        typer.echo(f"Report: {out / Path(name).stem / results.REPORT}")
    typer.echo(f"The pips that were found, and dice rebuilt from them: {out / 'dice.png'}")


def write_array(path: Path, array: np.ndarray) -> None:
    """An array as a file, whole or not at all."""
    buffer = BytesIO()
    np.save(buffer, array)
    write_whole(path, buffer.getvalue())


def write_picture(path: Path, X: np.ndarray, model: Any) -> None:
    """The features of the dice, and some of them rebuilt."""
    write_whole(path, png_of(plot_model(X, model, shape=(SIDE * PIXELS, SIDE * PIXELS)), dpi=150))


def make_customers(seed: int) -> pd.DataFrame:
    """A table as it comes: an identifier, numbers of all scales, text, true and false, dates, missing values."""
    rng = np.random.default_rng(seed)
    parts = []
    for size, age, income, orders, returned, channels, newsletter in KINDS:
        parts.append(
            pd.DataFrame(
                {
                    "age": np.clip(rng.normal(age, 4, size), 18, 95).round(),
                    "income": rng.lognormal(np.log(income), 0.12, size).round(-2),
                    "orders": rng.poisson(orders, size),
                    "returned": rng.beta(90 * returned, 90 * (1 - returned), size).round(3),
                    "channel": rng.choice(channels, size, p=(0.8, 0.15, 0.05)),
                    "newsletter": rng.random(size) < newsletter,
                }
            )
        )
    table = pd.concat(parts).sample(frac=1, random_state=seed).reset_index(drop=True)
    table.insert(0, "customer", [f"C{n:05d}" for n in rng.permutation(99_999)[: len(table)]])
    days = rng.integers(0, 2000, len(table))
    table.insert(1, "since", (pd.Timestamp("2019-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d"))
    table["currency"] = "EUR"
    table.loc[rng.choice(len(table), 12, replace=False), "income"] = np.nan
    return table
