"""Another layout for a table: readers see nothing of it, and trees come to lie in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.frozen.archive import unpack

import livingdb
from livingdb import Branch, Database, InvalidData, Layout, LivingDBError, NotFound
from livingdb.evolution import AddColumn, ChangeKey, DropColumn, RenameColumn, RenameTable
from livingdb.graph.diff import range_diff
from livingdb.maintenance import compact as compact_module
from livingdb.maintenance.layouts import lay_out, lay_out_due
from livingdb.tables.layout import FOLD_FLOOR_ROWS, layout_of
from livingdb.trees.scan import ALL, Span

COLUMNS = {"id": "int", "a": "string", "b": "int", "c": "double"}
NARROW = Layout(target_rows=256, groups=[["a"], ["b"]])
LARGE = FOLD_FLOOR_ROWS + 1


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as made:
        yield made


def rows(count: int, first: int = 0, b: int = 0) -> pa.Table:
    ids = range(first, first + count)
    columns = [
        pa.array(ids, pa.int32()),
        pa.array([f"value {number % 7}" for number in ids]),
        pa.array([number % 13 + b for number in ids], pa.int32()),
        pa.array([number / 4 for number in ids]),
    ]
    fields = [pa.field("id", pa.int32(), nullable=False), ("a", pa.string())]
    return pa.table(columns, pa.schema([*fields, ("b", pa.int32()), ("c", pa.float64())]))


def filled(db: Database, count: int = 500, layout: Layout | None = None) -> Branch:
    main = db.branch("main")
    main.create_table("t", COLUMNS, "id", layout=layout)
    main.insert("t", rows(count))
    return main


def lying(main: Branch, table: str = "t") -> Layout:
    """The layout that the tree lies in which a table is read from."""
    graph = main._graph
    version = graph.version(main.head._row, table)
    return layout_of(graph.versions.tree_rows(version).forest.grouping)


def canonical_root(db: Database, table: livingdb.Table) -> str:
    """The root of a table that is made with the layout and holds the rows."""
    definition = table.definition
    names = {column.name: column.type for column in definition.schema.columns}
    scratch = db.branch("main").clone("scratch")
    scratch.create_table("made", names, list(definition.schema.key), layout=table.layout)
    scratch.insert("made", table.to_arrow())
    found = scratch.table("made").root()
    db.drop_branch("scratch")
    return found


def test_nothing_is_rewritten_at_once_and_nothing_is_added_to_history(db: Database) -> None:
    main = filled(db, LARGE)
    main.upsert("t", rows(9, first=3, b=50))
    head, version, before = main.head.id, main.table("t").version, main.table("t").to_arrow()
    chunks = db.storage().chunks
    assert main.relayout("t", NARROW) == Layout()
    assert main.relayout("t", NARROW) == NARROW, "again: nothing to be done"
    assert (main.head.id, main.table("t").version) == (head, version)
    assert db.storage().chunks == chunks
    assert main.table("t").layout == NARROW
    assert main.table("t").definition.layout == Layout(), "what it was made with"
    main.upsert("t", rows(1))
    assert lying(main) == Layout(), "a large one waits for a long tail, or for who lays it out"
    assert [(due.table, due.rows) for due in lay_out_due(db._graph)] == [("t", LARGE)]
    assert lay_out(db._graph, 0.0) == []
    assert [done.table for done in lay_out(db._graph, 60.0)] == ["t"]
    assert lay_out_due(db._graph) == []
    assert lying(main) == NARROW
    assert main.table("t").to_arrow().equals(db.at(head).table("t").to_arrow())
    assert db.at(head).table("t").to_arrow().equals(before)
    assert main.table("t").root() == canonical_root(db, main.table("t"))
    assert db.check().problems == []
    assert db.storage().tables["t"].chunks > 3 * LARGE // 512


def test_a_small_table_is_laid_out_by_the_next_commit(db: Database) -> None:
    main = filled(db)
    main.relayout("t", NARROW)
    assert lying(main) == Layout()
    main.upsert("t", rows(1))
    assert lying(main) == NARROW
    main.relayout("t", Layout(target_rows=200, fold="never"))
    main.upsert("t", rows(1))
    assert lying(main) == NARROW, "who folds nothing lays out nothing"
    assert main.migrate() == ["t"]
    assert lying(main).groups is None
    assert db.check().problems == []


def test_a_long_tail_is_folded_in_the_new_layout(db: Database) -> None:
    main = filled(db, LARGE, Layout(fold=0.25))
    main.relayout("t", Layout(target_rows=128, fold=0.25))
    main.upsert("t", rows(LARGE // 2, b=100))
    assert lying(main).target_rows == 128
    assert main.table("t").root() == canonical_root(db, main.table("t"))


def test_the_root_is_that_of_the_layout_in_force_and_the_old_one_comes_back(db: Database) -> None:
    main = filled(db)
    first = main.table("t").root()
    old = main.relayout("t", NARROW)
    second = main.table("t").root()
    assert second == canonical_root(db, main.table("t")) != first
    assert main.relayout("t", old) == NARROW
    assert main.table("t").root() == first
    main.relayout("t", Layout(fold="always", projection=True))
    assert main.table("t").root() == first, "a tree lies in it as it does"
    assert lay_out_due(db._graph) == []
    with main.transaction() as tx:
        assert tx.table("t").root() == first


def test_it_is_the_table_s_on_all_branches_under_all_names(db: Database) -> None:
    main = filled(db)
    dev = main.clone("dev")
    dev.relayout("t", NARROW)
    assert main.table("t").layout == NARROW
    changes = [RenameColumn("t", "a", "first"), RenameTable("t", "u"), AddColumn("u", "d", "int")]
    dev.evolve(changes)
    assert dev.table("u").layout.groups == (("first",), ("b",))
    assert dev.migrate() == ["u"]
    assert lying(dev, "u").groups == (("first",), ("b",))
    assert dev.table("u").root() == canonical_root(db, dev.table("u"))
    dev.evolve([DropColumn("u", "first"), ChangeKey("u", ["id", "b"])])
    assert dev.table("u").layout.groups is None, "one is gone, and the other is in the key"
    assert main.table("t").layout == NARROW
    assert db.check(deep=True).problems == []


def test_a_schema_that_nobody_migrated_is_read_from_a_tree_that_is_laid_out(db: Database) -> None:
    main = filled(db, LARGE)
    main.upsert("t", rows(3, b=70))
    graph = db._graph
    graph.fold(graph.version(main.head._row, "t"))  # a tree that is no data of its own
    main.evolve(RenameColumn("t", "a", "first"))
    before = main.table("t").to_arrow()
    main.relayout("t", Layout(target_rows=200, groups=[["first"]]))
    assert len(lay_out(graph, 60.0)) == 1
    assert lay_out_due(graph) == []
    db.compact()  # the old tree is gone
    assert main.table("t").to_arrow().equals(before)
    assert db.check().problems == []


@pytest.mark.parametrize("layout", [NARROW, Layout(target_rows=200), Layout("capacity", 100)])
def test_trees_of_different_layouts_are_compared_and_merged(db: Database, layout: Layout) -> None:
    main = filled(db, 800)
    graph, start = db._graph, main.head
    dev = main.clone("dev")
    dev.upsert("t", rows(40, first=100, b=90))
    dev.delete("t", [7, 8])
    main.upsert("t", rows(30, first=400, b=80))
    graph.fold(graph.version(main.head._row, "t"))
    main.relayout("t", layout)
    graph.fold(graph.version(dev.head._row, "t"))
    one, other = (graph.version(branch.head._row, "t") for branch in (main, dev))
    assert lying(main) != lying(dev)
    trees = [graph.versions.tree_rows(version) for version in (one, other)]
    (batch,) = range_diff(*trees, ALL)  # as if they had no history in common
    assert len(batch.keys) == 40 + 2 + 30
    codec = trees[0].forest.shape.codec
    (batch,) = range_diff(*trees, Span(*(codec.encode_one([n], ["id"]) for n in (105, 405))))
    assert len(batch.keys) == 35 + 5
    db.merge("dev", into="main")
    found = main.table("t")
    assert len(found) == 798
    assert found.get(100)["b"] == 100 % 13 + 90
    assert found.get(400)["b"] == 400 % 13 + 80
    assert start.table("t").to_arrow().equals(rows(800))
    assert found.root() == canonical_root(db, found) or layout.splitter == "capacity"
    assert db.check().problems == []


def test_tables_of_views_and_targets_of_syncs_may_be_laid_out(db: Database) -> None:
    main = filled(db)
    main.derive("v", "SELECT id, a, b + 1 AS n FROM t", when="immediate")
    main.clone("copy", transform=[RenameColumn("t", "a", "z")], sync="forward")
    copy = db.branch("copy")
    view = db.branch("v")
    view.relayout("v", Layout(target_rows=32, groups=[["a"]]))
    copy.relayout("t", Layout(target_rows=32, groups=[["z"]]))
    assert main.table("t").layout.groups == (("a",),), "it is the same table"
    main.upsert("t", rows(5, first=490, b=60))
    assert view.table("v").layout.target_rows == 32
    assert lying(view, "v").target_rows == 32
    assert len(view.table("v")) == len(copy.table("t")) == 500
    for branch in (main, view, copy):
        branch.migrate()
    assert lay_out_due(db._graph) == []
    assert db.check(deep=True).problems == []


def test_another_process_notices(db: Database, tmp_path: Path) -> None:
    main = filled(db)
    with livingdb.open(tmp_path / "db", author="bob", engine="embedded") as other:
        theirs = other.branch("main")
        table = theirs.table("t")
        assert table.layout == Layout()
        main.relayout("t", NARROW)
        assert table.layout == NARROW, "asked by whoever has the table at hand"
        main.relayout("t", Layout(target_rows=200))
        theirs.upsert("t", rows(2, b=40))
        assert lying(theirs).target_rows == 200
        main.relayout("t", NARROW)
        main.migrate()
        db.compact()  # of the tree they have read last nothing is left
        assert theirs.table("t").to_arrow().equals(main.table("t").to_arrow())
        assert table.to_arrow().equals(rows(500)), "who began to read goes on"
        assert theirs.table("t").root() == main.table("t").root()
        assert other.check().problems == []


def test_a_tree_that_is_replaced_while_packs_are_written_anew_keeps_its_chunks(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = filled(db)
    chance = Random(5)
    noisy = rows(20_000).set_column(3, "c", [[chance.random() for _ in range(20_000)]])
    main.upsert("t", noisy)
    main.relayout("t", NARROW)
    main.migrate()
    main.relayout("t", Layout(target_rows=200))
    main.migrate()  # what lay in the layout before is in packs that are about to be written anew
    live = compact_module.live_chunks
    races = iter([NARROW])

    def late(graph: object) -> object:
        found = live(graph)  # type: ignore[arg-type]
        for layout in races:
            main.relayout("t", layout)
            main.migrate()
        return found

    monkeypatch.setattr(compact_module, "live_chunks", late)
    db.compact()
    assert lying(main) == NARROW
    assert db.check().problems == []
    assert main.table("t").to_arrow().equals(noisy)


def test_what_cannot_be_is_refused(db: Database, tmp_path: Path) -> None:
    main = filled(db)
    with pytest.raises(NotFound, match="'u'"):
        main.relayout("u", NARROW)
    with pytest.raises(InvalidData, match="nothing"):
        main.relayout("t", Layout(groups=[["nothing"]]))
    with pytest.raises(InvalidData, match="in the key"):
        main.relayout("t", Layout(groups=[["id"]]))
    for nothing in (None, {}, "content", {"target_rows": 64}):
        with pytest.raises(InvalidData, match=r"give a livingdb\.Layout"):
            main.relayout("t", nothing)  # type: ignore[arg-type]
    for groups in (5, "first", ["first"], [5]):
        with pytest.raises(InvalidData, match="a group is a list of columns"):
            Layout(groups=groups)  # type: ignore[arg-type]
    assert main.table("t").layout == Layout()
    with livingdb.open(tmp_path / "db", read_only=True) as reader:
        table = reader.branch("main").table("t")
        with pytest.raises(LivingDBError, match="read"):
            reader.branch("main").relayout("t", NARROW)
        main.relayout("t", NARROW)
        assert table.layout == NARROW
        assert table.root() == canonical_root(db, main.table("t"))


def test_a_table_without_an_identity_keeps_its_layout(tmp_path: Path) -> None:
    with livingdb.open(unpack("catalog-4", tmp_path), engine="embedded") as old:
        main = old.branch("main")
        name = next(n for n in main.tables() if main.table(n).definition.id is None)
        with pytest.raises(livingdb.Unsupported, match=f"{name!r} was made before"):
            main.relayout(name, Layout())
