"""What the pages show runs, and prints what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.prepared import PREPARED
from tests.docs.snippets import Page, blocks_of, matches

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", DOCS / "index.md", DOCS / "tutorial.md"]
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
IN_DEPTH = [DOCS / name for name in PREPARED]
ON_SPARK = {DOCS / "how-to" / "spark.md"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT).with_suffix(""))


def _run(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LIVINGDB", "")  # what a page exports is undone afterwards
    monkeypatch.syspath_prepend(str(folder))
    page = Page(path, folder)
    exec(PREPARED.get(path.name, "") if path.parent == DOCS else "", page.names)
    try:
        return len(list(page.run()))
    finally:
        for value in page.names.values():
            if type(value).__name__ == "Database":
                value.close()


@pytest.mark.parametrize("path", [*PAGES, *HOW_TO, *IN_DEPTH], ids=_name)
def test_a_page_runs(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if path in ON_SPARK:
        request.getfixturevalue("spark")
    assert _run(path, tmp_path, monkeypatch) > 0


def test_there_are_guides() -> None:
    assert len(HOW_TO) >= 7


@pytest.mark.parametrize("path", [*PAGES, *HOW_TO], ids=_name)
def test_no_output_is_left_open(path: Path) -> None:
    for block in blocks_of(path.read_text(encoding="utf-8")):
        assert block.prints is None or block.prints.strip() != "…", f"line {block.line}"


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=_name)
def test_what_is_not_run_is_python_at_least(path: Path) -> None:
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.language == "python":
            compile(block.text, f"{path}, line {block.line}", "exec")


# --- the runner itself ----------------------------------------------------------------------


def _page(folder: Path, text: str) -> Page:
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return Page(path, folder)


def test_blocks_know_their_output_and_line() -> None:
    page = "# A\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python no-run\n2\n```\n"
    first, output, last = blocks_of(page)
    assert (first.line, first.prints, first.is_run) == (3, "1\n", True)
    assert not output.is_run
    assert not last.is_run
    assert last.prints is None


def test_text_that_is_not_right_below_is_no_output() -> None:
    page = "```python\nprint(1)\n```\nand now\n```text\n2\n```\n"
    assert blocks_of(page)[0].prints is None


def test_a_page_that_prints_something_else_fails(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="line 1"):
        list(page.run())


def test_a_page_has_one_namespace_and_errors_name_its_lines(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\na = 1\n```\n\nmore\n\n```python\nassert a == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        list(page.run())
    assert caught.traceback[-1].lineno + 1 == 8


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    page = _page(tmp_path, "```bash\nls\nlivingdb --db nowhere.ldb log\n```\n")
    with pytest.raises(AssertionError, match="ended with 3"):
        list(page.run())


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", " a  \n\n", True),
        ("id 5f… at …\n", "id 5f0c at 12:00\n", True),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_matches(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
