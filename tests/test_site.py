import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

import madbayes.datasets
import madbayes.display
import madbayes.model
import madbayes.paper

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(file.stem for file in (ROOT / "examples").glob("*.py"))


class Page(HTMLParser):
    """What a page loads, where it leads, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag in ("script", "img", "link", "iframe", "source") and attributes.get("rel") != "canonical":
            self.loads += [attributes[key] for key in ("src", "href") if attributes.get(key)]
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])


def build(folder):
    """Build the site; the examples run on the way, where their pictures are not up to date."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)


# One test for all that is asked of the site: a build takes long.
def test_site_is_built_without_warnings_complete_and_loads_nothing_from_elsewhere(tmp_path):
    run = build(tmp_path)
    assert run.returncode == 0, run.stderr
    site = {file.relative_to(tmp_path).as_posix(): Page(file.read_text("utf-8")) for file in tmp_path.rglob("*.html")}
    assert {load for page in site.values() for load in page.loads if re.match(r"(https?:)?//", load)} == set()
    reference = set().union(*(page.anchors for name, page in site.items() if name.startswith("reference/")))
    assert [name for name in public_names() if name not in reference] == []
    # A link into the code leads to the reference, and one from the README to a page.
    assert "reference/model.html#madbayes.model.priors.CRP.log_prob" in site["equations.html"].links
    assert "paper.html" in site["index.html"].links
    assert [name for name in site if ":func:<code>" in (tmp_path / name).read_text("utf-8")] == []
    assert "<math" in (tmp_path / "limit.html").read_text("utf-8")
    for name in EXAMPLES:
        assert name in site["gallery.html"].anchors
        assert_drawn(tmp_path / "gallery" / f"{name}.png")


def assert_drawn(picture):
    """A picture of some size with more on it than a frame."""
    pixels = image.imread(picture)[..., :3]
    assert min(pixels.shape[:2]) > 200
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


def public_names():
    """Everything that is meant for users: as ``madbayes.name``, or by the module where it stands."""
    yield from (f"madbayes.{name}" for name in madbayes.__all__)
    yield from (f"madbayes.display.{name}" for name in madbayes.display.__all__)
    for package in (madbayes.model, madbayes.paper, madbayes.datasets):
        yield from (f"{getattr(package, name).__module__}.{name}" for name in package.__all__)


@pytest.fixture
def hooks():
    """The hooks, imported as MkDocs does."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "tools" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("uri", "link", "expected"),
    [
        ("index.md", "[a](docs/search.md)", "[a](search.md)"),
        ("index.md", "[a](docs/search.md#b)", "[a](search.md#b)"),
        ("index.md", "![a](docs/images/dice.png)", "![a](images/dice.png)"),
        ("index.md", "[a](benchmarks/README.md)", "[a](benchmarks.md)"),
        ("index.md", "[a](CITATION.cff)", "a"),
        ("how-to/weights.md", "[a](../gallery.md#weights)", "[a](../gallery.md#weights)"),
        ("tutorial/features.md", "[a](images.md)", "[a](images.md)"),
        ("equations.md", "[`F.g`](../src/madbayes/model/priors.py)", "[`F.g`][madbayes.model.priors.F.g]"),
        ("equations.md", "[`f`](../tests/model/test_objective.py)", "`f`"),
        ("index.md", "[a](https://b.c/d.md)", "[a](https://b.c/d.md)"),
        ("index.md", "[a](#b)", "[a](#b)"),
    ],
)
def test_links_lead_to_where_things_are_on_the_site(hooks, uri, link, expected):
    fenced = f"```\n{link}\n```"
    changed = hooks.outside_fences(f"{link}\n\n{fenced}\n", hooks.to_site(uri))
    assert changed == f"{expected}\n\n{fenced}\n"


def test_an_example_that_warns_stops_the_build(hooks, tmp_path, monkeypatch):
    monkeypatch.setattr(hooks, "GALLERY", tmp_path)
    example = tmp_path / "loud.py"
    example.write_text('"""Title."""\nimport warnings\nwarnings.warn("something is wrong")\n')
    with pytest.raises(UserWarning, match="something is wrong"):
        hooks.run_example(example, newest=0.0)
    assert not (tmp_path / "loud" / "printed.txt").exists()  # it runs again next time
