"""Views under a schema change that they cannot follow: they stop, or read the kept branch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.unit.commit.derived.shop import nine_orders

import livingdb
from livingdb.errors import InvalidData, LivingDBError, RuleViolation
from livingdb.evolution import (
    AddColumn,
    DropColumn,
    DropTable,
    MaskColumn,
    Normalize,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
)

CITIES = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
DROP = DropColumn("orders", "city")
MASK = [MaskColumn("orders", "amount", method="null")]


@pytest.fixture(params=["immediate", "deferred"])
def when(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(db: livingdb.Database, name: str) -> list[dict[str, Any]]:
    db.propagate()
    found = db.branch(name).table(name).to_arrow().to_pylist()
    return sorted(found, key=str)


def answer(branch: livingdb.Branch, query: str) -> list[dict[str, Any]]:
    return sorted(branch.sql(query).to_arrow().to_pylist(), key=str)


def write(branch: livingdb.Branch, number: int, **more: Any) -> None:
    branch.insert("orders", [{"id": number, "customer": 1, "amount": number, **more}])


@pytest.mark.parametrize("sync", ["both", "reverse"])
@pytest.mark.parametrize("said", ["view", "evolve", "alter"])
def test_moves(
    db: livingdb.Database, main: livingdb.Branch, when: str, sync: str, said: str
) -> None:
    more = {"on_break": "move"} if said == "view" else {}
    main.derive("cities", CITIES, when=when, **more)
    if said == "alter":
        db.sync("cities").alter(on_break="move")
        assert db.sync("cities").trail[0]["reason"] == "on_break: detach → move"
    more = {"on_break": "move"} if said == "evolve" else {}
    main.evolve(DROP, keep="v1", sync=sync, **more)
    found = db.sync("cities")
    assert (found.name, found.state, found.reason) == ("v1/cities", "active", "")
    assert "it reads 'v1' now" in found.trail[0]["reason"]
    assert db.alerts() == []
    write(main, 900)
    if sync == "both":
        write(db.branch("v1"), 901, city="Bergen")
        assert {"city": "Bergen", "total": 901} in rows(db, "cities")
    assert rows(db, "cities") == answer(db.branch("v1"), CITIES)
    assert db.check(deep=True).problems == []


def test_what_the_view_says_itself_gives_way_to_evolve(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    main.evolve(DROP, keep="v1", sync="both", on_break="detach")
    assert db.sync("cities").state == "detached"


@pytest.mark.parametrize(
    "change",
    [
        RetypeColumn("orders", "amount", "string", policy="reject"),
        Normalize("orders", ["city"], "places"),
        MaskColumn("orders", "city", key="secret"),
        [RenameColumn("orders", "amount", "price"), DropColumn("orders", "city")],
    ],
    ids=str,
)
def test_whatever_breaks_it(
    db: livingdb.Database, main: livingdb.Branch, when: str, change: SchemaChange
) -> None:
    main.derive("cities", CITIES, when=when, on_break="move")
    main.evolve(change, keep="v1", sync="both")
    write(db.branch("v1"), 900, city="Bergen")
    assert db.sync("cities").state == "active"
    assert rows(db, "cities") == answer(db.branch("v1"), CITIES)
    assert db.check(deep=True).problems == []


def test_the_default_detaches_and_names_what_is_kept(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    main.derive("cities", CITIES, when=when)
    main.evolve(DROP, keep="v1", sync="both")
    (alert,) = db.alerts()
    assert "city is gone" in alert.message
    assert "'v1' keeps the schema that it reads" in alert.message
    assert db.sync("cities").state == "detached"


CANNOT: dict[str, tuple[Any, dict[str, str], str]] = {
    "nothing is kept": (DROP, {}, "no branch keeps"),
    "no sync": (DROP, {"keep": "v1"}, "no sync carries changes there"),
    "a table is dropped": (
        DropTable("orders"),
        {"keep": "v1", "sync": "both"},
        "carries nothing of 'orders'",
    ),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_move_says_why(db: livingdb.Database, main: livingdb.Branch, case: str) -> None:
    change, options, reason = CANNOT[case]
    main.derive("cities", CITIES, when="immediate", on_break="move")
    main.evolve(change, **options)
    (alert,) = db.alerts()
    assert reason in alert.message
    assert db.sync("cities").state == "detached"


def test_a_merge_that_brings_the_change(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    dev = main.clone("dev")
    dev.evolve(DROP, keep="v1", sync="both")
    write(main, 900, city="Oslo")
    db.merge("dev", into="main")
    (alert,) = db.alerts()
    assert "no branch keeps the schema" in alert.message
    assert db.sync("cities").state == "detached"


@pytest.mark.parametrize("on_break", ["move", "detach"])
def test_a_view_over_a_masked_clone_stays_there(
    db: livingdb.Database, main: livingdb.Branch, when: str, on_break: str
) -> None:
    """The kept branch has the rows that are masked."""
    main.clone("masked", transform=MASK, sync="forward", when="immediate")
    db.branch("masked").derive("cities", CITIES, when=when)
    main.evolve(DROP, keep="v1", sync="both", on_break=on_break)
    db.propagate()
    (alert,) = db.alerts()
    assert "'v1'" not in alert.message
    assert (db.sync("cities").state, db.sync("cities").sources) == ("detached", ["masked"])
    assert db.check(deep=True).problems == []


def test_a_view_that_reads_a_masked_clone_of_the_branch_too(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.clone("masked", transform=MASK, sync="forward", when="immediate")
    joined = "SELECT o.id, o.city, c.city AS far FROM orders o JOIN masked.orders c ON o.id = c.id"
    main.derive("pairs", joined, when="immediate", on_break="move")
    main.evolve(DROP, keep="v1", sync="both")
    (alert,) = db.alerts()
    assert "it cannot move to 'v1': of 'masked'" in alert.message
    assert db.sync("pairs").state == "detached"
    assert db.check(deep=True).problems == []


def test_views_on_views(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.derive("cities", CITIES, when=when, on_break="move")
    main.derive("many", "SELECT count(*) AS n FROM cities", when=when)
    main.derive("amounts", "SELECT id, amount FROM orders", when=when)
    main.evolve(DROP, keep="v1", sync="both")
    write(db.branch("v1"), 900, city="Bergen")
    write(main, 901)
    assert [sync.name for sync in db.syncs() if sync.target == "amounts"] == ["main/amounts"]
    assert rows(db, "many") == answer(db.branch("v1"), f"SELECT count(*) AS n FROM ({CITIES})")
    assert answer(main, "SELECT * FROM many") == rows(db, "many")
    assert {"id": 901, "amount": 901} in rows(db, "amounts")
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("materialize", ["none", "lazy", "where total > 5"])
def test_views_that_are_not_stored(
    db: livingdb.Database, main: livingdb.Branch, materialize: str
) -> None:
    main.derive("cities", CITIES, when="deferred", materialize=materialize, on_break="move")
    main.evolve(DROP, keep="v1", sync="both")
    write(db.branch("v1"), 900, city="Bergen")
    assert rows(db, "cities") == answer(db.branch("v1"), CITIES)
    assert db.check(deep=True).problems == []


def test_a_view_that_is_held(db: livingdb.Database, main: livingdb.Branch) -> None:
    guard = [livingdb.condition.row_count(at_most=5, action="hold")]
    few = "SELECT id, city FROM orders WHERE amount > 880"
    main.derive("few", few, when="immediate", conditions=guard, on_break="move")
    main.insert("orders", [{"id": n, "customer": 1, "amount": n} for n in range(900, 910)])
    assert db.sync("few").state == "held"
    main.evolve(DROP, keep="v1", sync="both")
    assert (db.sync("few").state, db.sync("few").name) == ("held", "v1/few")
    assert db.sync("few").approve()
    assert len(rows(db, "few")) == 10
    assert db.check(deep=True).problems == []


def test_conditions_go_on(db: livingdb.Database, main: livingdb.Branch) -> None:
    guard = [livingdb.condition.row_count(at_most=12, action="hold")]
    all_of_them = "SELECT id, city FROM orders WHERE amount > 880"
    main.derive("few", all_of_them, when="immediate", conditions=guard, on_break="move")
    main.evolve(DROP, keep="v1", sync="both")
    main.insert("orders", [{"id": n, "customer": 1, "amount": n} for n in range(900, 920)])
    assert db.sync("few").state == "held"


def test_conditions_on_schemas_have_nothing_to_judge(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    guard = [livingdb.condition.no_destructive_change(action="hold")]
    for name, on_break in (("moves", "move"), ("stays", "detach")):
        main.derive(name, CITIES, when="immediate", conditions=guard, on_break=on_break)
    main.evolve(DROP, keep="v1", sync="both")
    assert (db.sync("moves").name, db.sync("moves").state) == ("v1/moves", "active")
    assert db.sync("stays").state == "held"


def test_names_and_times(
    db: livingdb.Database, main: livingdb.Branch, caplog: pytest.LogCaptureFixture
) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    write(main, 900, city="Bergen")
    before, there = main.head, answer(main, "SELECT * FROM cities")
    main.evolve(DROP, keep="v1", sync="both")
    changed = main.head
    write(main, 901)
    db.branch("v1").delete("orders", [900])
    now = rows(db, "cities")
    with caplog.at_level(logging.WARNING, "livingdb"):
        assert answer(db.at(before), "SELECT * FROM cities") == there
        assert caplog.messages == []
        assert answer(main, "SELECT * FROM cities") == now
        assert answer(db.at(changed), "SELECT * FROM cities") == there
    told = "'cities' is made of 'v1', with the schema that 'main' had"
    assert set(caplog.messages) == {told}
    assert answer(db.branch("v1"), "SELECT * FROM cities") == now
    for source, wanted in ((before, there), (changed, there), ("main", now), ("v1", now)):
        made = db.derived_at("cities", source=source)
        assert sorted(made.table("cities").to_arrow().to_pylist(), key=str) == wanted
    assert next(iter(db.derived_at("cities", source=before).sources)) in ("main", "v1")
    assert list(db.at("cities").sources) == ["v1"]


def test_the_kept_branch_is_in_use(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    main.evolve(DROP, keep="v1", sync="both")
    db.sync("v1/main").detach()
    with pytest.raises(RuleViolation, match="cities"):
        db.drop_branch("v1")
    there = rows(db, "cities")
    db.drop_branch("v1", detach=True)
    assert db.sync("cities").state == "detached"
    assert answer(main, "SELECT * FROM cities") == there


def test_the_change_is_reverted(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    main.evolve(DROP, keep="v1", sync="both")
    write(db.branch("v1"), 900, city="Bergen")
    db.sync("v1/main").detach()
    main.revert("main~1")
    write(db.branch("v1"), 901, city="Voss")
    assert rows(db, "cities") == answer(db.branch("v1"), CITIES)
    main.derive("cities", CITIES, when="immediate", replace=True)
    assert db.sync("cities").name == "main/cities"
    assert rows(db, "cities") == answer(main, CITIES)
    assert answer(main, "SELECT * FROM cities") == rows(db, "cities")


def test_moves_twice(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    main.evolve(DROP, keep="v1", sync="both")
    v1 = db.branch("v1")
    v1.evolve(RetypeColumn("orders", "amount", "string", policy="reject"), keep="v0", sync="both")
    assert db.sync("cities").name == "v0/cities"
    write(main, 900)
    write(db.branch("v0"), 901, city="Bergen")
    assert rows(db, "cities") == answer(db.branch("v0"), CITIES)
    assert answer(main, "SELECT * FROM cities") == rows(db, "cities")
    assert db.check(deep=True).problems == []


def test_what_follows_goes_on_as_before(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("cities", CITIES, when="immediate", on_break="move")
    main.evolve(AddColumn("orders", "extra", "string"), keep="v1", sync="both")
    assert db.sync("cities").name == "main/cities"
    main.evolve(RenameColumn("orders", "city", "town"), keep="v2", sync="both")
    assert db.sync("cities").name == "main/cities"


def test_another_process(tmp_path: Path) -> None:
    path = tmp_path / "other.ldb"
    with livingdb.create(path, engine="embedded") as db:
        nine_orders(db.branch("main")).derive("cities", CITIES, when="immediate", on_break="move")
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").evolve(DROP, keep="v1", sync="both")
    with livingdb.open(path, engine="embedded") as db:
        write(db.branch("v1"), 900, city="Bergen")
        assert rows(db, "cities") == answer(db.branch("v1"), CITIES)
        assert answer(db.branch("main"), "SELECT * FROM cities") == rows(db, "cities")


def test_in_words_of_sql(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(f"CREATE MATERIALIZED VIEW a WITH (when='immediate', on_break='move') AS {CITIES}")
    main.sql(f"CREATE MATERIALIZED VIEW b WITH (when='immediate') AS {CITIES}")
    main.sql("ALTER TABLE orders DROP COLUMN city SYNC BOTH KEEP v1 ON BREAK MOVE")
    assert {sync.name for sync in db.syncs()} == {"v1/a", "v1/b", "v1/main"}


def test_unknown_words_are_refused(db: livingdb.Database, main: livingdb.Branch) -> None:
    bad: Any = "stay"
    for attempt in (
        lambda: main.evolve(DROP, keep="v1", sync="both", on_break=bad),
        lambda: main.evolve(DROP, to="v2", sync="forward", when="deferred", on_break=bad),
        lambda: main.derive("cities", CITIES, on_break=bad),
        lambda: main.derive("cities", CITIES, sync="none", on_break="move"),
        lambda: main.sql(f"CREATE VIEW a WITH (on_break='stay') AS {CITIES}"),
        lambda: main.sql("ALTER TABLE orders DROP COLUMN city SYNC BOTH KEEP v1 ON BREAK STAY"),
    ):
        with pytest.raises(LivingDBError, match="on_break"):
            attempt()
    main.derive("cities", CITIES)
    with pytest.raises(InvalidData, match="on_break"):
        db.sync("cities").alter(on_break=bad)
    main.clone("copy", sync="forward", when="deferred")
    with pytest.raises(InvalidData, match="views"):
        db.sync("copy").alter(on_break="move")
    assert [branch.name for branch in db.branches()] == ["cities", "copy", "main"]
