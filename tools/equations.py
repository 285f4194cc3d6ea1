"""Which function implements which equation of the paper: docs/equations.md, made from the docstrings.

Run ``python tools/equations.py`` to write the file, with ``--check`` to ask whether it is up to date.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path("docs/equations.md")
FOLDERS = ("src/madbayes", "tests")

EQUATIONS = {
    1: "Probability of a clustering under the Chinese restaurant process",
    2: "Small-variance limit of the CRP Gaussian mixture",
    3: "DP-means objective",
    4: "Probability of a feature allocation under the Indian buffet process",
    5: "Linear-Gaussian likelihood",
    6: "BP-means objective",
    7: "Linear-Gaussian likelihood with the means integrated out",
    8: "Collapsed DP-means objective",
    9: "Collapsed DP-means objective, about the empirical cluster means",
    10: "Collapsed BP-means objective",
    11: "Probability of an assignment to at most K clusters",
    12: "DP-means objective with at most K clusters",
    13: "Probability of an allocation of at most K features",
    14: "K-features objective",
    15: "BP-means objective with at most K features",
    16: "Gradient of the squared error with respect to the feature means",
}
BOXES = ("BP-means algorithm", "Collapsed DP-means algorithm", "Collapsed BP-means algorithm", "K-features algorithm")

HEAD = """\
# Where the paper is in the code

Broderick, Kulis and Jordan, *MAD-Bayes: MAP-based Asymptotic Derivations from Bayes*, ICML 2013. This page is made
from the docstrings by `make equations`.
"""


class Citation(NamedTuple):
    """One ``Paper:`` line of a docstring."""

    path: str  # relative to the root, with forward slashes
    name: str  # Class.method
    summary: str  # first line of the docstring
    text: str  # what follows "Paper: "
    is_function: bool

    @property
    def link(self) -> str:
        """Markdown link from the docs folder."""
        return f"[`{self.name}`](../{self.path})"

    @property
    def remark(self) -> str:
        """What the docstring says after the place it cites."""
        return self.text.partition(", ")[2].rstrip(".")


class Docstring(NamedTuple):
    """A function or class and its docstring."""

    path: str
    name: str
    text: str
    is_function: bool


def walk(node: ast.AST, path: str, prefix: str = "") -> Iterator[Docstring]:
    """Docstrings of the functions and classes below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            text = ast.get_docstring(child) or ""
            yield Docstring(path, name, text, isinstance(child, ast.FunctionDef))
            yield from walk(child, path, f"{name}.")
        else:
            yield from walk(child, path, prefix)


def read_docstrings(root: Path = ROOT) -> list[Docstring]:
    """Docstrings of all functions and classes of the package and its tests, file by file."""
    files = sorted(file for folder in FOLDERS for file in (root / folder).rglob("*.py"))
    return [found for file in files for found in walk(ast.parse(file.read_text()), file.relative_to(root).as_posix())]


def read_citations(root: Path = ROOT) -> list[Citation]:
    """All ``Paper:`` paragraphs of the docstrings; a long one may go on in the next line."""
    return [
        Citation(found.path, found.name, found.text.splitlines()[0], " ".join(paragraph.split()), found.is_function)
        for found in read_docstrings(root)
        for paragraph in re.findall(r"^Paper: (.+?)(?:\n\s*\n|\Z)", found.text, flags=re.MULTILINE | re.DOTALL)
    ]


def select(citations: list[Citation], place: str) -> list[Citation]:
    """Functions that cite this equation or box."""
    return [citation for citation in citations if citation.is_function and citation.text.startswith(place)]


def format_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def format_place(citations: list[Citation]) -> tuple[str, str]:
    """Where an equation or box is, and what departs from the print."""
    links = ", ".join(citation.link for citation in citations) or "missing"
    return links, "; ".join(citation.remark for citation in citations if citation.remark)


def render(citations: list[Citation]) -> str:
    """The whole page."""
    equations = [
        (f"({n})", title, *format_place(select(citations, f"equation ({n})"))) for n, title in EQUATIONS.items()
    ]
    boxes = [(box, *format_place(select(citations, f'box "{box}"'))) for box in BOXES]
    others = sorted(
        (citation.text.rstrip("."), citation.summary.rstrip("."), citation.link)
        for citation in citations
        if citation.text.startswith(("section ", "Appendix "))
    )
    parts = [
        ("Equations", format_table(("", "What it is", "Where", "Remark"), equations)),
        ("Boxes", format_table(("Box", "Where", "Remark"), boxes)),
        ("Sections", format_table(("Place", "What it is", "Where"), others)),
    ]
    return HEAD + "".join(f"\n## {title}\n\n{table}" for title, table in parts)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write the page, or compare it with the docstrings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is stale")
    check = parser.parse_args(arguments).check
    target, page = root / TARGET, render(read_citations(root))
    if check:
        stale = not target.exists() or target.read_text(encoding="utf-8") != page
        print(f"{TARGET} is {'stale: run make equations' if stale else 'up to date'}")
        return int(stale)
    target.parent.mkdir(exist_ok=True)
    target.write_text(page, encoding="utf-8")
    print(f"Wrote {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
