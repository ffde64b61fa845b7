"""Writes into docs/sql.md which examples of Spark's functions are answered otherwise, and why.

python scripts/write_refused_examples.py

The list is that of the tests (`tests/spark/refused_examples.py`), which compare all others.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.spark.refused_examples import KINDS, OTHERWISE, SETTINGS  # noqa: E402

from livingdb.engines.spark_functions import REFUSED  # noqa: E402

PAGE = ROOT / "docs" / "sql.md"
FIRST = (
    "<!-- Written by scripts/write_refused_examples.py from tests/spark/refused_examples.py. -->\n"
)
LAST = "<!-- end -->\n"


def page() -> str:
    """The page with the list as it is now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(FIRST)
    _, after = rest.split(LAST)
    return before + FIRST + "\n" + "".join(f"- {line}\n" for line in lines()) + "\n" + LAST + after


def lines() -> list[str]:
    """A line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in REFUSED.items():
        by_reason.setdefault(reason, []).append(f"`{name}`")
    found = [f"{', '.join(names)}: it {reason}" for reason, names in by_reason.items()]
    found += [SETTINGS, *dict.fromkeys(KINDS.values())]
    return [*found, *(f"`{text}`: {how}" for text, how in OTHERWISE.items())]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
