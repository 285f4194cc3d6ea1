import json

from madbayes.experiments import dice
from madbayes.experiments.parts import run


def test_the_pips_are_found_exactly_and_the_shapes_up_to_noise(tmp_path):
    outcome = run(dice.experiment(n_jobs=None), tmp_path / "out")
    (found,) = json.loads((tmp_path / "out" / "dice.json").read_text())["tables"]["recovery"]
    assert (found["found"], found["memberships that agree"]) == (4, 1)
    assert found["squared error"] < 1e-20
    (bars,) = json.loads((tmp_path / "out" / "bars.json").read_text())["tables"]["recovery"]
    assert bars["found"] == 4
    assert bars["memberships that agree"] > 0.95
    assert "found exactly" in outcome.verdict[0]
