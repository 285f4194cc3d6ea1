import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("pages", ROOT / "tools" / "pages.py")
pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pages)


@pytest.mark.parametrize("page", pages.page_paths(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs_and_prints_what_it_shows(page, tmp_path):
    for block in pages.run_page(page, tmp_path):
        assert pages.same_output(block.text, block.printed), (
            f"line {block.line} of {page.name} shows\n{block.text}but the code printed\n{block.printed}make outputs?"
        )


def test_readme_shows_code():
    assert pages.BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))


PAGE = """
# A page

```python
x = 1
```

- in a list:

  ```python
  with open("made.txt", "w") as file:
      file.write(str(x + 1))
  print("written", 1 / 3)
  ```

  ```output
  written 0.3
  ```

```python no-run
1 / 0
```

```
1 / 0
```
"""


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


def test_blocks_run_in_order_in_one_namespace_and_in_the_folder(page, tmp_path):
    (shown,) = pages.run_page(page, tmp_path)
    assert (tmp_path / "made.txt").read_text() == "2"
    assert (shown.text, shown.printed) == ("written 0.3\n", "written 0.3333333333333333\n")


def test_a_block_that_raises_fails_and_names_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as error:
        pages.run_page(page, tmp_path)
    assert error.traceback[-1].lineno + 1 == 5


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("K is 3", "K is 3", True),
        ("K is 3", "K is 4", False),
        ("K is 3", "N is 3", False),
        ("a   1.50\nb  2", "a 1.505 b 2", True),
        ("1.50", "1.60", False),
        ("0.01", "0.02", True),  # one in the last digit shown
        ("0.01", "0.03", False),
        ("1.00e-09", "2.00e-09", False),
        ("1.000e-09", "1.001e-09", True),
        ("100", "101", False),
        ("17.1x wider", "17.2x wider", True),
        ("17.1x wider", "19.2x wider", False),
        ("1 2", "1", False),
        ("x1 and 0x1f", "x2 and 0x1f", False),
        ("", "something", False),
    ],
)
def test_outputs_agree_up_to_rounding(shown, printed, same):
    assert pages.same_output(shown, printed) == same


def test_outputs_that_differ_are_written_and_the_others_left(page):
    assert not pages.write_outputs(page)  # 0.3 is near enough
    page.write_text(PAGE.replace("0.3\n", "0.5\n"))
    assert pages.main([str(page)]) == 0
    assert page.read_text() == PAGE.replace("0.3\n", "0.3333333333333333\n")
