"""Nine orders, for tests of what is derived from them."""

from __future__ import annotations

import livingdb

__all__ = ["CITIES", "nine_orders"]

CITIES = ["Oslo", "Rome", None]


def nine_orders(branch: livingdb.Branch) -> livingdb.Branch:
    """The branch with nine orders of three customers, in two cities and in none."""
    branch.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
    branch.create_table(
        "orders",
        {
            "id": "bigint",
            "customer": "bigint",
            "city": "string",
            "amount": "bigint",
            "note": "string",
        },
        key="id",
        foreign_keys={"customer": "customers"},
    )
    branch.insert("customers", [{"id": i, "name": f"name {i}"} for i in range(3)])
    rows = [
        {"id": i, "customer": i % 3, "city": CITIES[i % 3], "amount": i * 10, "note": None}
        for i in range(9)
    ]
    branch.insert("orders", rows, message="nine orders")
    return branch
