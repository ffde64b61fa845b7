"""Schema changes as a frozen database has them: every kind, every direction, chains and masks."""

from __future__ import annotations

from dataclasses import dataclass

from livingdb import Branch, Database
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
    DropDefault,
    DropTable,
    DropUnique,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    RetypeColumn,
    SchemaChange,
    SetDefault,
    SplitColumn,
    SplitTable,
    UnionTables,
)

__all__ = ["MASK_KEY", "make_chain", "make_masks", "make_merges", "make_schemas", "make_steps"]

MASK_KEY = "a key that everybody may know"


@dataclass(frozen=True)
class _Case:
    """A change, how its two sides are kept in step, and what is written to each afterwards."""

    name: str
    changes: SchemaChange | list[SchemaChange]
    sync: str
    old: str = ""
    new: str = ""
    to: bool = False


_ITEM = "UPDATE items SET price = price + 1 WHERE id < 3"
_NEW_ITEM = "INSERT INTO items (id, name, price, count) VALUES (90, 'new one', 9.5, 1)"

_CASES = [
    _Case(
        "create_table",
        CreateTable("more", {"id": "bigint", "text": "string"}, "id", defaults={"text": "?"}),
        "both",
        _ITEM,
        "INSERT INTO more (id) VALUES (1)",
    ),
    _Case(
        "reorder_columns",
        ReorderColumns("items", ["count", "note", "id", "price", "name"]),
        "both",
        _ITEM,
        _NEW_ITEM,
    ),
    _Case("drop_table", DropTable("south"), "both", "DELETE FROM south WHERE code = 'b'", _ITEM),
    _Case(
        "rename_table",
        RenameTable("shops", "stores"),
        "both",
        "UPDATE shops SET name = 'renamed' WHERE id = 1",
        "INSERT INTO stores VALUES (7, 'seventh', 'Bodø')",
    ),
    _Case(
        "add_column",
        AddColumn("items", "vat", "double", default=0.25),
        "both",
        _NEW_ITEM,
        "UPDATE items SET vat = 0.5 WHERE id = 2",
    ),
    _Case(
        "add_computed",
        AddColumn("items", "worth", "double", computed="price * count"),
        "both",
        _ITEM,
        _ITEM,
    ),
    _Case(
        "add_up",
        AddColumn("items", "n", "int not null", up="length(name)"),
        "forward",
        _NEW_ITEM,
        to=True,
    ),
    _Case(
        "drop_column",
        DropColumn("items", "note", default="gone"),
        "both",
        "UPDATE items SET note = 'kept' WHERE id = 1",
        _NEW_ITEM,
    ),
    _Case(
        "rename_column",
        RenameColumn("items", "id", "number"),
        "both",
        _ITEM,
        "DELETE FROM items WHERE number = 4",
    ),
    _Case(
        "retype",
        RetypeColumn("items", "price", "int", policy="clamp"),
        "both",
        "UPDATE items SET price = 2.75 WHERE id = 1",
        "UPDATE items SET price = 8 WHERE id = 2",
    ),
    _Case(
        "split_column",
        SplitColumn("items", "name", into=["first", "rest"], separator=" "),
        "both",
        "UPDATE items SET name = 'one two' WHERE id = 1",
        "UPDATE items SET first = 'changed' WHERE id = 2",
    ),
    _Case(
        "concat_columns",
        ConcatColumns("shops", ["name", "city"], into="title", separator=" / "),
        "both",
        "UPDATE shops SET city = 'Moss' WHERE id = 1",
        "UPDATE shops SET title = 'a / b' WHERE id = 2",
    ),
    _Case(
        "decompose",
        Decompose("items", {"names": ["name", "note"], "stock": ["price", "count"]}),
        "both",
        _ITEM,
        "UPDATE names SET note = 'apart' WHERE id = 5",
    ),
    _Case(
        "join_keys",
        JoinTables("places", "extras", "everywhere"),
        "both",
        "INSERT INTO extras VALUES (9, 90)",
        "UPDATE everywhere SET zip = '0' WHERE id = 1",
    ),
    _Case(
        "join_references",
        JoinTables("visits", "shops", "visits", on="shop"),
        "forward",
        "UPDATE shops SET city = 'Moss' WHERE id = 1",
        to=True,
    ),
    _Case(
        "normalize",
        Normalize("shops", ["city"], "cities"),
        "both",
        "INSERT INTO shops VALUES (8, 'eighth', 'Bodø')",
        "UPDATE cities SET city = 'Christiania' WHERE city = 'Oslo'",
    ),
    _Case(
        "split_table",
        SplitTable("north", {"few": "size < 3", "many": "size >= 2"}),
        "both",
        "INSERT INTO north VALUES ('z', 2)",
        "UPDATE few SET size = 1 WHERE code = 'b'",
    ),
    _Case(
        "split_strictly",
        SplitTable("north", {"few": "size < 2", "many": "size >= 2"}, strict=True),
        "both",
        "UPDATE north SET size = 9 WHERE code = 'a'",
        "DELETE FROM many WHERE code = 'b'",
    ),
    _Case(
        "union_tables",
        UnionTables(["north", "south"], "world", origin="part"),
        "both",
        "INSERT INTO south VALUES ('q', 4)",
        "UPDATE world SET size = 7 WHERE code = 'a'",
    ),
    _Case(
        "change_key",
        ChangeKey("items", ["name"]),
        "both",
        _ITEM,
        "UPDATE items SET count = 77 WHERE name = 'name 1 of 8'",
    ),
    _Case(
        "add_constraint",
        AddConstraint("items", "cheap", check="price < 7", on_violation="quarantine"),
        "both",
        "UPDATE items SET price = 100 WHERE id = 1",
        "UPDATE items SET price = 1 WHERE id = 2",
    ),
    _Case(
        "drop_constraint",
        DropConstraint("items", not_null="price", on_violation="reject"),
        "reverse",
        "",
        _NEW_ITEM,
    ),
    _Case(
        "add_unique",
        AddUnique("items", "name", on_violation="quarantine"),
        "both",
        "UPDATE items SET name = 'twice' WHERE id IN (2, 3)",
        "UPDATE items SET name = 'once' WHERE id = 2",
    ),
    _Case(
        "drop_unique",
        [
            AddUnique("items", ["name", "count"], name="one_each"),
            DropUnique("items", name="one_each"),
        ],
        "both",
        _ITEM,
        _NEW_ITEM,
    ),
    _Case(
        "defaults",
        [
            SetDefault("items", "count", 5),
            SetDefault("items", "note", "?"),
            DropDefault("items", "note"),
        ],
        "both",
        _ITEM,
        "INSERT INTO items (id, name, price) VALUES (91, 'five', 9.5)",
    ),
    _Case(
        "generated",
        AddColumn("items", "line", "bigint", generated="by default"),
        "both",
        _NEW_ITEM,
        "INSERT INTO items (id, name, price) VALUES (91, 'drawn', 9.5), (92, 'drawn, too', 9.5)",
    ),
    _Case(
        "mask",
        MaskColumn("shops", "name", key=MASK_KEY),
        "both",
        "INSERT INTO shops VALUES (9, 'secret', 'Oslo')",
        "UPDATE shops SET city = 'seen' WHERE id = 1",
    ),
    _Case(
        "a_list",
        [
            AddColumn("items", "vat", "double", default=0.25),
            RenameColumn("items", "price", "net"),
            Normalize("shops", ["city"], "cities"),
        ],
        "both",
        _ITEM,
        "UPDATE items SET vat = 0.0, net = 3.0 WHERE id = 6",
    ),
    _Case("alone", [RetypeColumn("items", "count", "bigint"), DropTable("extras")], "none"),
]


def make_schemas(db: Database) -> None:
    """Each change on a clone of its own of a small shelf, and writes to both of its sides."""
    shelf = _make_shelf(db)
    for case in _CASES:
        branch = shelf.clone(f"new/{case.name}")
        if case.to:
            branch = db.branch(f"new/{case.name}")
            branch.evolve(case.changes, to=f"seen/{case.name}", sync=case.sync)
            branch.sql(case.old, message="to the old schema")
            continue
        keep = None if case.sync == "none" else f"old/{case.name}"
        branch.evolve(case.changes, keep=keep, sync=case.sync)
        if case.old:
            db.branch(f"old/{case.name}").sql(case.old, message="to the old schema")
        if case.new:
            branch.sql(case.new, message="to the new schema")
    db.branch("new/normalize").migrate()
    db.branch("new/retype").migrate()
    db.sync("new/concat_columns").detach(reason="each on its own", by="ann")
    db.branch("new/concat_columns").sql(
        "UPDATE shops SET title = NULL WHERE id = 3", message="on its own"
    )
    db.drop_branch("old/rename_column", detach=True)


def _make_shelf(db: Database) -> Branch:
    shelf = db.branch("main").log()[-1].clone("shelf")  # from before there was any table
    with shelf.transaction("an empty shelf") as tx:
        tx.create_table(
            "items",
            {
                "id": "bigint",
                "name": "string not null",
                "price": "double not null",
                "count": "int",
                "note": "string",
            },
            "id",
        )
        tx.create_table("shops", {"id": "bigint", "name": "string", "city": "string"}, "id")
        tx.create_table(
            "visits",
            {"id": "bigint", "shop": "bigint not null", "day": "date"},
            "id",
            foreign_keys={"shop": "shops"},
        )
        tx.create_table("places", {"id": "bigint", "zip": "string"}, "id")
        tx.create_table("extras", {"id": "bigint", "area": "int"}, "id")
        for name in ("north", "south"):
            tx.create_table(name, {"code": "string", "size": "int"}, "code")
    with shelf.transaction("a full shelf") as tx:
        tx.insert(
            "items",
            [
                {"id": n, "name": f"name {n} of 8", "price": n * 1.25, "count": n % 3, "note": None}
                for n in range(1, 9)
            ],
        )
        cities = ["Oslo", None, "Bodø", "Oslo", "Ærø 🐟"]
        tx.insert(
            "shops", [{"id": n, "name": f"shop {n}", "city": c} for n, c in enumerate(cities, 1)]
        )
        tx.insert("visits", [{"id": n, "shop": 1 + n % 5, "day": None} for n in range(7)])
        tx.insert("places", [{"id": n, "zip": f"{n:04}"} for n in range(1, 5)])
        tx.insert("extras", [{"id": n, "area": n * 10} for n in range(3, 7)])
        tx.insert("north", [{"code": "a", "size": 1}, {"code": "b", "size": 2}])
        tx.insert("south", [{"code": "c", "size": 3}, {"code": "d", "size": None}])
    return shelf


def make_chain(db: Database) -> None:
    """Three schemas of the shop that are all alive, in step with each other."""
    main = db.branch("main")
    main.evolve(
        [
            AddColumn("orders", "vat", "decimal(10,2)", default=0),
            RenameColumn("orders", "amount", "net"),
        ],
        keep="main_v1",
        sync="both",
        message="tax",
    )
    main.evolve(
        AddColumn("events", "grade", "string", default="none"),
        keep="main_v2",
        sync="both",
        message="grades",
    )
    db.branch("main_v1").sql(
        "INSERT INTO orders (id, customer, city, amount) VALUES (50, 1, 'Oslo', 20)",
        author="web site",
        message="by the oldest schema",
    )
    main.sql("UPDATE orders SET vat = 7.5 WHERE id = 50", message="by the newest schema")
    db.branch("main_v2").sql("UPDATE events SET size = 1000 WHERE id < 12", message="in between")


def make_masks(db: Database) -> None:
    """Masked clones that follow at once, later, and not at all."""
    main = db.branch("main")
    mask = MaskColumn("customers", "email", key=MASK_KEY)
    main.clone("masked_now", transform=[mask], sync="forward", when="immediate")
    main.clone(
        "masked_later",
        transform=[
            mask,
            MaskColumn("customers", "name", "constant", "***"),
            DropColumn("orders", "day"),
        ],
        sync="forward",
        when="deferred",
    )
    main.clone("masked_once", transform=[MaskColumn("customers", "city", "null")])
    main.insert(
        "customers", [{"id": 9, "name": "Nils", "email": "nils@example.org"}], message="unmasked"
    )
    db.propagate()
    main.update("customers", {"id": [9], "email": ["n@example.org"]}, message="not masked yet")


def make_merges(db: Database) -> None:
    """A migration that was tried on a branch and merged; one taken back, one picked; a replica."""
    main = db.branch("main")
    plan = main.clone("plan")
    tried = plan.clone("tried")
    tried.evolve(
        [AddColumn("customers", "since", "date"), RenameColumn("customers", "city", "town")],
        message="a migration",
    )
    tried.update("customers", {"id": [1], "town": ["Tromsø"]}, message="in the new schema")
    plan.evolve(AddColumn("orders", "urgent", "boolean", default=False), message="meanwhile")
    db.merge("tried", into="plan", message="the migration went well")
    wrong = plan.evolve(DropColumn("orders", "day"), message="a mistake")
    plan.sql("UPDATE orders SET urgent = true WHERE id < 3", message="before it was noticed")
    plan.revert(wrong)
    picked = main.clone("picked")
    picked.cherry_pick(plan.evolve(RenameTable("events", "happenings"), message="another name"))
    plan.clone("replica", sync="forward")
    plan.sql("DELETE FROM orders WHERE id = 4", message="seen by the replica")


def make_steps(db: Database) -> None:
    """Versions that have commits to follow, which nobody has asked them for yet."""
    line = db.branch("main").clone("line")
    for number in range(1, 6):
        change = AddColumn("orders", f"extra{number}", "int", default=number)
        line.evolve(change, keep=f"line_v{number}", sync="both", message=f"version {number}")
    for size in (7, 8):
        line.sql(f"UPDATE events SET size = {size} WHERE id < 5", message="for all versions")
    assert db._graph.catalog.steps.since(0), "nobody has followed"
