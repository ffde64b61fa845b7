"""Indexes: what they find, that they follow their tables, and that nobody else sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb import Branch, Database, Layout
from livingdb.errors import AlreadyExists, BrokenConstraint, InvalidData, NotFound, Unsupported
from livingdb.evolution import AddColumn, DropColumn, MaskColumn, RenameColumn, RetypeColumn
from livingdb.tables.index import Tree
from livingdb.tables.rows import RowSet
from livingdb.tables.secondary_tree import TABLE_INDEX

ROWS = 9_000


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A database whose tables are only read."""
    db = livingdb.create(tmp_path_factory.mktemp("shop") / "shop.ldb")
    fill(db.branch("main"))
    return db


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return livingdb.create(tmp_path / "shop.ldb")


def numbers(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    codes = (ids * 7919) % 1_000_003
    columns = {"id": ids, "code": codes, "name": [f"n{code}" for code in codes], "kind": ids % 100}
    return pa.table(columns)


def fill(main: Branch, layout: Layout | None = None) -> Branch:
    columns = {"id": "bigint", "code": "bigint", "name": "string", "kind": "bigint"}
    main.create_table("t", columns, "id", layout=layout)
    main.insert("t", numbers(0, ROWS))
    return main


def refuse_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(*_: object, **__: object) -> None:
        raise AssertionError("all rows were read")

    monkeypatch.setattr(RowSet, "batches", batches)


def index_trees(db: Database) -> int:
    versions = db._graph.versions
    found = db._graph.catalog.versions.materializations()
    recipes = (versions.recipe(versions.require(version)) for version, *_ in found)
    return sum(getattr(recipe, "kind", "") == TABLE_INDEX for recipe in recipes)


def found(branch: Branch, where: str) -> list[int]:
    ids: list[int] = branch.table("t").to_arrow(["id"], where)["id"].to_pylist()
    return ids


def test_rows_are_found_without_reading_the_others(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, snapshots = shop.branch("main"), len(shop.snapshots())
    assert main.create_index("t", "code") == "t_code_idx"
    assert main.create_index("t", ["name", "kind"], name="names") == "names"
    assert main.table("t").indexes() == {"t_code_idx": ("code",), "names": ("name", "kind")}
    assert len(shop.snapshots()) == snapshots
    refuse_scans(monkeypatch)
    assert found(main, "code = 7919") == [1]
    assert found(main, "code IN (7919, 15838, -1)") == [1, 2]
    assert found(main, "code BETWEEN 0 AND 1000 AND kind > 50") == [
        id for id in range(ROWS) if (id * 7919) % 1_000_003 <= 1_000 and id % 100 > 50
    ]
    assert found(main, "name = 'n15838' AND kind = 2") == [2]
    assert found(main, "name LIKE 'n158380%'") == [20]
    assert main.sql("SELECT id FROM t WHERE code = 7919").to_arrow()["id"].to_pylist() == [1]
    assert main.table("t").get(name="n7919") == {"id": 1, "code": 7919, "name": "n7919", "kind": 1}
    assert main.table("t").get(code=-1) is None
    assert main.table("t").get(code=7919, kind=2) is None
    with pytest.raises(InvalidData, match="all rows"):
        found(main, "kind = 7")


def test_a_row_is_got_by_its_key_or_by_values(shop: Database) -> None:
    table = shop.branch("main").table("t")
    assert table.get(1) == table.get(code=7919, kind=1)
    for values, words in (
        ({"kind": 7}, "90 rows have kind = 7"),
        ({"code": None}, "code is None"),
        ({"code": "x"}, "column 'code'"),
    ):
        with pytest.raises(InvalidData, match=words):
            table.get(**values)
    with pytest.raises(InvalidData, match="by its key, or"):
        table.get(1, code=7919)
    with pytest.raises(NotFound, match="'nothing'"):
        table.get(nothing=1)


def test_changes_branches_and_old_snapshots_are_found_too(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = fill(db.branch("main"))
    main.create_index("t", ["code"])
    before = main.head
    dev = main.clone("dev")
    with main.transaction() as tx:
        tx.update("t", {"id": [1, 2], "code": [5, None]})
        tx.delete("t", [3])
        tx.insert("t", {"id": [-1], "code": [7919], "name": ["new"], "kind": [0]})
        assert tx.sql("SELECT id FROM t WHERE code = 5").to_arrow()["id"].to_pylist() == [1]
    dev.update("t", {"id": [7], "name": ["other"]})
    refuse_scans(monkeypatch)
    assert [found(main, f"code = {n}") for n in (5, 7919, 15838, 23757)] == [[1], [-1], [], []]
    assert [found(dev, f"code = {n}") for n in (5, 7919)] == [[], [1]]
    assert before.table("t").get(code=15838) is not None
    monkeypatch.undo()
    db.merge("dev", into="main")
    refuse_scans(monkeypatch)
    assert main.table("t").get(code=7 * 7919)["name"] == "other"  # type: ignore[index]
    main.reset("main~1")
    assert main.table("t").get(code=7 * 7919)["name"] == "n55433"  # type: ignore[index]
    monkeypatch.undo()
    assert db.check(deep=True).ok


def test_new_trees_get_their_indexes_from_the_last_ones(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = fill(db.branch("main"), Layout(fold="always"))
    main.create_index("t", "code")
    refuse_scans(monkeypatch)
    main.update("t", {"id": [1], "code": [5]})
    main.delete("t", [2])
    assert index_trees(db) == 3
    assert [found(main, f"code = {n}") for n in (5, 7919, 15838)] == [[1], [], []]
    monkeypatch.undo()
    assert db.check(deep=True).ok
    db.compact()
    assert index_trees(db) == 1
    main.drop_index("T_CODE_IDX")
    db.compact()
    assert (index_trees(db), main.table("t").indexes()) == (0, {})


def test_an_index_follows_its_columns(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    main = fill(db.branch("main"))
    main.create_index("t", "code")
    main.create_index("t", ["kind", "code"], name="both")
    main.evolve([RenameColumn("t", "code", "number"), AddColumn("t", "more", "int", default=1)])
    assert main.table("t").indexes() == {"t_code_idx": ("number",), "both": ("kind", "number")}
    main.update("t", {"id": [1], "number": [5]})
    refuse_scans(monkeypatch)
    assert [found(main, f"number = {n}") for n in (5, 7919, 15838)] == [[1], [], [2]]
    monkeypatch.undo()
    main.evolve(DropColumn("t", "kind"))
    assert main.table("t").indexes() == {"t_code_idx": ("number",)}
    assert main.create_index("t", "name", name="both") == "both"
    main.evolve(RetypeColumn("t", "name", "varchar(3)", policy="truncate"))
    assert found(main, "name = 'n79'") == found_among_all(main, "n79")
    main.evolve(MaskColumn("t", "number", "null"))
    assert (found(main, "number = 15838"), db.check(deep=True).problems) == ([], [])


def found_among_all(branch: Branch, name: str) -> list[int]:
    rows = branch.table("t").to_arrow()
    return [row["id"] for row in rows.to_pylist() if row["name"] == name]


def test_a_referred_row_is_looked_for_by_an_index(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = db.branch("main")
    main.create_table("customers", {"id": "bigint"}, "id")
    columns = {"id": "bigint", "customer": "bigint"}
    main.create_table("orders", columns, "id", foreign_keys={"customer": "customers"})
    main.insert("customers", {"id": list(range(1_000))})
    main.insert("orders", {"id": list(range(ROWS)), "customer": [n % 900 for n in range(ROWS)]})
    main.derive(
        "sums",
        "SELECT c.id AS c, o.id AS o FROM customers c JOIN orders o ON o.customer = c.id",
        when="immediate",
    )
    main.create_index("orders", "customer")
    refuse_scans(monkeypatch)
    main.delete("customers", [950])
    with pytest.raises(BrokenConstraint, match="key 899"):
        main.delete("customers", [899])
    with main.transaction() as tx:
        tx.delete("orders", list(range(899, ROWS, 900)))
        tx.delete("customers", [899])
    monkeypatch.undo()
    assert db.check(deep=True).ok


def test_a_join_that_is_kept_looks_up_by_an_index(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = db.branch("main")
    main.create_table("a", {"id": "bigint", "link": "bigint"}, "id")
    main.create_table("b", {"id": "bigint", "link": "bigint"}, "id")
    main.insert("b", {"id": list(range(ROWS)), "link": [n % 3_000 for n in range(ROWS)]})
    main.derive("j", "SELECT a.id AS x, b.id AS y FROM a JOIN b USING (link)", when="immediate")
    main.create_index("b", "link")
    refuse_scans(monkeypatch)
    main.insert("a", {"id": [1, 2], "link": [2_999, 9_999]})
    monkeypatch.undo()
    assert db.branch("j").table("j").to_arrow()["y"].to_pylist() == [2_999, 5_999, 8_999]


def test_a_serializable_reader_sees_what_comes_to_hold_a_value(db: Database) -> None:
    main = fill(db.branch("main"))
    main.create_index("t", "code")
    with (
        pytest.raises(livingdb.TransactionConflict),
        main.transaction(isolation="serializable") as tx,
    ):
        assert len(tx.sql("SELECT id FROM t WHERE code = 5").to_arrow()) == 0
        main.update("t", {"id": [1], "code": [5]})
        tx.update("t", {"id": [2], "name": ["none has 5"]})


def test_values_that_are_long_null_or_not_a_number(db: Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int", "a": "string", "b": "double"}, "id")
    long = "x" * 200
    texts = [long, long + "y", long[:128], None, "", "x\0", "x"]
    reals = [0.0, -0.0, float("nan"), None, 1.0, float("inf"), 2.0]
    main.insert("t", {"id": list(range(7)), "a": texts, "b": reals})
    plain = {where: found(main, where) for where in WHERES}
    for columns in ("a", "b", ["a", "b"], ["b", "a"]):
        main.create_index("t", columns)
    assert {where: found(main, where) for where in WHERES} == plain
    assert main.table("t").get(a=long)["id"] == 0  # type: ignore[index]
    main.insert("t", {"id": [9], "a": ["z" * 40_000], "b": [-1.0]})
    assert main.table("t").get(a="z" * 40_000)["id"] == 9  # type: ignore[index]
    main.table("t").root()
    assert (found(main, "a > 'xy'"), db.check(deep=True).problems) == ([9], [])


LONG = "x" * 200
WHERES = (
    f"a = '{LONG}'", f"a > '{LONG}'", f"a >= '{LONG}'", f"a < '{LONG}'", "a = ''", "a < 'x'",
    "a IS NULL", "b = 0", "b > 1.5", "b < 0", "b = CAST('NaN' AS DOUBLE)", "b IS NULL",
    f"a = '{LONG}' AND b = 0", "a >= '' AND b = 2", "a LIKE 'xxx%' AND b <= 0",
)  # fmt: skip


def test_check_finds_a_wrong_index(db: Database, tmp_path: Path) -> None:
    main = fill(db.branch("main"))
    main.create_index("t", "code")
    graph = db._graph
    anchor = graph.versions.nearest_stored(graph.version(main.head._row, "t"))
    assert anchor is not None
    address = graph.versions.indexes.address(anchor, ("code",))
    main.create_index("t", "kind")
    wrong = graph.versions.indexes.root(anchor, ("kind",))
    assert wrong is not None
    with graph.catalog.write() as connection:
        graph.index.materialize(address, Tree(wrong))
        graph.index.save(connection, [graph.versions.require(address)])
        graph.catalog.raise_epoch(connection)
    db.close()
    with livingdb.open(tmp_path / "shop.ldb") as again:
        told = [str(problem) for problem in again.check(deep=True).problems]
        assert any("index on (code)" in problem for problem in told)


def test_erased_rows_and_other_processes(db: Database, tmp_path: Path) -> None:
    main = fill(db.branch("main"))
    main.create_index("t", "name")
    program = (
        "import livingdb, sys; db = livingdb.open(sys.argv[1]); t = db.branch('main').table('t'); "
        "assert t.indexes() == {'t_name_idx': ('name',)}, t.indexes(); "
        "assert t.get(name='n7919')['id'] == 1; db.branch('main').update('t', {'id': [1], "
        "'name': ['secret']})"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "shop.ldb")], check=True)
    assert main.table("t").get(name="secret")["id"] == 1  # type: ignore[index]
    main.table("t").root()
    db.erase("t", keys=[1], reason="asked for")
    assert (main.table("t").get(name="secret"), main.table("t").get(name="n7919")) == (None, None)
    db.backup(str(tmp_path / "copy"))
    livingdb.restore(str(tmp_path / "copy"), tmp_path / "again.ldb").close()
    with livingdb.open(tmp_path / "again.ldb", read_only=True) as again:
        table = again.branch("main").table("t")
        assert table.indexes() == {"t_name_idx": ("name",)}
        assert table.get(name="n15838")["id"] == 2  # type: ignore[index]
        assert again.check(deep=True).ok


def test_statements_and_what_they_do_not_say(db: Database) -> None:
    main = fill(db.branch("main"))
    main.sql("CREATE INDEX Codes ON TABLE T (CODE ASC, kind)")
    main.sql("CREATE INDEX IF NOT EXISTS codes ON t (name)")
    main.sql("CREATE INDEX ON t (name)")
    described = main.sql("DESCRIBE EXTENDED t").to_arrow().to_pylist()
    lines = {row["name"]: row["type"] for row in described}
    assert (lines["# index Codes"], lines["# index t_name_idx"]) == ("code, kind", "name")
    text = "SELECT index_name, column_name FROM information_schema.statistics"
    told = [tuple(row.values()) for row in main.sql(text).to_arrow().to_pylist()]
    assert told == [("Codes", "code"), ("Codes", "kind"), ("t_name_idx", "name")]
    for statement, error, words in (
        ("CREATE INDEX codes ON t (name)", AlreadyExists, "'codes'"),
        ("CREATE UNIQUE INDEX u ON t (name)", Unsupported, "ADD UNIQUE"),
        ("CREATE INDEX u ON t USING hash (name)", Unsupported, "USING"),
        ("CREATE INDEX CONCURRENTLY u ON t (name)", Unsupported, "CONCURRENTLY"),
        ("CREATE INDEX u ON t (name DESC)", Unsupported, "DESC"),
        ("CREATE INDEX u ON t (name) INCLUDE (kind)", Unsupported, "INCLUDE"),
        ("CREATE INDEX u ON t (name) WHERE kind > 1", Unsupported, "WHERE"),
        ("CREATE INDEX u ON t (lower(name))", Unsupported, "expressions"),
        ("CREATE INDEX u ON t (nothing)", NotFound, "'nothing'"),
        ("CREATE INDEX u ON nothing (name)", NotFound, "nothing"),
        ("CREATE INDEX u ON t (name, name)", InvalidData, "each once"),
        ("DROP INDEX nothing", NotFound, "'nothing'"),
        ("DROP INDEX codes CASCADE", Unsupported, "CASCADE"),
    ):
        with pytest.raises(error, match=words):
            main.sql(statement)
    for nothing in (None, 5, {"name": 1}):
        with pytest.raises(InvalidData, match="give a column, or a list of them"):
            main.create_index("t", nothing)  # type: ignore[arg-type]
        with pytest.raises(InvalidData, match="give its name"):
            main.drop_index(nothing)  # type: ignore[arg-type]
    with pytest.raises(livingdb.RuleViolation, match="on a branch"), main.transaction() as tx:
        tx.sql("DROP INDEX codes")
    main.sql("DROP INDEX IF EXISTS nothing")
    main.sql("DROP INDEX codes ON t")
    assert main.table("t").indexes() == {"t_name_idx": ("name",)}
