"""Names that differ in case only are refused where they are made, and never guessed in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

import livingdb
from livingdb import evolution as ev
from livingdb.catalog.alike_names import AlikeNames
from livingdb.commit.writing import write_set
from livingdb.tables.letter_case import alike_names, are_alike


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("orders", {"id": "bigint", "note": "string", "n": "int"}, key="id")
        main.insert("orders", [{"id": 1, "note": "a b", "n": 1}, {"id": 2, "note": "c d", "n": 2}])
        main.create_table("other", {"id": "bigint", "text": "string"}, key="id")
        yield database


@pytest.fixture
def main(db: livingdb.Database) -> livingdb.Branch:
    return db.branch("main")


@pytest.fixture
def legacy(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> livingdb.Branch:
    """A branch from before names had to differ in more than case."""
    main = db.branch("main")
    with monkeypatch.context() as before:
        before.setattr(write_set, "check_new", lambda *schemas: None)
        before.setattr(write_set, "find_alike", lambda name, names: [])
        main.create_table("Orders", {"id": "bigint", "note": "string"}, key="id")
        main.create_table("t", {"a": "bigint", "A": "bigint", "v": "string"}, key="a")
    main.insert("Orders", {"id": [1], "note": ["capital"]})
    main.insert("t", [{"a": 1, "A": 2, "v": "x"}, {"a": 2, "A": 1, "v": "y"}])
    return main


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "A"),
        ("straße", "STRASSE"),
        ("straße", "STRAẞE"),
        ("İd", "i̇d"),
        ("id", "ıd"),
        ("id", "Id"),
        ("ΟΔΟΣ", "οδος"),
        ("οδος", "οδοσ"),
        ("ﬁ", "FI"),
        ("K", "k"),
    ],
)
def test_alike(one: str, other: str) -> None:
    assert are_alike(one, other)
    assert alike_names([one, "x", other]) == [(one, other)]


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("a", "á"), ("a", "a_"), ("o", "ö")])
def test_not_alike(one: str, other: str) -> None:
    assert not are_alike(one, other)
    assert alike_names([one, other, one]) == []


def test_create_table(main: livingdb.Branch) -> None:
    with pytest.raises(livingdb.InvalidName, match=r"'a' and 'A'"):
        main.create_table("x", {"a": "bigint", "A": "int"}, key="a")
    with pytest.raises(livingdb.InvalidName, match=r"'orders'.*'Orders'"):
        main.create_table("Orders", {"id": "bigint"}, key="id")
    with pytest.raises(livingdb.InvalidName), main.transaction() as tx:
        tx.create_table("fresh", {"id": "bigint"}, key="id")
        tx.create_table("FRESH", {"id": "bigint"}, key="id")
    with pytest.raises(livingdb.InvalidName, match=r"'a' and 'A'"):
        main.sql("CREATE TABLE x (a BIGINT PRIMARY KEY, A INT)")
    assert main.tables() == ["orders", "other"]


REFUSED: dict[str, ev.SchemaChange | list[ev.SchemaChange]] = {
    "add": ev.AddColumn("orders", "NOTE", "int"),
    "rename": ev.RenameColumn("orders", "n", "Note"),
    "split column": ev.SplitColumn("orders", "note", ["p", "P"], separator=" "),
    "split column beside": ev.SplitColumn("orders", "note", ["p", "N"], separator=" "),
    "concat": [
        ev.AddColumn("orders", "more", "string"),
        ev.ConcatColumns("orders", ["note", "more"], "N", separator=" "),
    ],
    "rename table": ev.RenameTable("other", "ORDERS"),
    "create table": ev.CreateTable("OTHER", {"id": "bigint"}, "id"),
    "columns of a new table": ev.CreateTable("x", {"id": "bigint", "ID": "int"}, "id"),
    "decompose": ev.Decompose("orders", {"part": ["note"], "PART": ["n"]}),
    "decompose beside": ev.Decompose("orders", {"Other": ["note"], "rest": ["n"]}),
    "join": [ev.RenameColumn("other", "text", "NOTE"), ev.JoinTables("orders", "other", "both")],
    "join beside": [
        ev.CreateTable("third", {"id": "bigint", "x": "int"}, "id"),
        ev.JoinTables("other", "third", "Orders"),
    ],
    "normalize": ev.Normalize("orders", ["note"], "Other"),
    "reference": ev.Normalize("orders", ["note"], "notes", reference="N"),
    "key of a lookup": ev.Normalize("orders", ["note"], "notes", key="NOTE", reference="r"),
    "split table": ev.SplitTable("orders", {"s": "n < 2", "S": "n >= 2"}),
    "union": [
        ev.CreateTable("third", {"id": "bigint", "text": "string"}, "id"),
        ev.UnionTables(["other", "third"], "ORDERS"),
    ],
    "origin": [
        ev.CreateTable("third", {"id": "bigint", "text": "string"}, "id"),
        ev.UnionTables(["other", "third"], "u", origin="TEXT"),
    ],
    "for a while": [ev.AddColumn("orders", "NOTE", "int"), ev.DropColumn("orders", "note")],
}


@pytest.mark.parametrize("name", REFUSED)
def test_evolve(main: livingdb.Branch, name: str) -> None:
    head = main.head
    with pytest.raises(livingdb.InvalidName, match="differ in case only"):
        main.evolve(REFUSED[name])
    with pytest.raises(livingdb.InvalidName, match="differ in case only"):
        main.evolve(REFUSED[name], to="new")
    with pytest.raises(livingdb.InvalidName, match="differ in case only"):
        main.explain_evolution(REFUSED[name])
    assert main.head == head


def test_a_name_may_change_its_own_case(main: livingdb.Branch) -> None:
    main.evolve([ev.RenameColumn("orders", "note", "Note"), ev.RenameTable("orders", "Orders")])
    assert main.sql("SELECT note FROM orders WHERE ID = 1").to_arrow().to_pylist() == [
        {"note": "a b"}
    ]


def test_two_who_create_tables(main: livingdb.Branch) -> None:
    tx = main.transaction()
    tx.create_table("fresh", {"id": "bigint"}, key="id")
    with livingdb.open(main.database.name) as other:
        other.branch("main").create_table("Fresh", {"id": "bigint"}, key="id")
        with pytest.raises(livingdb.TransactionConflict, match="'Fresh'"):
            tx.commit()


def test_derive(main: livingdb.Branch) -> None:
    with pytest.raises(livingdb.InvalidName, match=r"'x' and 'X'"):
        main.derive("view", "SELECT id AS x, note AS X FROM orders")
    with pytest.raises(livingdb.InvalidName, match="'orders'"):
        main.derive("ORDERS", "SELECT id FROM orders")
    main.derive("top", "SELECT id FROM orders")
    with pytest.raises(livingdb.InvalidName, match="'top'"):
        main.derive("Top", "SELECT id FROM orders")
    with pytest.raises(livingdb.InvalidName, match="differ in case only"):
        main.clone("later", transform=REFUSED["add"], sync="forward", when="deferred")


@pytest.mark.parametrize("policy", ["fail", "ours", "theirs"])
@pytest.mark.parametrize("granularity", ["row", "cell"])
def test_merge(db: livingdb.Database, main: livingdb.Branch, policy: str, granularity: str) -> None:
    dev = main.clone("dev")
    dev.create_table("fresh", {"id": "bigint"}, key="id")
    main.create_table("Fresh", {"id": "bigint"}, key="id")
    head = main.head
    with pytest.raises(livingdb.MergeConflict, match="'Fresh' and 'fresh'") as found:
        db.merge("dev", into="main", on_conflict=policy, granularity=granularity)
    (reason,) = found.value.schema_conflicts.values()
    assert "differ in case only" in reason
    with pytest.raises(livingdb.MergeConflict, match="'Fresh' and 'fresh'"):
        main.cherry_pick(dev.head)
    with pytest.raises(livingdb.InvalidName, match="'Fresh'"):
        db.apply(db.diff("main~1", "dev"), "main")
    assert main.head == head


def test_merge_of_columns(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    dev.evolve(ev.AddColumn("orders", "vat", "int"))
    main.evolve(ev.AddColumn("orders", "VAT", "int"))
    with pytest.raises(livingdb.MergeConflict, match="'VAT' and 'vat'"):
        db.merge("dev", into="main")
    for policy, name in {"ours": "VAT", "theirs": "vat"}.items():
        trial = main.clone(f"by_{policy}")
        db.merge("dev", into=trial, on_conflict=policy)
        names = trial.table("orders").schema.names
        assert [known for known in names if known.lower() == "vat"] == [name]


def test_what_was_there_before_is_read_and_not_guessed(legacy: livingdb.Branch) -> None:
    with livingdb.open(legacy.database.name) as again:
        main = again.branch("main")
        assert main.table("Orders").get(1) == {"id": 1, "note": "capital"}
        assert main.table("orders").get(1)["note"] == "a b"
        assert main.table("t").to_arrow().column("A").to_pylist() == [2, 1]
        for text in (
            "SELECT * FROM orders",
            "SELECT * FROM Orders",
            "SELECT * FROM ORDERS VERSION AS OF 'main'",
            "DELETE FROM Orders WHERE id = 1",
            "INSERT INTO orders (id) VALUES (7)",
        ):
            with pytest.raises(livingdb.InvalidData, match=r"ambiguous.*'Orders', 'orders'"):
                main.sql(text)
        for text in (
            "SELECT a FROM t",
            "SELECT v FROM t WHERE A = 1",
            "SELECT t.v FROM t JOIN other USING (a)",
            "DELETE FROM t WHERE v = 'x'",
            "UPDATE t SET v = 'z'",
        ):
            with pytest.raises(livingdb.InvalidData, match=r"ambiguous.*'A', 'a'"):
                main.sql(text)
        with pytest.raises(livingdb.InvalidData, match="ambiguous"):
            main.table("t").to_arrow(where="a = 1")
        with pytest.raises(livingdb.InvalidData, match="ambiguous"):
            main.derive("view", "SELECT a FROM t")
        assert main.sql("SELECT v FROM t ORDER BY v").to_arrow().to_pylist() == [
            {"v": "x"},
            {"v": "y"},
        ]


def test_what_was_there_before_goes_on_and_is_mended(legacy: livingdb.Branch) -> None:
    db = legacy.database
    dev = legacy.clone("dev")
    dev.insert("Orders", {"id": [9], "note": ["n"]})
    legacy.insert("t", {"a": [5], "A": [6], "v": ["z"]})
    db.merge("dev", into="main")
    assert legacy.table("Orders").get(9) == {"id": 9, "note": "n"}
    legacy.evolve(ev.AddColumn("t", "w", "int"))
    legacy.evolve([ev.RenameColumn("t", "A", "b"), ev.RenameTable("Orders", "capitals")])
    legacy.sql("DELETE FROM t WHERE a = 1")
    assert legacy.table("t").to_arrow().column("b").to_pylist() == [1, 6]
    assert db.check().problems == []


NEW_NAMES = {
    "clone": lambda db, main, name: main.clone(name),
    "clone of a snapshot": lambda db, main, name: main.head.clone(name),
    "replica": lambda db, main, name: main.clone(name, sync="forward"),
    "tag": lambda db, main, name: db.tag(name, "main"),
    "view": lambda db, main, name: main.derive(name, "SELECT id FROM orders", when="immediate"),
    "keep": lambda db, main, name: main.evolve(ev.DropColumn("orders", "n"), keep=name),
    "to": lambda db, main, name: main.evolve(ev.DropColumn("orders", "n"), to=name, sync="forward"),
    "sql": lambda db, main, name: main.sql(f"CREATE BRANCH `{name}`"),
    "rename": lambda db, main, name: db.rename_branch("other", name),
}


@pytest.mark.parametrize("way", NEW_NAMES)
@pytest.mark.parametrize(("there", "name"), [("dev", "DEV"), ("v1", "V1"), ("straße", "STRASSE")])
def test_branches_and_tags(
    db: livingdb.Database, main: livingdb.Branch, way: str, there: str, name: str
) -> None:
    """SQL does not tell `dev.orders` from `DEV.orders`."""
    main.clone("other")
    main.clone("straße")
    main.clone("dev")
    db.tag("v1", "main")
    before = main.head.id, db.branches(), list(db.tags())
    with pytest.raises(livingdb.InvalidName, match=f"'{there}', from which '{name}' differs"):
        NEW_NAMES[way](db, main, name)
    assert (main.head.id, db.branches(), list(db.tags())) == before
    with pytest.raises(livingdb.AlreadyExists):
        NEW_NAMES[way](db, main, there)


def test_names_that_somebody_else_made_meanwhile(tmp_path: Path) -> None:
    """What is remembered of names is held against the catalog: made, dropped and renamed ones."""
    with (
        livingdb.create(tmp_path / "shop.ldb") as db,
        livingdb.open(tmp_path / "shop.ldb") as other,
    ):
        db.branch("main").clone("first")
        other.branch("main").clone("Straße")
        for name in ("FIRST", "STRASSE"):
            with pytest.raises(livingdb.InvalidName, match="differs in case only"):
                db.branch("main").clone(name)
        other.drop_branch("first")
        db.branch("main").clone("FIRST")
        other.rename_branch("FIRST", "second")
        with pytest.raises(livingdb.InvalidName, match="'second'"):
            db.tag("Second", "main")
        db.branch("main").clone("First")
        other.tag("Third", "main")
        with pytest.raises(livingdb.InvalidName, match="tag 'Third'"):
            db.branch("main").clone("third")


def test_names_stay_known_beside_own_commits_and_not_beside_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    read = AlikeNames.find

    def noting(self: AlikeNames, connection: Connection, name: str) -> list[tuple[str, str]]:
        found = read(self, connection, name)
        asked.append(len(self._names))
        return found

    monkeypatch.setattr(AlikeNames, "find", noting)
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        main.derive("Ä", "SELECT id FROM t")
        known = db._graph.catalog.alike_names._names
        main.derive("second", "SELECT id FROM t")
        main.derive("third", "SELECT id FROM t")
        assert db._graph.catalog.alike_names._names is known
        assert asked == sorted(asked), "each commit adds to what is known"
        with pytest.raises(livingdb.InvalidName, match="'second'"):
            main.clone("SECOND")
        with livingdb.open(tmp_path / "shop.ldb") as other:
            main.clone("first")
            other.rename_branch("first", "fourth")
            main.derive("fifth", "SELECT id FROM t")
            with pytest.raises(livingdb.InvalidName, match="'fourth'"):
                main.clone("FOURTH")
            main.clone("First")
