"""Erasure where it meets history that was cut, other layouts, backups and merge requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.maintenance.canary import places_of

import livingdb
from livingdb import Database, Layout, Retention
from livingdb.evolution import AddColumn, Decompose, MaskColumn, Normalize, RenameColumn

CANARY = "zebra-canary"
KEY = 42
TOTALS = "SELECT city, count(*) AS n FROM people GROUP BY city"


def people(word: str, first: int = 0, last: int = 100) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": word if i == KEY else f"name {i}", "city": f"city {i % 7}"}
        for i in range(first, last)
    ]


@pytest.fixture
def db(tmp_path: Path) -> Database:
    made = livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded")
    main = made.branch("main")
    main.create_table("people", {"id": "bigint", "name": "string", "city": "string"}, key="id")
    main.insert("people", people("nobody"))
    return made


def contents(db: Database) -> dict[str, list[dict[str, Any]]]:
    """The people of every snapshot that is kept."""
    found = {}
    for snapshot in db.snapshots():
        try:
            if "people" in snapshot.tables():
                found[snapshot.id] = snapshot.table("people").to_arrow().to_pylist()
        except livingdb.Forgotten:
            continue
    return found


def check_erased(db: Database, before: dict[str, list[dict[str, Any]]]) -> None:
    after = contents(db)
    for snapshot, rows in before.items():
        assert after[snapshot] == [row for row in rows if row["id"] != KEY], snapshot
    assert db.check(deep=True).problems == []
    assert places_of(db._graph, CANARY) == []


@pytest.mark.parametrize("holds", ["a tag", "a branch", "the head"])
def test_versions_whose_base_was_forgotten(db: Database, holds: str) -> None:
    """Of what an anchor made of many changes, nothing but the row goes."""
    main = db.branch("main")
    main.derive("totals", sql=TOTALS, when="immediate")
    for step in range(12):
        main.upsert("people", people(f"{CANARY} {step}", KEY - step, KEY + 2))
        if step == 6:
            db.tag("middle", "main")
            if holds == "a branch":
                main.clone("dev").upsert("people", people(f"{CANARY} dev", 10, 60))
    if holds != "the head":
        main.delete("people", [KEY])
    db.collect_garbage(Retention(snapshots=1, grace_seconds=0))
    before = contents(db)
    assert len(before) >= 2
    db.erase("people", [KEY], reason="asked")
    check_erased(db, before)
    main.upsert("people", people("back", KEY, KEY + 1))
    assert main.table("people").get(KEY)["name"] == "back"
    db.collect_garbage(Retention(snapshots=1, grace_seconds=0))
    db.compact()
    assert db.check().problems == []
    db.close()


def test_trees_that_lie_in_another_layout(db: Database) -> None:
    main = db.branch("main")
    main.upsert("people", people(CANARY, 30, 60))
    main.relayout("people", Layout(target_rows=8, groups=[["name"], ["city"]]))
    main.migrate()
    main.upsert("people", people(f"{CANARY} again", 40, 50))
    main.table("people").root()
    before = contents(db)
    db.erase("people", [KEY], reason="asked")
    check_erased(db, before)
    assert main.table("people").layout.target_rows == 8
    db.close()


def test_rows_of_a_lookup_table_stay_and_are_named(db: Database) -> None:
    """What only the erased row referred to is at every head, and in every copy, as it was."""
    main = db.branch("main")
    main.update("people", [{"id": KEY, "name": CANARY, "city": "Vadsø"}])
    main.evolve(Normalize("people", ["city"], "cities"))
    main.derive("seen", "SELECT id, city FROM cities", when="immediate")
    main.clone("copy", transform=[MaskColumn("people", "name", "null")], sync="forward")
    main.insert("cities", [{"id": 1, "city": "Hamar"}])

    def cities() -> list[Any]:
        found = [snapshot for snapshot in db.snapshots() if "cities" in snapshot.tables()]
        return [(s.id, s.table("cities").to_arrow().to_pylist()) for s in found]

    before = cities()
    told = db.erase("people", [KEY], reason="asked")
    assert [line for line in told.kept if "cities" in line] != []
    assert not any("did not follow" in line for line in told.kept)
    after = dict(cities())
    assert all(after[snapshot] == rows for snapshot, rows in before)
    assert "Vadsø" in db.branch("seen").table("seen").to_arrow()["city"].to_pylist()
    assert KEY not in main.table("people").to_arrow()["id"].to_pylist()
    assert db.check(deep=True).problems == []
    assert places_of(db._graph, CANARY) == []
    assert db.erase("people", [KEY], reason="asked again").versions == 0
    db.close()


def test_a_row_of_a_lookup_table_does_not_come_back(db: Database) -> None:
    """What referred to it is gone at the head, and made it once: it is in no snapshot any more."""
    main = db.branch("main")
    main.update("people", [{"id": KEY, "name": CANARY, "city": "Vadsø"}])
    main.evolve(Normalize("people", ["city"], "cities"))
    rows = main.table("cities").to_arrow().to_pylist()
    key = next(row["id"] for row in rows if row["city"] == "Vadsø")
    main.delete("people", [KEY])
    db.erase("cities", [key], reason="asked")

    def cities() -> list[Any]:
        found = [snapshot for snapshot in db.snapshots() if "cities" in snapshot.tables()]
        return [(s.id, s.table("cities").to_arrow().to_pylist()) for s in found]

    before = cities()
    assert all(row["id"] != key for _, rows in before for row in rows)
    db.erase("people", [KEY], reason="asked")
    after = dict(cities())
    assert all(after[snapshot] == rows for snapshot, rows in before)
    assert db.check(deep=True).problems == []
    db.close()


@pytest.mark.parametrize("keep", [None, "old"])
def test_the_other_part_of_a_table_that_was_cut(db: Database, keep: str | None) -> None:
    """It stays, unless a hidden branch in step has both as one row: it is to be erased first."""
    main = db.branch("main")
    main.upsert("people", people(CANARY, KEY, KEY + 1))
    change = Decompose("people", {"named": ["name"], "placed": ["city"]})
    main.evolve(change, keep=keep, sync="both" if keep else "none")
    main.derive("seen", "SELECT id, city FROM placed", when="immediate")
    if keep:
        db.merge("main", into=keep)
        with pytest.raises(livingdb.RuleViolation, match="erase those first"):
            db.erase("named", [KEY], reason="asked")
        db.erase("placed", [KEY], reason="asked")
    told = db.erase("named", [KEY], reason="asked")
    assert any("placed" in line for line in told.kept) == (keep is None)
    assert (main.table("placed").get(KEY) is None) == (keep is not None)
    assert main.table("named").get(KEY) is None
    assert len(main.table("placed")) == (99 if keep else 100)
    assert db.check(deep=True).problems == []
    assert places_of(db._graph, CANARY) == []
    db.close()


def test_views_of_a_branch_that_was_made_of_a_view(db: Database) -> None:
    """Rows that are computed when they are read are gone from what was made of them, too."""
    main = db.branch("main")
    main.upsert("people", people(CANARY, KEY, KEY + 1))
    main.derive("seen", "SELECT name, city FROM people", when="immediate", materialize="none")
    db.branch("seen").evolve(RenameColumn("seen", "city", "town"), to="kept")
    db.branch("kept").derive("names", "SELECT name AS n FROM seen UNION ALL SELECT town FROM seen")
    db.branch("kept").derive("count", "SELECT count(*) AS n FROM seen")
    told = db.erase("people", [KEY], reason="asked")
    assert not any("did not follow" in line for line in told.kept)
    assert len(db.branch("names").table("names").to_arrow()) == 2 * 99
    assert db.branch("count").table("count").to_arrow().to_pylist() == [{"n": 99}]
    assert db.check(deep=True).problems == []
    assert places_of(db._graph, CANARY) == []
    db.close()


@pytest.mark.parametrize("materialize", ["lazy", "none", "where n >= 2"])
def test_what_is_computed_when_it_is_read_is_computed_anew(db: Database, materialize: str) -> None:
    """Nobody remembers an answer of before, neither here nor in the catalog."""
    main = db.branch("main")
    main.upsert("people", people(CANARY, KEY, KEY + 1))
    query = "SELECT name, count(*) AS n FROM people GROUP BY name"
    main.derive("names", query, when="immediate", materialize=materialize)
    before = db.branch("names").head
    assert CANARY in before.table("names").to_arrow()["name"].to_pylist()
    db.upkeep(seconds=60)
    db.erase("people", [KEY], reason="asked", aggregates="recompute")
    assert CANARY not in before.table("names").to_arrow()["name"].to_pylist()
    assert len(before.table("names")) == 99
    assert db.check(deep=True).problems == []
    assert places_of(db._graph, CANARY) == []
    db.close()


@pytest.mark.parametrize("state", ["active", "detached"])
@pytest.mark.parametrize("materialize", ["none", "lazy"])
def test_rows_of_a_view_that_is_not_stored_are_refused(
    db: Database, materialize: str, state: str
) -> None:
    """They would show again: nothing is stored that could be redacted."""
    view = db.branch("main").derive(
        "totals", sql=TOTALS, when="immediate", materialize=materialize, key="city"
    )
    if state == "detached":
        db.sync("totals").detach(reason="looked at")
    before, head = view.table("totals").to_arrow(), view.head
    for dry_run in (True, False):
        with pytest.raises(livingdb.RuleViolation, match="computed of others"):
            db.erase("totals", ["city 1"], reason="asked", branch="totals", dry_run=dry_run)
    assert (view.table("totals").to_arrow(), view.head) == (before, head)
    absent = db.erase("totals", ["city 9"], reason="asked", branch="totals")
    assert absent.number is None


def test_an_update_of_a_row_that_is_erased_meanwhile(db: Database) -> None:
    """It finds no row to patch, and says so."""
    main = db.branch("main")
    with (
        pytest.raises(livingdb.TransactionConflict, match="42 was erased meanwhile"),
        main.transaction() as tx,
    ):
        tx.update("people", [{"id": KEY, "city": "Oslo"}, {"id": 1, "city": "Oslo"}])
        db.erase("people", [KEY], reason="asked")
    assert main.table("people").get(KEY) is None
    assert main.table("people").get(1) == people("nobody")[1]


@pytest.mark.parametrize("is_clone_detached", [False, True])
def test_a_row_that_others_refer_to_on_one_branch(db: Database, is_clone_detached: bool) -> None:
    """It is refused before anything is deleted, on whichever branch the reference is."""
    main = db.branch("main")
    if is_clone_detached:
        rename = RenameColumn("people", "city", "town")
        main.clone("other", transform=[rename], sync="forward", when="deferred")
        db.sync("other").detach(reason="on its own")
    else:
        main.clone("other")
    other = db.branch("other")
    schema = {"id": "bigint", "person": "bigint"}
    other.create_table("orders", schema, key="id", foreign_keys={"person": "people"})
    other.insert("orders", [{"id": 1, "person": KEY}])
    heads = {branch.name: branch.head.id for branch in db.branches()}
    for branch in ("main", "other"):
        with pytest.raises(livingdb.InvalidData, match="still refers to 'people'"):
            db.erase("people", [KEY], reason="asked", branch=branch)
        assert {branch.name: branch.head.id for branch in db.branches()} == heads
    other.delete("orders", [1])
    db.erase("people", [KEY], reason="asked")
    assert [branch.table("people").get(KEY) for branch in db.branches()] == [None, None]
    assert db.check(deep=True).problems == []


def test_rows_of_two_tables_that_refer_to_each_other_go_together(db: Database) -> None:
    """Both parts of a row that was cut are deleted in one transaction of their branch."""
    main = db.branch("main")
    main.evolve(Decompose("people", {"names": ["name"], "cities": ["city"]}), keep="whole")
    before = main.head
    db.erase("people", [KEY], reason="asked", branch="whole")
    assert {n: main.table(n).get(KEY) for n in main.tables()} == {"names": None, "cities": None}
    assert main.head.parents == (before.id,)


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("way", ["upsert", "sql", "schema"])
def test_an_upsert_of_a_row_that_is_erased_meanwhile(
    db: Database, isolation: str, way: str
) -> None:
    """It would bring the row back, and says so; who tries again knows that the row is new."""
    main = db.branch("main")
    row = {"id": KEY, "name": "back", "city": "Oslo"}
    merge = (
        "MERGE INTO people USING (SELECT 42 AS id) new ON people.id = new.id "
        "WHEN MATCHED THEN UPDATE SET name = 'back'"
    )
    with (
        pytest.raises(livingdb.TransactionConflict, match="erased meanwhile"),
        main.transaction(isolation=isolation) as tx,
    ):
        if way == "sql":
            tx.sql(merge)
        else:
            tx.upsert("people", [row])
        db.erase("people", [KEY], reason="asked")
        if way == "schema":
            main.evolve(AddColumn("people", "note", "string"))
    assert main.table("people").get(KEY) is None
    with main.transaction(isolation=isolation) as tx:
        tx.upsert("people", [row])
    assert main.table("people").get(KEY) is not None


def test_new_rows_in_a_transaction_beside_an_erasure(db: Database) -> None:
    """Rows that were not there when it began, and rows that are still there, were not erased."""
    main = db.branch("main")
    with main.transaction() as tx:
        tx.insert("people", [{"id": 200, "name": "new", "city": "Oslo"}])
        db.erase("people", [KEY], reason="asked")
    with main.transaction() as tx:
        tx.upsert("people", [{"id": 1, "name": "other", "city": "Oslo"}])
        db.erase("people", [KEY + 1], reason="asked")
    assert main.table("people").get(200)["name"] == "new"
    assert main.table("people").get(1)["name"] == "other"


def test_reads_of_rows_that_are_erased_meanwhile(db: Database) -> None:
    """History says that nobody read them, so that a serializable transaction has to begin anew."""
    main = db.branch("main")
    with (
        pytest.raises(livingdb.TransactionConflict, match="erased meanwhile, and this serializ"),
        main.transaction(isolation="serializable") as tx,
    ):
        name = tx.table("people").get(KEY)["name"]
        tx.update("people", [{"id": 1, "name": name}])
        db.erase("people", [KEY], reason="asked")


@pytest.mark.parametrize("aggregates", ["keep", "recompute"])
def test_a_view_that_is_stored_in_part(db: Database, aggregates: str) -> None:
    """Its other rows are computed when they are read; so the part is computed anew as well.

    The rank of those behind the erased row is another one without it: what was stored for its rank
    would be among the others now, and with the opposite part in neither.
    """
    main = db.branch("main")
    ranks = "SELECT id, row_number() OVER (PARTITION BY city ORDER BY id) AS place FROM people"
    main.derive("last", sql=ranks, when="deferred", materialize="where place >= 7")
    main.derive("first", sql=ranks, when="immediate", materialize="where place < 7")
    main.delete("people", [1])
    db.propagate()
    report = db.erase("people", [KEY], reason="asked", aggregates=aggregates)
    assert not [name for name in report.kept if "last" in name or "first" in name]
    db.propagate()
    for name in ("last", "last~1", "last~2", "first", "first~1", "first~2"):
        at = db.at(name)
        source = db.at(f"id:{at.sources['main']}")
        expected = source.sql(f"{ranks} ORDER BY id").to_arrow().to_pylist()
        assert at.table(name.split("~")[0]).to_arrow().to_pylist() == expected, name
    assert db.check(deep=True).problems == []
