"""A sync whose sides changed their schemas while it was detached goes on as if it had not been.

Law: detach, change, reattach shows what the same change shows that is made while the sync is
active, the old schema kept between; or it is refused, with what contradicts.  Never are columns
taken for each other by where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.thinned import thinned
from tests.unit.commit.masks.shop import KEY, VARIABLE, forget_keys

import livingdb
from livingdb.errors import (
    InvalidData,
    LivingDBError,
    MaskKeyMissing,
    MergeConflict,
    RuleViolation,
)
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropTable,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    SetDefault,
    SplitColumn,
    SplitTable,
)

Tables = dict[str, list[dict[str, Any]]]
VAT = AddColumn("orders", "vat", "bigint", default=7)

CHANGES: dict[str, Any] = {
    "add": AddColumn("orders", "rank", "bigint", default=1),
    "computed": AddColumn("orders", "twice", "bigint", computed="qty * 2"),
    "drop": DropColumn("orders", "city"),
    "drop and add": [DropColumn("orders", "city"), AddColumn("orders", "city", "string")],
    "rename": RenameColumn("orders", "note", "memo"),
    "names change places": [
        RenameColumn("orders", "note", "spare"),
        RenameColumn("orders", "city", "note"),
        RenameColumn("orders", "spare", "city"),
    ],
    "rename key": RenameColumn("orders", "id", "number"),
    "retype": RetypeColumn("orders", "qty", "string", policy="reject"),
    "default": SetDefault("orders", "note", "none"),
    "rename table": RenameTable("orders", "sales"),
    "drop table": DropTable("spare"),
    "create table": CreateTable("more", {"a": "bigint", "b": "string"}, key="a"),
    "key": ChangeKey("orders", ["id", "code"]),
    "normalize": Normalize("orders", ["city"], "cities"),
    "split": SplitColumn("orders", "city", into=["first", "last"], separator=" "),
    "concat": ConcatColumns("orders", ["city", "note"], into="text", separator="/"),
    "split table": SplitTable("orders", {"few": "qty < 3", "many": "qty >= 3"}),
    "check": AddConstraint("orders", check="qty < 100", on_violation="reject"),
}


def made(path: Path, change: Any = VAT, direction: str = "both") -> livingdb.Database:
    db = livingdb.create(path, author="ann", engine="embedded")
    main = db.branch("main")
    columns = {"id": "bigint", "city": "string", "note": "string", "qty": "bigint"}
    main.create_table("orders", {**columns, "code": "bigint not null"}, key="id")
    main.create_table("spare", {"id": "bigint", "x": "string"}, key="id")
    with main.transaction() as tx:
        tx.insert("orders", [row(n) for n in range(6)])
        tx.insert("spare", [{"id": 1, "x": "a"}])
    main.evolve(change, keep="v1", sync=direction)
    return db


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with made(tmp_path / "shop.ldb") as database:
        yield database


def row(n: int, **more: Any) -> dict[str, Any]:
    return {"id": n, "city": f"c {n}", "note": f"n {n}", "qty": n, "code": n, **more}


def seen(branch: livingdb.Branch) -> Tables:
    return {name: branch.table(name).to_arrow().to_pylist() for name in branch.tables()}


def both(db: livingdb.Database) -> tuple[Tables, Tables]:
    return seen(db.branch("v1")), seen(db.branch("main"))


def write(branch: livingdb.Branch, n: int) -> None:
    """A new row, and changes of one that is there, in whatever columns there are."""
    values: dict[str, Any] = row(n, memo=f"n {n}", number=n, rank=n, first="a", last=f"b{n}")
    values |= {"text": f"c {n}/m {n}", "spare": "s"}
    for name in branch.tables():
        table = branch.table(name)
        types = {f.name: str(f.type) for f in table.schema}
        if not {"id", "number"} & set(types) or name in ("cities", "spare"):
            continue
        if name in ("few", "many") and (n < 3) != (name == "few"):
            continue
        known = {c: v for c, v in values.items() if c in types and c != "twice"}
        made = {c: str(v) if types[c] == "string" else v for c, v in known.items()}
        branch.upsert(name, [made])
        keys = {c: made[c] for c in table.key}
        old = table.to_arrow(columns=list(table.key)).to_pylist()
        if "code" not in keys and old:
            branch.update(name, [{**old[0], **{c: f"u{n}" for c in ("city", "note") if c in made}}])


def apart(db: livingdb.Database, side: str, change: Any) -> None:
    """The change, made while the sync is detached."""
    db.sync("v1/main").detach()
    write(db.branch(side), 20)
    db.branch(side).evolve(change)
    write(db.branch(side), 21)
    db.sync("v1/main").reattach()


def attached(db: livingdb.Database, side: str, change: Any) -> None:
    """The same while it is active: what it joins stays with the schema."""
    write(db.branch(side), 20)
    db.branch(side).evolve(change, keep="between", sync="both")
    write(db.branch(side), 21)


def changes_of(side: str) -> dict[str, Any]:
    rest = ["note", "qty", *(["vat"] if side == "main" else [])]
    return {**CHANGES, "decompose": Decompose("orders", {"places": ["city", "code"], "rest": rest})}


@pytest.mark.parametrize(("change", "side"), thinned(changes_of("v1"), ["v1", "main"], every=8))
def test_as_if_it_had_been_active(tmp_path: Path, change: str, side: str) -> None:
    shown = []
    for act in (apart, attached):
        with made(tmp_path / act.__name__) as db:
            act(db, side, changes_of(side)[change])
            first = both(db)
            for branch, n in (("v1", 22), ("main", 23)):
                write(db.branch(branch), n)
            shown.append((first, both(db)))
            assert db.check(deep=True).problems == []
    assert shown[0] == shown[1]


def test_rows_of_both_sides(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    v1.update("orders", [{"id": 0, "note": "old side"}])
    main.update("orders", [{"id": 1, "note": "new side"}])
    main.evolve(ReorderColumns("orders", ["note", "city", "qty", "vat", "code", "id"]))
    main.evolve(RenameColumn("orders", "city", "town"))
    main.update("orders", [{"id": 2, "town": "after", "vat": 1}])
    v1.evolve(DropColumn("orders", "qty"))
    v1.update("orders", [{"id": 3, "city": "after"}])
    db.sync("v1/main").reattach()
    for branch, town in ((v1, "city"), (main, "town")):
        table = branch.table("orders")
        assert table.get(0)["note"] == "old side"
        assert table.get(1)["note"] == "new side"
        assert table.get(2)[town] == "after"
        assert table.get(3)[town] == "after"
    assert main.table("orders").get(2)["vat"] == 1
    assert [r["qty"] for r in seen(main)["orders"]] == list(range(6))
    assert "qty" not in v1.table("orders").schema.names
    assert [sync.name for sync in db.syncs()] == ["v1/main"]
    assert db.check(deep=True).problems == []


def test_a_value_that_was_written_before_its_column_went(db: livingdb.Database) -> None:
    db.sync("v1/main").detach()
    db.branch("v1").update("orders", [{"id": 0, "city": "last words"}])
    db.branch("v1").evolve(DropColumn("orders", "city"))
    db.sync("v1/main").reattach()
    assert db.branch("main").table("orders").get(0)["city"] == "last words"


@pytest.mark.parametrize(("policy", "note"), [("ours", "old side"), ("theirs", "new side")])
def test_rows_in_conflict(db: livingdb.Database, policy: str, note: str) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    v1.evolve(RenameColumn("orders", "note", "memo"))
    v1.update("orders", [{"id": 0, "memo": "old side"}])
    main.update("orders", [{"id": 0, "note": "new side"}])
    main.evolve(Normalize("orders", ["city"], "cities"))
    before = both(db)
    with pytest.raises(MergeConflict) as caught:
        db.sync("v1/main").reattach()
    assert caught.value.conflicts["orders"].num_rows == 1
    assert both(db) == before
    db.sync("v1/main").reattach(on_conflict=policy)
    assert v1.table("orders").get(0)["memo"] == note
    assert main.table("orders").get(0)["note"] == note
    assert db.check(deep=True).problems == []


EQUAL: dict[str, Any] = {
    "add": AddColumn("orders", "rank", "bigint", default=1),
    "rename": RenameColumn("orders", "note", "memo"),
    "retype": RetypeColumn("orders", "qty", "string"),
    "drop": DropColumn("orders", "city"),
    "create": CreateTable("more", {"id": "bigint", "note": "string"}, key="id"),
    "list": [RenameTable("orders", "sales"), AddColumn("sales", "rank", "bigint")],
}


@pytest.mark.parametrize("change", EQUAL)
def test_the_same_on_both_sides_is_one_change(db: livingdb.Database, change: str) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    write(v1, 20)
    for branch in (v1, main):
        branch.evolve(EQUAL[change])
    main.evolve(RenameColumn("spare", "x", "y"))
    write(main, 30)
    db.sync("v1/main").reattach(on_conflict="theirs")
    write(v1, 31)
    write(main, 32)
    names = [n for n in v1.tables() if n != "spare"]
    for name in names:
        columns = v1.table(name).schema.names
        assert v1.table(name).to_arrow() == main.table(name).to_arrow(columns=columns)
        assert {31, 32} <= set(v1.table(name).to_arrow()["id"].to_pylist())
    assert db.check(deep=True).problems == []


CONTRADICTIONS: dict[str, tuple[Any, Any, str]] = {
    "names": (
        RenameColumn("orders", "note", "memo"),
        RenameColumn("orders", "note", "remark"),
        "orders.note",
    ),
    "types": (
        RetypeColumn("orders", "qty", "string", policy="reject"),
        RetypeColumn("orders", "qty", "double", policy="reject"),
        "orders.qty",
    ),
    "tables": (RenameTable("orders", "sales"), RenameTable("orders", "bills"), "orders"),
    "new columns": (
        AddColumn("orders", "rank", "bigint"),
        AddColumn("orders", "rank", "string"),
        "orders.rank",
    ),
    "new tables": (
        CreateTable("more", {"id": "bigint"}, key="id"),
        CreateTable("more", {"id": "string"}, key="id"),
        "more",
    ),
    "no way back": (
        SetDefault("orders", "note", "?"),
        RetypeColumn("orders", "qty", "date", up="DATE'2026-01-01'"),
        "orders.qty",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_what_contradicts_is_refused(db: livingdb.Database, case: str) -> None:
    ours, theirs, element = CONTRADICTIONS[case]
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    v1.evolve(ours)
    main.evolve(theirs)
    before = both(db), len(db.snapshots()), len(db._graph.branches.all())
    with pytest.raises(MergeConflict, match=element) as caught:
        db.sync("v1/main").reattach(on_conflict="ours" if case == "no way back" else "fail")
    table, _, column = element.partition(".")
    (conflict,) = caught.value.conflicts[table].to_pylist()
    assert (conflict["kind"], conflict["column"]) == ("schema", column or None)
    assert before == (both(db), len(db.snapshots()), len(db._graph.branches.all()))
    assert db.sync("v1/main").state == "detached"
    if case == "no way back":
        main.reset("main~1")
    else:
        main.revert("main")
    db.sync("v1/main").reattach()
    write(v1, 30)
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("winner", ["ours", "theirs"])
@pytest.mark.parametrize("case", [case for case in CONTRADICTIONS if case != "no way back"])
def test_a_policy_says_whose_schema_change_counts(
    db: livingdb.Database, case: str, winner: str
) -> None:
    """The other side is what it would be had it not made its change: as if that were reverted."""
    changes, element = CONTRADICTIONS[case][:2], CONTRADICTIONS[case][2]
    sides = db.branch("v1"), db.branch("main")
    lost = int(winner == "ours")
    schemas = [{n: side.table(n).schema for n in side.tables()} for side in sides]
    db.sync("v1/main").detach()
    for side, change, n in zip(sides, changes, (30, 31), strict=True):
        side.evolve(change)
        write(side, n)
    wanted = {n: sides[1 - lost].table(n).schema for n in sides[1 - lost].tables()}
    db.sync("v1/main").reattach(on_conflict={element: winner, "*": "theirs"})
    after = [{n: side.table(n).schema for n in side.tables()} for side in sides]
    assert after[lost] == schemas[lost]
    assert after[1 - lost] == wanted
    for side, n in zip(sides, (32, 33), strict=True):
        write(side, n)
    names = [next(n for n in side.tables() if n in ("orders", "sales", "bills")) for side in sides]
    for side, name in zip(sides, names, strict=True):
        assert {30, 31, 32, 33} <= set(side.table(name).to_arrow()["id"].to_pylist())
    assert db.check(deep=True).problems == []


def test_a_rename_that_does_not_count_below_later_changes(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    v1.evolve(RenameColumn("orders", "note", "memo"))
    main.evolve(RenameColumn("orders", "note", "remark"))
    main.evolve(AddColumn("orders", "rank", "bigint"))
    values = {name: value for name, value in row(40).items() if name != "note"}
    main.upsert("orders", [{**values, "remark": "r", "rank": 7}])
    db.sync("v1/main").reattach(on_conflict="ours")
    names = main.table("orders").schema.names
    assert {"note", "rank"} <= set(names)
    assert "remark" not in names
    found = {r["id"]: r["rank"] for r in main.table("orders").to_arrow().to_pylist()}
    assert found[40] == 7
    write(v1, 41)
    write(main, 42)
    assert {40, 41, 42} <= set(v1.table("orders").to_arrow()["id"].to_pylist())
    assert db.check(deep=True).problems == []


def test_a_change_that_later_ones_need_is_not_left_out(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    v1.evolve(RetypeColumn("orders", "qty", "string", policy="reject"))
    main.evolve(RetypeColumn("orders", "qty", "double", policy="reject"))
    main.evolve(AddColumn("orders", "rank", "bigint"))
    before = both(db), len(db.snapshots())
    with pytest.raises(RuleViolation, match=r"is not left out before .*rank.*revert that first"):
        db.sync("v1/main").reattach(on_conflict="ours")
    assert before == (both(db), len(db.snapshots()))
    db.sync("v1/main").reattach(on_conflict="theirs")
    assert db.check(deep=True).problems == []


def test_again_and_again_in_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "shop.ldb"
    made(path).close()
    for number in range(3):
        with livingdb.open(path, engine="embedded") as db:
            db.sync("v1/main").detach(reason=f"round {number}")
            db.branch("v1").evolve(AddColumn("orders", f"left{number}", "bigint", default=number))
        with livingdb.open(path, engine="embedded") as db:
            was = "note" if number == 0 else f"note{number - 1}"
            db.branch("main").evolve(RenameColumn("orders", was, f"note{number}"))
            db.branch("main").update("orders", [{"id": number, f"note{number}": "new"}])
            db.sync("v1/main").reattach()
            db.branch("v1").update("orders", [{"id": number, "city": "old"}])
    with livingdb.open(path, engine="embedded") as db:
        v1, main = both(db)
        assert [r["note"] for r in v1["orders"]][:3] == ["new"] * 3
        assert [r["city"] for r in main["orders"]][:3] == ["old"] * 3
        assert [r["left2"] for r in v1["orders"]] == [2] * 6
        trail = db.sync("v1/main").trail
        reasons = [step["reason"] for step in trail if step["state"] == "detached"]
        assert reasons == ["round 2", "round 1", "round 0"]
        assert db.check(deep=True).problems == []
        db.drop_branch("v1", detach=True)
        assert [b.name for b in db._graph.branches.all()] == ["main"]


def test_a_source_of_a_reverse_sync(tmp_path: Path) -> None:
    with made(tmp_path / "shop.ldb", direction="reverse") as db:
        db.sync("v1/main").detach()
        main = db.branch("main")
        main.evolve([RenameColumn("orders", "note", "memo"), RenameTable("orders", "sales")])
        main.update("sales", [{"id": 0, "memo": "new"}])
        db.sync("v1/main").reattach()
        assert db.branch("v1").table("orders").get(0)["note"] == "new"
        main.insert("sales", [{"id": 9, "memo": "later", "code": 9}])
        assert db.branch("v1").table("orders").get(9)["note"] == "later"
        assert db.check(deep=True).problems == []


@pytest.mark.parametrize("how", ["lens", "replica", "clone", "masked", "view"])
def test_what_only_follows(db: livingdb.Database, how: str) -> None:
    main = db.branch("main").clone("own")
    mask = MaskColumn("orders", "city", key="secret")
    if how == "lens":
        main.evolve(RenameColumn("orders", "qty", "count"), to="copy", sync="forward")
    elif how == "view":
        main.derive("copy", "SELECT id, note, qty FROM orders", when="immediate")
    elif how == "replica":
        main.clone("copy", sync="forward", when="deferred")
    else:
        change = mask if how == "masked" else RenameColumn("orders", "qty", "count")
        when = "immediate" if how == "masked" else "deferred"
        main.clone("copy", transform=[change], sync="forward", when=when)
    db.sync("copy").detach()
    main.evolve(
        [
            ReorderColumns("orders", ["note", "qty", "city", "code", "vat", "id"]),
            RenameColumn("orders", "note", "memo"),
            RenameTable("orders", "sales"),
        ]
    )
    main.update("sales", [{"id": 0, "memo": "new", "qty": 50}])
    db.sync("copy").reattach()
    db.propagate()
    name, note = ("copy", "note") if how == "view" else ("sales", "memo")
    count = "count" if how in ("lens", "clone") else "qty"
    found = db.branch("copy").table(name).to_arrow().to_pylist()
    wanted = main.table("sales").to_arrow().to_pylist()
    assert [(r["id"], r[note], r[count]) for r in found] == [
        (r["id"], r["memo"], r["qty"]) for r in wanted
    ]
    assert db.check(deep=True).problems == []


def test_a_branch_that_was_reset_meanwhile(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    main.update("orders", [{"id": 0, "note": "undone"}])
    db.sync("v1/main").detach()
    main.reset("main~1")
    v1.evolve(RenameColumn("orders", "note", "memo"))
    db.sync("v1/main").reattach()
    assert v1.table("orders").get(0)["memo"] == main.table("orders").get(0)["note"] == "n 0"
    assert db.check(deep=True).problems == []


def test_the_other_syncs_of_a_side_follow(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("notes", "SELECT id, note FROM orders", when="immediate")
    main.evolve(AddColumn("orders", "extra", "string"), to="copy", sync="forward")
    db.sync("v1/main").detach()
    db.branch("v1").update("orders", [{"id": 0, "note": "old side"}])
    main.evolve(RenameColumn("orders", "note", "memo"))
    db.sync("v1/main").reattach()
    assert db.branch("notes").table("notes").get(0) == {"id": 0, "note": "old side"}
    assert db.branch("copy").table("orders").get(0)["memo"] == "old side"
    assert db.check(deep=True).problems == []


LIST = [VAT, RenameColumn("orders", "qty", "count"), Normalize("orders", ["city"], "cities")]
EXTRA = AddColumn("orders", "x", "bigint", default=1)


@pytest.mark.parametrize("shared", [[], [EXTRA], [EXTRA, RenameTable("spare", "other")]], ids=len)
def test_a_pair_of_several_changes(tmp_path: Path, shared: list[Any]) -> None:
    with made(tmp_path / "shop.ldb", LIST) as db:
        v1, main = db.branch("v1"), db.branch("main")
        db.sync("v1/main").detach()
        for branch in (v1, main):
            for change in shared:
                branch.evolve(change)
        v1.evolve(DropColumn("orders", "city"))
        main.evolve([AddColumn("orders", "y", "bigint"), RenameColumn("orders", "note", "memo")])
        v1.update("orders", [{"id": 0, "note": "old side", "qty": 50}])
        main.update("orders", [{"id": 1, "memo": "new side", "count": 51}])
        db.sync("v1/main").reattach()
        v1.insert("orders", [{"id": 20, "note": "old side", "qty": 52, "code": 0}])
        main.insert("orders", [{"id": 21, "memo": "new side", "count": 53, "code": 0}])
        old = {r["id"]: (r["note"], r["qty"], r.get("x")) for r in seen(v1)["orders"]}
        new = {r["id"]: (r["memo"], r["count"], r.get("x")) for r in seen(main)["orders"]}
        assert old == new
        assert old[0][:2] == ("old side", 50)
        assert old[21][:2] == ("new side", 53)
        assert db.refresh("main", full=True).rows == 0
        db.sync("v1/main").detach()
        db.sync("v1/main").reattach()
        assert db.check(deep=True).problems == []


def test_a_change_that_was_picked(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    picked = v1.evolve(EXTRA)
    v1.update("orders", [{"id": 0, "x": 5}])
    main.cherry_pick(picked)
    db.sync("v1/main").reattach()
    main.update("orders", [{"id": 1, "x": 6}])
    assert [r["x"] for r in seen(v1)["orders"]][:3] == [5, 6, 1]
    assert [r["x"] for r in seen(main)["orders"]][:3] == [5, 6, 1]
    assert db.check(deep=True).problems == []


def test_sides_that_are_in_other_syncs(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    db.sync("v1/main").detach()
    v1.evolve(RenameColumn("orders", "note", "memo"), keep="v0", sync="both")
    main.evolve(DropColumn("orders", "city"), keep="m0", sync="both")
    v1.update("orders", [{"id": 0, "memo": "old side"}])
    db.branch("m0").update("orders", [{"id": 1, "note": "new side", "city": "own"}])
    db.sync("v1/main").reattach()
    db.branch("v0").insert("orders", [row(30)])
    db.branch("m0").insert("orders", [row(31)])
    notes = []
    for name in ("v0", "v1", "main", "m0"):
        rows = seen(db.branch(name))["orders"]
        notes.append([(r["id"], r.get("note", r.get("memo"))) for r in rows])
    assert notes[0] == notes[1] == notes[2] == notes[3]
    assert notes[0][:2] == [(0, "old side"), (1, "new side")]
    assert db.branch("v0").table("orders").get(1)["city"] == "c 1"
    assert db.check(deep=True).problems == []


def test_resets_stay_on_this_side_of_it(db: livingdb.Database) -> None:
    v1, main = db.branch("v1"), db.branch("main")
    before = main.head
    db.sync("v1/main").detach()
    main.evolve(RenameColumn("orders", "note", "memo"))
    db.sync("v1/main").reattach()
    there = main.head
    main.update("orders", [{"id": 0, "memo": "later"}])
    main.reset(there)
    assert v1.table("orders").get(0)["note"] == "n 0"
    with pytest.raises(RuleViolation, match="no snapshot that belongs"):
        main.reset(before)
    assert db.check(deep=True).problems == []


def test_links_that_neither_side_broke(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("people", {"id": "bigint"}, key="id")
        main.create_table(
            "orders", {"id": "bigint", "of": "bigint"}, key="id", foreign_keys={"of": "people"}
        )
        main.insert("people", [{"id": 1}, {"id": 2}])
        main.evolve(VAT, keep="v1", sync="both")
        db.sync("v1/main").detach()
        db.branch("v1").delete("people", [2])
        main.insert("orders", [{"id": 1, "of": 2}])
        main.evolve(RenameColumn("orders", "of", "buyer"))
        with pytest.raises(InvalidData, match="'people' has no row with the key 2"):
            db.sync("v1/main").reattach()
        main.update("orders", [{"id": 1, "buyer": 1}])
        db.sync("v1/main").reattach()
        assert db.branch("v1").table("orders").get(1) == {"id": 1, "of": 1}


@pytest.mark.parametrize("side", ["v1", "main"])
def test_a_side_that_was_masked(tmp_path: Path, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not the key leaves the masked side behind, or is told so."""
    monkeypatch.setenv(VARIABLE, KEY)
    path = tmp_path / "shop.ldb"
    other = "main" if side == "v1" else "v1"
    with made(path) as db:
        db.sync("v1/main").detach()
        db.branch(side).evolve(MaskColumn("orders", "city", key=f"env:{VARIABLE}"))
        db.branch(other).update("orders", [{"id": 1, "city": "Oslo"}])
        db.sync("v1/main").reattach()
    forget_keys(monkeypatch)
    with livingdb.open(path, engine="embedded") as db:
        if side == "v1":
            with pytest.raises(MaskKeyMissing):
                db.branch(other).update("orders", [{"id": 2, "city": "Oslo"}])
        else:
            db.branch(other).update("orders", [{"id": 2, "city": "Oslo"}])
        monkeypatch.setenv(VARIABLE, KEY)
        db.propagate()
        db.branch(other).update("orders", [{"id": 2, "city": "Oslo"}])
        cities = [r["city"] for r in seen(db.branch(side))["orders"]]
        assert cities[1] == cities[2] != "Oslo"
        assert db.check(deep=True).problems == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(30))
def test_any_changes_as_if_it_had_been_active(tmp_path: Path, seed: int) -> None:
    """Several changes of both sides, in turns; what one side cannot make is left out."""
    random = Random(seed)
    steps = [
        (side, random.choice(sorted(changes_of(side))), number)
        for number in range(4)
        for side in random.sample(["v1", "main"], k=random.choice((1, 1, 2)))
    ]
    shown = []
    for is_apart in (True, False):
        with made(tmp_path / str(is_apart)) as db:
            if is_apart:
                db.sync("v1/main").detach()
            used: dict[str, set[str]] = {"v1": set(), "main": set()}
            for side, name, number in steps:
                other = "main" if side == "v1" else "v1"
                if name in used[other]:  # each side makes changes of its own
                    continue
                more = {} if is_apart else {"keep": f"{side}{number}", "sync": "both"}
                try:
                    db.branch(side).explain_evolution(changes_of(side)[name])
                    db.branch(side).evolve(changes_of(side)[name], **more)
                except LivingDBError:
                    continue
                used[side].add(name)
            if is_apart:
                try:
                    db.sync("v1/main").reattach()
                except MergeConflict as refused:
                    if not refused.schema_conflicts:
                        raise
                    return
            write(db.branch("v1"), 22)
            write(db.branch("main"), 23)
            shown.append(both(db))
            assert db.check(deep=True).problems == []
    assert shown[0] == shown[1]
