"""The schema changes while the old application goes on writing.

python examples/02_schema_change.py
"""

from __future__ import annotations

import tempfile

import livingdb
from livingdb.evolution import AddColumn, SplitColumn


def main(home: str) -> None:
    """Split a column and add one; write on both sides, and see both."""
    db = livingdb.create(f"{home}/shop.ldb")
    new = db.branch("main")
    new.create_table("customers", {"id": "bigint", "name": "string", "city": "string"}, key="id")
    new.insert("customers", [{"id": 1, "name": "Anna Aas", "city": "Oslo"}])

    change = SplitColumn("customers", "name", ["given", "family"], separator=" ")
    print(new.explain_evolution(change))
    new.evolve(
        [change, AddColumn("customers", "vip", "boolean", default=False)],
        keep="main_v1",
        sync="both",
    )
    old = db.branch("main_v1")

    old.sql("INSERT INTO customers VALUES (2, 'Kari Nordmann', 'Bergen')")
    print("new application:", new.table("customers").get(2))
    new.sql("UPDATE customers SET family = 'Vik', vip = true WHERE id = 2")
    print("old application:", old.table("customers").get(2))

    old.sql("UPDATE customers SET city = 'Bodø' WHERE id = 2")
    print("vip is kept:    ", new.table("customers").get(2))
    print(db.sync("main_v1"))
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
