"""Tables and views as they were: by snapshot, tag, time, and source.

python examples/09_time_travel.py
"""

from __future__ import annotations

import tempfile

import livingdb
from livingdb.evolution import RenameColumn


def main(home: str) -> None:
    """Change rows and the schema, and read everything back."""
    db = livingdb.create(f"{home}/shop.ldb")
    branch = db.branch("main")
    branch.create_table("orders", {"id": "bigint", "city": "string", "price": "bigint"}, key="id")
    opening = branch.insert("orders", [{"id": 1, "city": "Oslo", "price": 100}])
    db.tag("opening", opening)
    branch.insert("orders", [{"id": 2, "city": "Oslo", "price": 50}])
    query = "SELECT city, sum(price) AS revenue FROM orders GROUP BY city"
    branch.derive("revenue", query, when="immediate")
    moment = db.at("revenue").time
    branch.update("orders", [{"id": 1, "price": 120}])

    print("now:          ", db.at("revenue").table("revenue").get("Oslo"))
    print("one before:   ", db.at("revenue~1").table("revenue").get("Oslo"))
    print("at that time: ", db.at(f"revenue@{moment.isoformat()}").table("revenue").get("Oslo"))
    past = db.derived_at("revenue", source="opening")
    print("from the tag: ", past.table("revenue").get("Oslo"))
    for row in db.history("main", "orders", 1).to_pylist():
        print("  order 1 was", row["price"], "-", row["_change_type"])

    sql = "SELECT n.id, o.price AS was, n.price AS is FROM orders n JOIN orders "
    sql += "VERSION AS OF 'opening' o ON o.id = n.id WHERE o.price <> n.price"
    print("in SQL:       ", list(branch.sql(sql)))

    branch.evolve(RenameColumn("orders", "price", "amount"))
    print("old rows, old schema:", db.at("opening").table("orders").get(1))
    print("old rows, new schema:", db.at("opening", schema="main").table("orders").get(1))
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
