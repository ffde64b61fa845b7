"""Parentheses around what FROM reads: the query without them."""

from __future__ import annotations

import pytest

from livingdb.derivation.compiler.parentheses import without_parentheses
from livingdb.sql.parse import parse_statement

NAMED = "(SELECT id, g FROM t) AS q"


@pytest.mark.parametrize(
    ("nested", "plain"),
    [
        ("(t)", "t"),
        (f"({NAMED})", NAMED),
        (f"(({NAMED})) JOIN u ON q.id = u.id", f"{NAMED} JOIN u ON q.id = u.id"),
        (f"({NAMED} JOIN u ON q.id = u.id)", f"{NAMED} JOIN u ON q.id = u.id"),
        ("((t) JOIN u ON t.id = u.id)", "t JOIN u ON t.id = u.id"),
        (f"u JOIN ({NAMED}) ON q.id = u.id", f"u JOIN {NAMED} ON q.id = u.id"),
    ],
)
def test_a_relation_needs_none(nested: str, plain: str) -> None:
    made = without_parentheses(parse_statement(f"SELECT * FROM {nested}"))  # type: ignore[arg-type]
    assert made == parse_statement(f"SELECT * FROM {plain}")


@pytest.mark.parametrize(
    "text",
    [
        "u JOIN (t JOIN v ON t.id = v.id) ON u.id = t.id",
        "((SELECT id FROM t) LIMIT 3)",
        f"({NAMED} TABLESAMPLE (5 ROWS))",
    ],
)
def test_others_are_kept(text: str) -> None:
    query = parse_statement(f"SELECT * FROM {text}")
    assert without_parentheses(query) == query  # type: ignore[arg-type]
