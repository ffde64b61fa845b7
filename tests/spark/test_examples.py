"""The examples run, each as it stands, and say what they promise."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_SPARK = {
    "01_load_with_spark": ("6,000 orders", "written by Spark: {'id': 9001", "there were 6,000"),
    "churn_model": ("first model:", "behind by: Lag(1 snapshot,", "the one before:"),
}
EMBEDDED = {
    "02_schema_change": ("'given': 'Kari', 'family': 'Nordmann'", "'name': 'Kari Vik'"),
    "03_views": ("Decimal('49596.00')", "every 1 hour behind by 1", "<Run dear: linear, 1 rows"),
    "04_model": ("'rows': 1000", "stopped: score('rmse') <= 6", "still the good one"),
    "05_masked_clone": ("anna@example.com", "datetime.date(1990, 1, 1)", "refused: rule 2"),
    "06_what_if": ("chair: was 900.0, main 950.0, what_if 810.0", "price by eva", "stock by lars"),
    "07_guarded_dashboard": ("ALERT (error) main/revenue", "held - ", "('held', 'resolved')"),
    "08_lineage": ("order 12 by lars - corrected", "revenue <- orders.price", "OpenLineage"),
    "09_time_travel": ("'was': 100, 'is': 120", "'revenue': 100", "'amount': 100"),
    "10_graph": ("no spam", "flowchart LR", "graph.svg", "no problems"),
}
"""What each of them prints, among other things."""


def run(name: str, home: Path) -> None:
    module_name = f"example_{name}"
    spec = importlib.util.spec_from_file_location(module_name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
        module.main(str(home))
    finally:
        del sys.modules[module_name]


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_example_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(name, tmp_path)
    told = capsys.readouterr().out
    for words in EMBEDDED[name]:
        assert words in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_SPARK)
def test_an_example_runs_on_spark(
    name: str, spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(name, tmp_path)
    told = capsys.readouterr().out
    for words in ON_SPARK[name]:
        assert words in told


def test_every_example_is_run_and_listed() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*EMBEDDED, *ON_SPARK}
    listed = re.findall(r"\]\((\S+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert set(listed) == there
    assert len(listed) == len(there)


def test_a_script_is_short_and_says_how_to_run_it() -> None:
    for name in {*EMBEDDED, *ON_SPARK}:
        text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        assert f"python examples/{name}.py" in text
        assert len(text.splitlines()) <= 75


def told(notebook: Any) -> list[str]:
    """What the cells of a notebook say, without ids, times and places.

    What a cell prints comes in one piece or in several, as the kernel's clock has it.
    """
    found = []
    for cell in notebook.cells:
        text = "".join(
            output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", ())
        )
        text = re.sub(r"/\S*/livingdb-tour-\w+", "HOME", text)
        text = re.sub(r"\b[0-9a-f]{12}\b", "ID", text)
        text = re.sub(r"[\d,]+ bytes.*", "BYTES", text)
        found += [text] if text else []
    return found


def test_the_notebook_says_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run anew it tells the same as the outputs that are stored with it."""
    import nbclient
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", 4)
    expected = told(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3")
    client.startup_timeout = 240
    client.execute()
    assert told(notebook) == expected
    assert len(expected) > 10
