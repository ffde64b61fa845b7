"""Views of constructs that are kept without making them anew, in step and refreshed later."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.property.trying import HAS_TIME

import livingdb

VIEWS = {
    "rolled": "SELECT city, kind, grouping_id() AS id, count(*) AS n, sum(amount) AS s FROM orders "
    "GROUP BY ROLLUP (city, kind)",
    "cubes": "SELECT city, kind, avg(amount) AS a FROM orders GROUP BY CUBE (city, kind)",
    "sets": "SELECT city, max(weight) AS w, count(DISTINCT kind) AS k FROM orders "
    "GROUP BY GROUPING SETS ((city), ())",
    "top": "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 3",
    "cities": "SELECT city, sum(amount) AS s FROM orders GROUP BY city ORDER BY s DESC LIMIT 2",
    "later": "SELECT id FROM orders ORDER BY amount LIMIT 2 OFFSET 1",
    "mean": "SELECT avg(weight) AS w, count(*) AS n FROM orders",
    "kinds_of": "SELECT count(DISTINCT kind) AS k, sum(amount) AS s FROM orders",
    "shares": "SELECT city, sum(amount) / count(*) AS q, avg(amount) AS a FROM orders "
    "GROUP BY city",
    "above": "SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "named": "SELECT o.id, (k.name) FROM orders AS o LEFT JOIN kinds AS k ON ((o.kind = k.kind))",
}
ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("city", pa.string()),
        ("kind", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("weight", pa.float64()),
    ]
)
KINDS = pa.schema([pa.field("kind", pa.int64(), nullable=False), ("name", pa.string())])


def _order(number: int) -> dict[str, object]:
    return {
        "id": number,
        "city": (None, "Oslo", "Bonn")[number % 3],
        "kind": (None, 1, 2, 1, 2)[number % 5],
        "amount": None if number % 7 == 6 else Decimal(number * 37 % 11) / 4,
        "weight": number / 7,
    }


def _rows(db: livingdb.Database, name: str) -> list[str]:
    return sorted(map(str, db.branch(name).table(name).to_arrow().to_pylist()))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> livingdb.Database:
    """Each view twice, after four changes, the last of which leaves no rows."""
    place: Path = tmp_path_factory.mktemp("kept") / "shop.ldb"
    with livingdb.create(place, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.create_table("kinds", KINDS, key="kind")
        main.insert("kinds", [{"kind": 1, "name": "a"}, {"kind": 2, "name": "b"}])
        main.insert("orders", [_order(number) for number in range(12)])
        for name, query in VIEWS.items():
            main.derive(name, query, when="immediate", refresh="incremental")
            main.derive(f"{name}_then", query, refresh="incremental")
        yield db


@pytest.mark.slow
def test_what_is_kept_is_what_the_query_gives(db: livingdb.Database) -> None:
    main = db.branch("main")
    changes = [
        lambda: main.insert("orders", [_order(number) for number in range(20, 24)]),
        lambda: main.update("orders", {"id": [3, 4], "amount": [Decimal(50), None]}),
        lambda: main.delete("orders", [3, 5, 7, 20]),
        lambda: main.delete("orders", main.table("orders").to_arrow().column("id").to_pylist()),
        lambda: main.insert("orders", [_order(number) for number in range(9)]),
    ]
    for change in changes:
        change()
        runs = {run.name: (run.strategy, run.reason) for run in db.propagate()}
        assert all(strategy != "full" for strategy, _ in runs.values()), runs
        report = db.check(deep=HAS_TIME or change is changes[-1])
        assert (report.problems, report.not_checked) == ([], [])
        for name in VIEWS:
            assert _rows(db, name) == _rows(db, f"{name}_then"), name


@pytest.mark.parametrize("name", VIEWS)
def test_where_its_rows_come_from(db: livingdb.Database, name: str) -> None:
    row = db.branch(name).table(name).to_arrow().to_pylist()[0]
    assert "orders (main at" in str(db.lineage(name, row))
    assert "orders." in str(db.column_lineage(name))
