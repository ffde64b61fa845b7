"""Every cell of the table of changes: each direction of each variant is legal, or refused.

The table is asked through a whole database: `explain_evolution` says beforehand what `evolve`
does, a legal sync joins two branches of which the right ones can be written, and one that is
refused says why and leaves nothing behind.  Aggregates, the last line of that table, are views
and no schema change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest
from tests.thinned import thinned

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropConstraint,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitColumn,
    SplitTable,
    UnionTables,
)

DIRECTIONS = ("forward", "reverse", "both", "none")
ALL = frozenset(DIRECTIONS)
FORWARD = frozenset({"forward", "none"})
REVERSE = frozenset({"reverse", "none"})


@dataclass(frozen=True)
class Variant:
    """A change, the directions it is legal in, and what the others are refused with."""

    name: str
    change: SchemaChange
    legal: frozenset[str]
    reason: str = ""
    scans: bool = False


def variant(
    name: str,
    change: SchemaChange,
    legal: frozenset[str] = ALL,
    reason: str = "",
    scans: bool = False,
) -> Variant:
    return Variant(name, change, legal, reason, scans)


NOT_NULL = "NOT NULL"
UP = "coalesce(note, '')"

VARIANTS = [
    # --- tables and names
    variant("create table", CreateTable("more", {"id": "bigint"}, "id")),
    variant("drop table", DropTable("north")),
    variant("rename table", RenameTable("orders", "purchases")),
    variant("rename a table that is referred to", RenameTable("shops", "stores")),
    variant("rename column", RenameColumn("orders", "note", "text")),
    variant("rename key column", RenameColumn("orders", "id", "number")),
    # --- add column
    variant("add nullable column", AddColumn("orders", "x", "int")),
    variant("add column with default", AddColumn("orders", "x", "int", default=7)),
    variant("add NOT NULL column with default", AddColumn("orders", "x", "int not null", 7)),
    variant(
        "add computed column", AddColumn("orders", "x", "bigint", computed="large * 2"), scans=True
    ),
    variant(
        "add total computed column", AddColumn("orders", "x", "string", computed="upper(note)")
    ),
    variant(
        "add NOT NULL column",
        AddColumn("fresh", "x", "int not null"),
        REVERSE,
        "a row inserted on the old side has no value for 'x'",
        scans=True,
    ),
    variant("add NOT NULL column, up", AddColumn("orders", "x", "string not null", up=UP)),
    # --- drop column
    variant("drop nullable column", DropColumn("orders", "note")),
    variant(
        "drop NOT NULL column",
        DropColumn("orders", "must"),
        FORWARD,
        "a row inserted on the new side has no value for 'must'",
    ),
    variant("drop NOT NULL column, default", DropColumn("orders", "must", default="?")),
    variant("drop NOT NULL column, down", DropColumn("orders", "must", down=UP)),
    # --- types
    variant("widen", RetypeColumn("orders", "small", "bigint")),
    variant("widen, reject", RetypeColumn("orders", "small", "bigint", policy="reject")),
    variant("widen, null", RetypeColumn("orders", "small", "bigint", policy="null")),
    variant("widen, clamp", RetypeColumn("orders", "small", "bigint", policy="clamp")),
    variant("widen, truncate", RetypeColumn("orders", "small", "bigint", policy="truncate")),
    variant("widen, quarantine", RetypeColumn("orders", "small", "bigint", policy="quarantine")),
    variant("widen, down", RetypeColumn("orders", "small", "bigint", down="CAST(0 AS int)")),
    variant("narrow", RetypeColumn("orders", "large", "int"), scans=True),
    variant("narrow, clamp", RetypeColumn("orders", "large", "int", policy="clamp")),
    variant("narrow, reject", RetypeColumn("orders", "large", "int", policy="reject"), scans=True),
    variant("narrow, null", RetypeColumn("orders", "large", "int", policy="null")),
    variant("narrow, quarantine", RetypeColumn("orders", "large", "int", policy="quarantine")),
    variant(
        "narrow, truncate", RetypeColumn("orders", "large", "int", policy="truncate"), scans=True
    ),
    variant(
        "another type, no way back",
        RetypeColumn("orders", "small", "date", up="date_from_unix_date(small)"),
        FORWARD,
        "date is not cast to int",
        scans=True,
    ),
    variant("narrow, up", RetypeColumn("orders", "large", "int", up="CAST(0 AS int)")),
    # --- text
    variant("split column", SplitColumn("orders", "note", ["p", "q"], separator=" ")),
    variant(
        "split column, up",
        SplitColumn("orders", "note", ["p", "q"], up={"p": "note", "q": "note"}),
        FORWARD,
        "give `down`",
    ),
    variant(
        "split column, up and down",
        SplitColumn("orders", "note", ["p", "q"], up={"p": "note", "q": "note"}, down="p"),
    ),
    variant("concat columns", ConcatColumns("orders", ["note", "must"], "text", separator=" ")),
    variant(
        "concat columns, up",
        ConcatColumns("orders", ["note", "must"], "text", up="must"),
        FORWARD,
        "give `down`",
    ),
    variant(
        "concat columns, up and down",
        ConcatColumns(
            "orders", ["note", "must"], "text", up="must", down={"note": "text", "must": "text"}
        ),
    ),
    # --- tables by key, by reference, by condition
    variant("decompose", Decompose("places", {"towns": ["city"], "codes": ["zip"]})),
    variant("decompose, NOT NULL", Decompose("north", {"a": ["code"], "b": ["size"]})),
    variant("join on key", JoinTables("places", "extras", "both")),
    variant("join on key, NOT NULL", JoinTables("places", "needed", "both"), scans=True),
    variant("normalize", Normalize("places", ["city", "zip"], "towns")),
    variant("normalize, fanout", Normalize("places", ["city"], "towns", on_update="fanout")),
    variant("normalize, set null", Normalize("places", ["city"], "towns", on_delete="set null")),
    variant("normalize, NOT NULL", Normalize("north", ["code"], "codes")),
    variant("join over a reference", JoinTables("visits", "shops", "visits", on="shop")),
    variant(
        "join over a NOT NULL reference",
        JoinTables("sales", "depots", "sales", on="place"),
        FORWARD,
        "would refer to nothing",
    ),
    variant("split table", SplitTable("north", {"few": "size < 2", "many": "size >= 1"})),
    variant(
        "split table, strict",
        SplitTable("north", {"few": "size < 2", "many": "size >= 2"}, strict=True),
        scans=True,
    ),
    variant(
        "union", UnionTables(["north", "south"], "world"), FORWARD, "name a default", scans=True
    ),
    variant(
        "union, default", UnionTables(["north", "south"], "world", default="south"), scans=True
    ),
    variant("union, origin", UnionTables(["north", "south"], "world", origin="where")),
    # --- keys
    variant("change key", ChangeKey("north", ["code"]), scans=True),
    variant(
        "change key, nullable",
        ChangeKey("places", ["zip"]),
        FORWARD,
        "may be null on the old side",
        scans=True,
    ),
    # --- constraints
    variant(
        "add check",
        AddConstraint("orders", check="small > 0", on_violation=None),
        REVERSE,
        "choose on_violation",
        scans=True,
    ),
    variant(
        "add unique",
        AddUnique("orders", ["id", "small"], on_violation=None),
        REVERSE,
        "choose on_violation",
        scans=True,
    ),
    variant("add unique, reject", AddUnique("orders", ["id", "small"]), scans=True),
    variant("add unique, quarantine", AddUnique("orders", "small", on_violation="quarantine")),
    variant("add check, reject", AddConstraint("orders", check="small > 0"), scans=True),
    variant(
        "add check, quarantine",
        AddConstraint("orders", check="small > 1", on_violation="quarantine"),
    ),
    variant(
        "add check, repair",
        AddConstraint("orders", check="small > 1", on_violation="repair", repair="2"),
    ),
    variant(
        "add NOT NULL",
        AddConstraint("orders", not_null="small", on_violation=None),
        REVERSE,
        NOT_NULL,
        scans=True,
    ),
    variant("add NOT NULL, reject", AddConstraint("orders", not_null="small"), scans=True),
    variant(
        "add NOT NULL, quarantine",
        AddConstraint("orders", not_null="note", on_violation="quarantine"),
    ),
    variant(
        "add NOT NULL, repair",
        AddConstraint("orders", not_null="note", on_violation="repair", repair="'?'"),
    ),
    variant(
        "add foreign key",
        AddConstraint("orders", foreign_key=("large", "shops"), on_violation=None),
        REVERSE,
        "choose on_violation",
        scans=True,
    ),
    variant(
        "add foreign key, reject",
        AddConstraint("orders", foreign_key=("large", "shops")),
        scans=True,
    ),
    variant(
        "drop check",
        DropConstraint("orders", "sound", on_violation=None),
        FORWARD,
        "choose on_violation",
    ),
    variant("drop check, reject", DropConstraint("orders", "sound")),
    variant("drop check, quarantine", DropConstraint("orders", "sound", on_violation="quarantine")),
    variant(
        "drop check, repair",
        DropConstraint("orders", "sound", on_violation="repair", repair="0"),
    ),
    variant(
        "drop NOT NULL",
        DropConstraint("orders", not_null="must", on_violation=None),
        FORWARD,
        NOT_NULL,
    ),
    variant("drop NOT NULL, reject", DropConstraint("orders", not_null="must")),
    variant(
        "drop foreign key",
        DropConstraint("visits", foreign_key="shop", on_violation=None),
        FORWARD,
        "choose on_violation",
    ),
    variant("drop foreign key, reject", DropConstraint("visits", foreign_key="shop")),
    # --- masks
    variant("mask", MaskColumn("orders", "note", key="secret")),
    variant("mask, null", MaskColumn("orders", "note", "null")),
    variant(
        "mask NOT NULL",
        MaskColumn("orders", "must", key="secret"),
        FORWARD,
        "masked there and NOT NULL",
    ),
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    """Tables for all of them; every test evolves a clone of `main`."""
    with livingdb.create(tmp_path_factory.mktemp("directions") / "shop.ldb") as database:
        main = database.branch("main")
        for name in ("shops", "depots"):
            main.create_table(name, {"id": "bigint", "name": "string"}, key="id")
        orders = {
            "id": "bigint",
            "note": "string",
            "must": "string not null",
            "small": "int",
            "large": "bigint",
            "stock": "int",
        }
        main.create_table("orders", orders, key="id")
        for name in ("north", "south"):
            columns = {"id": "bigint", "code": "string not null", "size": "int"}
            main.create_table(name, columns, key="id")
        main.create_table("fresh", {"id": "bigint"}, key="id")
        main.create_table("places", {"id": "bigint", "city": "string", "zip": "string"}, key="id")
        main.create_table("extras", {"id": "bigint", "more": "string"}, key="id")
        main.create_table("needed", {"id": "bigint", "more": "string not null"}, key="id")
        links = {"shop": "shops"}, {"place": "depots"}
        main.create_table("visits", {"id": "bigint", "shop": "bigint"}, "id", foreign_keys=links[0])
        columns = {"id": "bigint", "place": "bigint not null"}
        main.create_table("sales", columns, "id", foreign_keys=links[1])
        with main.transaction() as tx:
            for name in ("shops", "depots"):
                tx.insert(name, [{"id": 1, "name": "é"}])
            for number, note in ((1, None), (2, "a b")):
                row = {"id": number, "note": note, "must": "", "small": number, "large": 1}
                tx.insert("orders", [row])
            tx.insert("north", [{"id": 1, "code": "n", "size": 1}])
            tx.insert("south", [{"id": 2, "code": "s", "size": 2}])
            tx.insert("places", [{"id": 1, "city": "Bodø", "zip": "8000"}])
            tx.insert("needed", [{"id": 1, "more": "!"}])
            tx.insert("visits", [{"id": 1, "shop": 1}])
            tx.insert("sales", [{"id": 1, "place": 1}])
        main.evolve(AddConstraint("orders", "sound", "stock >= 0"))
        yield database
        assert database.check().problems == []


numbers = count()
each_variant = pytest.mark.parametrize("case", VARIANTS, ids=lambda case: case.name)


@each_variant
def test_explained(db: livingdb.Database, case: Variant) -> None:
    found = db.branch("main").explain_evolution(case.change)
    assert set(found.legal) == case.legal
    assert set(found.illegal) == ALL - case.legal
    assert all(case.reason in reason for reason in found.illegal.values())
    assert bool(found.scans) == case.scans


@pytest.mark.parametrize(
    ("case", "direction"),
    thinned(VARIANTS, DIRECTIONS),
    ids=lambda given: getattr(given, "name", given),
)
def test_evolved(db: livingdb.Database, case: Variant, direction: str) -> None:
    """Beside the branch, or on it with another one that keeps the old schema."""
    name = f"b{next(numbers)}"
    branch = db.branch("main").clone(name)
    beside = direction in ("forward", "both")
    old, new = (name, f"{name}_new") if beside else (f"{name}_old", name)
    names = {"to": new} if beside else {"keep": old}
    if direction in case.legal:
        branch.evolve(case.change, sync=direction, **names)
        check_joined(db, old, new, direction)
    else:
        check_refused(db, case, branch, direction, names)


def check_joined(db: livingdb.Database, old: str, new: str, direction: str) -> None:
    """Both branches are there, in the sync that was asked for; who may be written can be."""
    assert {old, new} <= set(db.branches())
    found = [sync for sync in db.syncs() if sync.name == f"{old}/{new}"]
    assert [(sync.direction, sync.state) for sync in found] == (
        [] if direction == "none" else [(direction, "active")]
    )
    read_only = {"forward": new, "reverse": old}.get(direction)
    for mine, other in ((old, new), (new, old)):
        branch, head = db.branch(mine), db.branch(other).head
        if mine == read_only:
            with pytest.raises(livingdb.ReadOnlyBranch):
                branch.insert("fresh", {"id": [0]})
            continue
        number = next(numbers)
        table = branch.table("fresh").schema.names
        row = {"id": [number], **({"x": [1]} if "x" in table else {})}
        branch.insert("fresh", row)
        arrived = db.branch(other).table("fresh").get(number)
        assert (arrived is None) == (direction == "none")
        assert (db.branch(other).head == head) == (direction == "none")


def check_refused(
    db: livingdb.Database,
    case: Variant,
    branch: livingdb.Branch,
    direction: str,
    names: dict[str, str],
) -> None:
    """The reason is named, and so is what is legal; nothing happened."""
    before = branch.head, db.branches(), len(db.syncs()), len(db.snapshots())
    with pytest.raises(livingdb.IllegalSync) as caught:
        branch.evolve(case.change, sync=direction, **names)
    assert case.reason
    assert case.reason in str(caught.value)
    legal = ", ".join(name for name in DIRECTIONS if name in case.legal)
    assert str(caught.value).endswith(f"legal: {legal}")
    assert (branch.head, db.branches(), len(db.syncs()), len(db.snapshots())) == before


def test_a_list_is_legal_where_each_of_its_changes_is(db: livingdb.Database) -> None:
    branch = db.branch("main").clone("listed")
    forward = DropColumn("orders", "must")
    reverse = AddConstraint("orders", check="small > 0", on_violation=None)
    either = RenameColumn("orders", "note", "text")
    for changes, legal in (
        ([either, forward], FORWARD),
        ([either, reverse], REVERSE),
        ([forward, either, reverse], {"none"}),
    ):
        found = branch.explain_evolution(changes)
        assert set(found.legal) == legal
        for direction in ALL - legal:
            with pytest.raises(livingdb.IllegalSync, match=found.illegal[direction][:20]):
                branch.evolve(changes, to="listed_new", sync=direction)
    branch.evolve([either, forward], to="listed_new", sync="forward")
    assert db.branch("listed_new").table("orders").schema.names == [
        "id", "text", "small", "large", "stock",
    ]  # fmt: skip


# --- what holds for as long as a sync does ------------------------------------------------------


def test_a_foreign_key_of_one_side_holds_for_writes_on_the_other(db: livingdb.Database) -> None:
    """Also for writes to the table that it names, which both sides share."""
    link = AddConstraint("orders", foreign_key=("large", "shops"))
    branch = db.branch("main").clone("linked")
    branch.delete("visits", [1])
    branch.evolve(link, keep="linked_old", sync="both")
    old = db.branch("linked_old")
    with pytest.raises(livingdb.InvalidData, match="branch 'linked', in step with 'linked_old'"):
        old.update("orders", {"id": [1], "large": [99]})
    with pytest.raises(livingdb.InvalidData, match="'orders' still refers to 'shops'"):
        old.delete("shops", [1])
    assert old.table("shops").get(1) is not None
    assert branch.table("shops").get(1) is not None
    with old.transaction() as tx:
        tx.update("orders", {"id": [1, 2], "large": [None, None]})
        tx.delete("shops", [1])
    assert branch.table("shops").get(1) is None


def test_a_merge_does_not_change_a_schema_that_is_in_step_with_several(
    db: livingdb.Database,
) -> None:
    branch = db.branch("main").clone("stays")
    branch.evolve(RenameColumn("orders", "note", "text"), to="stays_new", sync="both")
    branch.evolve(AddColumn("visits", "y", "int"), to="stays_too", sync="both")
    for number, change in enumerate((AddColumn("orders", "x", "int"), DropTable("visits"))):
        clone = branch.clone(f"stays_{number}")
        clone.evolve(change)
        with pytest.raises(livingdb.RuleViolation, match="rule 4"):
            db.merge(clone, into=branch)
    with pytest.raises(livingdb.RuleViolation, match="rule 4"):
        db.merge("stays_new", into=branch)
    branch.update("orders", {"id": [1], "note": ["é"]})
    assert db.branch("stays_new").table("orders").get(1)["text"] == "é"


def test_what_is_kept_keeps_the_rules_of_its_syncs(db: livingdb.Database) -> None:
    """`keep=` takes the branch's syncs over, so it cannot become read-only."""
    branch = db.branch("main").clone("ruled")
    branch.evolve(RenameColumn("orders", "note", "text"), keep="ruled_1", sync="both")
    with pytest.raises(livingdb.RuleViolation, match="rule 3"):
        branch.evolve(AddColumn("orders", "x", "int"), keep="ruled_2", sync="reverse")
    branch.evolve(AddColumn("orders", "x", "int"), keep="ruled_2", sync="both")
    branch.evolve(DropColumn("orders", "x"), to="ruled_3", sync="forward")
    with pytest.raises(livingdb.RuleViolation, match="rule 5"):
        db.branch("ruled_3").evolve(DropTable("visits"), keep="ruled_4", sync="reverse")
