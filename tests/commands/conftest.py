import numpy as np
import pytest
from tests.commands.helpers import call, make_table


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "customers.csv"
    make_table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def result(table):
    """What a fit leaves behind; not to be changed."""
    out = table.parent / "result"
    found = call("fit", table, "--out", out, "--refits", 3)
    assert found.exit_code == 0, found.output
    return out


@pytest.fixture(scope="session")
def features(tmp_path_factory):
    """The same for features of pictures."""
    from madbayes.datasets import make_dice

    folder = tmp_path_factory.mktemp("features")
    X, Z, _ = make_dice(n_rows=80, noise=0.2, random_state=0)
    np.save(folder / "dice.npy", X.reshape(-1, 8, 8))
    np.save(folder / "truth.npy", Z)
    found = call("fit", folder / "dice.npy", "--kind", "features", "--out", folder / "result", "--refits", 0)
    assert found.exit_code == 0, found.output
    return folder
