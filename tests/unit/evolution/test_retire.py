"""Retiring a schema version: its neighbours stay in step, and what only it holds is told of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Database
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carry_lens import LensCarrier
from livingdb.commit.proposal import BranchMove
from livingdb.errors import InvalidData, NotFound, RuleViolation, TransactionConflict
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ConcatColumns,
    DropColumn,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitTable,
)

ROWS = [
    {"id": 1, "first": "Kari", "last": "Lie", "city": "Oslo", "amount": 7.9},
    {"id": 2, "first": "Ola", "last": "Dahl", "city": "Oslo", "amount": 2.0},
    {"id": 3, "first": "Per", "last": "Berg", "city": None, "amount": None},
]
COLUMNS = {
    "id": "bigint",
    "first": "string",
    "last": "string",
    "city": "string",
    "amount": "double",
}
Changes = SchemaChange | Sequence[SchemaChange]


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with livingdb.create(tmp_path / "people.ldb", author="ann") as made:
        main = made.branch("main")
        main.create_table("people", COLUMNS, key="id")
        main.insert("people", ROWS)
        yield made


def chain(db: Database, first: Changes, second: Changes) -> None:
    """v1 ↔ v2 ↔ main."""
    db.branch("main").evolve(first, keep="v1", sync="both")
    db.branch("main").evolve(second, keep="v2", sync="both")


def shown(db: Database, *names: str) -> dict[str, Any]:
    return {
        name: {
            table: db.branch(name).table(table).to_arrow().to_pylist()
            for table in db.branch(name).tables()
        }
        for name in names
    }


def ends(db: Database) -> list[str]:
    return [f"{sync.name} {sync.direction} {sync.state}" for sync in db.syncs()]


def is_sound(db: Database) -> bool:
    return not db.check(deep=True).problems


PAIRS: dict[str, tuple[Changes, Changes]] = {
    "rename, rename": (
        RenameColumn("people", "last", "family"),
        RenameColumn("people", "first", "given"),
    ),
    "add, drop": (AddColumn("people", "note", "string"), DropColumn("people", "note")),
    "retype, rename": (
        RetypeColumn("people", "amount", "bigint", policy="clamp"),
        RenameTable("people", "persons"),
    ),
    "concat, add": (
        ConcatColumns("people", ["first", "last"], "name", separator=" "),
        AddColumn("people", "rank", "bigint", default=3),
    ),
    "lists": (
        [AddColumn("people", "note", "string"), RenameColumn("people", "city", "place")],
        [DropColumn("people", "note"), RenameTable("people", "persons")],
    ),
    "normalize, rename": (
        Normalize("people", ["city"], "places"),
        RenameColumn("places", "city", "town"),
    ),
    "split, add": (
        SplitTable("people", {"rich": "amount > 3", "poor": "amount <= 3"}),
        AddColumn("rich", "rank", "bigint", default=1),
    ),
    "constraint, drop": (
        AddConstraint("people", check="amount > 3", on_violation="quarantine"),
        DropColumn("people", "last"),
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_neighbours_show_the_same_and_stay_in_step(db: Database, pair: str) -> None:
    chain(db, *PAIRS[pair])
    before = shown(db, "v1", "main")
    done = db.retire("v2", policy="truncate")
    assert done.neighbours == ("v1", "main")
    assert shown(db, "v1", "main") == before
    assert ends(db) == ["v1/main both active"]
    assert [branch.name for branch in db.branches()] == ["main", "v1"]
    assert is_sound(db)
    db.branch("v1").update("people", [{"id": 1, "first": "Eva", "city": "Bodø", "amount": 4.5}])
    db.branch("v1").delete("people", [{"id": 2}])
    assert is_sound(db)
    table = next(n for n in ("people", "persons", "rich") if n in db.branch("main").tables())
    db.branch("main").delete(table, [{"id": 1}])
    assert 1 not in db.branch("v1").table("people").to_arrow()["id"].to_pylist()
    assert is_sound(db)


@pytest.mark.parametrize("pair", PAIRS)
def test_writes_give_what_they_would_have_given(db: Database, tmp_path: Path, pair: str) -> None:
    """What neighbours write after the end of a version is what they write if it goes on."""
    answers = []
    for number, retires in enumerate((False, True)):
        with livingdb.create(tmp_path / f"{number}.ldb", author="ann") as other:
            main = other.branch("main")
            main.create_table("people", COLUMNS, key="id")
            main.insert("people", ROWS)
            chain(other, *PAIRS[pair])
            if retires:
                other.retire("v2", policy="truncate")
            old = other.branch("v1")
            old.update("people", [{"id": 1, "last": "Moe"}])
            old.insert(
                "people",
                [{"id": 9, "first": "Liv", "last": "Ås", "city": "Oslo", "amount": 5.25}],
            )
            old.update("people", [{"id": 3, "city": "Moss"}])
            answers.append(shown(other, "v1", "main"))
    assert answers[0] == answers[1]


def test_values_that_only_it_holds(db: Database) -> None:
    chain(db, AddColumn("people", "note", "string"), DropColumn("people", "note"))
    db.branch("v2").update("people", [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}])
    with pytest.raises(InvalidData, match=r"people\.note \(2 rows\)") as told:
        db.retire("v2")
    assert "truncate" in str(told.value)
    assert ends(db) == ["v1/v2 both active", "v2/main both active"]
    with pytest.raises(InvalidData, match="policy 'clamp'"):
        db.retire("v2", policy="clamp")
    done = db.retire("v2", policy="truncate")
    assert done.own_values == {"people": {"note": 2}}
    assert "only it held people.note (2 rows)" in str(done)
    kept = db.at(done.snapshot)
    assert kept.table("people").to_arrow()["note"].to_pylist() == ["a", "b", None]


def test_an_end_just_ends(db: Database) -> None:
    chain(db, DropColumn("people", "city"), RenameColumn("people", "last", "family"))
    with pytest.raises(InvalidData, match=r"only 'v1' holds these values: people\.city \(2 rows\)"):
        db.retire("v1")
    done = db.retire("v1", policy="truncate")
    assert done.neighbours == ("v2",)
    assert ends(db) == ["v2/main both active"]
    assert db.retire("v2").own_values == {}
    assert ends(db) == []
    assert is_sound(db)
    with pytest.raises(NotFound):
        db.branch("v2")


def test_rows_that_only_it_shows(db: Database) -> None:
    """What a constraint hides on the other side is only here."""
    change = AddConstraint("people", check="amount > 3", on_violation="quarantine")
    db.branch("main").evolve(change, keep="v1", sync="both")
    with pytest.raises(InvalidData, match=r"people\.id \(1 row\)"):
        db.retire("v1")


def test_a_value_that_one_neighbour_gives_is_not_lost(db: Database) -> None:
    """7.9 is exact in v1 although main has 7."""
    chain(
        db,
        RenameColumn("people", "last", "family"),
        RetypeColumn("people", "amount", "bigint", policy="clamp"),
    )
    assert db.retire("v2").own_values == {}
    assert shown(db, "v1")["v1"]["people"][0]["amount"] == 7.9
    db.branch("v1").update("people", [{"id": 1, "city": "Moss"}])
    assert shown(db, "main")["main"]["people"][0]["amount"] == 7
    assert shown(db, "v1")["v1"]["people"][0]["amount"] == 7.9


def test_both_neighbours_were_made_of_it(db: Database) -> None:
    """The lens of one of them is turned."""
    main = db.branch("main")
    main.evolve([AddColumn("people", "x", "bigint"), DropColumn("people", "city")], to="a",
                sync="both")  # fmt: skip
    main.evolve(Normalize("people", ["city"], "places"), to="b", sync="both")
    db.set_default_branch("a")
    before = shown(db, "a", "b")
    assert db.retire("main").neighbours == ("a", "b")
    assert shown(db, "a", "b") == before
    assert is_sound(db)
    db.branch("a").insert("people", [{"id": 8, "first": "A", "last": "B", "amount": 1.0, "x": 4}])
    db.branch("b").update("people", [{"id": 1, "first": "Eva"}])
    db.branch("b").delete("people", [{"id": 2}])
    assert [row["id"] for row in shown(db, "a")["a"]["people"]] == [1, 3, 8]
    assert shown(db, "a")["a"]["people"][0]["first"] == "Eva"
    assert shown(db, "b")["b"]["people"][2]["places_id"] is None
    assert is_sound(db)
    db.set_default_branch("b")
    assert db.retire("a", policy="truncate").own_values == {"people": {"x": 1}}


def test_several_are_retired_one_after_the_other(db: Database) -> None:
    main = db.branch("main")
    for number in range(4):
        main.evolve(AddColumn("people", f"c{number}", "bigint"), keep=f"v{number}", sync="both")
    for name in ("v2", "v1", "v3"):
        db.retire(name)
    assert ends(db) == ["v0/main both active"]
    db.branch("v0").update("people", [{"id": 1, "city": "Moss"}])
    assert shown(db, "main")["main"]["people"][0]["city"] == "Moss"
    main.update("people", [{"id": 1, "c2": 5}])
    assert is_sound(db)
    main.revert("main")
    assert shown(db, "main")["main"]["people"][0]["c2"] is None
    assert is_sound(db)


def test_what_reads_it_is_named(db: Database) -> None:
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    db.branch("v2").derive("cities", sql="SELECT id, city FROM people", when="immediate")
    db.branch("v2").evolve(DropColumn("people", "city"), to="thin", sync="forward")
    db.branch("v2").clone("masked", transform=MaskColumn("people", "city", method="null"),
                          sync="forward")  # fmt: skip
    with pytest.raises(RuleViolation, match="followed by 'cities', 'masked', 'thin'"):
        db.retire("v2")
    db.drop_branch("thin", detach=True)
    db.drop_branch("masked", detach=True)
    with pytest.raises(RuleViolation, match="followed by 'cities'"):
        db.retire("v2")
    db.sync("cities").detach()
    db.retire("v2")
    assert len(shown(db, "cities")["cities"]["cities"]) == 3
    assert is_sound(db)


def test_what_cannot_be_joined_is_refused(db: Database) -> None:
    main = db.branch("main")
    with pytest.raises(RuleViolation, match="default branch"):
        db.retire("main")
    main.clone("alone")
    with pytest.raises(RuleViolation, match="in step with no other version"):
        db.retire("alone")
    with pytest.raises(NotFound):
        db.retire("nothing")
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    db.branch("v2").evolve(RenameColumn("people", "first", "given"), to="third", sync="both")
    with pytest.raises(RuleViolation, match=r"'v1' and 'main' and 'third' are in step through it"):
        db.retire("v2")
    db.retire("third")
    assert db.retire("v2").neighbours == ("v1", "main")


def test_what_others_follow_the_other_way_is_refused(db: Database) -> None:
    """Through one change, and through two with a hidden branch between them."""
    rename, add = RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint")
    for name, changes in (("one", rename), ("two", [rename, add])):
        main = db.branch("main").clone(f"{name}_old")
        main.evolve(changes, to=name, sync="reverse")
        with pytest.raises(RuleViolation, match=f"followed by '{name}_old'"):
            db.retire(name)
        assert db.retire(f"{name}_old").neighbours == (name,)
    assert is_sound(db)


def test_different_conditions_are_refused(db: Database) -> None:
    main = db.branch("main")
    main.evolve(RenameColumn("people", "last", "family"), keep="v1", sync="both",
                conditions=["rows >= 1"])  # fmt: skip
    main.evolve(AddColumn("people", "x", "bigint"), keep="v2", sync="both")
    with pytest.raises(RuleViolation, match="different conditions"):
        db.retire("v2")
    db.sync("v1/v2").alter(conditions=[])
    db.retire("v2")
    assert is_sound(db)


def test_a_detached_neighbour_goes_its_own_way(db: Database) -> None:
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    db.sync("v1/v2").detach()
    db.retire("v2")
    assert ends(db) == []
    db.branch("v1").update("people", [{"id": 1, "last": "Moe"}])
    assert is_sound(db)


def test_a_group_goes_back_to_before_the_end(db: Database) -> None:
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    db.branch("v1").delete("people", [{"id": 2}])
    db.tag("then", "main")
    db.branch("v1").delete("people", [{"id": 3}])
    db.retire("v2")
    db.branch("v1").delete("people", [{"id": 1}])
    db.branch("main").reset("then")
    assert [row["id"] for row in shown(db, "v1")["v1"]["people"]] == [1, 3]
    assert is_sound(db)


def test_an_open_transaction_on_it_fails(db: Database) -> None:
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    gone = pytest.raises((NotFound, TransactionConflict))
    with gone, db.branch("v2").transaction() as open_one:
        open_one.delete("people", [{"id": 1}])
        db.retire("v2")
    assert [row["id"] for row in shown(db, "main")["main"]["people"]] == [1, 2, 3]
    assert is_sound(db)


def test_another_process_goes_on(db: Database, tmp_path: Path) -> None:
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    with livingdb.open(tmp_path / "people.ldb") as other:
        old = other.branch("v1")
        old.update("people", [{"id": 1, "last": "Moe"}])
        db.retire("v2")
        old.update("people", [{"id": 2, "last": "Vik"}])
        assert ends(other) == ["v1/main both active"]
    assert [row["family"] for row in shown(db, "main")["main"]["people"]] == ["Moe", "Vik", "Berg"]


def test_a_sync_that_is_made_meanwhile_is_seen(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looked at the syncs before somebody made another one starts again."""
    from livingdb.commit.evolving import retire as retiring

    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    plain = retiring.own_values
    calls: list[int] = []

    def meddle(*given: Any) -> Any:
        if not calls:
            change = RenameColumn("people", "first", "given")
            db.branch("v2").evolve(change, to="third", sync="both")
        calls.append(1)
        return plain(*given)

    monkeypatch.setattr(retiring, "own_values", meddle)
    with pytest.raises(RuleViolation, match="in step through it"):
        db.retire("v2")
    assert len(ends(db)) == 3


def test_the_sync_of_the_neighbours_is_like_any_other(db: Database) -> None:
    """It is detached and goes on, is mended, goes with a schema, and goes with a branch."""
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    db.retire("v2")
    sync = db.sync("v1/main")
    sync.detach()
    db.branch("v1").update("people", [{"id": 1, "city": "Moss"}])
    db.branch("main").update("people", [{"id": 2, "x": 5}])
    sync.reattach()
    assert shown(db, "main")["main"]["people"][0]["city"] == "Moss"
    assert is_sound(db)
    db.refresh("main", full=True)
    db.branch("v1").evolve(DropColumn("people", "city"), keep="v0", sync="both")
    assert ends(db) == ["v0/main both active", "v0/v1 both active"]
    db.branch("v1").update("people", [{"id": 3, "first": "Pål"}])
    assert shown(db, "main")["main"]["people"][2]["first"] == "Pål"
    assert is_sound(db)
    assert db.retire("v0", policy="truncate").neighbours == ("main", "v1")
    db.branch("main").update("people", [{"id": 3, "family": "Vik"}])
    assert shown(db, "v1")["v1"]["people"][2]["last"] == "Vik"
    assert is_sound(db)
    db.drop_branch("v1", detach=True)
    assert len(db._graph.branches.all()) == 1
    assert db._graph.catalog.syncs.all() == []
    assert is_sound(db)


def test_a_merge_and_a_view_over_what_stays(db: Database) -> None:
    chain(db, RenameColumn("people", "last", "family"), AddColumn("people", "x", "bigint"))
    db.branch("main").derive("names", sql="SELECT id, family FROM people", when="immediate")
    dev = db.branch("main").clone("dev")
    db.retire("v2")
    dev.insert("people", [{"id": 9, "first": "Liv", "family": "Ås", "x": 4}])
    db.merge("dev", into="main")
    db.branch("v1").update("people", [{"id": 9, "last": "Aas"}])
    assert shown(db, "names")["names"]["names"][-1]["family"] == "Aas"
    db.branch("main").cherry_pick(dev.insert("people", [{"id": 10, "first": "Ida"}]).id)
    assert shown(db, "v1")["v1"]["people"][-1]["first"] == "Ida"
    assert is_sound(db)


def test_a_version_that_is_retired_while_somebody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who saw the chain with it carries along the chain without it."""
    url = tmp_path / "chain.ldb"
    with livingdb.create(url) as db, livingdb.open(url) as other:
        main = db.branch("main")
        main.create_table("people", {"id": "bigint", "name": "string"}, key="id")
        main.evolve(RenameColumn("people", "name", "title"), keep="v1", sync="both")
        main.evolve(DropColumn("people", "title"), keep="v2", sync="both")
        waiting, reached = ["v2"], LensCarrier.reached

        def retire_meanwhile(
            carrier: LensCarrier, move: BranchMove
        ) -> list[tuple[SyncRow, BranchId]]:
            found = reached(carrier, move)
            if waiting:
                other.retire(waiting.pop())
            return found

        monkeypatch.setattr(LensCarrier, "reached", retire_meanwhile)
        db.branch("v1").insert("people", [{"id": 1, "name": "Ida"}])
        assert waiting == []
        assert main.table("people").to_arrow().to_pylist() == [{"id": 1}]
        assert [(sync.name, sync.state) for sync in other.syncs()] == [("v1/main", "active")]
        assert db.check(deep=True).problems == []
