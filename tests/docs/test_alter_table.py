"""The clauses of ALTER TABLE that the documentation lists are those that are read."""

from __future__ import annotations

import re
from pathlib import Path

from livingdb.sql.alter_forms import FORMS, REFUSED
from livingdb.sql.column_reader import COLUMN_FORM

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## ALTER TABLE\n")[2].partition("\n## ")[0]


def test_every_clause_is_listed_once_and_says_what_it_does() -> None:
    listed = re.findall(r"^- `([^`]+)`: (.+)$", SECTION, re.MULTILINE)
    assert [item for item in listed if item[0] not in REFUSED] == list(FORMS.items())


def test_what_is_refused_is_listed_with_the_reason() -> None:
    lines = re.findall(r"^- ((?:`[^`]+`, )*`[^`]+`): (.+)$", SECTION, re.MULTILINE)
    listed = {name: why for names, why in lines for name in re.findall(r"`([^`]+)`", names)}
    assert {name: why for name, why in listed.items() if name not in FORMS} == REFUSED


def test_what_a_column_takes_is_shown() -> None:
    assert " ".join(COLUMN_FORM.split()) in " ".join(SECTION.split())
