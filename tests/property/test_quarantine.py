"""The law of quarantine: what is shown is what the query gives without the rows set aside.

Both together are the query's answer, nothing is lost, and what no longer breaks a condition is
shown again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb import condition
from livingdb.evolution import AddColumn

ROWS = st.dictionaries(
    st.integers(0, 12),
    st.tuples(st.sampled_from(["Oslo", "Røros", None, ""]), st.integers(-3, 5)),
    max_size=8,
)
STEPS = st.lists(st.tuples(ROWS, st.sets(st.integers(0, 12), max_size=4)), min_size=1, max_size=5)

VIEWS = {
    "filter": "SELECT id, city, amount FROM orders WHERE amount < 5",
    "bag": "SELECT city, amount FROM orders",
    "groups": "SELECT city, sum(amount) AS amount FROM orders GROUP BY city",
    "join": "SELECT o.id, o.city, o.amount, p.amount AS next FROM orders o "
    "JOIN orders p ON p.id = o.id + 1",
}


def is_good(row: dict[str, Any]) -> bool:
    return row["amount"] is None or row["amount"] >= 0


def shown(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)


def put(main: livingdb.Branch, rows: dict[int, Any], gone: set[int]) -> None:
    given = [{"id": key, "city": city, "amount": n} for key, (city, n) in rows.items()]
    with main.transaction() as tx:
        tx.delete("orders", sorted(gone - set(rows)))
        if given:
            tx.upsert("orders", given)


def check(db: livingdb.Database, query: str, name: str, table: str) -> None:
    expected = db.branch("main").sql(query).to_arrow().to_pylist()
    held = db.branch(name).table(table).to_arrow().to_pylist()
    aside = db.sync(name).quarantined(table).to_pylist()
    columns = list(expected[0]) if expected else []
    aside = [{column: row[column] for column in columns} for row in aside] if expected else aside
    assert shown(held) == shown([row for row in expected if is_good(row)])
    assert shown(aside) == shown([row for row in expected if not is_good(row)])


def start(folder: str) -> livingdb.Database:
    db = livingdb.create(Path(folder) / "shop.ldb", engine="embedded")
    fields = {"id": "bigint", "city": "string", "amount": "int"}
    db.branch("main").create_table("orders", fields, "id")
    return db


GUARD = [condition.in_range("amount", 0, None, action="quarantine")]


@pytest.mark.parametrize("when", ["immediate", "deferred"])
@pytest.mark.parametrize("shape", list(VIEWS))
@settings(max_examples=tries(15), deadline=None)
@given(first=ROWS, steps=STEPS)
def test_views(shape: str, when: str, first: Any, steps: Any) -> None:
    with TemporaryDirectory() as folder, start(folder) as db:
        main = db.branch("main")
        put(main, first, set())
        main.derive("v", VIEWS[shape], when=when, conditions=GUARD)
        check(db, VIEWS[shape], "v", "v")
        for rows, gone in steps:
            put(main, rows, gone)
            db.propagate()
            check(db, VIEWS[shape], "v", "v")
            assert db.sync("v").state == "active"
        total = main.derive("totals", "SELECT count(*) AS n, sum(amount) AS s FROM v")
        assert total.table("totals").to_arrow().column("n").to_pylist() == [
            len(db.branch("v").table("v"))
        ]
        assert db.check().problems == []


@settings(max_examples=tries(15), deadline=None)
@given(first=ROWS, steps=STEPS)
def test_schemas(first: Any, steps: Any) -> None:
    """A view of the target, too, sees only what is shown."""
    query = "SELECT id, city, amount, 7 AS vat FROM orders"
    with TemporaryDirectory() as folder, start(folder) as db:
        main = db.branch("main")
        put(main, {key: (city, abs(n)) for key, (city, n) in first.items()}, set())
        change = AddColumn("orders", "vat", "int", default=7)
        main.evolve(change, to="v2", sync="forward", conditions=GUARD)
        seen = "SELECT id FROM orders"
        db.branch("v2").derive("seen", seen, when="immediate")
        for rows, gone in steps:
            put(main, rows, gone)
            check(db, query, "v2", "orders")
            held = db.branch("v2").table("orders").to_arrow().column("id").to_pylist()
            assert (
                sorted(db.branch("seen").table("seen").to_arrow().column("id").to_pylist()) == held
            )
        assert db.check().problems == []


def test_a_downstream_view_follows_by_the_difference(tmp_path: Path) -> None:
    """What reads a guarded view is maintained from what changed, not made anew."""
    with start(str(tmp_path)) as db:
        main = db.branch("main")
        main.insert("orders", [{"id": n, "city": "x", "amount": n} for n in range(100)])
        main.derive(
            "v", VIEWS["filter"].replace("< 5", "< 1000"), when="immediate", conditions=GUARD
        )
        main.derive("w", "SELECT id, amount FROM v WHERE amount < 50", when="immediate")
        main.update("orders", {"id": [3], "amount": [-1]})
        assert db.branch("w").table("w").get(3) is None
        assert db.branch("w").head.edge.details["strategy"] == "linear"
        assert db.branch("w").head.edge.details["rows"] == 1
