import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("equations", ROOT / "tools" / "equations.py")
equations = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(equations)

FUNCTIONS = [found for found in equations.read_docstrings(ROOT) if found.is_function]
CITATIONS = equations.read_citations(ROOT)


def mentions(pattern):
    """Names of the functions whose docstring has the pattern, once for each time."""
    return [found.name for found in FUNCTIONS for _ in re.findall(pattern, " ".join(found.text.split()))]


@pytest.mark.parametrize("n", range(1, 17))
def test_each_equation_has_one_function(n):
    (citation,) = equations.select(CITATIONS, f"equation ({n})")
    assert mentions(rf"equations? \({n}\)") == [citation.name]


@pytest.mark.parametrize("box", equations.BOXES)
def test_each_box_has_one_function(box):
    (citation,) = equations.select(CITATIONS, f'box "{box}"')
    assert mentions(f'box "{box}"') == [citation.name]


def test_every_citation_is_of_a_known_form():
    places = r'equation \((?:[1-9]|1[0-6])\)|section [1-5]|Appendix [A-F]|box "(?:' + "|".join(equations.BOXES) + ')"'
    assert [citation.text for citation in CITATIONS if not re.match(places, citation.text)] == []


def test_the_limit_is_a_test_and_the_gradient_is_least_squares():
    (limit,) = equations.select(CITATIONS, "equation (2)")
    assert limit.path.startswith("tests/model/")
    assert limit.name.startswith("test_")
    (gradient,) = equations.select(CITATIONS, "equation (16)")
    assert gradient.name == "least_squares"


def test_the_page_is_up_to_date():
    page = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    assert page == equations.render(CITATIONS), "run make equations"


SOURCE = '''
"""Paper: equation (1). A module is not listed."""


class Prior:
    """The prior.

    Paper: section 4.2.
    """

    def log_prob(self):
        """Log of p(X | Z).

        Paper: equation (7), with the identity K x K
        and not D x D.

        Examples
        --------
        """


def bp_means():
    """BP-means.

    Paper: box "BP-means algorithm".
    """


def walk():
    """One step | another.

    Paper: Appendix E.
    """
'''


@pytest.fixture
def tree(tmp_path):
    """A root folder with one source file and an empty tests folder."""
    package = tmp_path / "src" / "madbayes"
    package.mkdir(parents=True)
    (package / "priors.py").write_text(SOURCE)
    (tmp_path / "tests").mkdir()
    return tmp_path


def test_citations_are_read_from_functions_and_classes(tree):
    found = [(citation.name, citation.text) for citation in equations.read_citations(tree)]
    assert found == [
        ("Prior", "section 4.2."),
        ("Prior.log_prob", "equation (7), with the identity K x K and not D x D."),
        ("bp_means", 'box "BP-means algorithm".'),
        ("walk", "Appendix E."),
    ]


def test_the_page_links_to_files_and_says_what_is_missing(tree):
    lines = equations.render(equations.read_citations(tree)).splitlines()
    link = "../src/madbayes/priors.py"
    assert f"| (1) | {equations.EQUATIONS[1]} | missing |  |" in lines
    assert (
        f"| (7) | {equations.EQUATIONS[7]} | [`Prior.log_prob`]({link}) | with the identity K x K and not D x D |"
        in lines
    )
    assert f"| BP-means algorithm | [`bp_means`]({link}) |  |" in lines
    assert f"| section 4.2 | The prior | [`Prior`]({link}) |" in lines
    assert rf"| Appendix E | One step \| another | [`walk`]({link}) |" in lines


def test_check_tells_a_stale_page(tree, capsys):
    assert equations.main(["--check"], tree) == 1
    assert equations.main([], tree) == 0
    assert equations.main(["--check"], tree) == 0
    with (tree / "docs" / "equations.md").open("a") as page:
        page.write("more\n")
    assert equations.main(["--check"], tree) == 1
    assert "stale" in capsys.readouterr().out.splitlines()[-1]
