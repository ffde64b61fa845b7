"""Lineage of views that only Spark can answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import livingdb

QUERY = (
    "SELECT soundex(c.name) AS sound, sum(o.amount) AS total FROM orders o "
    "JOIN customers c ON o.customer = c.id GROUP BY soundex(c.name)"
)


@pytest.mark.slow
def test_a_view_of_spark(spark: Any, tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        main.create_table(
            "orders", {"id": "bigint", "customer": "bigint", "amount": "bigint"}, key="id"
        )
        names = ["Robert", "Rupert", "Ann", None]
        main.insert("customers", [{"id": i, "name": name} for i, name in enumerate(names)])
        main.insert("orders", [{"id": i, "customer": i % 4, "amount": i} for i in range(8)])
        main.derive("sounds", QUERY, when="deferred")
        found = db.lineage("sounds", {"sound": "R163"})
        assert found["customers"].column("id").to_pylist() == [0, 1]
        assert found["orders"].column("id").to_pylist() == [0, 1, 4, 5]
        assert found.whole == ()
        assert db.lineage("sounds", {"sound": None})["orders"].column("id").to_pylist() == [3, 7]
        changed = db.forward_lineage("main", "orders", 5)["sounds"]
        assert set(changed.column("sound").to_pylist()) == {"R163"}
        assert db.column_lineage("sounds")["sound"] == ["customers.name"]
