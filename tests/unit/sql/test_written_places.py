"""What Spark is sent: the user's text, with other names where tables stand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sql.shop import shop
from tests.unit.sql.twin import BranchScope

from livingdb.engines.spark_words import spark_words
from livingdb.errors import Unsupported
from livingdb.sql.parameters import bind_parameters
from livingdb.sql.parse import parse_statement
from livingdb.sql.planner import Planner


@pytest.fixture(scope="module")
def main() -> BranchScope:
    return shop(3)


def sent(scope: BranchScope, text: str, given: Any = None) -> tuple[str, Any]:
    """The text for Spark and its values; its tables are called v0, v1, … in the order found."""
    tree = parse_statement(text)
    values = bind_parameters(tree, given)
    request = Planner(scope, values).request(tree, text, given)  # type: ignore[arg-type]
    assert request.written is not None
    found = request.written()
    names = {name: f"v{at}" for at, name in enumerate(request.sources)}
    return found.with_relations(names), found.values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM orders", "SELECT id FROM v0 AS `orders`"),
        ("SELECT o.id FROM orders o", "SELECT o.id FROM v0 o"),
        ("SELECT o.id FROM `orders` AS o;", "SELECT o.id FROM v0 AS o"),
        (
            "SELECT 'FROM orders', \"orders\" -- FROM orders\nFROM orders /* orders */",
            "SELECT 'FROM orders', \"orders\" -- FROM orders\nFROM v0 AS `orders` /* orders */",
        ),
        (
            "WITH orders AS (SELECT id FROM orders) SELECT id FROM orders",
            "WITH orders AS (SELECT id FROM v0 AS `orders`) SELECT id FROM orders",
        ),
        (
            "SELECT orders.id FROM main.orders WHERE main.orders.id > 1",
            "SELECT orders.id FROM v0 AS `orders` WHERE `orders`.id > 1",
        ),
        (
            "SELECT id FROM orders VERSION AS OF 'main' WHERE id > 1",
            "SELECT id FROM v0 AS `orders` WHERE id > 1",
        ),
        (
            "SELECT a.id FROM orders FOR VERSION AS OF 'main' AS a",
            "SELECT a.id FROM v0 AS a",
        ),
        (
            "SELECT id FROM orders TABLESAMPLE (100 PERCENT) REPEATABLE (1) WHERE true",
            "SELECT id FROM v0 TABLESAMPLE (100 PERCENT) REPEATABLE (1) AS `orders` WHERE true",
        ),
        (
            "SELECT (SELECT max(id) FROM orders), +'1', 1 & 2 >> 1, trunc(DATE'2026-01-01', 'Q')",
            "SELECT (SELECT max(id) FROM v0 AS `orders`), +'1', 1 & 2 >> 1, "
            "trunc(DATE'2026-01-01', 'Q')",
        ),
    ],
)
def test_only_names_of_tables_give_way(main: BranchScope, text: str, expected: str) -> None:
    assert sent(main, text) == (expected, {})


def test_a_name_of_two_branches(main: BranchScope) -> None:
    text, _ = sent(main, "SELECT main.orders.id, orders.id FROM main.orders, orders")
    assert text == "SELECT `main.orders`.id, orders.id FROM v0 AS `main.orders`, v1 AS `orders`"


def test_parameters_stay_what_they_are(main: BranchScope) -> None:
    text = "SELECT id FROM orders VERSION AS OF :ref WHERE id = :id AND city <> ':id'"
    given = {"ref": "main", "id": 3}
    assert sent(main, text, given) == (
        "SELECT id FROM v0 AS `orders` WHERE id = :id AND city <> ':id'",
        given,
    )


def test_parameters_without_names(main: BranchScope) -> None:
    text = "SELECT ?, id FROM orders VERSION AS OF ? WHERE id = ?"
    expected = "SELECT ?, id FROM v0 AS `orders` WHERE id = ?"
    assert sent(main, text, ["a", "main", 3]) == (expected, ["a", 3])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 /* a /* b */ c */",
        "SELECT 1 -- a\\\n + secret\n",
        "SELECT 1 /* a /*+ b */ */",
    ],
)
def test_what_spark_would_read_otherwise_is_refused(main: BranchScope, text: str) -> None:
    with pytest.raises(Unsupported):
        sent(main, text)


def test_words_are_those_of_spark() -> None:
    text = "a'b''c' r'\\' `d``e` \"f\"\"g\" /*+ h */ 1 --i\n\\"
    found = [(word.kind, word.text) for word in spark_words(text)]
    assert found == [
        ("word", "a"), ("string", "'b''c'"), ("raw", "r'\\'"), ("quoted", "`d``e`"),
        ("quoted", '"f""g"'), ("hint", "/*+"), ("word", "h"), ("hint", "*/"), ("word", "1"),
        ("comment", "--i"), ("other", "\\"),
    ]  # fmt: skip
