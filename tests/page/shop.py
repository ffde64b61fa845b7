"""A small shop for the page: branches that differ, a view that was held, a request, a model."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pyarrow.compute as pc

import livingdb
from livingdb import condition

MODULE = "tests.page.shop"


def train(tables: dict[str, Any], factor: int = 1) -> tuple[bytes, dict[str, Any]]:
    """A model of as many bytes as there are orders."""
    count = tables["orders"].num_rows
    mean = float(pc.mean(tables["orders"]["net"]).as_py())
    return b"x" * count, {"rows": count * factor, "mean_net": mean, "method": "average"}


MAY_END = Event()


def train_for_long(tables: dict[str, Any]) -> bytes:
    """A model that is ready when it may be."""
    MAY_END.wait(60)
    return b"x" * tables["orders"].num_rows


def make_shop(path: Path) -> livingdb.Database:
    """The shop, open."""
    db = livingdb.create(path, trust=[MODULE])
    main = db.branch("main")
    schema = {"id": "bigint", "city": "string", "net": "decimal(10,2)"}
    main.create_table("orders", schema, key="id", message="create table orders", author="ann")
    rows = [{"id": n, "city": ("Oslo", "Bodø", "Moss")[n % 3], "net": n} for n in range(1, 41)]
    main.insert("orders", rows, message="the first orders", author="ann")
    totals = "SELECT city, count(*) AS orders, sum(net) AS total FROM orders GROUP BY city"
    main.derive("totals", sql=totals, when="immediate")
    few = condition.parse("changed <= 3", action="hold")
    main.derive("careful", sql="SELECT id, net FROM orders", conditions=few, when="immediate")
    main.derive("forecast", model=f"{MODULE}:train", when="on demand")
    main.update("orders", [{"id": 7, "net": 70}], message="seven was wrong", author="bob")
    dev = main.clone("dev")
    dev.update(
        "orders", [{"id": 1, "net": 11}, {"id": 2, "net": 22}], message="on dev", author="eva"
    )
    main.update("orders", [{"id": 1, "net": 111}], message="on main", author="ann")
    wish = main.clone("wish")
    wish.insert(
        "orders", [{"id": 100, "city": "Tromsø", "net": 5}], message="one more", author="eva"
    )
    db.request_merge("wish", into="main", title="One more order", author="eva")
    main.update(
        "orders", [{"id": n, "net": n + 1} for n in range(20, 26)], message="many", author="bob"
    )
    db.refresh("forecast")
    return db
