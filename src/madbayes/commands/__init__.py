"""The commands of ``madbayes``, with Typer and Rich."""

from typing import Annotated

import typer

import madbayes
from madbayes.commands.applying import apply, info
from madbayes.commands.comparing import compare
from madbayes.commands.errors import Commands
from madbayes.commands.fitting import fit, path
from madbayes.commands.reporting import report
from madbayes.commands.reproducing import reproduce
from madbayes.commands.showing import demo

HELP = """
Groups in tables without being told how many there are.

From a CSV to a report: **madbayes fit table.csv**. To see an example: **madbayes demo**.

Words used here:

- **clusters**: one group per row. **features**: any number of groups per row; a row is the sum of its groups.

- **penalty**: the price of one more group, in squared error; the higher it is, the fewer groups there are.

- **component**: what a group looks like: the mean of a cluster, or what a feature adds.

- **margin**: how much worse the next best group, or one change of a row's features, fits it. **error**: its squared
distance from its groups. **unusual**: an error above those of 99 % of the rows of the fit.

Exit codes: 0 done; 1 failed; 2 something to put right in the command, the table or the model; 3 compare: more rows have
moved than allowed; 4 the result could not be written; 130 stopped by Ctrl-C (what was found until then is kept).
"""

app = typer.Typer(
    name="madbayes",
    cls=Commands,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (fit, apply, path, report, compare, info, demo):
    app.command()(command)
app.add_typer(reproduce, name="reproduce")


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"madbayes {madbayes.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""
