"""Databases in which something that syncs rely upon is not what it was.

One database is made once; each situation is a copy of it to which something happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.composition import named_functions

import livingdb
from livingdb import condition as c
from livingdb.evolution import (
    AddColumn,
    DropColumn,
    DropTable,
    MaskColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
)

__all__ = ["SITUATIONS", "VIEWS", "Seen", "Situation", "make_base"]

TRUST = ["tests.composition.named_functions*"]
TRAIN = "tests.composition.named_functions:train"
CHECK = "tests.composition.named_functions:is_small"
ORDERS = {"id": "bigint", "city": "string", "amount": "int", "note": "string"}
CITIES = {"name": "string", "people": "int"}
VIEWS = ("seen", "sums", "tops", "gaps", "model", "careful")
"""What is derived, other than by schema changes; each is one table of that name."""

Database = livingdb.Database


@dataclass(frozen=True)
class Seen:
    """What a sync says of itself: its state, how far behind it is, and why, in some words."""

    state: str
    lag: int | None
    reason: str = ""


@dataclass(frozen=True)
class Situation:
    """What happened, and what some of the syncs say then; `trust` is that of who looks."""

    happen: Callable[[Database], object]
    seen: Mapping[str, Seen] = field(default_factory=dict)
    trust: tuple[str, ...] = tuple(TRUST)


def make_base(path: Path) -> None:
    """Two branches, and derived objects and lenses of every kind over them."""
    with livingdb.create(path, author="ann", engine="embedded", trust=TRUST) as db:
        main = db.branch("main")
        main.create_table("cities", CITIES, key="name")
        main.insert("cities", {"name": ["Oslo", "Rome"], "people": [7, 9]})
        main.create_table("orders", ORDERS, key="id")
        main.insert("orders", _orders(1, 2, 3))
        dev = main.clone("dev")
        dev.insert("orders", _orders(7))
        main.derive("seen", "SELECT id, amount FROM orders WHERE amount > 1", when="immediate")
        main.derive("sums", "SELECT city, sum(amount) AS total FROM orders GROUP BY city")
        db.branch("seen").derive("tops", "SELECT id, amount AS most FROM seen WHERE amount > 2")
        main.derive("gaps", "SELECT a.id, b.amount FROM orders a JOIN dev.orders b ON a.id = b.id")
        main.derive("model", model=TRAIN, tables=["orders"])
        main.derive(
            "careful",
            "SELECT id, amount FROM orders",
            conditions=[
                c.no_orphans("id", "orders.id", action="quarantine"),
                c.function(CHECK, action="hold"),
            ],
        )
        main.clone("masked", transform=[_MASK], sync="forward", when="deferred")
        old = main.clone("old")
        old.evolve(AddColumn("orders", "rank", "int", default=0), to="next", sync="both")
        plain = main.clone("plain")
        plain.evolve(RenameColumn("orders", "amount", "net"), to="netted", sync="forward")


_MASK = MaskColumn("orders", "note", key="secret")


def _orders(*numbers: int) -> list[dict[str, object]]:
    return [{"id": n, "city": "Oslo", "amount": n, "note": f"note {n}"} for n in numbers]


# --- what happens ---------------------------------------------------------------------------------


def _evolve(change: object, then: bool = False) -> Callable[[Database], object]:
    """A schema change of main; `then`: and what is due is done."""

    def happen(db: Database) -> None:
        db.branch("main").evolve(change)
        if then:
            db.propagate()

    return happen


def _made_anew(db: Database) -> None:
    main = db.branch("main")
    main.evolve(DropTable("orders"))
    main.create_table("orders", {"number": "string", "what": "double"}, key="number")


def _reset_main(db: Database) -> None:
    db.branch("main").insert("orders", _orders(4))
    db.propagate()
    db.branch("main").reset("main~2")


def _reset_and_go_on(db: Database) -> None:
    _reset_main(db)
    db.branch("main").insert("orders", _orders(5))
    db.branch("main").insert("orders", _orders(6))


def _detach(db: Database, *names: str) -> None:
    for name in names:
        db.sync(name).detach()


def _detach_all_and_write(db: Database) -> None:
    _detach(db, "seen", "sums", "masked", "next", "netted")
    db.branch("main").insert("orders", _orders(4))
    db.branch("old").insert("orders", _orders(4))
    db.branch("next").insert("orders", [{**_orders(5)[0], "rank": 1}])
    db.branch("next").insert("orders", [{**_orders(6)[0], "rank": 1}])
    db.branch("plain").insert("orders", _orders(4))


def _detach_and_rename(db: Database) -> None:
    _detach(db, "seen", "sums")
    db.branch("main").evolve(RenameTable("orders", "sales"))
    db.branch("main").evolve(RenameColumn("sales", "amount", "net"))


def _detach_and_lose_sources(db: Database) -> None:
    _detach(db, "old/next")
    db.branch("old").evolve(DropTable("orders"))
    db.branch("next").evolve(DropColumn("orders", "amount"))


def _evolve_views(db: Database) -> None:
    _detach(db, "seen", "sums", "masked", "tops")
    seen = db.branch("seen")
    seen.evolve(AddColumn("seen", "twice", "int", computed="amount * 2"))
    seen.evolve(RenameColumn("seen", "amount", "net"))
    db.branch("sums").evolve(DropColumn("sums", "total"))
    db.branch("masked").evolve(RenameColumn("orders", "note", "text"))
    db.branch("tops").evolve(RenameTable("tops", "best"))


def _write_views(db: Database) -> None:
    _detach(db, "seen", "sums", "masked")
    db.branch("seen").update("seen", [{"id": 2, "amount": 20}])
    db.branch("seen").insert("seen", [{"id": 70, "amount": 20}])
    db.branch("sums").delete("sums", ["Oslo"])
    db.branch("masked").update("orders", [{"id": 2, "amount": 20}])
    db.branch("main").insert("orders", _orders(4))


def _replace_view_tables(db: Database) -> None:
    _detach(db, "seen")
    db.branch("seen").create_table("other", {"id": "bigint"}, key="id")
    db.branch("seen").create_table("third", {"id": "bigint"}, key="id")
    db.branch("seen").evolve(DropTable("seen"))


def _reset_view_elsewhere(db: Database) -> None:
    _detach(db, "seen")
    db.branch("seen").reset("main")


def _hold(db: Database) -> None:
    db.branch("main").insert("orders", _orders(400))
    db.propagate()


def _unjudged(db: Database) -> None:
    db.branch("main").insert("orders", _orders(4))


def _fail_model(db: Database) -> None:
    with named_functions.failing():
        for number in (4, 5, 6):
            db.branch("main").insert("orders", _orders(number))
            db.propagate()


def _break_lens(db: Database) -> None:
    """A lens that is not what it was in the catalog: nothing knows its change any more."""
    graph = db._graph
    sync = next(row for row in graph.catalog.syncs.all() if row.name == "plain/netted")
    change = {**sync.spec["change"], "change": "RenameColumn", "name": "lost"}
    with graph.catalog.write() as connection:
        graph.catalog.syncs.set_spec(connection, sync.id, {**sync.spec, "change": change})
        graph.catalog.raise_epoch(connection)


def _lose_condition(db: Database) -> None:
    """A condition of a version of the software that is not this one."""
    graph = db._graph
    sync = next(row for row in graph.catalog.syncs.all() if row.name == "main/careful")
    guard = {"conditions": [{"name": "of_tomorrow", "text": "of_tomorrow(3)", "action": "hold"}]}
    with graph.catalog.write() as connection:
        graph.catalog.syncs.set_guard(connection, sync.id, guard)
        graph.catalog.raise_epoch(connection)


def _lose_engine(db: Database) -> None:
    """Views of an engine that this machine does not have."""
    graph = db._graph
    with graph.catalog.write() as connection:
        for row in graph.catalog.syncs.all():
            if row.kind == "derive" and row.spec["what"] == "sql":
                graph.catalog.syncs.set_spec(connection, row.id, {**row.spec, "engine": "spark"})
        graph.catalog.raise_epoch(connection)
    db.branch("main").insert("orders", _orders(4))


def _drop_many(db: Database) -> None:
    for name in ("dev", "seen", "plain", "old"):
        db.drop_branch(name, detach=True)


def _drop_source(db: Database) -> None:
    other = db.branch("main").clone("other")
    other.derive("gone", "SELECT id, amount FROM orders", when="immediate")
    db.drop_branch("other", detach=True)


def _drop_and_make_anew(db: Database) -> None:
    _drop_source(db)
    db.branch("dev").clone("other")


IN_STEP = Seen("active", 0)
SITUATIONS: dict[str, Situation] = {
    "nothing": Situation(
        lambda db: None,
        dict.fromkeys((*VIEWS, "masked", "next", "netted"), IN_STEP),
    ),
    "a table renamed": Situation(
        _evolve(RenameTable("orders", "sales")), {"seen": IN_STEP, "sums": IN_STEP}
    ),
    "a table renamed, and propagated": Situation(
        _evolve(RenameTable("orders", "sales"), then=True), {"seen": IN_STEP, "sums": IN_STEP}
    ),
    "a table dropped": Situation(
        _evolve(DropTable("orders")),
        {
            "seen": Seen("detached", 1, "orders"),
            "sums": Seen("detached", 1, "orders"),
            "tops": IN_STEP,
            "masked": Seen("detached", 1, "orders"),
        },
    ),
    "a table dropped, and propagated": Situation(
        _evolve(DropTable("orders"), then=True),
        {"seen": Seen("detached", 1, "orders"), "model": Seen("detached", 1, "orders")},
    ),
    "a table made anew": Situation(
        _made_anew, {"seen": Seen("detached", 2), "sums": Seen("detached", 2)}
    ),
    "a column renamed": Situation(
        _evolve(RenameColumn("orders", "amount", "net")), {"seen": IN_STEP}
    ),
    "a column dropped": Situation(
        _evolve(DropColumn("orders", "amount")),
        {"seen": Seen("detached", 1, "amount"), "sums": Seen("detached", 1, "amount")},
    ),
    "a column dropped, and propagated": Situation(
        _evolve(DropColumn("orders", "note"), then=True), {"masked": Seen("detached", 1, "note")}
    ),
    "a column retyped": Situation(
        _evolve(RetypeColumn("orders", "amount", "string"), then=True),
        {"seen": Seen("detached", 1), "sums": Seen("detached", 1)},
    ),
    "a source reset": Situation(
        _reset_main,
        {"seen": IN_STEP, "sums": Seen("active", 1), "masked": Seen("active", 1)},
    ),
    "a source reset, and written": Situation(
        _reset_and_go_on,
        {"seen": IN_STEP, "sums": Seen("active", 2), "masked": Seen("active", 2)},
    ),
    "branches dropped": Situation(
        _drop_many,
        {
            "gaps": Seen("detached", 0, "'dev', which it reads, was dropped"),
            "tops": Seen("detached", None, "'seen', which it reads, was dropped"),
        },
    ),
    "the only source dropped": Situation(
        _drop_source, {"gone": Seen("detached", None, "'other', which it reads, was dropped")}
    ),
    "another branch of the name": Situation(
        _drop_and_make_anew, {"gone": Seen("detached", None, "was dropped")}
    ),
    "detached, and written": Situation(
        _detach_all_and_write,
        {
            "seen": Seen("detached", 1, "by hand"),
            "sums": Seen("detached", 1, "by hand"),
            "masked": Seen("detached", 1, "by hand"),
            "next": Seen("detached", 3, "by hand"),
            "netted": Seen("detached", 1, "by hand"),
            "model": Seen("active", 1),
        },
    ),
    "detached, and the source renamed": Situation(
        _detach_and_rename, {"seen": Seen("detached", 2), "sums": Seen("detached", 2)}
    ),
    "a lens detached, and both sides changed": Situation(
        _detach_and_lose_sources, {"next": Seen("detached", 2)}
    ),
    "views evolved by hand": Situation(
        _evolve_views,
        {
            **{name: Seen("detached", 0, "by hand") for name in ("seen", "sums", "masked")},
            "tops": Seen("detached", 2, "by hand"),
        },
    ),
    "views written by hand": Situation(
        _write_views,
        {name: Seen("detached", 1, "by hand") for name in ("seen", "sums", "masked")},
    ),
    "a view's table dropped by hand": Situation(
        _replace_view_tables, {"seen": Seen("detached", 0)}
    ),
    "a view reset to another branch": Situation(
        _reset_view_elsewhere, {"seen": Seen("detached", 5)}
    ),
    "held": Situation(_hold, {"careful": Seen("held", 1, "is_small"), "sums": IN_STEP}),
    "not trusted": Situation(
        _unjudged, {"model": Seen("active", 1), "careful": Seen("active", 1)}, ()
    ),
    "in error": Situation(_fail_model, {"model": Seen("error", 3, "out of order")}),
    "a lens that is not understood": Situation(_break_lens, {"netted": IN_STEP}),
    "a condition that is not understood": Situation(_lose_condition, {"careful": IN_STEP}),
    "an engine that is not there": Situation(
        _lose_engine, {"seen": Seen("active", 0), "sums": Seen("active", 1)}
    ),
}
