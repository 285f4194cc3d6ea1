import numpy as np
import pandas as pd
from typer.testing import CliRunner

from madbayes.commands import app


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def make_table(n_rows=60, seed=0):
    """Three kinds of customers that nobody could mix up."""
    rng = np.random.default_rng(seed)
    k = np.arange(n_rows) % 3
    return pd.DataFrame(
        {
            "customer": [f"C{n}" for n in range(n_rows)],
            "income": np.array([2e4, 5e4, 9e4])[k] + 2e3 * rng.normal(size=n_rows),
            "age": np.array([25, 60, 40])[k] + 2 * rng.normal(size=n_rows),
            "channel": np.array(["app", "web", "shop"])[k],
        }
    )


def says(found, code, words):
    """Exactly one line begins with the name of the command, and says this."""
    assert found.exit_code == code, found.output
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("madbayes: ")]
    assert words in line
    assert "Traceback" not in found.output
