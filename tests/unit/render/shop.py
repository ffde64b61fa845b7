"""A shop with everything a picture shows: clones, merges, views, masks, schemas in sync."""

from __future__ import annotations

from pathlib import Path

import livingdb
from livingdb.evolution import AddColumn, MaskColumn, RenameColumn


def shop(path: Path) -> livingdb.Database:
    db = livingdb.create(path, author="ada")
    main = db.branch("main")
    main.create_table("orders", {"id": "bigint", "city": "string", "amount": "double"}, key="id")
    main.create_table("users", {"id": "bigint", "email": "string"}, key="id")
    main.insert("users", [{"id": 1, "email": "ada@example.org"}])
    orders = [{"id": n, "city": "Oslo", "amount": float(n)} for n in range(10)]
    main.insert("orders", orders, message="first orders")
    dev = main.clone("dev")
    main.clone("idle")
    dev.upsert("orders", [{"id": 3, "city": "Bergen", "amount": 5.0}], message="fix city")
    main.insert("orders", [{"id": 100, "city": "Bodø", "amount": 5.0}], author="grace")
    db.merge("dev", into="main")
    main.derive(
        "totals",
        sql="SELECT city, count(*) AS n FROM orders GROUP BY city",
        when="immediate",
        engine="embedded",
    )
    main.insert("orders", [{"id": 101, "city": "Bodø", "amount": 5.0}])
    main.clone("masked", transform=[MaskColumn("users", "email")], sync="forward")
    main.insert("users", [{"id": 2, "email": "grace@example.org"}])
    main.evolve(AddColumn("orders", "vat", "double", default=0.0), keep="main_v1", sync="both")
    both = [RenameColumn("orders", "vat", "tax"), AddColumn("orders", "pieces", "int", default=1)]
    main.evolve(both, keep="main_v2", sync="both")
    db.branch("main_v1").insert("orders", [{"id": 102, "city": "Bodø", "amount": 5.0}])
    db.tag("v1", "main")
    attempt = main.clone("attempt")
    attempt.delete("orders", [1, 2], message="an attempt")
    db.drop_branch("attempt")
    return db
