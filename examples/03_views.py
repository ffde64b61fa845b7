"""Views that follow their tables: at once, soon, every hour, or when asked.

python examples/03_views.py
"""

from __future__ import annotations

import tempfile

import livingdb

BY_CITY = "SELECT city, count(*) AS orders, sum(price) AS revenue FROM orders GROUP BY city"
DEAR = "SELECT id, price FROM orders WHERE price > 80"
TOP = "SELECT city, price, row_number() OVER (ORDER BY price DESC, id) AS place, id FROM orders"


def main(home: str) -> None:
    """Derive, change the source, and see who is how far behind."""
    db = livingdb.create(f"{home}/shop.ldb")
    branch = db.branch("main")
    branch.create_table(
        "orders", {"id": "bigint", "city": "string", "price": "decimal(10, 2)"}, key="id"
    )
    cities = ["Oslo", "Bergen", "Bodø"]
    rows = [{"id": i, "city": cities[i % 3], "price": i % 100} for i in range(3000)]
    branch.insert("orders", rows)

    branch.derive("revenue", BY_CITY, when="immediate")
    branch.derive("dear", DEAR, when="deferred", engine="embedded")
    branch.derive("ranking", TOP, when="every 1 hour", key="id", engine="embedded")
    print(db.sync("ranking").explain())

    branch.sql("UPDATE orders SET price = 99 WHERE id = 3")
    print("at once:", db.branch("revenue").table("revenue").get("Oslo"))
    for sync in db.syncs():
        print(f"{sync.target:8} {sync.when:12} behind by {int(sync.lag)}")

    print("due now:", db.propagate())
    print("asked for:", db.refresh("ranking"))
    print("made from:", db.at("ranking").sources)
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
