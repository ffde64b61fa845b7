"""Every class of conditions where it works: on views, on schema syncs of either kind, on models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.thinned import thinned
from tests.unit.guard.conditions.conftest import order

import livingdb
from livingdb import condition as c
from livingdb.condition import Condition
from livingdb.errors import RuleViolation
from livingdb.evolution import AddColumn, DropColumn

HERE = "tests.unit.guard.conditions.shop_checks"
KINDS = ("view", "forward", "both", "model")
QUERY = "SELECT id, customer, city, amount, note FROM orders"
Edit = Callable[[livingdb.Branch], object]


@dataclass(frozen=True)
class Side:
    """Where a condition looks: of a model, at what it is trained on."""

    of: str
    table: str


SIDES = {
    "view": Side("target", "v"),
    "forward": Side("target", "orders"),
    "both": Side("target", "orders"),
    "model": Side("source", "orders"),
}


def guarded(main: livingdb.Branch, kind: str, one: Condition) -> str:
    """A target of that kind, and its name."""
    if kind == "view":
        main.derive("v", QUERY, when="immediate", conditions=[one])
        return "v"
    if kind == "model":
        main.derive("m", model=f"{HERE}:train", when="deferred", conditions=[one])
        return "m"
    added = AddColumn("customers", "extra", "bigint")
    main.evolve(added, to="next", sync=kind, conditions=[one])
    return "next"


def add(**values: object) -> Edit:
    """Insert one order."""
    return lambda main: main.insert("orders", [order(20, **values)])


def put(*amounts: object) -> Edit:
    """Give the first orders other amounts."""
    return lambda main: main.update(
        "orders", [{"id": i, "amount": amount} for i, amount in enumerate(amounts)]
    )


def several(count: int) -> Edit:
    """Insert orders."""
    return lambda main: main.insert("orders", [order(20 + i) for i in range(count)])


def drop(count: int) -> Edit:
    """Delete the first orders."""
    return lambda main: main.delete("orders", list(range(count)))


def nowhere(count: int) -> Edit:
    """Insert orders of no city."""
    return lambda main: main.insert("orders", [order(20 + i, city=None) for i in range(count)])


def by(author: str) -> Edit:
    """Somebody inserts an order."""
    return lambda main: main.insert("orders", [order(20)], author=author)


Case = tuple[str, Callable[[Side], Condition], Edit, Edit]
CASES: list[Case] = [
    ("volume", lambda s: c.max_inserted(2, s.table, s.of), several(2), several(3)),
    ("share", lambda s: c.max_changed_share(0.2, s.table, s.of), several(2), several(3)),
    ("rows", lambda s: c.row_count(10, 12, s.table, s.of), several(2), several(3)),
    ("updated", lambda s: c.max_updated(2, s.table, s.of), put(1, 2), put(1, 2, 3)),
    ("deleted", lambda s: c.max_deleted(2, s.table, s.of), drop(2), drop(3)),
    ("changed", lambda s: c.max_changed(2, s.table, s.of), several(2), drop(3)),
    ("inserted share", lambda s: c.max_inserted_share(0.2, s.table, s.of), several(2), several(3)),
    ("updated share", lambda s: c.max_updated_share(0.2, s.table, s.of), put(1, 2), put(1, 2, 3)),
    ("deleted share", lambda s: c.max_deleted_share(0.2, s.table, s.of), drop(2), drop(3)),
    ("empty", lambda s: c.not_empty(s.table, s.of), drop(9), drop(10)),
    (
        "accepted",
        lambda s: c.accepted_values("city", ["Oslo", "Rome"], s.table, s.of),
        add(),
        add(city="Bern"),
    ),
    (
        "null rate",
        lambda s: c.max_null_rate("city", 0.1, s.table, s.of),
        nowhere(1),
        nowhere(2),
    ),
    (
        "deviation",
        lambda s: c.stddev_between("amount", 20, 40, s.table, s.of),
        put(9),
        put(500),
    ),
    (
        "deviation shift",
        lambda s: c.max_stddev_shift("amount", 0.2, s.table, s.of),
        put(9),
        put(500),
    ),
    ("distinct", lambda s: c.distinct_count("city", 1, 2, s.table, s.of), add(), add(city="Bern")),
    (
        "distinct shift",
        lambda s: c.max_distinct_shift("city", 0.4, s.table, s.of),
        add(),
        add(city="Bern"),
    ),
    (
        "quantile",
        lambda s: c.quantile_between("amount", 0.5, 30, 60, table=s.table, of=s.of),
        put(9),
        put(*[500] * 6),
    ),
    (
        "quantile shift",
        lambda s: c.max_quantile_shift("amount", 0.3, 0.5, table=s.table, of=s.of),
        put(9),
        put(*[500] * 6),
    ),
    ("not authors", lambda s: c.not_authors("bob"), by("ann"), by("bob")),
    ("null", lambda s: c.not_null("city", table=s.table, of=s.of), add(), add(city=None)),
    (
        "unique",
        lambda s: c.unique("note", table=s.table, of=s.of),
        add(note="x"),
        lambda m: m.insert("orders", [order(20, note="x"), order(21, note="x")]),
    ),
    ("range", lambda s: c.in_range("amount", 0, 200, s.table, s.of), add(), add(amount=201)),
    ("regex", lambda s: c.matches("city", "[A-Z].*", s.table, s.of), add(), add(city="oslo")),
    ("length", lambda s: c.length("city", 4, 4, s.table, s.of), add(), add(city="Bergen")),
    (
        "orphans",
        lambda s: c.no_orphans("customer", "main.orders.id", table=s.table, of=s.of),
        add(),
        add(customer=77),
    ),
    ("mean", lambda s: c.mean_between("amount", 40, 50, s.table, s.of), put(9), put(500)),
    ("shift", lambda s: c.max_mean_shift("amount", 0.1, s.table, s.of), put(9), put(500)),
    ("psi", lambda s: c.max_psi("amount", 0.5, 2, s.table, s.of), put(9), put(*[90] * 6)),
    ("ks", lambda s: c.max_ks("amount", 0.2, s.table, s.of), put(9), put(*[90] * 6)),
    ("authors", lambda s: c.authors("ann"), by("ann"), by("bob")),
    ("read", lambda s: c.max_rows_read(14), add(), several(15)),
    (
        "sql",
        lambda s: c.sql("SELECT * FROM orders WHERE amount < 0"),
        add(),
        add(amount=-1),
    ),
    (
        "function",
        lambda s: c.function(f"{HERE}:rows", table=s.table, of=s.of, most=10),
        add(),
        several(11),
    ),
    (
        "combined",
        lambda s: c.max_inserted(2, s.table, s.of) & ~c.authors("bob"),
        by("ann"),
        by("bob"),
    ),
]


def _name(one: Case | str) -> str:
    return one if isinstance(one, str) else one[0]


@pytest.mark.parametrize(("case", "kind"), thinned(CASES, KINDS, every=6), ids=_name)
def test_what_passes(db: livingdb.Database, main: livingdb.Branch, kind: str, case: Case) -> None:
    one = case[1](SIDES[kind])
    name = guarded(main, kind, one)
    before = db.branch(name).head
    case[2](main)
    db.propagate()
    assert db.sync(name).state == "active", db.sync(name).reason
    assert not db.alerts()
    assert db.branch(name).head != before
    assert one.text in db.branch(name).head.edge.details["conditions"]


@pytest.mark.parametrize(("case", "kind"), thinned(CASES, KINDS, every=6, first=1), ids=_name)
def test_what_is_stopped(
    db: livingdb.Database, main: livingdb.Branch, kind: str, case: Case
) -> None:
    one = case[1](SIDES[kind])
    name = guarded(main, kind, one)
    before = db.branch(name).head
    case[3](main)
    db.propagate()
    sync = db.sync(name)
    assert sync.state == "detached"
    assert sync.reason.startswith(f"{one.text}: ")
    assert "cannot be judged" not in sync.reason
    assert db.branch(name).head == before
    (alert,) = db.alerts()
    assert alert.event == "detached"
    assert sync.reason in alert.message


@pytest.mark.parametrize("kind", KINDS)
def test_too_often(db: livingdb.Database, main: livingdb.Branch, kind: str) -> None:
    name = guarded(main, kind, c.max_change_rate(4, "1 day"))
    made = len(db._graph.movements.of(db._graph.branch(name)))
    for number in range(5 - made):
        assert db.sync(name).state == "active"
        main.insert("orders", [order(20 + number)])
        db.propagate()
    assert db.sync(name).state == "detached"
    assert db.sync(name).reason.startswith("change_rate('1 day') <= 4: ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_frozen_times(
    db: livingdb.Database, main: livingdb.Branch, kind: str, is_frozen: bool
) -> None:
    end = "2999-01-01" if is_frozen else "2001-01-02"
    name = guarded(main, kind, c.freeze("2001-01-01", end))
    main.insert("orders", [order(20)])
    db.propagate()
    assert db.sync(name).state == ("detached" if is_frozen else "active")


@pytest.mark.parametrize("action", ["detach", "hold", "warn", "fail", "quarantine"])
def test_actions(db: livingdb.Database, main: livingdb.Branch, action: str) -> None:
    main.derive("v", QUERY, when="immediate", conditions=[c.not_null("city", action=action)])
    if action == "fail":
        with pytest.raises(RuleViolation, match="no value in city"):
            main.insert("orders", [order(20, city=None)])
        assert main.table("orders").get(20) is None
        return
    main.insert("orders", [order(20, city=None), order(21)])
    sync = db.sync("v")
    states = {"detach": "detached", "hold": "held"}
    assert sync.state == states.get(action, "active")
    rows = set(db.branch("v").table("v").to_arrow().column("id").to_pylist())
    wanted = {"warn": {20, 21}, "quarantine": {21}}.get(action, set())
    assert rows == {*range(10), *wanted}
    assert db.alerts()
    if action == "quarantine":
        assert sync.quarantined().column("id").to_pylist() == [20]


def test_scores(db: livingdb.Database, main: livingdb.Branch) -> None:
    guard = [c.min_score("score", 95.0), c.max_score_drop("score", 0.5)]
    main.derive("m", model=f"{HERE}:train", conditions=guard)
    main.update("orders", [{"id": 0, "amount": 10}])
    db.propagate()
    assert db.sync("m").state == "active"
    first = db.at("m").metrics
    main.update("orders", [{"id": 0, "amount": 61}])
    db.propagate()
    assert db.sync("m").state == "detached"
    assert "score_drop('score') <= 0.5" in db.sync("m").reason
    assert db.at("m").metrics == first


@pytest.mark.parametrize(
    "guard",
    [
        c.min_score("score", 94.0, action="hold"),
        c.max_score_drop("score", 0.5),
        c.min_score("score", 94.0) & c.max_score_drop("score", 0.5),
        ~(c.score("score") <= 80),
        c.min_score("score", 94.0) | (c.rows("m") <= 0),
    ],
    ids=lambda one: one.text,
)
def test_scores_do_not_stop_at_a_schema_change(
    db: livingdb.Database, main: livingdb.Branch, guard: c.Condition
) -> None:
    main.derive("m", model=f"{HERE}:train", conditions=[guard])
    first = db.at("m").metrics
    main.sql("ALTER TABLE orders ADD COLUMN extra bigint")
    main.sql("ALTER TABLE customers ADD COLUMN extra bigint")
    assert db.sync("m").state == "active"
    assert db.alerts() == []
    assert db.at("m").metrics == first, "it is the same model"
    assert db.sync("m").lag == 0
    main.update("orders", [{"id": 0, "amount": 2000}])
    db.propagate()
    assert db.sync("m").state == ("held" if guard.action == "hold" else "detached"), "it can stop"
    assert db.at("m").metrics == first


def test_a_score_that_was_approved_stays_so_over_a_schema_change(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("m", model=f"{HERE}:train", conditions=[c.min_score("score", 95.0, action="hold")])
    main.update("orders", [{"id": 0, "amount": 100}])
    db.propagate()
    assert db.sync("m").state == "held"
    assert db.sync("m").approve(by="bo")
    main.sql("ALTER TABLE orders ADD COLUMN extra bigint")
    assert db.sync("m").state == "active"


@pytest.mark.parametrize("kind", ["view", "model"])
def test_schemas(db: livingdb.Database, main: livingdb.Branch, kind: str) -> None:
    name = guarded(main, kind, c.no_destructive_change())
    main.sql("ALTER TABLE orders ADD COLUMN extra bigint")
    db.propagate()
    assert db.sync(name).state == "active"
    main.sql("ALTER TABLE orders RENAME COLUMN city TO town")
    db.propagate()
    assert db.sync(name).state == "detached"
    assert "is called 'town' now" in db.sync(name).reason


def test_reconciled(db: livingdb.Database, main: livingdb.Branch) -> None:
    guard = [c.reconciles("orders.amount", "v.amount"), c.counts_reconcile("orders", "v")]
    main.derive("v", "SELECT id, amount FROM orders WHERE amount >= 0", conditions=guard)
    main.insert("orders", [order(20), order(21)])
    db.propagate()
    assert db.sync("v").state == "active"
    details = db.at("v").edge.details
    assert set(details["statistics"]) == {"source orders.amount", "target v.amount"}
    main.insert("orders", [order(22, amount=-1)])
    db.propagate()
    assert db.sync("v").state == "detached"
    assert "is 859, v.amount of the target 860" in db.sync("v").reason
    assert "orders of the source is 13, v of the target 12" in db.sync("v").reason


def test_statistics_are_not_read_again(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from livingdb.guard.conditions.statistics import Statistics

    guard = [c.reconciles("orders.amount", "v.amount"), c.mean("amount") <= 10**9]
    main.derive("v", QUERY, when="immediate", conditions=guard)
    main.insert("orders", [order(20)])

    def never(*_: object) -> None:
        raise AssertionError("a whole column was read")

    monkeypatch.setattr(Statistics, "_scan_column", never)
    for number in range(21, 25):
        main.insert("orders", [order(number)])
        main.update("orders", [{"id": 3, "amount": number}])
        main.delete("orders", [number])
    assert db.sync("v").state == "active"
    assert not db.alerts()


def test_rows_set_aside_stay_aside(db: livingdb.Database, main: livingdb.Branch) -> None:
    guard = [
        c.sql("SELECT id FROM v WHERE amount < 0", action="quarantine"),
        c.no_orphans("customer", "customers", action="quarantine"),
    ]
    query = (
        "SELECT o.id, o.customer, o.amount FROM orders o LEFT JOIN customers c ON o.customer = c.id"
    )
    main.derive("v", query, when="immediate", conditions=guard)
    main.insert("orders", [order(20, amount=-5)])
    main.delete("customers", [2])
    aside = {20, 2, 5, 8}
    for number in range(30, 33):
        main.insert("orders", [order(number, customer=0)])
        sync = db.sync("v")
        assert sync.state == "active", sync.reason
        assert set(sync.quarantined().column("id").to_pylist()) == aside
    main.update("orders", [{"id": 20, "amount": 5, "customer": 0}])
    assert set(db.sync("v").quarantined().column("id").to_pylist()) == aside - {20}
    assert db.branch("v").table("v").to_arrow().num_rows == 14 - 3


def test_frozen(db: livingdb.Database, main: livingdb.Branch) -> None:
    always = c.freeze("2000-01-01", "2200-01-01", action="hold")
    main.derive("v", QUERY, when="deferred", conditions=[always])
    main.insert("orders", [order(20)])
    db.propagate()
    assert db.sync("v").state == "held"
    assert "no change crosses until 2200-01-02" in db.sync("v").reason


def test_approved(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", QUERY, conditions=[c.approval(["bob", "eve"], at_least=2)])
    main.insert("orders", [order(20)])
    db.propagate()
    assert db.sync("v").state == "held"
    for who, state in (("ann", "held"), ("bob", "held"), ("eve", "active")):
        db.sync("v").approve(by=who)
        db.propagate()
        assert db.sync("v").state == state
    assert db.branch("v").table("v").to_arrow().num_rows == 11


@pytest.mark.parametrize("action", ["approve", "resume", "reattach"])
def test_a_held_view_that_reads_what_is_gone(
    db: livingdb.Database, main: livingdb.Branch, action: str
) -> None:
    """It says what can be done, and nobody has approved of anything."""
    main.derive("v", QUERY, when="immediate", conditions=[c.max_changed(0, action="hold")])
    main.insert("orders", [order(20)])
    assert db.sync("v").state == "held"
    main.evolve(DropColumn("orders", "amount"))
    before = db.sync("v").trail
    with pytest.raises(livingdb.InvalidData, match=r"'amount' of 'orders'.*gone.*replace=True"):
        getattr(db.sync("v"), action)(by="ann")
    assert (db.sync("v").state, db.sync("v").trail) == ("held", before)
    main.derive("v", "SELECT id, city FROM orders", when="immediate", replace=True)
    assert db.sync("v").state == "active"
    assert len(db.branch("v").table("v")) == 11


def test_an_approval_settles_the_alert(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", QUERY, when="immediate", conditions=[c.max_changed(0, action="hold")])
    main.insert("orders", [order(20)])
    assert [alert.state for alert in db.alerts()] == ["open"]
    db.sync("v").approve(by="bob")
    assert [(a.state, a.details["resolved"]["by"]) for a in db.alerts()] == [("resolved", "bob")]


@pytest.mark.parametrize("kind", ["view", "forward"])
def test_the_alerts_of_a_sync_go_with_its_branch(
    db: livingdb.Database, main: livingdb.Branch, kind: str
) -> None:
    """What has the same name afterwards is another matter, which sinks are told of."""
    for _ in range(2):
        name = guarded(main, kind, c.max_changed(0, action="hold"))
        main.update("orders", [{"id": 1, "note": f"note {len(db.alerts())}"}])
        (alert,) = db.alerts(state="open")
        assert alert.event == "held"
        assert "repeats" not in alert.details
        db.drop_branch(name, detach=True)
        assert db.alerts(state="open") == []
        assert db.alerts()[0].details["resolved"]["note"] == f"the branch {name!r} was dropped"
