"""From a number on a dashboard to the rows, the commits and the people behind it, and back.

python examples/08_lineage.py
"""

from __future__ import annotations

import tempfile

import livingdb

REVENUE = (
    "SELECT c.city, sum(o.price) AS revenue "
    "FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city"
)


def main(home: str) -> None:
    """Ask where a figure comes from, what it is computed of, and what a row would change."""
    db = livingdb.create(f"{home}/shop.ldb")
    branch = db.branch("main")
    branch.create_table("customers", {"id": "bigint", "city": "string"}, key="id")
    branch.create_table(
        "orders", {"id": "bigint", "customer": "bigint", "price": "bigint"}, key="id"
    )
    branch.insert("customers", [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bodø"}])
    first = [{"id": 10 + i, "customer": 1 + i % 2, "price": 100 + i} for i in range(6)]
    branch.insert("orders", first, author="anna", message="first orders")
    branch.derive("revenue", REVENUE, when="immediate")
    branch.update("orders", [{"id": 12, "price": 500}], author="lars", message="corrected")

    found = db.lineage("revenue", key=("Oslo",))
    print(found)
    for row in found.commits["orders"].to_pylist():
        print("  order", row["id"], "by", row["author"], "-", row["message"])
    print(db.column_lineage("revenue"))
    print("if order 13 changed:", db.forward_lineage("main", "orders", 13))
    print(db.provenance("revenue"))
    count = db.export_openlineage(f"{home}/events.jsonl")
    print(f"{count} OpenLineage events")
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
