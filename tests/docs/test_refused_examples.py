"""The list of Spark's examples that are refused is the one the tests go by."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    path = ROOT / "scripts" / "write_refused_examples.py"
    spec = importlib.util.spec_from_file_location("write_refused_examples", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = script.PAGE.read_text(encoding="utf-8")
    assert written == script.page(), "run python scripts/write_refused_examples.py"
