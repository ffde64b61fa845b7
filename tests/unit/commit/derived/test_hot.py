"""Views of which only the hot part is stored."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.derivation.query_evaluator import QueryEvaluator
from livingdb.errors import InvalidData, Unsupported

FIRST = datetime.date(2026, 1, 1)
COUNT = 20_000
HOT = "where day >= '2026-10-01' AND amount BETWEEN 100 AND 900"


@pytest.fixture
def sales(db: livingdb.Database) -> livingdb.Branch:
    """A branch with a year of sales."""
    main = db.branch("main")
    main.create_table(
        "sales", {"id": "bigint", "day": "date", "amount": "bigint", "shop": "string"}, key="id"
    )
    days = np.arange(COUNT) * 365 // COUNT
    rows = {
        "id": np.arange(COUNT),
        "day": [FIRST + datetime.timedelta(days=int(day)) for day in days],
        "amount": [None if i % 50 == 0 else i % 1000 for i in range(COUNT)],
        "shop": [f"shop {i % 10}" for i in range(COUNT)],
    }
    main.insert("sales", pa.table(rows))
    return main


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries for rows that are not stored, as they are run."""
    seen: list[str] = []
    answer = QueryEvaluator._answer

    def watched(self: QueryEvaluator, recipe: object, versions: object) -> pa.Table:
        seen.append(recipe.data["query"])  # type: ignore[attr-defined]
        return answer(self, recipe, versions)  # type: ignore[arg-type]

    monkeypatch.setattr(QueryEvaluator, "_answer", watched)
    return seen


def told(found: Any) -> list[dict[str, object]]:
    """Rows as plain values."""
    table = found if isinstance(found, pa.Table) else found.to_arrow()
    return table.to_pylist()  # type: ignore[no-any-return]


def test_reading_hot_rows_computes_nothing(sales: livingdb.Branch, computed: list[str]) -> None:
    view = sales.derive("v", "SELECT * FROM sales", when="immediate", materialize=HOT).table("v")
    wanted = "day > '2026-10-05' AND amount >= 100 AND amount < 500"
    plain = sales.table("sales")
    assert told(view.to_arrow(where=wanted)) == told(plain.to_arrow(where=wanted))
    counted = sales.sql(f"SELECT count(*) AS n FROM v WHERE {wanted} AND shop = 'shop 3'")
    assert counted.to_arrow().to_pylist()[0]["n"] > 100
    assert view.get(19_501)["day"] == datetime.date(2026, 12, 22)
    assert computed == []
    view.to_arrow(where="day > '2026-10-05' AND amount >= 99")
    assert len(computed) == 1
    assert told(view.to_arrow()) == told(plain.to_arrow())
    assert view.get(0)["amount"] is None
    assert view.get(-1) is None
    assert len(view) == COUNT
    assert len(computed) == 1


def test_hot_rows_are_kept_as_those_of_any_view(
    db: livingdb.Database, sales: livingdb.Branch, computed: list[str]
) -> None:
    query = "SELECT id, day, amount FROM sales WHERE shop = 'shop 7'"
    made = sales.derive("v", query, when="immediate", materialize=HOT)
    before = db.storage().journal_bytes
    sales.sql("UPDATE sales SET amount = 101 WHERE id BETWEEN 19000 AND 19099")
    assert db.storage().journal_bytes - before < 50_000
    assert made.head.edge.details["strategy"] == "linear"
    assert made.head.edge.details["rows"] == 10
    found = made.table("v").to_arrow(where="day >= '2026-12-01' AND amount = 101")
    assert computed == []
    plain = sales.sql(f"{query} AND day >= '2026-12-01' AND amount = 101 ORDER BY id")
    assert told(found) == told(plain.to_arrow())
    assert db.diff("v~1", "v")["v"].summary() == {"inserted": 0, "updated": 10, "deleted": 0}


def test_only_hot_rows_are_written(db: livingdb.Database, sales: livingdb.Branch) -> None:
    def written(name: str, materialize: str) -> int:
        before = db.storage().journal_bytes
        query = "SELECT id, amount * id AS product FROM sales"
        sales.derive(name, query, materialize=materialize, engine="embedded")
        return db.storage().journal_bytes - before

    assert written("part", "where id < 200") < written("all_of_it", "full") / 5


def test_aggregates_and_rows_without_a_key(
    db: livingdb.Database, sales: livingdb.Branch, computed: list[str]
) -> None:
    totals = "SELECT shop, sum(amount) AS total FROM sales GROUP BY shop"
    sales.derive("t", totals, when="immediate", materialize="where shop IN ('shop 1', 'shop 4')")
    bag = "SELECT shop, amount FROM sales"
    sales.derive("b", bag, when="immediate", materialize="where amount <= 10")
    sales.sql("UPDATE sales SET amount = amount - 5 WHERE id % 3 = 0")
    one = sales.sql("SELECT total FROM t WHERE shop = 'shop 4'").to_arrow()
    direct = sales.sql("SELECT sum(amount) AS total FROM sales WHERE shop = 'shop 4'")
    assert told(one) == told(direct.to_arrow())
    few = "SELECT shop, amount, count(*) AS n FROM {} WHERE amount < 7 GROUP BY ALL ORDER BY ALL"
    assert told(sales.sql(few.format("b"))) == told(sales.sql(few.format("sales")))
    assert computed == []
    every = "SELECT shop, amount, count(*) AS n FROM {} GROUP BY ALL ORDER BY ALL"
    assert told(sales.sql(every.format("b"))) == told(sales.sql(every.format("sales")))
    assert db.branch("t").table("t").to_arrow().num_rows == 10


def test_in_sql_and_over_another_view(db: livingdb.Database, sales: livingdb.Branch) -> None:
    sales.sql(
        "CREATE MATERIALIZED VIEW late WITH (when = 'immediate', "
        "materialize = 'where day >= ''2026-12-01''') AS SELECT * FROM sales"
    )
    sales.derive("shops", "SELECT shop, count(*) AS n FROM late GROUP BY shop", when="immediate")
    sales.sql("DELETE FROM sales WHERE shop = 'shop 2' AND id < 1000")
    assert db.branch("shops").table("shops").get("shop 2")["n"] == COUNT // 10 - 100
    assert db.sync("late").state == db.sync("shops").state == "active"
    assert not db.check().problems


@pytest.mark.parametrize(
    "hot", ["(id = 7)", "shop = 'shop 7'", "id IN (7)", "((id = 7) AND (amount = 7))"]
)
def test_the_key_is_that_of_all_rows(sales: livingdb.Branch, hot: str) -> None:
    query = "SELECT shop, amount, id FROM sales"
    view = sales.derive("v", query, when="immediate", materialize=f"where {hot}").table("v")
    assert view.key == ("id",)
    assert len(view) == COUNT
    assert view.get(7) == {"shop": "shop 7", "amount": 7, "id": 7}


def test_a_key_that_does_not_tell_hot_from_other_rows(sales: livingdb.Branch) -> None:
    query = "SELECT shop, id % 2 AS half FROM sales WHERE id < 2"
    view = sales.derive(
        "v", query, key="shop", when="immediate", materialize="where half = 1"
    ).table("v")
    assert view.to_arrow(where="half = 1").num_rows == 1
    sales.sql("UPDATE sales SET shop = 'shop 0' WHERE id = 1")
    with pytest.raises(InvalidData, match="does not identify the rows"):
        sales.database.branch("v").table("v").to_arrow()
    sales.sql("UPDATE sales SET shop = 'shop 2' WHERE id = 1")
    assert sales.database.branch("v").table("v").to_arrow().num_rows == 2


@pytest.mark.parametrize(
    "condition",
    [
        "id % 2 = 0",
        "amount > id",
        "amount > 5 OR id > 5",
        "amount IS NULL",
        "nowhere = 1",
        "amount > 'many'",
        "amount NOT IN (1, 2)",
        "amount <> 1",
        "amount > NULL",
        "id IN (SELECT 1)",
        "shop >= ''",
    ],
)
def test_what_does_not_tell_hot_rows_is_refused(
    db: livingdb.Database, sales: livingdb.Branch, condition: str
) -> None:
    with pytest.raises(InvalidData, match="compare"):
        sales.derive("v", "SELECT * FROM sales", materialize=f"where {condition}")
    assert db.branches() == ["main"]


def test_what_cannot_be_computed_when_read_is_refused(sales: livingdb.Branch) -> None:
    with pytest.raises(Unsupported, match="materialize='full'"):
        sales.derive("v", "SELECT id, soundex(shop) AS s FROM sales", materialize="where id > 5")
    with pytest.raises(InvalidData, match="is not a condition"):
        sales.derive("v", "SELECT * FROM sales", materialize="where SELECT 1")
    with pytest.raises(InvalidData, match="where <condition>"):
        sales.derive("v", "SELECT * FROM sales", materialize="where ")
