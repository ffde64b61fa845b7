"""SQL on branches, snapshots and in transactions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb import Branch, Database
from livingdb.engines import engine_choice
from livingdb.engines.engine_choice import load_engine


def test_queries_see_the_head(main: Branch) -> None:
    result = main.sql("SELECT city, sum(amount) AS total FROM orders GROUP BY city")
    assert result.to_arrow().to_pylist() == [{"city": "Oslo", "total": 45.0}]
    assert list(result) == [{"city": "Oslo", "total": 45.0}]
    assert result.snapshot is None
    assert pa.table(result).num_rows == 1
    assert "total" in result._repr_html_()
    assert main.sql("SELECT * FROM orders WHERE id = :id", {"id": 3}).to_pandas()["id"][0] == 3


def test_queries_at_any_ref_and_across_branches(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.update("orders", {"id": [1], "amount": [100.0]})
    db.tag("v1", "dev")
    dev.delete("orders", [1])
    [row] = main.sql("SELECT amount FROM orders VERSION AS OF 'dev~1' WHERE id = 1")
    assert row == {"amount": 100.0}
    [row] = main.sql("SELECT amount FROM orders VERSION AS OF 'v1' WHERE id = 1")
    assert row == {"amount": 100.0}
    moment = db.at("v1").time.isoformat()
    [row] = dev.sql(f"SELECT count(*) AS n FROM orders TIMESTAMP AS OF '{moment}'")
    assert row == {"n": 10}
    found = main.sql(
        "SELECT m.id FROM main.orders m LEFT JOIN dev.orders d ON m.id = d.id WHERE d.id IS NULL"
    )
    assert list(found) == [{"id": 1}]
    assert list(db.at("v1").sql("SELECT count(*) AS n FROM orders")) == [{"n": 10}]
    with pytest.raises(livingdb.RuleViolation, match="rule 1"):
        db.at("v1").sql("DELETE FROM orders")
    with pytest.raises(livingdb.NotFound):
        main.sql("SELECT * FROM nope.orders")


def test_changes_are_transactions(main: Branch) -> None:
    head = main.head
    result = main.sql("UPDATE orders SET quantity = 0 WHERE id < 3", author="bob")
    assert result.changed == 3
    assert result.snapshot == main.head
    assert main.head.parents == (head.id,)
    assert main.head.author == "bob"
    assert "UPDATE orders" in main.head.message
    assert main.sql("DELETE FROM orders WHERE id >= 8").changed == 2
    assert main.sql("INSERT INTO orders (id, city) VALUES (20, 'Rome'), (21, 'Bari')").changed == 2
    main.sql(
        "MERGE INTO orders t USING (SELECT 20 AS id, 'Pisa' AS city UNION ALL SELECT 30, 'Como') s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET city = s.city "
        "WHEN NOT MATCHED THEN INSERT (id, city) VALUES (s.id, s.city)"
    )
    table = main.table("orders")
    assert table.get(20)["city"] == "Pisa"
    assert table.get(30)["city"] == "Como"
    assert [table.get(i)["quantity"] for i in range(4)] == [0, 0, 0, 3]
    head = main.head
    with pytest.raises(livingdb.DuplicateKey):
        main.sql("INSERT INTO orders (id) VALUES (20)")
    with pytest.raises(livingdb.LivingDBError):
        main.sql("UPDATE orders SET amount = 'much'")
    assert main.head == head


def test_sql_in_a_transaction(main: Branch) -> None:
    with main.transaction() as tx:
        tx.upsert("orders", {"id": [100], "city": ["Rome"]})
        assert tx.sql("SELECT count(*) AS n FROM orders").to_arrow()["n"].to_pylist() == [11]
        assert tx.sql("UPDATE orders SET city = 'Bari' WHERE city = 'Rome'").changed == 1
        assert len(main.table("orders")) == 10
        assert list(tx.sql("SELECT count(*) AS n FROM main.orders")) == [{"n": 11}]
        before = "SELECT count(*) AS n FROM orders VERSION AS OF 'main~0'"
        assert list(tx.sql(before)) == [{"n": 10}]
    assert main.table("orders").get(100)["city"] == "Bari"
    assert main.head.edge.operation == "upsert update"


def test_serializable_sql_reads_are_tracked_by_range(main: Branch) -> None:
    slow = main.transaction(isolation="serializable")
    slow.sql("SELECT sum(amount) FROM orders WHERE id BETWEEN 0 AND 3").to_arrow()
    slow.upsert("orders", {"id": [9], "amount": [1.0]})
    main.update("orders", {"id": [7], "amount": [0.0]})
    slow.commit()
    slow = main.transaction(isolation="serializable")
    slow.sql("SELECT sum(amount) FROM orders WHERE id BETWEEN 0 AND 3").to_arrow()
    slow.upsert("orders", {"id": [9], "amount": [1.0]})
    main.update("orders", {"id": [2], "amount": [0.0]})
    with pytest.raises(livingdb.TransactionConflict, match="read"):
        slow.commit()


def test_where_prunes_and_filters(main: Branch) -> None:
    found = main.table("orders").to_arrow(columns=["id"], where="amount > 4 AND id <> 7")
    assert found["id"].to_pylist() == [5, 6, 8, 9]
    assert main.table("orders").to_pandas(where="id = 1")["city"][0] == "Oslo"
    assert main.table("orders").to_polars(where="id = 1").shape == (1, 4)
    with pytest.raises(livingdb.LivingDBError):
        main.table("orders").to_arrow(where="nope = 1")
    with pytest.raises(livingdb.LivingDBError):
        main.table("orders").to_arrow(where="id = ; DROP")


def test_system_tables(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.update("orders", {"id": [1], "city": ["Rome"]}, message="moved", author="bob")
    log = main.sql("SELECT message FROM livingdb.log ORDER BY sequence").to_arrow()
    assert log["message"].to_pylist() == [
        "create the database",
        "create table orders",
        "ten orders",
    ]
    names = main.sql("SELECT name, origin FROM livingdb.branches ORDER BY name").to_arrow()
    assert names.to_pylist() == [
        {"name": "dev", "origin": "main"},
        {"name": "main", "origin": None},
    ]
    kinds = main.sql("SELECT kind, count(*) AS n FROM livingdb.edges GROUP BY kind ORDER BY kind")
    assert list(kinds) == [{"kind": "clone", "n": 1}, {"kind": "transaction", "n": 3}]
    diff = main.sql("SELECT id, _change_type FROM livingdb.diff('main', 'dev', 'orders')")
    assert list(diff) == [{"id": 1, "_change_type": "update"}]
    assert list(main.sql("SELECT * FROM livingdb.diff('main', 'main', 'orders')")) == []
    blame = dev.sql("SELECT author FROM livingdb.blame('orders') WHERE id = 1")
    assert list(blame) == [{"author": "bob"}]
    history = dev.sql("SELECT city FROM livingdb.history('orders') WHERE id = 1 ORDER BY time")
    assert [row["city"] for row in history] == ["Oslo", "Rome"]
    with pytest.raises(livingdb.NotFound, match="blame"):
        main.sql("SELECT * FROM livingdb.nope")
    with pytest.raises(livingdb.LivingDBError):
        main.sql("SELECT * FROM livingdb.blame('nope')")


def test_a_million_rows(db: Database) -> None:
    import numpy as np

    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "double", "k": "int"}, key="id")
    rows = 1_000_000
    chance = np.random.default_rng(2)
    data = pa.table({"id": np.arange(rows), "v": chance.random(rows), "k": np.arange(rows) % 10})
    main.insert("t", data)
    main.sql("UPDATE t SET v = 0 WHERE k = 3")
    [row] = main.sql("SELECT count(*) AS n, sum(v) AS s FROM t WHERE k = 3")
    assert row == {"n": rows // 10, "s": 0.0}
    [row] = main.sql("SELECT v FROM t WHERE id = 123456")
    assert row["v"] == data["v"][123456].as_py()
    assert main.sql("DELETE FROM t WHERE id >= 900000").changed == 100_000
    assert len(main.table("t")) == 900_000
    [row] = main.sql("SELECT count(*) AS n FROM t VERSION AS OF 'main~2'")
    assert row == {"n": rows}


def test_a_condition_is_answered_by_the_engine_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(name: str) -> object:
        assert name == "embedded"
        return load_engine(name)

    monkeypatch.setattr(engine_choice, "load_engine", no_spark)
    with livingdb.create(tmp_path / "one.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int", "x": "double"}, key="id")
        main.insert("t", [{"id": 1, "x": 1.5}])
        condition = "x = '1.5'"  # which is not the same on every engine
        assert len(main.table("t").to_arrow(where=condition)) == 1
        with main.transaction() as tx:
            assert len(tx.table("t").to_arrow(where=condition)) == 1
