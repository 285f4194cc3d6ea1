"""What MkDocs cannot do alone: the gallery, pages that live outside docs/, links into the code, and mathematics.

MkDocs calls the functions ``on_...`` at the steps of a build; mkdocs.yml names this file.
"""

import contextlib
import io
import os
import posixpath
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "build" / "gallery"
# Pages of the site that are files elsewhere in the repository.
ELSEWHERE = {
    "index.md": "README.md",
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
FENCED = re.compile(r"^([ \t]*)```.*?^\1```[ \t]*$", flags=re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":(?:attr|class|func|meth|mod):<code>~?(?:[\w.]+\.)?(\w+)</code>")
LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)\)")


class Example(NamedTuple):
    """A script in examples/, what it printed, and the picture it wrote."""

    name: str
    title: str  # first line of its docstring
    words: str  # the rest of it
    source: str
    printed: str
    picture: Path


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let blocks of mathematics become MathML, which browsers show without a script."""
    fence = {"name": "math", "class": "math", "format": format_math}
    config["mdx_configs"].setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def format_math(source: str, *_: Any, **__: Any) -> str:
    """MathML of a block of LaTeX."""
    return f'<div class="math">{convert(source.strip(), display="block")}</div>'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere and the pictures of the examples."""
    for uri, path in ELSEWHERE.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    for example in run_examples():
        files.append(File.generated(config, f"gallery/{example.name}.png", abs_src_path=str(example.picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the examples into the gallery, and lead links to where things are on the site."""
    uri = page.file.src_uri
    if uri == "gallery.md":
        markdown += "".join(format_example(example) for example in run_examples())
    return outside_fences(markdown, to_site(uri))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Names in docstrings without the roles that only Sphinx knows."""
    return ROLE.sub(r"<code>\1</code>", html)


def to_site(uri: str) -> Callable[[str], str]:
    """Changes the links in a text of a page."""
    return lambda text: LINK.sub(lambda link: translate_link(link, uri), text)


def outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    """Markdown with everything but its fenced blocks changed."""
    parts, end = [], 0
    for block in FENCED.finditer(markdown):
        parts += [change(markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(markdown[end:])])


def translate_link(link: re.Match[str], uri: str) -> str:
    """A link as it has to be on the site, where the repository around docs/ does not exist."""
    label, (target, hash_, anchor) = link[1], link[2].partition("#")
    if not target or "://" in target:
        return link[0]
    here = ELSEWHERE.get(uri, f"docs/{uri}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    there = {path: uri for uri, path in ELSEWHERE.items()}.get(path, path.removeprefix("docs/"))
    if path.startswith("docs/") or there != path:
        return f"[{label}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{hash_}{anchor})"
    if path.startswith("src/madbayes/") and path.endswith(".py"):
        module = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return f"[{label}][{module}.{label.strip('`')}]"
    return label


def run_examples() -> list[Example]:
    """All examples, run again where they or the package changed since the last time."""
    newest = max(file.stat().st_mtime for file in (ROOT / "src").rglob("*.py"))
    return [run_example(path, newest) for path in sorted((ROOT / "examples").glob("*.py"))]


def run_example(path: Path, newest: float) -> Example:
    """One example, its picture and its words."""
    folder = GALLERY / path.stem
    record = folder / "printed.txt"
    if not record.exists() or record.stat().st_mtime < max(newest, path.stat().st_mtime):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        with in_place_of_a_shell([str(path), "--out", os.path.relpath(folder, ROOT)]) as printed:
            runpy.run_path(str(path), run_name="__main__")
        record.write_text(printed.getvalue(), encoding="utf-8")
    (picture,) = folder.glob("*.png")
    source = path.read_text(encoding="utf-8")
    title, _, words = source.split('"""')[1].partition("\n")
    return Example(path.stem, title, words.strip(), source, record.read_text(encoding="utf-8"), picture)


@contextlib.contextmanager
def in_place_of_a_shell(arguments: list[str]) -> Iterator[io.StringIO]:
    """Run in the root of the repository with these arguments, catch what is printed, and let warnings be errors."""
    stream = io.StringIO()
    with (
        contextlib.chdir(ROOT),
        mock.patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(stream),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        yield stream


def format_example(example: Example) -> str:
    """A section of the gallery."""
    title = example.title.rstrip(".")
    lines = example.printed.replace(f"build/gallery/{example.name}", "DIR")
    code = "\n".join(f"    {line}".rstrip() for line in f"```python\n{example.source}```".splitlines())
    return (
        f"\n## {title} {{ #{example.name} }}\n\n{example.words}\n\n![{title}](gallery/{example.name}.png)\n\n"
        f'```output\n{lines}```\n\n??? example "examples/{example.name}.py"\n\n{code}\n'
    )
