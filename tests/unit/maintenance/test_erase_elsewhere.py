"""Erasure asked for where rows follow from others, or were carried to: a view, a clone, a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Database
from livingdb.evolution import (
    Decompose,
    DropTable,
    JoinTables,
    MaskColumn,
    RenameColumn,
    SchemaChange,
)

CITIES = "SELECT city, count(*) AS n FROM people GROUP BY city"
MANY = "SELECT count(*) AS n FROM people"


@pytest.fixture
def db(tmp_path: Path) -> Database:
    made = livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded")
    main = made.branch("main")
    main.create_table("people", {"id": "bigint", "name": "string", "city": "string"}, key="id")
    main.create_table("pets", {"id": "bigint", "kind": "string"}, key="id")
    main.insert("people", [{"id": 1, "name": "Ann", "city": "Oslo"}, {"id": 2, "name": "Bo"}])
    return made


def contents(db: Database) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows of every table of every snapshot."""
    return {
        (snapshot.id, name): snapshot.table(name).to_arrow().to_pylist()
        for snapshot in db.snapshots()
        for name in snapshot.tables()
    }


def check_erased(
    db: Database, before: dict[tuple[str, str], list[dict[str, Any]]], key: int
) -> None:
    """No snapshot has the row, nor that by which it was deleted at the head; all else is there."""
    after = contents(db)
    assert {place: after[place] for place in before} == {
        place: [row for row in rows if row["id"] != key] for place, rows in before.items()
    }
    assert not any(row["id"] == key for rows in after.values() for row in rows)
    assert len({snapshot for snapshot, _ in after.keys() - before.keys()}) == 1
    assert db.check(deep=True).problems == []


def test_a_row_whose_key_is_null(db: Database) -> None:
    """It is told from others as any row is, in a view that nothing feeds any more."""
    main = db.branch("main")
    main.derive("cities", CITIES, when="on demand")
    main.evolve(DropTable("people"))
    before = contents(db)
    db.erase("cities", [(None,)], reason="asked", branch="cities")
    left = [{"city": "Oslo", "n": 1}]
    assert db.branch("cities").table("cities").to_arrow().to_pylist() == left
    shown = {place: left for place in before if place[1] == "cities"}
    assert contents(db) == {**before, **shown}
    assert db.check(deep=True).problems == []


def test_a_row_of_a_clone_that_was_detached(db: Database) -> None:
    """It has the rows of its source, also in what no branch leads to any more."""
    main = db.branch("main")
    renamed = RenameColumn("pets", "kind", "sort")
    main.clone("copy", transform=[renamed], sync="forward", when="deferred")
    main.evolve(RenameColumn("people", "name", "called"), to="next", sync="both")
    db.branch("next").insert("people", [{"id": 3, "called": "Cy"}])
    db.propagate()
    db.retire("next")
    db.sync("copy").detach(reason="looked at")
    main.reset("main~1")
    before = contents(db)
    db.erase("people", [3], reason="asked", branch="copy")
    check_erased(db, before, 3)


@pytest.mark.parametrize(
    ("sync", "is_join"),
    [("both", False), ("detached", False), ("reverse", False), ("forward", True)],
)
def test_a_part_of_a_row_that_is_one_on_a_branch_in_step(
    db: Database, sync: str, is_join: bool
) -> None:
    """What would be erased there takes the other part with it; so the whole is to be erased."""
    main = db.branch("main")
    main.insert("pets", [{"id": 1, "kind": "cat"}])
    change: SchemaChange = JoinTables("people", "pets", "owners")
    if not is_join:
        change = Decompose("people", {"named": ["name"], "placed": ["city"]})
    main.evolve(change, to="next", sync="both" if sync == "detached" else sync)
    if sync == "detached":
        db.sync("next").detach(reason="looked at")
    part, whole = ("named", "next"), ("people", "main")
    if is_join:
        part, whole = ("people", "main"), ("owners", "next")
    before = contents(db)
    for dry_run in (True, False):
        with pytest.raises(livingdb.RuleViolation, match=f"of '{whole[1]}', which a sync joins"):
            db.erase(part[0], [1], reason="asked", branch=part[1], dry_run=dry_run)
    assert contents(db) == before
    db.erase(whole[0], [1], reason="asked", branch=whole[1])
    after = contents(db)
    for (place, name), rows in before.items():
        kept = [row for row in rows if row["id"] != 1]
        assert after[place, name] == (rows if not is_join and name == "pets" else kept)
    if sync == "detached":
        db.sync("next").reattach()
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("when", ["immediate", "on demand"])
def test_rows_of_a_view_are_to_be_erased_where_they_come_from(db: Database, when: str) -> None:
    main = db.branch("main")
    main.derive("cities", CITIES, when=when, key="city")
    db.branch("cities").clone("aside")
    main.insert("people", [{"id": 3, "name": "Cy", "city": "Bergen"}])
    before = contents(db)
    for dry_run in (True, False):
        with pytest.raises(livingdb.RuleViolation, match="erase the rows of 'main'"):
            db.erase("cities", ["Oslo"], reason="asked", branch="cities", dry_run=dry_run)
    assert contents(db) == before
    db.sync("cities").detach(reason="looked at")
    db.erase("cities", ["Oslo"], reason="asked", branch="cities")
    assert "Oslo" not in db.branch("cities").table("cities").to_arrow()["city"].to_pylist()


def test_rows_of_a_view_that_came_to_a_branch_by_a_merge(db: Database) -> None:
    """Else they went from versions of the view whose sources still have them."""
    main = db.branch("main")
    main.derive("cities", CITIES, key="city")
    db.branch("cities").clone("aside")
    main.insert("people", [{"id": 3, "name": "Cy", "city": "Bergen"}])
    db.refresh("cities")
    db.merge("cities", into="aside")
    main.delete("people", [3])
    db.refresh("cities")
    before = contents(db)
    for dry_run in (True, False):
        with pytest.raises(livingdb.RuleViolation, match="came to 'aside'"):
            db.erase("cities", ["Bergen"], reason="asked", branch="aside", dry_run=dry_run)
    assert contents(db) == before
    assert {"city": "Bergen", "n": 1} in db.at("cities~1").table("cities").to_arrow().to_pylist()
    db.sync("cities").detach(reason="looked at")
    db.erase("cities", ["Bergen"], reason="asked", branch="aside")
    assert "Bergen" not in db.at("cities~1").table("cities").to_arrow()["city"].to_pylist()


def test_a_row_of_a_table_that_was_dropped(db: Database) -> None:
    main = db.branch("main")
    main.evolve(DropTable("people"))
    db.erase("people", [1], reason="asked")
    people = [rows for (_, name), rows in contents(db).items() if name == "people"]
    assert [[row["id"] for row in rows] for rows in people if rows] == [[2]]
    assert db.check(deep=True).problems == []


def test_versions_of_a_view_upon_one_that_is_computed_anew(db: Database) -> None:
    """What the query made of sources without the row stays, whatever is below it."""
    main = db.branch("main")
    main.insert("people", [{"id": 3, "name": "Cy"}])
    main.derive("total", "SELECT count(*) AS n FROM people", when="on demand")
    main.delete("people", [2])
    told = db.erase("people", [3], reason="asked", aggregates="recompute")
    assert told.kept == ()
    found = [rows for (_, name), rows in contents(db).items() if name == "total"]
    assert found == [[{"n": 1}], [{"n": 2}]]
    assert db.check(deep=True).problems == []


def test_a_version_of_a_view_that_is_right_in_one_snapshot_only(db: Database) -> None:
    """The newest has its rows, and the report names the view."""
    main = db.branch("main")
    main.derive("cities", "SELECT DISTINCT city FROM people WHERE city > ''", when="on demand")
    main.insert("people", [{"id": 3, "name": "Cy", "city": "Oslo"}])
    told = db.erase("people", [1], reason="asked", aggregates="recompute")
    assert told.kept == ("view cities: versions of it cannot be computed anew",)
    assert db.branch("cities").table("cities").to_arrow().to_pylist() == [{"city": "Oslo"}]
    assert db.check(deep=True).problems == []


def test_a_view_that_goes_on_has_what_its_query_gives(db: Database) -> None:
    """Also the row that was erased there, and not where it comes from."""
    main = db.branch("main")
    view = main.derive("cities", CITIES, when="on demand", key="city")
    expected = view.table("cities").to_arrow()
    db.sync("cities").detach(reason="looked at")
    db.erase("cities", ["Oslo"], reason="asked", branch="cities")
    db.sync("cities").reattach()
    assert view.table("cities").to_arrow() == expected
    assert db.check(deep=True).problems == []


def test_a_row_of_a_clone_that_masks_another_column(db: Database) -> None:
    """Its key is that of the source, where the table was dropped since."""
    main = db.branch("main")
    main.clone("copy", transform=[MaskColumn("people", "name", "null")], sync="forward")
    main.evolve(DropTable("people"))
    before = contents(db)
    db.erase("people", [1], reason="asked", branch="copy")
    check_erased(db, before, 1)


def test_rows_of_a_view_that_is_not_stored_under_another_schema(db: Database) -> None:
    """They are computed when they are read there, too, and would show again."""
    view = db.branch("main").derive("cities", CITIES, materialize="none", key="city")
    view.evolve(RenameColumn("cities", "n", "people"), to="kept")
    with pytest.raises(livingdb.RuleViolation, match="computed of others"):
        db.erase("cities", ["Oslo"], reason="asked", branch="kept")


def counts(db: Database) -> list[tuple[str, int]]:
    """What versions of the view show that is derived again on a clone, oldest first."""
    found = [(name, rows[0]["n"]) for (_, name), rows in contents(db).items() if "many" in name]
    return found[::-1]


def test_beside_a_view_that_was_derived_again_on_a_clone(db: Database) -> None:
    """What both have loses the row, and what was made upon it without the row stays."""
    main = db.branch("main")
    main.derive("many", MANY, when="deferred")
    dev = main.clone("dev", derived=True)
    dev.insert("people", [{"id": number} for number in range(3, 8)])
    dev.delete("people", [1])
    db.propagate()
    assert counts(db) == [("many", 2), ("many_dev", 2), ("many_dev", 6)]
    told = db.erase("people", [1], reason="asked", aggregates="recompute")
    assert not told.kept
    assert counts(db)[:3] == [("many", 1), ("many_dev", 1), ("many_dev", 6)]
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("is_dropped", [False, True])
def test_beside_a_clone_whose_view_shows_the_same_without_the_row(
    db: Database, is_dropped: bool
) -> None:
    """One version is what both show; it stays what is right now, and the other is told of."""
    main = db.branch("main")
    main.derive("many", MANY, when="deferred")
    dev = main.clone("dev", derived=True)
    dev.insert("people", [{"id": 3}])
    if is_dropped:
        db.drop_branch("many", detach=True)
    told = db.erase("people", [1], reason="asked", aggregates="recompute")
    named = {line for line in told.kept if line.startswith("view many")}
    assert named == {
        f"view {n}: versions of it cannot be computed anew" for n in ("many", "many_dev")
    }
    assert set(told.kept) == named
    assert db.branch("many_dev").table("many_dev").to_arrow().to_pylist() == [{"n": 2}]
    assert db.check(deep=True).problems == []


def test_beside_a_newer_clone_whose_view_follows_nothing_any_more(db: Database) -> None:
    """What a view shows that is in step is right, however old it is."""
    main = db.branch("main")
    main.derive("many", MANY, when="deferred")
    db.tag("early", "main")
    main.insert("people", [{"id": 3}])
    main.delete("people", [1])
    db.propagate()
    db.at("early").clone("dev", derived=True)
    db.sync("many_dev").detach()
    told = db.erase("people", [1], reason="asked", aggregates="recompute")
    assert not any("did not follow" in line for line in told.kept)
    assert {line.split(":")[0] for line in told.kept} == {"view many", "view many_dev"}
    assert db.branch("many").table("many").to_arrow().to_pylist() == [{"n": 2}]
    assert db.check(deep=True).problems == []
