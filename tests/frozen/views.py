"""Derived objects as a frozen database has them: kept in every way, guarded, stopped, watched."""

from __future__ import annotations

from tests.frozen.shop import order_rows

from livingdb import Database, alert, condition
from livingdb.evolution import DropColumn

__all__ = ["make_trouble", "make_views"]

_HERE = "tests.frozen.functions"


def make_views(db: Database) -> None:
    """Views of every kind, models, and what guards and watches them; all in good order."""
    main = db.branch("main")
    db.label("customers.email", "pii")
    db.label("customers.name", "pii")
    db.label("orders.net", "money")
    db.set_alert_sinks([alert.log(severity="error")])
    db.watch("schemas", alert.on_schema_change("orders", branch="main"), severity="info")
    db.watch("merges", alert.on_merge(into="main"), alerts=[alert.callback(f"{_HERE}:hear")])
    db.watch("growth", alert.on_growth("500 MB", per="1 day"))
    main.derive(
        "totals",
        "SELECT city, count(*) AS orders, sum(net) AS total FROM orders GROUP BY city",
        when="immediate",
        conditions=[condition.max_changed_share(0.9, action="hold"), condition.only_additive()],
        message="what each city bought",
    )
    main.derive("above", "SELECT city, total FROM totals WHERE total > 100", when="immediate")
    main.derive(
        "by_customer",
        "SELECT c.id, c.name, count(o.id) AS orders, max(o.net) AS most FROM customers c "
        "LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id, c.name",
        key="id",
    )
    main.clone("what_if", derived="_if")
    main.derive(
        "compared",
        "SELECT m.id, m.net, d.amount FROM main.orders m JOIN dev.orders d ON m.id = d.id "
        "WHERE m.net <> d.amount",
        when="immediate",
    )
    main.derive("kinds", "SELECT kind, count(*) AS n, min(size) AS least FROM events GROUP BY kind")
    main.derive("recent", "SELECT id, day FROM orders ORDER BY day DESC LIMIT 5", when="on demand")
    main.derive("hourly", "SELECT DISTINCT item FROM lines", when="every 1 hour")
    main.derive("lagging", "SELECT id, net FROM orders WHERE paid", when="lag 10 minutes")
    main.derive(
        "lazy_items",
        "SELECT item, sum(quantity) AS quantity FROM lines GROUP BY item",
        when="immediate",
        materialize="lazy",
    )
    main.derive(
        "live_orders",
        "SELECT id, city, net FROM orders WHERE NOT paid",
        when="immediate",
        materialize="none",
    )
    main.derive(
        "hot_orders",
        "SELECT id, day, net FROM orders",
        when="immediate",
        materialize="where day >= '2024-04-01'",
    )
    main.derive("twice", "SELECT kind, n * 2 AS n FROM kinds", when="downstream")
    main.derive("of_twice", "SELECT sum(n) AS n FROM twice")
    main.derive("made_once", "SELECT id, name FROM customers", sync="none")
    main.derive(
        "open_orders", "SELECT id, city, net AS due FROM orders WHERE net >= 50", sync="both"
    )
    main.derive("renewed", "SELECT id FROM orders WHERE id < 5", when="immediate")
    main.derive(
        "renewed", "SELECT id, city FROM orders WHERE id < 9", when="immediate", replace=True
    )
    _make_guarded(db)
    main.derive(
        "model",
        model=f"{_HERE}:train",
        tables=["lines"],
        params={"factor": 2},
        conditions=[condition.min_score("score", 0.1)],
    )
    main.derive("fragile", model=f"{_HERE}:train_or_fail", tables=["lines"])
    main.derive(
        "features",
        spark=f"{_HERE}:features",
        tables=["lines"],
        key="item",
        when="on demand",  # who opens it later may have no Spark
    )
    db.branch("dev").derive("dev_cities", "SELECT DISTINCT city FROM orders", when="immediate")
    db.branch("masked_now").derive(
        "mails", "SELECT email, count(*) AS n FROM customers GROUP BY email"
    )


def _make_guarded(db: Database) -> None:
    """Views with conditions of every class."""
    main = db.branch("main")
    main.derive(
        "clean_orders",
        "SELECT id, customer, city, net FROM orders",
        when="immediate",
        conditions=[
            condition.not_null("city", action="quarantine"),
            condition.in_range("net", 0, 150, action="quarantine"),
            condition.no_orphans("customer", "customers", action="warn"),
        ],
        alerts=[alert.callback(f"{_HERE}:deaf", attempts=1)],
    )
    main.derive(
        "guarded",
        "SELECT id, net FROM orders",
        when="immediate",
        conditions=[
            condition.max_changed(8, action="hold", severity="critical"),
            condition.mean_between("net", 0, 10_000, action="warn"),
            condition.not_authors("mallory", action="hold"),
        ],
        alerts=[alert.command("no-such-program --loud"), alert.log()],
    )
    main.derive(
        "approved",
        "SELECT id, name FROM customers",
        conditions=[
            condition.approval(by=["ann", "bob"]),
            condition.max_age("3650 days", action="warn"),
            condition.no_full_refresh(action="warn"),
        ],
    )
    main.derive(
        "checked",
        "SELECT id, paid FROM orders",
        when="immediate",
        conditions=[
            condition.sql("SELECT id FROM checked WHERE id < 0", action="fail"),
            condition.function(f"{_HERE}:at_most", rows=1000, action="detach"),
            condition.parse("rows BETWEEN 1 AND 1000 OR authors('ann')", action="warn")[0],
            condition.no_label("pii", action="detach"),
        ],
    )


def make_trouble(db: Database) -> None:
    """What stops syncs: held, detached, in error, behind; and what people did about it."""
    main = db.branch("main")
    main.derive("broken", "SELECT id, note FROM orders", when="immediate")
    main.derive("left", "SELECT id, city FROM customers", when="immediate")
    db.watch("behind", alert.on_lag("by_customer", "3650 days"))
    db.watch("failing", alert.on_failures("fragile", times=2))
    main.insert("orders", _orders(db, range(90, 96)), message="six more")
    main.update("orders", {"id": [90, 91], "net": [9999, -5]}, message="two out of range")
    main.update("orders", {"id": [90], "net": [99]}, message="one of them is mended")
    main.insert("customers", [{"id": 20, "name": "Liv"}], message="to be approved")
    db.propagate()
    db.sync("approved").approve(by="bob", note="I know her")
    db.refresh("recent")
    main.sql("SELECT * FROM lazy_items")  # stored from now on
    main.update("lines", {"order": [2], "line": [1], "quantity": [150]}, message="out of range")
    for _ in range(4):
        db.propagate()
    main.insert("orders", _orders(db, range(100, 112)), message="too many at once")
    first = db.sync("guarded")
    assert first.state == "held", first
    first.approve(by="ann", note="a busy day")
    main.insert("orders", _orders(db, range(112, 124)), message="too many once more")
    main.evolve(DropColumn("orders", "note"), keep="main_v3", sync="both", message="no notes")
    db.sync("left").detach(reason="ann looks after it", by="ann")
    db.branch("left").insert("left", [{"id": 77, "city": "by hand"}], message="by hand")
    main.insert("customers", [{"id": 21, "name": "Siri"}], message="nobody approved of her")
    db.propagate()
    main.insert("lines", [{"order": 90, "line": 1, "item": "late", "quantity": 3}])
    main.sql("UPDATE events SET size = 7 WHERE id < 30", message="nobody has seen it yet")
    side = main.clone("side")
    side.update("customers", {"id": [2], "city": ["Moss"]}, author="bob", message="to be merged")
    main.update("customers", {"id": [3], "city": ["Rana"]}, message="beside it")
    db.merge("side", into="main", message="a merge that is watched")
    db.deliver_alerts(wait_seconds=30)
    _answer_alerts(db)


def _orders(db: Database, numbers: range) -> list[dict[str, object]]:
    """Orders in the schema that main has now."""
    rows = order_rows(numbers).rename_columns(
        ["id", "customer", "city", "net", "paid", "placed", "day", "note"]
    )
    return rows.select(["id", "customer", "city", "net", "paid", "placed", "day"]).to_pylist()


def _answer_alerts(db: Database) -> None:
    """Some alerts stay open, one is acknowledged, one is settled."""
    waiting = db.alerts(state="open")
    assert len(waiting) > 3, waiting
    waiting[0].acknowledge(by="ann", note="I look")
    waiting[1].resolve(by="bob", note="done")
    states = {sync.state for sync in db.syncs()}
    assert states == {"active", "held", "detached", "error"}, states
