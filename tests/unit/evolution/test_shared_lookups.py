"""Lookups that several tables share, and updates of shared rows, along chains of versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Branch, Database
from livingdb.errors import InvalidData, RuleViolation, Unsupported
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    Decompose,
    DropColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    SchemaChange,
)

COLUMNS = {"id": "bigint", "city": "string", "zip": "string", "amount": "double"}
OSLO, MOSS = {"city": "Oslo", "zip": "1"}, {"city": "Moss", "zip": "2"}


def placed(number: int, place: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"id": number, **(place or {"city": None, "zip": None}), "amount": float(number)}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as made:
        main = made.branch("main")
        for name in ("orders", "returns"):
            main.create_table(name, COLUMNS, key="id")
        main.insert("orders", [placed(1, OSLO), placed(2, OSLO), placed(3, MOSS), placed(4, None)])
        main.insert("returns", [placed(1, OSLO), placed(2, MOSS), placed(3, None)])
        yield made


def rows(branch: Branch, table: str, *columns: str) -> list[Any]:
    found = branch.table(table).to_arrow().to_pylist()
    return [tuple(row[c] for c in columns) if len(columns) > 1 else row[columns[0]]
            for row in found]  # fmt: skip


def is_sound(db: Database) -> bool:
    return not db.check(deep=True).problems


def both(**options: Any) -> list[SchemaChange]:
    return [
        Normalize("orders", ["city", "zip"], "places", **options),
        Normalize("returns", ["zip", "city"], "places", **options),
    ]


def test_two_tables_share_a_lookup(db: Database) -> None:
    main = db.branch("main")
    main.evolve(both(), keep="old", sync="both")
    assert sorted(rows(main, "places", "city")) == ["Moss", "Oslo"]
    numbers = dict(rows(main, "places", "city", "id"))
    assert rows(main, "returns", "places_id") == [numbers["Oslo"], numbers["Moss"], None]
    old = db.branch("old")
    old.update("returns", [{"id": 1, "city": "Bodø", "zip": "8"}])
    assert sorted(rows(main, "places", "city")) == ["Bodø", "Moss", "Oslo"]
    main.update("places", [{"id": numbers["Moss"], "city": "MOSS"}])
    assert rows(old, "orders", "city") == ["Oslo", "Oslo", "MOSS", None]
    assert rows(old, "returns", "city") == ["Bodø", "MOSS", None]
    assert is_sound(db)


def test_a_lookup_that_users_made(db: Database) -> None:
    """Its own rows are on both sides; what wide rows need is on the new one."""
    main = db.branch("main")
    main.create_table("places", {"id": "bigint", "zip": "string", "city": "string"}, key="id")
    main.insert("places", [{"id": 7, "zip": "9", "city": "Ås"}])
    main.evolve(Normalize("orders", ["city", "zip"], "places"), keep="old", sync="both")
    old = db.branch("old")
    assert rows(old, "places", "city") == ["Ås"]
    assert sorted(rows(main, "places", "city")) == ["Moss", "Oslo", "Ås"]
    main.update("orders", [{"id": 4, "places_id": 7}])
    assert rows(old, "orders", "city")[3] == "Ås"
    main.insert("places", [{"id": 8, "zip": "3", "city": "Voss"}])
    assert rows(old, "places", "city") == ["Ås", "Voss"]
    old.update("places", [{"id": 7, "city": "ÅS"}])  # whose row in main orders 4 shares
    assert rows(old, "orders", "city")[3] == "Ås"
    assert sorted(rows(main, "places", "city")) == ["Moss", "Oslo", "Voss", "ÅS", "Ås"]
    old.delete("places", [7])
    assert sorted(rows(main, "places", "city")) == ["Moss", "Oslo", "Voss", "Ås"]
    assert is_sound(db)


def test_a_branch_that_follows_changes_no_row_of_its_source(db: Database) -> None:
    """Rows that would have to change together detach it, and stay as they were written."""
    main = db.branch("main")
    main.delete("returns", [1, 2, 3])
    main.evolve(
        Decompose("orders", {"orders": ["zip", "amount"], "returns": ["city"]}),
        to="next",
        sync="forward",
    )
    main.insert("returns", [placed(1, MOSS)])
    assert rows(main, "orders", "city") == ["Oslo", "Oslo", "Moss", None]
    assert db.sync("main/next").state == "detached"


def test_a_lookup_row_that_goes_leaves_its_key_to_wide_rows(db: Database) -> None:
    """The same transaction deletes it and has a row of its key with other values."""
    main = db.branch("main")
    main.delete("orders", [1, 2, 3, 4])
    main.evolve(Normalize("orders", ["city"], "returns", by="id"), keep="old", sync="both")
    old = db.branch("old")
    with old.transaction() as tx:
        tx.delete("returns", [1])
        tx.insert("orders", [placed(1, MOSS)])
    assert rows(main, "returns", "id", "city")[0] == (1, "Moss")
    assert rows(old, "orders", "city") == ["Moss"]
    assert rows(old, "returns", "id") == [2, 3]
    assert is_sound(db)


def test_a_lookup_row_fans_out_to_wide_rows(db: Database) -> None:
    main = db.branch("main")
    main.create_table("places", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
    main.insert("places", [{"id": 7, "zip": "9", "city": "Ås"}])
    change = Normalize("orders", ["city", "zip"], "places", on_update="fanout")
    main.evolve(change, keep="old", sync="both")
    old = db.branch("old")
    main.update("orders", [{"id": 4, "places_id": 7}, {"id": 3, "places_id": 7}])
    old.update("places", [{"id": 7, "city": "ÅS"}])
    assert rows(old, "orders", "city") == ["Oslo", "Oslo", "ÅS", "ÅS"]
    old.update("orders", [{"id": 3, "city": "Aas"}])
    assert rows(old, "orders", "city") == ["Oslo", "Oslo", "Aas", "Aas"]
    assert rows(old, "places", "city") == ["Aas"]
    torn = pytest.raises(InvalidData, match="other values than rows of 'orders'")
    with torn, old.transaction() as tx:
        tx.update("orders", [{"id": 3, "city": "one"}])
        tx.update("places", [{"id": 7, "city": "another"}])
    assert is_sound(db)


CHAINS: dict[str, Sequence[SchemaChange | Sequence[SchemaChange]]] = {
    "normalize, rename": (
        Normalize("orders", ["city", "zip"], "places", on_update="fanout"),
        RenameColumn("places", "city", "town"),
    ),
    "rename, normalize": (
        RenameTable("returns", "sent_back"),
        RenameColumn("orders", "amount", "total"),
        Normalize("orders", ["city", "zip"], "places", on_update="fanout"),
    ),
    "in one list": (
        [
            AddColumn("orders", "note", "string"),
            Normalize("orders", ["city", "zip"], "places", on_update="fanout"),
            DropColumn("orders", "note"),
        ],
    ),
    "two tables": (*both(on_update="fanout"),),
}


def evolved(db: Database, steps: Sequence[SchemaChange | Sequence[SchemaChange]]) -> Branch:
    for number, change in enumerate(steps):
        db.branch("main").evolve(change, keep=f"v{number}", sync="both")
    return db.branch("v0")


@pytest.mark.parametrize("chain", CHAINS)
def test_fanout_holds_along_chains(db: Database, chain: str) -> None:
    old = evolved(db, CHAINS[chain])
    old.update("orders", [{"id": 1, "city": "OSLO"}])
    assert rows(old, "orders", "city") == ["OSLO", "OSLO", "Moss", None]
    shared = ["OSLO" if chain == "two tables" else "Oslo", "Moss", None]
    assert rows(old, "returns", "city") == shared
    main = db.branch("main")
    assert len(rows(main, "places", "id")) == 2
    old.update("orders", [{"id": 4, "city": "Moss", "zip": "2"}])
    assert len(rows(main, "places", "id")) == 2
    assert is_sound(db)


@pytest.mark.parametrize("chain", CHAINS)
def test_fork_holds_along_chains(db: Database, chain: str) -> None:
    steps = [
        [_forking(change) for change in (step if isinstance(step, list) else [step])]
        for step in CHAINS[chain]
    ]
    old = evolved(db, steps)
    old.update("orders", [{"id": 1, "city": "OSLO"}])
    assert rows(old, "orders", "city") == ["OSLO", "Oslo", "Moss", None]
    assert rows(old, "returns", "city") == ["Oslo", "Moss", None]
    assert len(rows(db.branch("main"), "places", "id")) == 3
    assert is_sound(db)


def _forking(change: SchemaChange) -> SchemaChange:
    if not isinstance(change, Normalize):
        return change
    return Normalize(change.table, change.columns, change.into)


def test_what_fans_out_keeps_what_else_was_written(db: Database) -> None:
    """A column that the shared side does not have is written in the same row."""
    old = evolved(
        db,
        [
            DropColumn("orders", "amount"),
            Normalize("orders", ["city", "zip"], "places", on_update="fanout"),
        ],
    )
    old.update("orders", [{"id": 1, "city": "OSLO", "amount": 77.0}])
    assert rows(old, "orders", "city", "amount") == [
        ("OSLO", 77.0),
        ("OSLO", 2.0),
        ("Moss", 3.0),
        (None, 4.0),
    ]
    assert is_sound(db)


def test_references_become_null_along_chains(db: Database) -> None:
    """A lookup row is deleted two versions away from where the references are."""
    change = Normalize("orders", ["city", "zip"], "places", on_delete="set null")
    old = evolved(db, [change, RenameTable("places", "towns"), AddColumn("towns", "x", "bigint")])
    main = db.branch("main")
    numbers = dict(rows(main, "towns", "city", "id"))
    main.delete("towns", [numbers["Oslo"]])
    assert rows(old, "orders", "city") == [None, None, "Moss", None]
    assert rows(main, "orders", "places_id") == [None, None, numbers["Moss"], None]
    assert is_sound(db)


def test_rows_that_share_are_given_different_values(db: Database) -> None:
    old = evolved(db, CHAINS["rename, normalize"])
    with pytest.raises(InvalidData, match="different values"):
        old.update("orders", [{"id": 1, "city": "A"}, {"id": 2, "city": "B"}])
    assert rows(old, "orders", "city") == ["Oslo", "Oslo", "Moss", None]


REFUSED: dict[str, tuple[Mapping[str, str], str, str]] = {
    "another key": (
        {"code": "string", "city": "string", "zip": "string"},
        "code",
        "has the key code string: rows are found in it by a hash",
    ),
    "a column is missing": (
        {"id": "bigint", "city": "string"},
        "id",
        "'places' has no column 'zip'",
    ),
    "a column too many": (
        {"id": "bigint", "city": "string", "zip": "string", "land": "string"},
        "id",
        "has the column 'land', too",
    ),
    "another type": (
        {"id": "bigint", "city": "string", "zip": "int"},
        "id",
        "'zip' is string in 'orders' and int in 'places'",
    ),
    "not null": (
        {"id": "bigint", "city": "string not null", "zip": "string"},
        "id",
        "'city' is NOT NULL in 'places' and not in 'orders'",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_match_is_refused(db: Database, why: str) -> None:
    columns, key, message = REFUSED[why]
    main = db.branch("main")
    main.create_table("places", columns, key=key)
    with pytest.raises(InvalidData, match=message):
        main.evolve(Normalize("orders", ["city", "zip"], "places"))


def test_checks_and_the_table_itself_are_refused(db: Database) -> None:
    main = db.branch("main")
    main.create_table("places", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
    main.evolve(AddConstraint("places", check="zip > '0'"))
    with pytest.raises(InvalidData, match="'places' has the check zip > '0', and 'orders' has not"):
        main.evolve(Normalize("orders", ["city", "zip"], "places"))
    with pytest.raises(InvalidData, match="cannot be 'orders' itself"):
        main.evolve(Normalize("orders", ["city", "zip"], "orders"))


def test_a_lookup_is_traced(db: Database) -> None:
    """A view over the lookup is refreshed; lineage, blame and whereabouts know both sources."""
    main = db.branch("main")
    main.create_table("places", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
    main.insert("places", [{"id": 7, "zip": "9", "city": "Ås"}], author="bea")
    main.derive("towns", sql="SELECT id, city FROM places", when="immediate")
    main.evolve(Normalize("orders", ["city", "zip"], "places"), keep="old", sync="both")
    assert sorted(rows(db.branch("towns"), "towns", "city")) == ["Moss", "Oslo", "Ås"]
    assert is_sound(db)
    numbers = dict(rows(main, "places", "city", "id"))
    blame = {row["id"]: row["author"] for row in db.blame("main", "places").to_pylist()}
    assert blame == {7: "bea", numbers["Oslo"]: "ann", numbers["Moss"]: "ann"}
    assert {place.name for place in db.whereabouts("places", 7)} == {"main", "old", "towns"}
    change = Normalize("orders", ["city", "zip"], "places")
    found = db.branch("old").clone("copy", transform=change, sync="forward", when="deferred")
    assert sorted(rows(found, "places", "city")) == ["Moss", "Oslo", "Ås"]
    assert db.column_lineage("copy.places")["city"] == ["orders.city", "places.city"]
    assert {*db.lineage("copy.places")} == {"orders", "places"}


def test_a_version_with_a_shared_lookup_is_retired(db: Database) -> None:
    old = evolved(db, both())
    db.retire("v1", policy="truncate")
    old.update("returns", [{"id": 3, "city": "Voss"}])
    assert sorted(rows(db.branch("main"), "places", "city")) == ["Moss", "Oslo", "Voss"]
    assert is_sound(db)


def test_it_is_taken_back_and_made_elsewhere(db: Database) -> None:
    main = db.branch("main")
    main.evolve(Normalize("orders", ["city", "zip"], "places"))
    dev = main.clone("dev")
    made = dev.evolve(Normalize("returns", ["city", "zip"], "places"))
    dev.insert("returns", [{"id": 9, "amount": 1.0, "places_id": None}])
    main.insert("returns", [placed(8, {"city": "Voss", "zip": "5"})])
    db.merge("dev", into="main")
    assert rows(main, "returns", "id") == [1, 2, 3, 8, 9]
    assert sorted(rows(main, "places", "city")) == ["Moss", "Oslo", "Voss"]
    dev.revert(made.id)
    assert rows(dev, "returns", "city") == ["Oslo", "Moss", None, None]
    assert is_sound(db)


def test_a_schema_in_step_stays_as_it_is(db: Database) -> None:
    main = db.branch("main")
    main.evolve(both(), keep="old", sync="both")
    with pytest.raises(RuleViolation):
        main.evolve(DropColumn("orders", "amount"))


# --- by the lookup table's own key ----------------------------------------------------------------


@pytest.fixture
def lands(db: Database) -> Branch:
    """A table of lands by code, and sales that hold the name of theirs."""
    main = db.branch("main")
    columns = {"code": "string", "name": "string", "people": "bigint"}
    main.create_table("lands", columns, key="code")
    main.insert("lands", [{"code": "NO", "name": "Norway", "people": 5}])
    main.create_table(
        "sales", {"id": "bigint", "land": "string", "name": "string", "x": "int"}, key="id"
    )
    main.insert(
        "sales",
        [
            {"id": 1, "land": "NO", "name": "Norway"},
            {"id": 2, "land": "SE", "name": "Sweden"},
            {"id": 3, "land": "NO", "name": "Norway"},
            {"id": 4},
        ],
    )
    return main


def test_rows_are_found_by_a_key_of_their_own(db: Database, lands: Branch) -> None:
    change = Normalize("sales", ["name"], "lands", by="land")
    assert "must have the same name" in str(lands.explain_evolution(change))
    lands.evolve(change, keep="old", sync="both")
    old = db.branch("old")
    assert lands.table("sales").schema.names == ["id", "land", "x"]
    assert rows(lands, "lands", "code", "name", "people") == [
        ("NO", "Norway", 5),
        ("SE", "Sweden", None),
    ]
    assert rows(old, "lands", "code") == ["NO"]
    old.update("sales", [{"id": 1, "land": "SE"}])  # which takes the name of its land
    assert rows(old, "sales", "name") == ["Sweden", "Sweden", "Norway", None]
    old.insert("sales", [{"id": 5, "land": "DK", "name": "Denmark"}])
    assert rows(lands, "lands", "code") == ["DK", "NO", "SE"]
    lands.update("lands", [{"code": "NO", "name": "Norge"}])
    assert rows(old, "sales", "name")[2] == "Norge"
    assert rows(old, "lands", "name") == ["Norge"]
    with pytest.raises(InvalidData, match=r"other values of name than that row of 'lands'"):
        old.update("sales", [{"id": 3, "name": "Noreg"}])
    with pytest.raises(InvalidData, match="has no 'land', by which name would be found"):
        old.update("sales", [{"id": 4, "name": "nowhere"}])
    with pytest.raises(InvalidData, match="shares name with one that changes"):
        old.update("lands", [{"code": "NO", "name": "Noreg"}])
    old.update("lands", [{"code": "NO", "people": 6}])
    assert rows(lands, "lands", "people")[1] == 6
    old.delete("lands", ["NO"])
    assert rows(lands, "lands", "code") == ["DK", "NO", "SE"]  # which sales 3 refers to
    assert is_sound(db)


def test_the_row_of_a_key_fans_out(db: Database, lands: Branch) -> None:
    change = Normalize("sales", ["name"], "lands", by="land", on_update="fanout")
    lands.evolve([RenameColumn("sales", "x", "y"), change], keep="old", sync="both")
    old = db.branch("old")
    old.update("sales", [{"id": 3, "name": "Noreg"}])
    assert rows(old, "sales", "name") == ["Noreg", "Sweden", "Noreg", None]
    assert rows(old, "lands", "name") == ["Noreg"]
    old.update("lands", [{"code": "NO", "name": "Norge"}])
    assert rows(old, "sales", "name") == ["Norge", "Sweden", "Norge", None]
    assert rows(lands, "lands", "name") == ["Norge", "Sweden"]
    assert is_sound(db)


def test_rows_that_do_not_fit_a_key_are_named(lands: Branch) -> None:
    change = Normalize("sales", ["name"], "lands", by="land")
    lands.insert("sales", [{"id": 7, "land": "SE", "name": "Sverige"}])
    with pytest.raises(InvalidData, match="rows with one 'land' have different values of name"):
        lands.evolve(change)
    lands.update("sales", [{"id": 7, "land": "NO"}])
    with pytest.raises(InvalidData, match="different values of name"):
        lands.evolve(change)
    lands.delete("sales", [1, 3])
    with pytest.raises(InvalidData, match="other values of name than that row of 'lands'"):
        lands.evolve(change)
    for by, message in (("x", "and 'x' of 'sales' is int"), ("name", "it stays in 'sales'")):
        with pytest.raises(InvalidData, match=message):
            lands.evolve(Normalize("sales", ["name"], "lands", by=by))


def test_a_branch_that_follows_is_made_anew_when_reattached(db: Database, lands: Branch) -> None:
    change = Normalize("sales", ["name"], "lands", by="land")
    lands.evolve(change, to="next", sync="forward")
    new = db.branch("next")
    held = rows(new, "lands", "code", "name")
    lands.update("sales", [{"id": 2, "name": "Sverige"}])
    lands.insert("sales", [{"id": 7, "land": "SE", "name": "Sweden"}])
    assert db.sync("main/next").state == "detached"
    with pytest.raises(InvalidData, match="rows with one 'land' have different values of name"):
        db.sync("main/next").reattach()
    assert rows(new, "lands", "code", "name") == held
    lands.delete("sales", [7])
    db.sync("main/next").reattach()
    assert db.sync("main/next").state == "active"
    assert rows(new, "lands", "code", "name") == [("NO", "Norway"), ("SE", "Sverige")]
    lands.insert("sales", [{"id": 8, "land": "DK", "name": "Denmark"}])
    assert rows(new, "lands", "code") == ["DK", "NO", "SE"]
    assert is_sound(db)


# --- decompose ------------------------------------------------------------------------------------


def test_a_table_is_taken_apart_into_one_that_is_there(db: Database) -> None:
    main = db.branch("main")
    main.create_table("homes", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
    main.insert("homes", [{"id": 1, **OSLO}, {"id": 9, **MOSS}])
    for number, table in enumerate(("orders", "returns")):
        change = Decompose(table, {table: ["amount"], "homes": ["city", "zip"]})
        if table == "returns":
            with pytest.raises(InvalidData, match="other values of city"):
                main.evolve(change, to="other")
            main.update("returns", [{"id": 2, **OSLO}, {"id": 3, **MOSS}])
        main.evolve(change, keep=f"v{number}", sync="both")
    old = db.branch("v0")
    assert rows(old, "homes", "id") == [1, 9]
    assert rows(main, "homes", "id", "city") == [
        (1, "Oslo"), (2, "Oslo"), (3, "Moss"), (4, None), (9, "Moss"),
    ]  # fmt: skip
    assert rows(old, "orders", "id") == [1, 2, 3, 4]
    old.update("returns", [{"id": 1, "city": "OSLO"}])
    assert rows(old, "orders", "city") == ["OSLO", "Oslo", "Moss", None]
    assert rows(old, "homes", "city") == ["OSLO", "Moss"]
    assert is_sound(db)
    main.evolve(RenameTable("homes", "places"), to="named", sync="both")
    assert is_sound(db)


def test_parts_that_are_there_have_to_fit(db: Database) -> None:
    main = db.branch("main")
    main.create_table("homes", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
    with pytest.raises(InvalidData, match="into= names these two"):
        main.evolve(Decompose("orders", {"rest": ["amount"], "homes": ["city", "zip"]}))
    main.create_table("pairs", {"a": "int", "b": "int", "city": "string", "x": "int"},
                      key=["a", "b"])  # fmt: skip
    with pytest.raises(Unsupported, match="has several columns"):
        main.evolve(Decompose("pairs", {"pairs": ["x"], "homes": ["city"]}))


def test_a_part_that_is_there_is_followed(db: Database) -> None:
    main = db.branch("main")
    main.create_table("homes", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
    change = Decompose("orders", {"orders": ["amount"], "homes": ["city", "zip"]})
    main.evolve(change, to="seen", sync="forward")
    main.evolve([RenameTable("homes", "places"), RenameTable("orders", "sales")])
    main.insert("sales", [placed(8, MOSS)])
    seen = db.branch("seen")
    assert sorted(seen.tables()) == ["places", "returns", "sales"]
    assert rows(seen, "places", "id") == [1, 2, 3, 4, 8]
    main.evolve(Normalize("returns", ["city", "zip"], "towns"))
    main.evolve(Normalize("sales", ["city", "zip"], "towns"), to="shared", sync="forward")
    main.evolve(RenameTable("towns", "cities"))
    assert sorted(rows(db.branch("shared"), "cities", "city")) == ["Moss", "Oslo"]
    assert is_sound(db)


@pytest.mark.parametrize("is_keyed", [True, False])
def test_a_row_that_the_source_has_otherwise_is_not_changed(db: Database, is_keyed: bool) -> None:
    """What only follows changes nothing of what it reads, nor says otherwise."""
    main = db.branch("main")
    if is_keyed:
        main.create_table("homes", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
        main.insert("homes", [{"id": 1, **OSLO}])
        main.evolve(Decompose("orders", {"orders": ["amount"], "homes": ["city", "zip"]}),
                    to="seen", sync="forward")  # fmt: skip
    else:
        main.evolve(Normalize("returns", ["city", "zip"], "homes"))
        change = Normalize("orders", ["city", "zip"], "homes", on_update="fanout")
        main.evolve(change, to="seen", sync="forward")
    shown = rows(db.branch("seen"), "homes", "id", "city")
    other = {"city": "OSLO", "zip": "1"}
    main.update("orders", [{"id": 1, **other}, {"id": 2, **other}])
    assert db.sync("seen").state == "detached"
    assert "would have to change with them" in db.sync("seen").reason
    assert rows(db.branch("seen"), "homes", "id", "city") == shown
    assert is_sound(db)


def test_a_row_and_a_lookup_row_change_together(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "int", "city": "string", "amount": "int"}, key="id")
        main.insert("orders", [{"id": 1, "city": "Oslo", "amount": 5}])
        main.evolve(Normalize("orders", ["city"], into="cities"), to="new", sync="both")
        with db.branch("new").transaction() as tx:
            tx.insert("cities", [{"id": 1, "city": "Bergen"}])
            tx.update("orders", [{"id": 1, "amount": 7}])
        assert main.table("orders").get(1) == {"id": 1, "city": "Oslo", "amount": 7}
        assert db.check(deep=True).problems == []
