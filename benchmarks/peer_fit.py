"""Fit a peer's estimator in the peer's own environment; needs nothing but NumPy and the peer.

Usage: python peer_fit.py MODULE.CLASS PARAMETERS FOLDER, with the parameters as JSON and the table in FOLDER/X.npy.
Prints the seconds of fit as JSON and leaves the labels in FOLDER/labels.npy.
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    """Load, fit, report."""
    name, parameters, place = sys.argv[1:]
    module, _, estimator = name.rpartition(".")
    folder = Path(place)
    X = np.load(folder / "X.npy")
    model = getattr(importlib.import_module(module), estimator)(**json.loads(parameters))
    start = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - start
    np.save(folder / "labels.npy", model.labels_)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
