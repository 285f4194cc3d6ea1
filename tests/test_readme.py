import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^([ \t]*)```python[ \t]*\n(.*?)^\1```[ \t]*$", flags=re.MULTILINE | re.DOTALL)


def run_page(file, folder, monkeypatch):
    """Run the python blocks of a page, in order and in one namespace, inside a folder; how many there were."""
    monkeypatch.chdir(folder)
    text, namespace = file.read_text(encoding="utf-8"), {"__name__": "__page__"}
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        # Empty lines in front, so that a traceback names the line of the page.
        source = "\n" * text.count("\n", 0, block.start(2)) + textwrap.dedent(block[2])
        exec(compile(source, str(file), "exec"), namespace)
    return len(blocks)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_page_runs(file, tmp_path, monkeypatch):
    run_page(file, tmp_path, monkeypatch)


def test_readme_shows_code():
    assert BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))


PAGE = """
# A page

```python
x = 1
```

- in a list:

  ```python
  with open("made.txt", "w") as file:
      file.write(str(x + 1))
  ```

```python no-run
1 / 0
```

```
1 / 0
```
"""


def test_blocks_run_in_order_in_one_namespace_and_in_the_folder(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run_page(page, tmp_path, monkeypatch) == 2
    assert (tmp_path / "made.txt").read_text() == "2"


def test_a_block_that_raises_fails_and_names_its_line(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as error:
        run_page(page, tmp_path, monkeypatch)
    assert error.traceback[-1].lineno + 1 == 5
