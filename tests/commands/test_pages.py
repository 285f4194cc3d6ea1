"""The console blocks of pages: commands end as they say, and what they print is on the page."""

import re
import shlex
from pathlib import Path

import pytest
from tests.commands.helpers import call

from madbayes.commands.showing import make_customers

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "command-line.md", ROOT / "docs" / "how-to" / "larger-than-memory.md"]
BLOCK = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
CODES = {"madbayes: missing": 2, "have moved, more than": 3}


def commands_of(page):
    """Commands of a page in order, each with the lines that follow it."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, [line for line in lines if line.strip()]


def pattern_of(line):
    """Three dots stand for anything."""
    return ".*".join(map(re.escape, line.strip().split("...")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks_are_true(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_customers(0).to_csv("customers.csv", index=False)
    make_customers(1).dropna().head(50).to_csv("new.csv", index=False)
    for year, rows in (("2024", slice(350)), ("2025", slice(350, None))):
        Path("customers", year).mkdir(parents=True)
        make_customers(0)[rows].to_parquet(Path("customers", year, "part-0.parquet"), index=False)
    make_customers(2).to_csv("tomorrow.csv", index=False)
    commands = list(commands_of(page))
    assert commands
    for command, lines in commands:
        program, *words = shlex.split(command, comments=True)
        assert program == "madbayes"
        found = call(*words)
        expected = next((code for words, code in CODES.items() if any(words in line for line in lines)), 0)
        assert found.exit_code == expected, (command, found.output)
        for line in lines:
            assert re.search(pattern_of(line), found.output), (command, line, found.output)
