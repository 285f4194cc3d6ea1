"""Write the model files that the tests keep for each version of the format: ``python tools/model_fixtures.py``.

Files that are there are left alone: they show that what was written once can still be read. Remove one
to write it anew.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from madbayes import BPMeans, DPMeans, save
from madbayes.io.archive import VERSION

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data"


def cluster_rows() -> NDArray[np.float64]:
    """Thirty rows around three places."""
    return np.array([[10.0 * (n % 3 == 0) + n % 5, 10.0 * (n % 3 == 1) + n % 4] for n in range(30)])


def feature_rows() -> NDArray[np.float64]:
    """Every sum of three rows, four times, with a little beside."""
    parts = np.array([[8.0, 0, 0, 1], [0, 6, 0, 2], [0, 0, 4, 3]])
    codes = np.array([[n >> k & 1 for k in range(3)] for n in range(32)])
    return codes @ parts + 0.05 * np.array([[(3 * n + d) % 5 for d in range(4)] for n in range(32)])


def table() -> pd.DataFrame:
    """The rows around three places as a table with words and gaps."""
    rows = cluster_rows()
    frame = pd.DataFrame({"height": rows[:, 0], "width": rows[:, 1]})
    frame["colour"] = pd.Series(["red", "green", "blue"] * 10, dtype=object)
    frame.loc[[4, 9], "width"] = np.nan
    return frame


def models() -> dict[str, Any]:
    """The fitted models, by the names of their files."""
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["height", "width"]),
            ("words", OneHotEncoder(sparse_output=False), ["colour"]),
        ]
    )
    steps = [("columns", columns), ("pca", PCA(3, svd_solver="full")), ("model", DPMeans("10%", random_state=0))]
    return {
        "clusters": DPMeans(max_clusters=4, random_state=0).fit(cluster_rows()),
        "features": BPMeans(max_components=4, random_state=0).fit(feature_rows().astype(np.float32)),
        "pipeline": Pipeline(steps).fit(table()),
    }


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, model in models().items():
        path = FOLDER / f"{name}-v{VERSION}.madbayes"
        if not path.exists():
            save(model, path)


if __name__ == "__main__":
    main()
