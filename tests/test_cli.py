import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import madbayes
from madbayes import cli
from madbayes.commands import app
from madbayes.experiments.parts import Outcome

COMMAND = [sys.executable, "-m", "madbayes.cli"]
PARTS = ["errors", "figure", "clusters", "times", "gibbs"]


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_version():
    found = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == f"madbayes {madbayes.__version__}\n"


@pytest.mark.parametrize("missing", cli.NEEDED)
def test_a_bare_install_says_what_to_install(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == f'The madbayes command needs {missing}: pip install "madbayes[app]"\n'


def test_a_bare_install_imports_nothing_that_is_not_there():
    code = "import sys; sys.modules.update(typer=None, rich=None); from madbayes.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr == 'The madbayes command needs typer, rich: pip install "madbayes[app]"\n'


def test_the_version_is_an_option_of_the_app():
    assert call("--version").output == f"madbayes {madbayes.__version__}\n"


def test_help_says_what_there_is():
    found = call("reproduce", "--help")
    assert found.exit_code == 0
    assert all(name in found.output for name in ("tabletop", "faces", "dice"))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run of the real command that a user stops in its third part: its folder, exit code and what it said."""
    out = tmp_path_factory.mktemp("cli") / "tabletop"
    words = ["reproduce", "tabletop", "--quick", "--jobs", "2", "--out", str(out)]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("Clustering"):
            os.kill(process.pid, signal.SIGINT)
            break
    output, rest = process.communicate(timeout=100)
    return out, process.returncode, output, "".join(said) + rest


def test_an_interrupt_keeps_what_is_finished(stopped):
    out, code, output, said = stopped
    assert code == 130
    assert f"Stopped. What is finished is in {out}" in said
    assert "Traceback" not in said
    assert "Griffiths and Ghahramani" in output
    assert "--data" in output
    assert {"errors.json", "figure.json", "figure-1.png"} <= {path.name for path in out.iterdir()}
    assert not (out / "clusters.json").exists()
    assert "Not finished yet: 3 of 5 parts." in (out / "verdict.txt").read_text()


@pytest.fixture(scope="module")
def resumed(stopped):
    """The same command again, until it ends."""
    found = call("reproduce", "tabletop", "--quick", "--jobs", 2, "--out", stopped[0])
    return stopped[0], found


def test_the_same_command_goes_on(resumed):
    out, found = resumed
    assert found.exit_code == 0, found.output
    assert "There already, not computed again: errors, figure." in found.output
    assert {path.stem for path in out.glob("*.json") if path.stem in PARTS} == set(PARTS)
    assert f"Everything on one page: {out / 'report.html'}" in found.output.replace("\n", " ")


def test_the_verdict_is_in_words_and_complete(resumed):
    out, found = resumed
    verdict = (out / "verdict.txt").read_text()
    for words in (
        "all give 5 features",
        "on a scale of the data that it does not state",
        "agree with the objects that the generated pictures show in 100.0%",
        "15 of 16 combinations occur",
        "clusters are needed to be as good as the features",
        "sweeps of the Gibbs sampler in compiled code took",
        'search="best" reached',
        "Gibbs samplers converged",
    ):
        assert words in verdict
        assert words in found.output
    assert "Not finished" not in verdict


def test_tables_and_figures_are_files_and_on_the_page(resumed):
    out, _ = resumed
    names = {path.name for path in out.iterdir()}
    assert {"errors-squared-errors.csv", "times-running-times.csv", "gibbs-histogram.csv", "figure-1.png"} <= names
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len([name for name in names if name.endswith(".png")])
    assert "http" not in page
    assert "<caption>running times</caption>" in page
    assert not [name for name in names if name.endswith(".part")]


def test_a_third_run_computes_nothing(resumed):
    out, _ = resumed
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.json") if path.stem in PARTS}
    found = call("reproduce", "tabletop", "--quick", "--jobs", 2, "--out", out)
    assert f"not computed again: {', '.join(PARTS)}." in found.output
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.json") if path.stem in PARTS} == before


def test_the_folder_of_another_experiment_is_refused(resumed):
    found = call("reproduce", "dice", "--quick", "--out", resumed[0])
    assert found.exit_code == 2
    assert "has the results of 'tabletop', not of 'dice'" in found.output


def test_dice_beside_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = call("reproduce", "dice", "--quick", "--seed", 1)
    assert found.exit_code == 0
    assert "the four pips are found exactly" in found.output
    assert (tmp_path / "reproduced-dice" / "report.html").exists()


def test_faces_from_a_folder(tmp_path):
    """Pictures as they come from a camera: files, here the generated faces."""
    from PIL import Image

    from madbayes.experiments.scenes import make_faces

    (X, names, shape), _ = make_faces((14, 11, 8, 7), random_state=0)
    folder = tmp_path / "faces"
    folder.mkdir()
    for name, x in zip(names, X, strict=True):
        Image.fromarray((255 * x.reshape(shape)).astype("uint8")).save(folder / f"{name}.png")
    found = call("reproduce", "faces", "--quick", "--data", folder, "--out", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "40 pictures of faces from a folder." in found.output
    rows = json.loads((tmp_path / "out" / "features.json").read_text())["tables"]["feature combinations"]
    assert sorted(row["faces"] for row in rows) == [7, 8, 11, 14]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tabletop", "--data", "{}/nowhere"], "is not a folder"),
        (["tabletop", "--data", "{}"], "has no pictures"),
        (["faces", "--data", "{}"], "has no pictures"),
        (["tabletop", "--data", "{}/pictures"], "are not the 100 tabletop pictures"),
        (["faces", "--data", "{}/pictures"], "one.png cannot be read as a picture"),
        (["tabletop", "--penalty", "0"], "--penalty 0: it must be a positive number"),
        (["dice", "--jobs", "0"], "--jobs 0: it must be a number of threads"),
        (["faces", "--penalty", "nan"], "--penalty nan: it must be a positive number"),
        (["tabletop", "--quick", "--out", "{}"], "is not empty and has no results of madbayes"),
    ],
)
def test_wrong_usage_is_said_in_one_line(words, message, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_text("no picture")
    out = [] if "--out" in words else ["--out", tmp_path / "out"]
    found = call("reproduce", *(word.format(tmp_path) for word in words), *out)
    assert found.exit_code == 2
    (line,) = [line for line in found.output.splitlines() if line.startswith("madbayes: ")]
    assert message in line
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "pictures"}
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_an_interrupt_is_no_traceback(tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("madbayes.commands.reproducing.run", stopped)
    found = call("reproduce", "dice", "--quick", "--out", tmp_path / "out")
    assert found.exit_code == 130
    assert "the same command goes on from there" in found.output


def test_warnings_are_notes(tmp_path, monkeypatch):
    def doubtful(experiment, out, progress):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("weak evidence for [groups]", UserWarning, stacklevel=1)
        progress("Half", 1, 2)
        return Outcome(["Done."], tmp_path / "report.html", [], [])

    monkeypatch.setattr("madbayes.commands.reproducing.run", doubtful)
    found = call("reproduce", "dice", "--quick", "--out", tmp_path / "out")
    assert "Note: weak evidence for [groups]" in found.output
    assert "UserWarning" not in found.output


def test_unknown_words_are_an_error():
    assert call("reproduce", "chairs").exit_code == 2
    assert call("reproduce", "dice", "--seed", "-1").exit_code == 2
