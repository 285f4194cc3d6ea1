import json
import re

import numpy as np
import pytest

from madbayes import BPMeans
from madbayes.datasets import make_linear_gaussian
from madbayes.display.figures import new_figure
from madbayes.experiments import parts
from madbayes.experiments.parts import Experiment, Findings, Folder, Part, data_digest, run
from madbayes.files import plain


def experiment(*some, data="data"):
    return Experiment("test", "A <test> & more", ["Where <it> comes from."], data, some)


def part(name, calls, settings=None, result=None):
    """A part that notes when it runs."""

    def findings(work):
        calls.append(name)
        if isinstance(result, BaseException):
            raise result
        rows = [{"a": np.float64(1.5), "b <c>": None}, {"a": np.inf, "b <c>": "x,y"}]
        return Findings([f"{name} is done."], {"one table": rows}, {"a figure": new_figure(1, 1)}, {"n": np.arange(2)})

    return Part(name, f"Title of {name}", findings, settings or {})


def test_everything_is_written(tmp_path):
    outcome = run(experiment(part("first", []), part("second", [])), tmp_path / "new" / "out")
    folder = outcome.page.parent
    assert {path.name for path in folder.iterdir()} == {
        *("first.json", "first-one-table.csv", "first-1.png", "second.json", "second-one-table.csv", "second-1.png"),
        *("report.html", "verdict.txt", "madbayes.json"),
    }
    assert (folder / "first-one-table.csv").read_text() == 'a,b <c>\n1.5,\n,"x,y"\n'
    assert (folder / "first-1.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((folder / "first.json").read_text())
    assert record["values"] == {"n": [0, 1]}
    assert record["tables"]["one table"][1] == {"a": None, "b <c>": "x,y"}
    assert outcome.verdict == ["first is done.", "second is done."]
    assert "first is done.\nsecond is done.\n" in (folder / "verdict.txt").read_text()


def test_the_page_needs_nothing_else_and_is_escaped(tmp_path):
    page = run(experiment(part("first", [])), tmp_path).page.read_text()
    assert "<h1>A &lt;test&gt; &amp; more</h1>" in page
    assert "Where &lt;it&gt; comes from." in page
    assert "<th>b &lt;c&gt;</th>" in page
    assert "<script" not in page
    sources = re.findall(r'(?:src|href)="([^"]{0,25})', page)
    assert sources == ["data:image/png;base64,iVB"]
    assert "http" not in page
    assert "url(" not in page


def test_a_second_run_computes_nothing(tmp_path):
    calls = []
    both = experiment(part("first", calls), part("second", calls))
    run(both, tmp_path)
    before = (tmp_path / "first.json").stat().st_mtime_ns
    outcome = run(both, tmp_path)
    assert calls == ["first", "second"]
    assert (outcome.computed, outcome.kept) == ([], ["first", "second"])
    assert outcome.verdict == ["first is done.", "second is done."]
    assert (tmp_path / "first.json").stat().st_mtime_ns == before


def test_other_settings_other_data_and_lost_files_are_computed_again(tmp_path):
    calls = []
    run(experiment(part("first", calls, {"seed": 0}), part("second", calls)), tmp_path)
    run(experiment(part("first", calls, {"seed": 1}), part("second", calls)), tmp_path)
    assert calls == ["first", "second", "first"]
    run(experiment(part("first", calls, {"seed": 1}), part("second", calls), data="other"), tmp_path)
    assert calls[3:] == ["first", "second"]
    (tmp_path / "second-1.png").unlink()
    run(experiment(part("first", calls, {"seed": 1}), part("second", calls), data="other"), tmp_path)
    assert calls[5:] == ["second"]


def test_other_code_computes_again(tmp_path, monkeypatch):
    calls = []
    run(experiment(part("first", calls)), tmp_path)
    monkeypatch.setattr(parts, "code_digest", lambda: "changed")
    run(experiment(part("first", calls)), tmp_path)
    assert calls == ["first", "first"]


def test_what_an_earlier_part_left_is_removed(tmp_path):
    run(experiment(part("first", [])), tmp_path)
    (tmp_path / "first-mine.csv").write_text("mine")
    bare = Part("first", "First", lambda work: Findings(["Bare."], {}, {}), {"seed": 1})
    run(experiment(bare), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"first.json", "first-mine.csv", "report.html", "verdict.txt", "madbayes.json"}


def test_an_interrupt_keeps_what_is_finished(tmp_path):
    calls = []
    stopped = part("second", calls, result=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(experiment(part("first", calls), stopped), tmp_path)
    assert "first is done." in (tmp_path / "report.html").read_text()
    assert "Not finished yet: 1 of 2 parts." in (tmp_path / "verdict.txt").read_text()
    outcome = run(experiment(part("first", calls), part("second", calls)), tmp_path)
    assert outcome.computed == ["second"]
    assert calls == ["first", "second", "second"]
    assert "Not finished" not in (tmp_path / "verdict.txt").read_text()


def test_a_fit_that_was_interrupted_is_no_result(tmp_path):
    """Estimators keep the best of the restarts that they have, with a warning; a part made of that is not kept."""

    def findings(work):
        class Impatient(BPMeans):
            _batch = staticmethod(lambda problem: 1)

            def _run(self, *args):
                if len(calls) == 3:
                    raise KeyboardInterrupt
                calls.append(1)
                return super()._run(*args)

        Impatient(50.0, search="paper", n_init=10, random_state=0).fit(make_linear_gaussian(20, random_state=0).X)
        raise AssertionError("the fit should not have come back")

    calls = []
    with pytest.raises(KeyboardInterrupt):
        run(experiment(Part("first", "First", findings)), tmp_path)
    assert len(calls) == 3
    assert not (tmp_path / "first.json").exists()


def test_pieces_are_kept_when_a_part_is_not_finished(tmp_path):
    computed = []

    def findings(work, n_pieces):
        def compute(number):
            computed.append(number)
            return {"K": np.int64(number)}

        found = [work.piece(f"n{number}", lambda number=number: compute(number))["K"] for number in range(n_pieces)]
        if n_pieces < 3:
            raise KeyboardInterrupt
        return Findings([f"sum {sum(found)}"], {}, {})

    with pytest.raises(KeyboardInterrupt):
        run(experiment(Part("first", "First", lambda work: findings(work, 2))), tmp_path)
    assert run(experiment(Part("first", "First", lambda work: findings(work, 3))), tmp_path).verdict == ["sum 3"]
    assert computed == [0, 1, 2]
    changed = Part("first", "First", lambda work: findings(work, 3), {"seed": 1})
    run(experiment(changed), tmp_path)
    assert computed == [0, 1, 2, 0, 1, 2]


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and has no results of madbayes"):
        run(experiment(part("first", [])), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(FileExistsError, match="is a file"):
        run(experiment(part("first", [])), tmp_path / "mine.txt")


def test_a_file_that_came_later_is_left_alone(tmp_path):
    run(experiment(part("first", [])), tmp_path)
    (tmp_path / "second.json").write_text("mine")
    with pytest.raises(FileExistsError, match=r"second.json' was not written by madbayes"):
        run(experiment(part("first", []), part("second", [])), tmp_path)
    assert (tmp_path / "second.json").read_text() == "mine"


def test_the_folder_of_another_experiment_is_refused(tmp_path):
    Folder(tmp_path, "faces")
    with pytest.raises(FileExistsError, match="has the results of 'faces', not of 'test'"):
        run(experiment(part("first", [])), tmp_path)


@pytest.mark.parametrize("content", ["no json", "[]", "{}", "3"])
def test_a_file_that_is_only_called_like_ours(tmp_path, content):
    (tmp_path / parts.MANIFEST).write_text(content)
    with pytest.raises(FileExistsError, match="no results of madbayes"):
        Folder(tmp_path, "test")
    assert (tmp_path / parts.MANIFEST).read_text() == content


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    folder = Folder(tmp_path, "test")
    folder.write("a.txt", b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        folder.write("a.txt", b"new")
    assert (tmp_path / "a.txt").read_bytes() == b"old"


def test_progress_names_the_parts(tmp_path):
    said = []
    run(experiment(part("first", [])), tmp_path, lambda words, done, total: said.append((words, done, total)))
    assert said == [("Title of first", 0, 0)]


def test_plain_values():
    value = {"a": np.float32(0.5), 3: (np.nan, np.bool_(True)), "c": np.array([[1, 2]])}
    assert plain(value) == {"a": 0.5, "3": [None, True], "c": [[1, 2]]}


def test_data_with_other_shapes_have_other_fingerprints():
    X = np.arange(6.0)
    assert data_digest(X) == data_digest(X.copy())
    assert len({data_digest(X), data_digest(X.reshape(2, 3)), data_digest(X.astype(np.float32)), data_digest(-X)}) == 4
