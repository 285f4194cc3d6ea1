import numpy as np
import pandas as pd
import pytest

from madbayes import BPMeans, DPMeans, stability
from madbayes.datasets import make_dice
from madbayes.report import render_report
from madbayes.tables import Recipe

# What would run if it were not escaped, in all the places where a user's words go.
SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
END = "</script><script>alert(2)</script>"


class Made:
    """A fit, and the page about it."""

    def __init__(self, model, X, **about):
        self.model, self.X, self.about = model, X, about
        self.page = render_report(model, X, **about)


@pytest.fixture(scope="session")
def houses():
    """Three kinds of houses, with names that try to escape."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], [40, 30, 20])
    frame = pd.DataFrame(
        {
            "id": [f"house '{n}' {IMAGE}" if n % 7 == 0 else f"house {n}" for n in range(90)],
            "price": np.array([2e5, 5e5, 9e5])[kind] + rng.normal(0, 2e4, 90),
            SCRIPT: np.array([3.0, 9.0, 3.0])[kind] + rng.normal(0, 0.5, 90),
            "roof": np.where(kind == 1, END, "flat"),
            "note": ["=1+1"] * 90,
        }
    )
    recipe = Recipe(id_column="id")
    X = recipe.fit_transform(frame)
    model = DPMeans(random_state=0).fit(X).rename({0: IMAGE, 1: SCRIPT})
    refits = stability(X, model, n_refits=4, random_state=0)
    run = {"title": f"Houses {SCRIPT}", "command": f"madbayes fit {END}", "seed": 0, SCRIPT: {IMAGE: END}}
    return Made(model, X, recipe=recipe, ids=frame["id"], frame=frame, stability=refits, run=run)


@pytest.fixture(scope="session")
def dice():
    """Pictures of dice, and the pips they are made of."""
    X = make_dice(noise=0.2, random_state=0).X
    return Made(BPMeans(random_state=0).fit(X), X, image_shape=(8, 8))
