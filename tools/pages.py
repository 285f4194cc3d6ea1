"""Run the Python blocks of the documentation and compare what they print with what the pages show.

A block that begins with three backticks and ``output`` holds what the Python block before it prints. Run
``python tools/pages.py`` to write these blocks again, with pages named to write only those.
"""

import argparse
import contextlib
import io
import math
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^([ \t]*)```(python|output)[ \t]*\n(.*?)^\1```[ \t]*$", flags=re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![a-wyz_\d])")
# Decimals may differ by this share, or by one in the last digit shown: libraries of other versions round otherwise.
TOLERANCE = 0.01


class Shown(NamedTuple):
    """An output block: where its text stands in the page, and what the code before it printed."""

    start: int
    end: int
    indent: str
    text: str
    printed: str
    line: int


def page_paths(root: Path = ROOT) -> list[Path]:
    """The README and all pages of the documentation."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def run_page(page: Path, folder: Path) -> list[Shown]:
    """Run the Python blocks of a page, in order and in one namespace, inside a folder; its output blocks."""
    with contextlib.chdir(folder):
        return list(_run_blocks(page))


def _run_blocks(page: Path) -> Iterator[Shown]:
    text, printed = page.read_text(encoding="utf-8"), ""
    namespace = {"__name__": "__page__"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(3))
        if block[2] == "output":
            yield Shown(*block.span(3), block[1], textwrap.dedent(block[3]), printed, line)
            continue
        # Empty lines in front, so that a traceback names the line of the page.
        source, stream = "\n" * line + textwrap.dedent(block[3]), io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(source, str(page), "exec"), namespace)
        printed = stream.getvalue()


def same_output(shown: str, printed: str) -> bool:
    """Whether two outputs agree: words and whole numbers exactly, decimals nearly, spaces never matter."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (shown, printed)]
    numbers = [NUMBER.findall(text) for text in (shown, printed)]
    return words[0] == words[1] and all(map(_same_number, *numbers))


def _same_number(shown: str, printed: str) -> bool:
    if re.fullmatch(r"[-+]?\d+", shown):
        return shown == printed
    digits = len(shown.lower().partition("e")[0].partition(".")[2])
    last = 10.0**-digits if "e" not in shown.lower() else 0.0
    return math.isclose(float(shown), float(printed), rel_tol=TOLERANCE, abs_tol=1.001 * last)


def write_outputs(page: Path) -> bool:
    """Put what the code of a page prints into its output blocks; whether anything changed."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = run_page(page, Path(folder))
    text = page.read_text(encoding="utf-8")
    for block in reversed(blocks):
        if not same_output(block.text, block.printed):
            fresh = "".join(f"{line.rstrip()}\n" for line in block.printed.rstrip().splitlines())
            text = text[: block.start] + textwrap.indent(fresh, block.indent) + text[block.end :]
    if changed := text != page.read_text(encoding="utf-8"):
        page.write_text(text, encoding="utf-8")
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Write the output blocks of some pages, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="all pages if none is named")
    for page in parser.parse_args(arguments).pages or page_paths():
        print(f"{'wrote' if write_outputs(page.resolve()) else 'as it was'}: {os.path.relpath(page)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
