"""Transactions that are open while the schema changes: what they wrote is there, or they conflict.

Each race is run by two handles of one folder, step by step, and compared with the same write
made before the change.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.thinned import thinned

import livingdb
from livingdb import evolution as ev
from livingdb.database.transaction import Transaction

Write = Callable[[Transaction], object]
Tables = dict[str, list[dict[str, object]]]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("city", pa.string()),
        pa.field("zip", pa.string()),
        pa.field("amount", pa.int64(), False),
    ]
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("racing") / "shop.ldb"
    make(path)
    return path


@pytest.fixture
def place(shop: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shop, tmp_path / "shop.ldb"))


def make(path: Path) -> None:
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("towns", {"id": "bigint", "name": "string", "size": "int"}, key="id")
        main.insert("towns", [{"id": n, "name": f"t{n}", "size": n} for n in range(1, 4)])
        main.create_table("orders", SCHEMA, key="id")
        main.insert("orders", rows(range(1, 11)))
        main.create_table("returns", SCHEMA, key="id")
        main.insert("returns", rows(range(101, 104)))
        main.create_table("extra", {"id": "bigint", "gift": "string", "weight": "int"}, key="id")
        main.insert("extra", [{"id": 1, "gift": "pen", "weight": 3}])
        main.create_table(
            "visits",
            {"id": "bigint", "town": "bigint", "day": "string"},
            key="id",
            foreign_keys={"town": "towns"},
        )
        main.insert("visits", [{"id": n, "town": n % 2 + 1, "day": "mo"} for n in range(1, 5)])


def rows(numbers: range) -> pa.Table:
    """Each place is that of two rows and more, so that no lookup row loses its last one."""
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": [f"Oslo {n % 2}" for n in numbers],
            "zip": [f"{n % 2}" for n in numbers],
            "amount": [n * 10 for n in numbers],
        },
        schema=SCHEMA,
    )


def seen(branch: livingdb.Branch) -> Tables:
    return {name: branch.table(name).to_arrow().to_pylist() for name in branch.tables()}


CHANGES: dict[str, tuple[list[ev.SchemaChange], list[str]]] = {
    "add column": ([ev.AddColumn("orders", "vat", "double", default=0.5)], ["orders"]),
    "computed": ([ev.AddColumn("orders", "two", "bigint", computed="amount * 2")], ["orders"]),
    "up": ([ev.AddColumn("orders", "n", "int", up="length(city)")], ["orders"]),
    "drop column": ([ev.DropColumn("orders", "zip")], ["orders"]),
    "rename column": ([ev.RenameColumn("orders", "zip", "code")], ["orders"]),
    "set default": ([ev.SetDefault("orders", "zip", "0000")], ["orders"]),
    "set and drop default": (
        [ev.SetDefault("orders", "zip", "0000"), ev.DropDefault("orders", "zip")],
        ["orders"],
    ),
    "unique": ([ev.AddUnique("orders", ["id", "amount"])], ["orders"]),
    "unique, quarantine": (
        [ev.AddUnique("orders", ["city"], on_violation="quarantine")],
        ["orders"],
    ),
    "unique, dropped": (
        [ev.AddUnique("orders", ["id", "amount"]), ev.DropUnique("orders", ["id", "amount"])],
        ["orders"],
    ),
    "reorder columns": (
        [ev.ReorderColumns("orders", SCHEMA.names[::-1])],
        ["orders"],
    ),
    "rename key": ([ev.RenameColumn("orders", "id", "number")], ["orders"]),
    "retype": ([ev.RetypeColumn("orders", "amount", "int")], ["orders"]),
    "retype, clamped": ([ev.RetypeColumn("orders", "amount", "tinyint", "clamp")], ["orders"]),
    "retype, null": ([ev.RetypeColumn("orders", "zip", "int", "null")], ["orders"]),
    "retype, truncated": (
        [ev.RetypeColumn("orders", "city", "varchar(3)", "truncate")],
        ["orders"],
    ),
    "retype, quarantined": ([ev.RetypeColumn("orders", "zip", "int", "quarantine")], ["orders"]),
    "retype key": ([ev.RetypeColumn("orders", "id", "string")], ["orders"]),
    "up, quarantined": (
        [ev.AddColumn("orders", "n", "double", up="1 / length(city)", policy="quarantine")],
        ["orders"],
    ),
    "retype, up": (
        [ev.RetypeColumn("orders", "zip", "int", up="CAST(amount AS int)")],
        ["orders"],
    ),
    "split column": ([ev.SplitColumn("orders", "city", ["a", "b"], separator=" ")], ["orders"]),
    "concat": ([ev.ConcatColumns("orders", ["city", "zip"], "at", separator="/")], ["orders"]),
    "check": ([ev.AddConstraint("orders", check="amount < 500")], ["orders"]),
    "quarantine": (
        [ev.AddConstraint("orders", check="amount < 500", on_violation="quarantine")],
        ["orders"],
    ),
    "repair": (
        [
            ev.AddConstraint(
                "orders", check="amount < 500", on_violation="repair", repair="amount % 500"
            )
        ],
        ["orders"],
    ),
    "not null": ([ev.AddConstraint("orders", not_null="zip")], ["orders"]),
    "link": ([ev.AddConstraint("orders", foreign_key=("id", "orders"))], ["orders"]),
    "drop not null": ([ev.DropConstraint("orders", not_null="amount")], ["orders"]),
    "mask by hash": ([ev.MaskColumn("orders", "city", key="k")], ["orders"]),
    "mask by null": ([ev.MaskColumn("orders", "city", "null")], ["orders"]),
    "decompose": ([ev.Decompose("orders", {"p": ["city", "zip"], "s": ["amount"]})], ["orders"]),
    "normalize": ([ev.Normalize("orders", ["city", "zip"], "places")], ["orders"]),
    "fanout": (
        [ev.Normalize("orders", ["city", "zip"], "places", on_update="fanout")],
        ["orders"],
    ),
    "split table": (
        [
            ev.SplitTable(
                "orders", {"small": "amount < 60", "large": "amount < 900 AND amount > 50"}
            )
        ],
        ["orders"],
    ),
    "strict split": (
        [ev.SplitTable("orders", {"s": "amount < 60", "l": "amount >= 60"}, strict=True)],
        ["orders"],
    ),
    "union": ([ev.UnionTables(["orders", "returns"], "every")], ["orders", "returns"]),
    "union by origin": (
        [ev.UnionTables(["orders", "returns"], "every", origin="of")],
        ["orders", "returns"],
    ),
    "join": ([ev.JoinTables("orders", "extra", "both")], ["orders", "extra"]),
    "join by link": ([ev.JoinTables("visits", "towns", "trips", on="town")], ["visits", "towns"]),
    "change key": ([ev.ChangeKey("orders", ["amount"])], ["orders"]),
    "rename table": ([ev.RenameTable("orders", "sales")], ["orders"]),
    "rename linked": ([ev.RenameTable("towns", "cities")], ["visits", "towns"]),
    "create table": ([ev.CreateTable("new", {"id": "bigint"}, "id")], ["orders"]),
    "drop table": ([ev.DropTable("orders")], ["orders", "returns"]),
    "drop and create": (
        [ev.DropTable("orders"), ev.CreateTable("orders", SCHEMA, "id")],
        ["orders"],
    ),
    "rename and create": (
        [ev.RenameTable("orders", "sales"), ev.CreateTable("orders", SCHEMA, "id")],
        ["orders"],
    ),
    "drop and add": (
        [ev.DropColumn("orders", "zip"), ev.AddColumn("orders", "zip", "string")],
        ["orders"],
    ),
    "drop and add another type": (
        [ev.DropColumn("orders", "zip"), ev.AddColumn("orders", "zip", "int")],
        ["orders"],
    ),
    "rename and add": (
        [ev.RenameColumn("orders", "zip", "code"), ev.AddColumn("orders", "zip", "string")],
        ["orders"],
    ),
    "rename, then drop": (
        [ev.RenameColumn("orders", "zip", "code"), ev.DropColumn("orders", "code")],
        ["orders"],
    ),
}

WRITES: dict[str, dict[str, Write]] = {
    "orders": {
        "insert": lambda tx: tx.insert("orders", rows(range(20, 23))),
        "insert in part": lambda tx: tx.insert("orders", {"id": [20], "amount": [7]}),
        "insert too large": lambda tx: tx.insert("orders", {"id": [20], "amount": [1000]}),
        "upsert": lambda tx: tx.upsert("orders", rows(range(10, 12))),
        "update": lambda tx: tx.update("orders", {"id": [2], "amount": [25]}),
        "update text": lambda tx: tx.update("orders", {"id": [2], "zip": ["x"]}),
        "update all": lambda tx: tx.update(
            "orders", {"id": [2], "city": ["Oslo 1"], "zip": ["1"], "amount": [26]}
        ),
        "update too large": lambda tx: tx.update("orders", {"id": [2], "amount": [2000]}),
        "update to the same": lambda tx: tx.update("orders", {"id": [2], "zip": ["0"]}),
        "delete": lambda tx: tx.delete("orders", [3]),
        "sql": lambda tx: tx.sql("UPDATE orders SET city = 'Oslo 0', amount = 33 WHERE id = 3"),
    },
    "returns": {
        "insert": lambda tx: tx.insert("returns", rows(range(120, 123))),
        "insert a twin": lambda tx: tx.insert("returns", rows(range(1, 2))),
        "update": lambda tx: tx.update("returns", {"id": [102], "city": ["Bodø 7"]}),
        "delete": lambda tx: tx.delete("returns", [101]),
    },
    "extra": {
        "insert": lambda tx: tx.insert("extra", {"id": [2], "gift": ["cup"], "weight": [9]}),
        "insert alone": lambda tx: tx.insert("extra", {"id": [77], "gift": ["cup"]}),
        "update": lambda tx: tx.update("extra", {"id": [1], "weight": [4]}),
        "delete": lambda tx: tx.delete("extra", [1]),
    },
    "visits": {
        "insert": lambda tx: tx.insert("visits", {"id": [9], "town": [2], "day": ["tu"]}),
        "update": lambda tx: tx.update("visits", {"id": [1], "town": [1]}),
        "delete": lambda tx: tx.delete("visits", [1]),
    },
    "towns": {
        "insert": lambda tx: tx.insert("towns", {"id": [9], "name": ["far"]}),
        "update": lambda tx: tx.update("towns", {"id": [1], "name": ["near"]}),
        "update alone": lambda tx: tx.update("towns", {"id": [3], "name": ["gone"]}),
        "delete": lambda tx: tx.delete("towns", [3]),
    },
}

CONFLICTS = {
    ("drop column", "insert"),
    ("drop column", "update text"),
    ("drop column", "update to the same"),
    ("retype, clamped", "update too large"),
    ("retype, null", "update text"),
    ("retype, up", "update text"),
    ("check", "insert too large"),
    ("quarantine", "update too large"),
    ("repair", "insert too large"),
    ("mask by null", "sql"),
    ("split table", "insert too large"),
    ("union", "insert a twin"),
    ("join", "insert alone"),
    ("join by link", "update alone"),
    ("fanout", "sql"),
    ("drop and add", "update text"),
    ("drop and add another type", "update text"),
    ("rename, then drop", "update text"),
    *itertools.product(("drop table", "drop and create"), ("insert", "update", "delete")),
}
"""Races that cannot be won, by change and write; others may conflict, too."""

SUCCESSES = {
    ("drop column", "update"),
    ("drop column", "insert in part"),
    ("drop column", "delete"),
    ("rename column", "update text"),
    ("rename and add", "update text"),
    ("rename and create", "insert"),
    ("rename and create", "delete"),
    ("retype", "update"),
    ("split column", "sql"),
    ("normalize", "insert"),
    ("normalize", "sql"),
    ("decompose", "update"),
    ("split table", "update"),
    ("join", "insert"),
    ("join by link", "update"),
    ("mask by hash", "insert"),
    ("change key", "insert"),
    ("rename table", "upsert"),
    ("create table", "insert"),
    ("quarantine", "update"),
}
"""Races that are won."""


def written_first(
    branch: livingdb.Branch, changes: list[ev.SchemaChange], write: Write
) -> Tables | None:
    """The tables after the write and then the change; None if the change is not possible then."""
    with branch.transaction() as tx:
        write(tx)
    try:
        branch.evolve(changes)
    except livingdb.InvalidData:
        return None
    return seen(branch)


@pytest.mark.parametrize("name", thinned(CHANGES, every=2))
def test_races(place: Path, name: str) -> None:
    """Races whose end is known, and of the others every twelfth, another one for each change."""
    at = list(CHANGES).index(name)
    race_all(
        place,
        name,
        lambda what, number: (name, what) in CONFLICTS | SUCCESSES or (at + number) % 12 == 0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_all_races(place: Path, name: str) -> None:
    race_all(place, name, lambda what, number: True)


def race_all(place: Path, name: str, is_raced: Callable[[str, int], bool]) -> None:
    """Race a change with the writes, by name and number, that are asked for."""
    changes, tables = CHANGES[name]
    with livingdb.open(place) as mine, livingdb.open(place) as yours:
        for table in tables:
            for number, what in enumerate(WRITES[table]):
                if is_raced(what, number):
                    race(mine, yours, name, changes, table, what)
        assert yours.check().problems == []


def race(
    mine: livingdb.Database,
    yours: livingdb.Database,
    name: str,
    changes: list[ev.SchemaChange],
    table: str,
    what: str,
) -> None:
    """One write that is open while the schema changes, on a branch of its own."""
    write, case = WRITES[table][what], f"{table} {what}"
    branch, other = (yours.branch("main").clone(f"{case} {n}".replace(" ", "-")) for n in (1, 2))
    tx = mine.branch(branch.name).transaction()
    write(tx)
    branch.evolve(changes)
    evolved, head = seen(branch), branch.head
    is_untouched = (name, table) == ("drop table", "returns")
    conflict = committed(tx)
    if conflict is not None:
        assert (name, what) not in SUCCESSES or is_untouched, (case, conflict)
        assert head.id[:12] in conflict, case
        assert branch.head == head
        assert seen(branch) == evolved, case
    else:
        assert (name, what) not in CONFLICTS or is_untouched, f"lost: {case}"
        assert seen(branch) == written_first(other, changes, write), case


def committed(tx: Transaction) -> str | None:
    """Commit; what a conflict says, if there is one."""
    try:
        tx.commit()
    except livingdb.TransactionConflict as conflict:
        return str(conflict)
    return None


def test_every_change_is_raced() -> None:
    raced = {type(change).__name__ for changes, _ in CHANGES.values() for change in changes}
    assert raced == {name for name in ev.__all__ if name != "SchemaChange"}


# --- drops by transactions --------------------------------------------------------------------


def drop(branch: livingdb.Branch, name: str, anew: bool = False) -> None:
    with branch.transaction() as tx:
        tx.work.drop_table(name)
        if anew:
            tx.create_table(name, {"id": "bigint", "gift": "string", "weight": "int"}, "id")


@pytest.fixture
def handles(place: Path) -> Iterator[tuple[livingdb.Branch, livingdb.Branch]]:
    with livingdb.open(place) as mine, livingdb.open(place) as yours:
        yield mine.branch("main"), yours.branch("main")


Handles = tuple[livingdb.Branch, livingdb.Branch]


@pytest.mark.parametrize("way", ["dropped", "then created", "at once", "empty", "same rows"])
@pytest.mark.parametrize("what", ["insert", "update", "delete"])
def test_a_table_that_is_dropped_and_made_anew(handles: Handles, way: str, what: str) -> None:
    mine, yours = handles
    if way == "empty":
        yours.delete("extra", [1])
        drop(yours, "extra", anew=True)
        what = "insert"
    tx = mine.transaction()
    WRITES["extra"][what](tx)
    drop(yours, "extra", anew=way in ("at once", "empty", "same rows"))
    if way == "then created":
        yours.create_table("extra", {"id": "bigint", "gift": "string", "weight": "int"}, "id")
    if way == "same rows":
        yours.insert("extra", [{"id": 1, "gift": "pen", "weight": 3}])
    before = seen(yours)
    with pytest.raises(livingdb.TransactionConflict, match=r"'extra' was dropped"):
        tx.commit()
    assert seen(yours) == before


def test_what_was_read_was_dropped_and_made_anew(handles: Handles) -> None:
    mine, yours = handles
    for anew in (True, False):
        tx = mine.transaction(isolation="serializable")
        assert tx.table("extra").get(55) is None
        tx.insert("towns", {"id": [40 + anew], "name": ["n"]})
        drop(yours, "extra", anew=anew)
        with pytest.raises(livingdb.TransactionConflict, match="'extra'"):
            tx.commit()


@pytest.mark.parametrize("change", [ev.DropTable("extra"), ev.DropColumn("extra", "gift")])
def test_what_was_read_was_dropped_by_a_schema_change(
    handles: Handles, change: ev.SchemaChange
) -> None:
    mine, yours = handles
    tx = mine.transaction(isolation="serializable")
    assert len(tx.table("extra")) == 1
    tx.insert("towns", {"id": [40], "name": ["n"]})
    yours.evolve(change)
    with pytest.raises(livingdb.TransactionConflict, match=yours.head.id[:12]):
        tx.commit()


def test_a_table_made_in_the_transaction(handles: Handles) -> None:
    mine, yours = handles
    tx = mine.transaction()
    tx.create_table("fresh", {"id": "bigint"}, "id")
    tx.insert("fresh", {"id": [1]})
    yours.evolve(ev.RenameTable("extra", "fresh"))
    before = seen(yours)
    with pytest.raises(livingdb.TransactionConflict, match="fresh"):
        tx.commit()
    assert seen(yours) == before
    tx = mine.transaction()
    tx.create_table("fresh2", {"id": "bigint"}, "id")
    tx.insert("fresh2", {"id": [1]})
    yours.insert("towns", {"id": [50], "name": ["n"]})
    tx.commit()
    assert yours.table("fresh2").to_arrow().to_pylist() == [{"id": 1}]


def test_a_table_that_is_dropped_while_another_one_comes_to_refer_to_it(handles: Handles) -> None:
    mine, yours = handles
    tx = mine.transaction()
    tx.work.drop_table("extra")
    yours.create_table(
        "wraps", {"id": "bigint", "extra": "bigint"}, "id", foreign_keys={"extra": "extra"}
    )
    with pytest.raises(livingdb.InvalidData, match="'extra'"):
        tx.commit()
    assert "extra" in yours.tables()


def test_a_value_written_as_it_was_is_not_overtaken(handles: Handles) -> None:
    mine, yours = handles
    tx = mine.transaction()
    tx.update("orders", {"id": [2], "zip": ["0"]})
    yours.evolve(ev.RenameColumn("orders", "zip", "code"))
    yours.update("orders", {"id": [2], "code": ["9"]})
    with pytest.raises(livingdb.TransactionConflict, match="2"):
        tx.commit()


def test_several_schema_changes_one_after_the_other(handles: Handles) -> None:
    mine, yours = handles
    tx = mine.transaction()
    tx.update("orders", {"id": [2], "zip": ["x"]})
    yours.evolve(ev.RenameColumn("orders", "zip", "code"))
    yours.insert("orders", {"id": [70], "amount": [1]})
    yours.evolve(ev.Decompose("orders", {"p": ["city", "code"], "s": ["amount"]}))
    yours.evolve(ev.DropTable("s"))
    tx.commit()
    assert yours.table("p").get(2) == {"id": 2, "city": "Oslo 0", "code": "x"}
    tx = mine.transaction()
    tx.update("p", {"id": [2], "code": ["y"]})
    yours.evolve(ev.RenameTable("p", "q"))
    yours.evolve(ev.DropColumn("q", "code"))
    with pytest.raises(livingdb.TransactionConflict, match="'code'"):
        tx.commit()


@pytest.mark.parametrize("sync", ["none", "both", "reverse"])
def test_a_column_that_only_the_kept_branch_has(handles: Handles, sync: str) -> None:
    """What is written to `main` is not written to the branch that keeps the column."""
    mine, yours = handles
    tx, other = mine.transaction(), mine.transaction()
    tx.update("orders", {"id": [2], "zip": ["x"]})
    other.update("orders", {"id": [3], "amount": [31]})
    yours.evolve(ev.DropColumn("orders", "zip"), keep="old", sync=sync)
    old = yours.database.branch("old")
    before = seen(yours), seen(old)
    with pytest.raises(livingdb.TransactionConflict, match="'zip'"):
        tx.commit()
    assert (seen(yours), seen(old)) == before
    other.commit()
    assert yours.table("orders").get(3)["amount"] == 31
    assert old.table("orders").get(3)["amount"] == (30 if sync == "none" else 31)


def test_a_schema_change_that_a_merge_brings(handles: Handles) -> None:
    mine, yours = handles
    dev = yours.clone("dev")
    dev.evolve([ev.RenameTable("extra", "gifts")])
    dev.create_table("extra", {"id": "bigint", "gift": "string", "weight": "int"}, "id")
    yours.insert("towns", {"id": [60], "name": ["n"]})
    tx = mine.transaction()
    tx.insert("extra", {"id": [5], "gift": ["cup"]})
    yours.database.merge("dev", into="main")
    before = seen(yours)
    tx.commit()
    assert yours.table("gifts").get(5)["gift"] == "cup"
    assert seen(yours)["extra"] == before["extra"]


# --- diffs ------------------------------------------------------------------------------------


def test_a_diff_is_not_applied_to_other_columns(handles: Handles) -> None:
    mine, _ = handles
    before = mine.head
    mine.update("orders", {"id": [1], "zip": ["new"]})
    made = mine.database.diff(before, mine.head)
    mine.reset(before)
    mine.evolve([ev.DropColumn("orders", "zip"), ev.AddColumn("orders", "zap", "string")])
    with pytest.raises(livingdb.InvalidData, match=r"'orders'.*other columns"):
        mine.database.apply(made, "main")
    assert mine.table("orders").get(1)["zap"] is None


# --- merges -----------------------------------------------------------------------------------


MERGED: dict[str, tuple[ev.SchemaChange, Write, str]] = {
    "table": (ev.DropTable("extra"), WRITES["extra"]["update"], "extra"),
    "row": (
        ev.SplitTable("orders", {"small": "amount < 60", "large": "amount < 900 AND amount > 50"}),
        WRITES["orders"]["update too large"],
        "orders",
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_a_merge_of_what_has_no_place(handles: Handles, name: str) -> None:
    main, _ = handles
    change, write, table = MERGED[name]
    db, dev = main.database, main.clone("dev")
    with dev.transaction() as tx:
        write(tx)
    main.evolve(change)
    before, head = seen(main), main.head
    with pytest.raises(livingdb.MergeConflict, match="no place") as found:
        db.merge("dev", into="main")
    assert list(found.value.schema_conflicts) == [table]
    assert not db.preview_merge("dev", into="main").is_clean
    assert main.head == head
    undone = main.clone("undone")
    db.merge("dev", into=undone, on_conflict="theirs")
    assert seen(undone) == seen(dev)
    db.merge("dev", into="main", on_conflict="ours")
    after = seen(main)
    assert after.keys() == before.keys()


@pytest.mark.parametrize("what", ["update text", "insert"])
def test_values_of_a_column_that_was_dropped_go_with_it(handles: Handles, what: str) -> None:
    main, _ = handles
    db, dev = main.database, main.clone("dev")
    with dev.transaction() as tx:
        WRITES["orders"][what](tx)
    main.evolve(ev.DropColumn("orders", "zip"))
    db.merge("dev", into="main")
    there = dev.table("orders").to_arrow().drop_columns(["zip"])
    assert main.table("orders").to_arrow().to_pylist() == there.to_pylist()


def test_a_merge_of_what_has_a_place(handles: Handles) -> None:
    main, _ = handles
    db, dev = main.database, main.clone("dev")
    dev.update("orders", {"id": [2], "amount": [25]})
    dev.insert("orders", {"id": [70], "amount": [7]})
    main.evolve(ev.DropColumn("orders", "zip"))
    db.merge("dev", into="main")
    assert main.table("orders").get(2) == {"id": 2, "city": "Oslo 0", "amount": 25}
    assert main.table("orders").get(70) == {"id": 70, "city": None, "amount": 7}
