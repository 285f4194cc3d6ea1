"""Find the pips in noisy pictures of dice, without saying how many there are."""

import argparse
from pathlib import Path

from madbayes import StepwiseKFeatures
from madbayes.datasets import make_dice
from madbayes.display import plot_model

SIDE, PIXELS = 2, 4
# The price of one more feature: more squared error than a feature fitted to noise saves, less than a pip does.
PENALTY = 100.0


def print_table(model: StepwiseKFeatures) -> None:
    """How many features were found, at what objective, and how many rows carry each."""
    print(f"{'features found, K':<24}{model.n_components_:>8}")
    print(f"{'objective':<24}{model.objective_:>8.1f}")
    for k, n_carriers in enumerate(model.allocations_.sum(axis=0)):
        print(f"{f'rows with feature {k}':<24}{n_carriers:>8}")


def main() -> None:
    """Make the pictures, fit the model, print a table and write a picture of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="where the picture goes")
    out = parser.parse_args().out

    X = make_dice(side=SIDE, pixels=PIXELS, noise=0.3, random_state=0).X
    print(f"{len(X)} noisy pictures of a die, {X.shape[1]} pixels each; every pip is on or off by the toss of a coin.")
    model = StepwiseKFeatures(penalty=PENALTY, random_state=0).fit(X)
    print_table(model)

    out.mkdir(parents=True, exist_ok=True)
    picture = out / "dice.png"
    plot_model(X, model, shape=(SIDE * PIXELS, SIDE * PIXELS)).savefig(picture, dpi=150)
    print(f"The features, and some pictures rebuilt from them: {picture}")


if __name__ == "__main__":
    main()
