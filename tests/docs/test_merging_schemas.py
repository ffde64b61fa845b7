"""The page of which schema changes merge is what the oracle says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    path = ROOT / "scripts" / "write_merging_schemas.py"
    spec = importlib.util.spec_from_file_location("write_merging_schemas", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = (ROOT / "docs" / "design" / "merging-schemas.md").read_text(encoding="utf-8")
    assert written == script.page(), "run python scripts/write_merging_schemas.py"
