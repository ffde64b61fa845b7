"""Lists of schema changes with a sync: all of it or nothing, and nobody sees what is between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    DropColumn,
    Normalize,
    RenameColumn,
    SchemaChange,
)

VAT = AddColumn("orders", "vat", "double", default=0.25)
TOTAL = RenameColumn("orders", "amount", "total")
CITIES = Normalize("orders", ["city"], "cities")
LIST: list[SchemaChange] = [VAT, TOTAL, CITIES]
STEPS = 2
"""Rows cross the first two changes together."""
PLACES = ({"keep": "other"}, {"to": "other"})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as database:
        main = database.branch("main")
        main.create_table(
            "orders", {"id": "bigint", "amount": "double", "city": "string"}, key="id"
        )
        main.insert("orders", {"id": [1, 2], "amount": [1.0, 2.0], "city": ["Oslo", None]})
        yield database
        assert database.check().problems == []


Everything = dict[str, Any]


def everything(db: livingdb.Database) -> Everything:
    """All that the catalog has, hidden branches as well."""
    graph = db._graph
    return {
        "branches": [(row.name, row.head, row.position) for row in graph.branches.all()],
        "logs": [graph.movements.of(row) for row in graph.branches.all()],
        "syncs": graph.catalog.syncs.all(),
        "epoch": graph.branch("main").epoch,
        "pulse": graph.catalog.write_counters(),
        "journal": db.storage().journal_bytes,
        "snapshots": [snapshot.id for snapshot in db.snapshots()],
    }


def hidden(db: livingdb.Database) -> list[str]:
    return [row.name for row in db._graph.branches.all() if row.name.startswith("~")]


# --- one transaction -------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_a_list_is_one_snapshot_of_the_branch(db: livingdb.Database, place: dict[str, str]) -> None:
    main = db.branch("main")
    before, first = main.head, db._graph.branch("main").position
    made = main.evolve(LIST, sync="both", **place)
    new = main if "keep" in place else db.branch("other")
    assert new.head == made
    assert made.edge.message == "AddColumn orders vat; RenameColumn orders amount; " + (
        "Normalize orders cities"
    )
    assert [change["change"] for change in made.edge.details["changes"]] == [
        "AddColumn",
        "RenameColumn",
        "Normalize",
    ]
    assert db.at(f"{new}~1") == before
    assert db._graph.branch("main").position == first + ("keep" in place)
    assert db.branches() == ["main", "other"]
    assert [sync.name for sync in db.syncs()] == ["other/main" if "keep" in place else "main/other"]
    assert len(hidden(db)) == STEPS - 1


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
@pytest.mark.parametrize(
    ("third", "error"),
    [
        (DropColumn("ordrs", "city"), livingdb.NotFound),
        (AddConstraint("orders", check="total > 1", on_violation="reject"), livingdb.InvalidData),
        (AddColumn("orders", "must", "int not null"), livingdb.IllegalSync),
    ],
    ids=["not there", "rows against it", "illegal"],
)
def test_a_third_change_that_fails(
    db: livingdb.Database, place: dict[str, str], third: SchemaChange, error: type[Exception]
) -> None:
    before = everything(db)
    with pytest.raises(error):
        db.branch("main").evolve([VAT, TOTAL, third], sync="both", **place)
    assert everything(db) == before
    assert not db._graph.index._unsaved
    db.branch("main").evolve(LIST, sync="both", **place)


def test_a_name_that_is_taken(db: livingdb.Database) -> None:
    db.branch("main").clone("other")
    before = everything(db)
    for place in PLACES:
        with pytest.raises(livingdb.AlreadyExists, match="other"):
            db.branch("main").evolve(LIST, sync="both", **place)
        assert everything(db) == before
        assert not db._graph.index._unsaved


@pytest.mark.parametrize("name", ["~stage", "a~b"])
def test_nobody_names_a_stage(db: livingdb.Database, name: str) -> None:
    for place in ("keep", "to"):
        with pytest.raises(livingdb.InvalidName):
            db.branch("main").evolve(LIST, sync="both", **{place: name})


# --- what others see while it happens --------------------------------------------------------


def watched(db: livingdb.Database, patch: pytest.MonkeyPatch, look: Callable[[str], None]) -> None:
    """`look` after everything that a commit writes about snapshots, branches and syncs."""
    graph = db._graph
    for part, method in (
        (graph.snapshots, "add_all"),
        (graph.catalog.branches, "add"),
        (graph.branches, "move_all"),
        (graph.catalog.syncs, "add"),
        (graph.catalog, "raise_epoch"),
    ):
        patch.setattr(part, method, _looking(getattr(part, method), method, look))


def _looking(
    write: Callable[..., Any], name: str, look: Callable[[str], None]
) -> Callable[..., Any]:
    def written(*given: Any, **options: Any) -> Any:
        done = write(*given, **options)
        look(name)
        return done

    return written


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_readers_see_all_or_nothing(
    db: livingdb.Database, place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, Everything]] = []
    with livingdb.open(db.name) as reader, monkeypatch.context() as patch:
        before = everything(reader)
        watched(db, patch, lambda what: seen.append((what, everything(reader))))
        db.branch("main").evolve(LIST, sync="both", **place)
        after = everything(reader)
        assert [state for _, state in seen] == [before] * len(seen)
        assert after != before
        assert after == everything(db)
    said = [what for what, _ in seen]
    assert {what: said.count(what) for what in said} == {
        "add_all": 1,  # of all snapshots
        "move_all": 1,
        "add": STEPS + STEPS,  # branches and syncs
        "raise_epoch": 1,
    }


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_whatever_fails_while_it_is_stored(
    db: livingdb.Database, place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the things that are written is the last one, until one try comes through."""
    before, failed = everything(db), 0
    while True:
        left = failed

        def look(what: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise RuntimeError(what)

        with monkeypatch.context() as patch:
            watched(db, patch, look)
            try:
                db.branch("main").evolve(LIST, sync="both", **place)
                break
            except RuntimeError:
                failed += 1
        assert everything(db) == before
        assert not db._graph.index._unsaved
    assert failed == 3 + 2 * STEPS
    db.branch("other").insert("orders", {"id": [3]})
    assert db.branch("main").table("orders").get(3) is not None


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_others_commit_first(
    db: livingdb.Database, place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is made anew on what they left, with nothing of the first try."""
    main, commit_point = db.branch("main"), db._pipeline.commit_point
    commit = commit_point.store

    def late(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(commit_point, "store", commit)
        main.insert("orders", {"id": [9], "amount": [9.0], "city": ["Bodø"]})
        return commit(*given, **options)

    count = len(db.snapshots())
    monkeypatch.setattr(commit_point, "store", late)
    main.evolve(LIST, sync="both", **place)
    assert len(db.snapshots()) == count + 1 + STEPS
    assert len(hidden(db)) == STEPS - 1
    for name in ("main", "other"):
        assert db.branch(name).table("orders").get(9) is not None


# --- the group is one ------------------------------------------------------------------------


def test_a_group_made_by_a_list_is_reset_as_one(db: livingdb.Database) -> None:
    main = db.branch("main")
    made = main.evolve(LIST, keep="old", sync="both")
    old = db.branch("old")
    start = old.head
    old.upsert("orders", {"id": [1, 5], "amount": [7.0, 5.0], "city": ["Ærø", "Oslo"]})
    main.reset(made)
    assert old.head == start
    old.insert("orders", {"id": [6], "amount": [6.0], "city": ["Oslo"]})
    old.reset(start)
    assert main.head == made
    main.insert("orders", {"id": [8], "total": [8.0], "vat": [0.5]})
    assert old.table("orders").get(8) == {"id": 8, "amount": 8.0, "city": None}


def test_a_list_on_a_list(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(LIST[:2], keep="v1", sync="both")
    main.insert("orders", {"id": [3], "total": [3.0], "city": ["Oslo"], "vat": [0.5]})
    main.evolve([CITIES, DropColumn("orders", "vat", default=0.1)], keep="v2", sync="both")
    assert [sync.name for sync in db.syncs()] == ["v1/v2", "v2/main"]
    db.branch("v1").update("orders", {"id": [3], "amount": [33.0]})
    assert main.table("orders").get(3)["total"] == 33.0
    assert db.branch("v2").table("orders").get(3)["vat"] == 0.5
    mark = main.head
    main.delete("orders", [3])
    assert db.branch("v1").table("orders").get(3) is None
    main.reset(mark)
    assert db.branch("v1").table("orders").get(3)["amount"] == 33.0
    db.drop_branch("v1", detach=True)
    assert len(hidden(db)) == 1
    db.compact()
    with livingdb.open(db.name) as again:
        again.branch("main").delete("orders", [3])
        assert again.branch("v2").table("orders").get(3) is None


def test_a_transaction_is_carried_through_a_list(db: livingdb.Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.update("orders", {"id": [1], "amount": [11.0]})
        main.evolve([VAT, TOTAL], keep="old", sync="both")
    assert main.table("orders").get(1) == {"id": 1, "total": 11.0, "city": "Oslo", "vat": 0.25}
    assert db.branch("old").table("orders").get(1)["amount"] == 11.0


# --- errors name what users know -------------------------------------------------------------

STRICT = AddConstraint("orders", check="total > 0", on_violation="reject")


def refused(error: type[Exception], action: Callable[[], object]) -> str:
    """What is said, of no stage."""
    with pytest.raises(error) as caught:
        action()
    assert "~" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_a_change_that_cannot_be_carried(db: livingdb.Database, place: dict[str, str]) -> None:
    """It fails at a stage, on the way to the other end."""
    main = db.branch("main")
    main.evolve([TOTAL, STRICT, VAT], sync="both", **place)
    old, new = ("other", "main") if "keep" in place else ("main", "other")
    bad = {"id": [7], "amount": [-7.0]}
    said = refused(livingdb.InvalidData, lambda: db.branch(old).insert("orders", bad))
    assert f"branch '{new}', in step with '{old}', cannot take the change" in said


def test_the_names_of_a_chain_of_lists(db: livingdb.Database) -> None:
    """Only the part of the chain that cannot take a change is named."""
    main = db.branch("main")
    main.evolve([VAT, TOTAL], keep="v1", sync="both")
    main.evolve([STRICT, CITIES], keep="v2", sync="both")
    bad = {"id": [7], "amount": [-7.0]}
    said = refused(livingdb.InvalidData, lambda: db.branch("v1").insert("orders", bad))
    assert "branch 'main', in step with 'v2', cannot take the change" in said


def test_rules_name_the_sync_that_users_know(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([TOTAL, VAT], to="thin", sync="forward")
    thin = db.branch("thin")
    row = {"id": [5], "total": [5.0]}
    assert "'main/thin'" in refused(livingdb.ReadOnlyBranch, lambda: thin.insert("orders", row))
    main.evolve([VAT, TOTAL], keep="old", sync="both")
    violated = livingdb.RuleViolation
    assert "'old/main'" in refused(violated, lambda: main.evolve(CITIES))
    again = [CITIES, DropColumn("orders", "vat")]
    said = refused(violated, lambda: main.evolve(again, to="next", sync="reverse"))
    assert "'old/main'" in said
    dev = main.clone("dev")
    dev.evolve(DropColumn("orders", "vat"))
    main.evolve(CITIES, to="cities", sync="both")
    assert "'main/cities'" in refused(violated, lambda: db.merge("dev", into="main"))


def test_what_a_sync_carried_is_said_by_its_name(db: livingdb.Database) -> None:
    db.branch("main").evolve(LIST, keep="old", sync="both")
    db.branch("old").insert("orders", {"id": [5], "amount": [5.0]})
    assert db.branch("main").head.edge.details["sync"] == "old/main"
    assert [sync.name for sync in db.syncs()] == ["old/main"]
    assert db.branches() == ["main", "old"]


# --- one way ---------------------------------------------------------------------------------


def test_a_list_that_goes_forward_in_one_pass_has_no_stage(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([VAT, TOTAL], to="thin", sync="forward")
    thin = db.branch("thin")
    assert hidden(db) == []
    assert [sync.name for sync in db.syncs()] == ["main/thin"]
    main.insert("orders", {"id": [5], "amount": [5.0], "city": ["Bodø"]})
    main.update("orders", {"id": [1], "amount": [11.0]})
    main.delete("orders", [2])
    assert thin.table("orders").get(5) == {"id": 5, "total": 5.0, "city": "Bodø", "vat": 0.25}
    assert thin.table("orders").get(1)["total"] == 11.0
    assert thin.table("orders").get(2) is None
    assert db.check(deep=True).problems == []


def test_a_list_that_goes_back_in_one_pass_has_no_stage(db: livingdb.Database) -> None:
    main = db.branch("main")
    must = AddColumn("orders", "must", "int", default=7)
    main.evolve([must, TOTAL, DropColumn("orders", "city")], keep="old", sync="reverse")
    old = db.branch("old")
    assert hidden(db) == []
    main.insert("orders", {"id": [5], "total": [5.0], "must": [1]})
    main.update("orders", {"id": [1], "total": [11.0]})
    assert old.table("orders").get(5) == {"id": 5, "amount": 5.0, "city": None}
    assert old.table("orders").get(1) == {"id": 1, "amount": 11.0, "city": "Oslo"}
    with pytest.raises(livingdb.ReadOnlyBranch):
        old.delete("orders", [1])
    assert db.check(deep=True).problems == []


def test_a_list_goes_on_over_changes_of_its_source(db: livingdb.Database) -> None:
    """Names follow, what is new comes along, and what the source does itself is done."""
    main = db.branch("main")
    main.evolve([VAT, TOTAL, RenameColumn("orders", "city", "town")], to="thin", sync="forward")
    main.evolve(RenameColumn("orders", "city", "place"))
    main.evolve(AddColumn("orders", "note", "string", default="none"))
    main.insert("orders", {"id": [5], "amount": [5.0], "place": ["Bodø"], "note": ["new"]})
    thin = db.branch("thin")
    row = {"id": 5, "total": 5.0, "town": "Bodø", "vat": 0.25, "note": "new"}
    assert thin.table("orders").get(5) == row
    main.evolve(TOTAL)
    main.insert("orders", {"id": [6], "total": [6.0], "place": ["Bodø"], "note": ["new"]})
    assert thin.table("orders").get(6) == {**row, "id": 6, "total": 6.0}
    main.evolve(RenameColumn("orders", "place", "town"))
    main.update("orders", {"id": [6], "town": ["Oslo"]})
    assert thin.table("orders").get(6) == {**row, "id": 6, "total": 6.0, "town": "Oslo"}
    assert [sync.state for sync in db.syncs()] == ["active"]
    assert hidden(db) == []
    assert db.check(deep=True).problems == []


def test_a_list_of_which_its_source_makes_everything(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([TOTAL, RenameColumn("orders", "city", "town")], to="thin", sync="forward")
    main.evolve([TOTAL, RenameColumn("orders", "city", "town")])
    main.insert("orders", {"id": [5], "total": [5.0], "town": ["Bodø"]})
    thin = db.branch("thin")
    assert thin.table("orders").get(5) == {"id": 5, "total": 5.0, "town": "Bodø"}
    main.evolve(RenameColumn("orders", "total", "sum"))
    main.insert("orders", {"id": [6], "sum": [6.0], "town": ["Bodø"]})
    assert thin.table("orders").get(6) == {"id": 6, "total": 6.0, "town": "Bodø"}
    assert db.check(deep=True).problems == []


def test_a_merge_brings_its_source_the_changes_of_a_list(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve([VAT, TOTAL], to="thin", sync="forward")
    thin = db.branch("thin")
    thin.clone("dev").update("orders", {"id": [1], "vat": [0.5]})
    db.merge("dev", into="main")
    assert main.table("orders").schema.names == thin.table("orders").schema.names
    main.insert("orders", {"id": [5], "total": [5.0], "city": ["Bodø"], "vat": [0.75]})
    assert [thin.table("orders").get(key)["vat"] for key in (1, 2, 5)] == [0.5, 0.25, 0.75]
    assert db.check(deep=True).problems == []


# --- what a process knows --------------------------------------------------------------------


def test_a_process_keeps_what_it_knows_when_it_evolves_itself(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody else was first it looks again; else each version would be asked for anew."""
    graph, main = db._graph, db.branch("main")
    looked: list[str] = []
    refresh = graph.index.refresh
    monkeypatch.setattr(graph.index, "refresh", lambda: (looked.append(""), refresh())[1])
    main.evolve(VAT, keep="v1", sync="both")
    main.evolve(TOTAL, keep="v2", sync="both")
    assert main.table("orders").get(1)["total"] == 1.0
    assert not looked
    with livingdb.open(db.name) as other:
        other.branch("main").evolve(DropColumn("orders", "city"), keep="v3", sync="both")
    main.evolve(RenameColumn("orders", "vat", "tax"), keep="v4", sync="both")
    assert looked
    assert main.table("orders").get(1) == {"id": 1, "total": 1.0, "tax": 0.25}
    db.branch("v1").update("orders", {"id": [1], "amount": [4.0]})
    assert main.table("orders").get(1)["total"] == 4.0
