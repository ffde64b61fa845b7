"""An UPDATE without WHERE: a condition stops it before the dashboard, and tells somebody.

python examples/07_guarded_dashboard.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import livingdb
from livingdb import alert, condition

BY_CITY = "SELECT city, sum(price) AS revenue FROM orders GROUP BY city"


def ring(event: dict[str, Any]) -> None:
    """Where alerts go; a webhook or a command would do as well."""
    print(f"ALERT ({event['severity']}) {event['sync']}: {event['message']}")


def main(home: str) -> None:
    """Guard a view, make the mistake, undo it, go on."""
    db = livingdb.create(f"{home}/shop.ldb", trust=[__name__])
    branch = db.branch("main")
    branch.create_table("orders", {"id": "bigint", "city": "string", "price": "bigint"}, key="id")
    cities = ["Oslo", "Bergen", "Bodø"]
    branch.insert("orders", [{"id": i, "city": cities[i % 3], "price": i} for i in range(999)])
    branch.derive(
        "revenue",
        BY_CITY,
        when="immediate",
        conditions=[condition.max_changed_share(0.2, table="orders", of="source", action="hold")],
        alerts=[alert.callback(f"{__name__}:ring")],
    )
    dashboard = db.branch("revenue").table("revenue")
    print("dashboard:", dashboard.get("Oslo"))

    branch.sql("UPDATE orders SET price = 0", author="lars", message="reset prices")
    db.deliver_alerts(wait_seconds=5)
    print("main:     ", next(iter(branch.sql("SELECT sum(price) AS everything FROM orders"))))
    print("dashboard:", db.branch("revenue").table("revenue").get("Oslo"))
    print(db.sync("revenue").state, "-", db.sync("revenue").reason)

    branch.revert("main", message="prices back")
    db.sync("revenue").resume(by="you")
    print(db.sync("revenue").state, [(one.event, one.state) for one in db.alerts()])
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
