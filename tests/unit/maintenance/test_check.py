"""A check finds each kind of planted damage, and says where it is and what is wrong there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, select
from tests.clock import stopped
from tests.ids import counted

import livingdb
from livingdb.catalog import schema
from livingdb.catalog.branch_log import log_lines
from livingdb.catalog.sealed_rows import DIGEST, SealedRows
from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address, digest, short
from livingdb.graph.graph import Graph
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance.check import Problem, Report, check
from livingdb.tables.recipe import load_recipe

Plant = Callable[[Graph, Connection], str]
"""Plants a damage, and says where it is."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without damage: folds, branches, a merge, a tag, a view, packs and a journal.

    Its bytes are always the same: there are some that nothing is read from, which is no damage.
    """
    path: Path = tmp_path_factory.mktemp("check") / "db"
    with stopped(), counted(), livingdb.create(path, author="ann", engine="embedded") as db:
        main = db.branch("main")
        layout = livingdb.Layout(target_rows=16, fold=0.5)
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id", layout=layout)
        main.insert("t", {"id": range(60), "v": range(60)})
        for number in range(6):
            main.upsert("t", {"id": [number, number + 30], "v": [7, 7]})
        drain_journal(db._graph.store)
        dev = main.clone("dev")
        dev.delete("t", [50])
        main.upsert("t", {"id": [1], "v": [8]})
        db.merge("dev", into="main")
        db.tag("v1", "main~1")
        main.derive("sums", "SELECT v, count(*) AS n FROM t GROUP BY v", when="immediate")
        main.upsert("t", {"id": [2], "v": [9]})
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "db"
    shutil.copytree(whole, copy)
    return copy


@pytest.fixture(scope="module")
def graph(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """The same in a copy that stays as it is, to know where things are."""
    copy: Path = tmp_path_factory.mktemp("known") / "db"
    shutil.copytree(whole, copy)
    with livingdb.open(copy, engine="embedded") as db:
        yield db._graph


def report_of(path: Path) -> Report:
    """What somebody finds who knows nothing yet."""
    with livingdb.open(path, engine="embedded") as db:
        return check(db._graph)


def test_a_whole_database_has_no_problems_and_everything_is_counted(graph: Graph) -> None:
    report = check(graph)
    assert report.problems == []
    assert report.ok
    assert bool(report)
    counters = graph.catalog.write_counters()
    assert (report.snapshots, report.versions, report.materializations) == counters[:3]
    assert report.packs == len(graph.catalog.packs.names()) == 1
    assert report.chunks == len(set(graph.store.addresses()))
    assert str(report).startswith(f"no problems in {report.snapshots} snapshots")


# --- the index over versions ---------------------------------------------------------------------


def read_version(connection: Connection, where: object) -> VersionRow:
    values = connection.execute(
        select(schema.version).where(where).order_by(schema.version.c.address)  # type: ignore[arg-type]
    ).first()
    assert values is not None
    return VersionRow(*values[:-1])


def write_version(connection: Connection, row: VersionRow) -> str:
    """Put a row in the place of the one with its address, with a digest that says nothing."""
    is_mine = schema.version.c.address == row.address
    assert SealedRows(schema.version).update(connection, [is_mine], row._asdict())
    return f"version {short(row.address)}"


def deep(connection: Connection) -> VersionRow:
    """A version that is a change of a change, of a change."""
    return read_version(connection, schema.version.c.depth == 3)


def origin(connection: Connection) -> VersionRow:
    """A version that is rows, and has changes over it."""
    first = deep(connection).origin
    return read_version(connection, schema.version.c.address == first)


def with_wrong_digest(graph: Graph, connection: Connection) -> str:
    row, table = deep(connection), schema.version
    where = table.c.address == row.address
    connection.execute(table.update().where(where).values(changed=row.changed + 1))
    return f"row {short(row.address)} of table 'version'"


def with_change(**change: object) -> Plant:
    return lambda graph, connection: write_version(connection, deep(connection)._replace(**change))


def with_more_changed(graph: Graph, connection: Connection) -> str:
    row = deep(connection)
    return write_version(connection, row._replace(changed=row.changed + 1))


def with_skip_to_base(graph: Graph, connection: Connection) -> str:
    row = deep(connection)
    return write_version(connection, row._replace(skip=row.origin))


def with_other_keyframe(graph: Graph, connection: Connection) -> str:
    row = deep(connection)
    other = read_version(
        connection, (schema.version.c.depth == 0) & (schema.version.c.address != row.origin)
    )
    return write_version(connection, row._replace(keyframe=other.address))


def with_wrong_count(graph: Graph, connection: Connection) -> str:
    """Of a version whose writer counted what it changed."""
    where = (schema.version.c.depth > 0) & schema.version.c.rows.is_not(None)
    found = connection.execute(select(schema.version).where(where)).all()
    rows = [VersionRow(*values[:-1]) for values in found]
    recipes = {row: load_recipe(graph.store, row.address) for row in rows}
    row = next(row for row, recipe in recipes.items() if getattr(recipe, "counts", None))
    assert row.rows is not None
    return write_version(connection, row._replace(rows=row.rows + 1))


def rows_as_a_change(graph: Graph, connection: Connection) -> str:
    return write_version(connection, origin(connection)._replace(changed=1))


def rows_with_another_keyframe(graph: Graph, connection: Connection) -> str:
    return write_version(connection, origin(connection)._replace(keyframe=digest(b"nobody")))


def rows_with_a_wrong_count(graph: Graph, connection: Connection) -> str:
    return write_version(connection, origin(connection)._replace(rows=7))


def without_its_base(graph: Graph, connection: Connection) -> str:
    row, table = deep(connection), schema.version
    connection.execute(table.delete().where(table.c.address == row.base))
    return f"version {short(row.address)}"


# --- materializations ----------------------------------------------------------------------------

_made = schema.materialization


def first_tree(connection: Connection) -> tuple[Address, Address]:
    row = connection.execute(
        select(_made.c.version, _made.c.root).order_by(_made.c.version)
    ).first()
    assert row is not None
    return Address(row[0]), Address(row[1])


def tree_of_nobody(graph: Graph, connection: Connection) -> str:
    version, root = digest(b"nobody"), first_tree(connection)[1]
    values = {"version": version, "root": root, "origin": version, "depth": 0, "layout": None}
    SealedRows(_made).insert(connection, [values])
    return f"tree of version {short(version)}"


def tree_in_the_layout_of_another_table(graph: Graph, connection: Connection) -> str:
    version, _ = first_tree(connection)
    table = schema.version
    own = select(table.c.definition).where(table.c.address == version).scalar_subquery()
    others = select(table.c.definition).where(table.c.definition != own)
    other = connection.execute(others.order_by(table.c.definition)).scalar()
    SealedRows(_made).update(connection, [_made.c.version == version], {"layout": other})
    return f"tree of version {short(version)}"


def tree_of_another(graph: Graph, connection: Connection) -> str:
    version, _ = first_tree(connection)
    where = _made.c.version == version
    connection.execute(_made.update().where(where).values(root=digest(b"another")))
    return f"row {short(version)} of table 'materialization'"


def tree_in_the_wrong_place(graph: Graph, connection: Connection) -> str:
    version, _ = first_tree(connection)
    SealedRows(_made).update(connection, [_made.c.version == version], {"depth": 77})
    return f"tree of version {short(version)}"


def tree_that_is_missing(graph: Graph, connection: Connection) -> str:
    version, _ = first_tree(connection)
    values = {"root": digest(b"no such tree")}
    SealedRows(_made).update(connection, [_made.c.version == version], values)
    return f"tree of version {short(version)}"


# --- snapshots and names -------------------------------------------------------------------------

_snapshot = schema.snapshot


def main_head(graph: Graph) -> tuple[int, str]:
    head = graph.snapshots.at(graph.branch("main").head)
    return head.sequence, f"snapshot {short(head.address)}"


def set_head(**values: object) -> Plant:
    def plant(graph: Graph, connection: Connection) -> str:
        number, where = main_head(graph)
        is_head = _snapshot.c.sequence == number
        SealedRows(_snapshot).update(connection, [is_head], values)
        return where

    return plant


def touch_of_nobody(graph: Graph, connection: Connection) -> str:
    values = {"name": "t", "sequence": 999, "version": None}
    SealedRows(schema.touch).insert(connection, [values])
    return "snapshots"


def touch_that_is_missing(graph: Graph, connection: Connection) -> str:
    number, where = main_head(graph)
    connection.execute(schema.touch.delete().where(schema.touch.c.sequence == number))
    return where


def touch_too_many(graph: Graph, connection: Connection) -> str:
    number, where = main_head(graph)
    values = {"name": "more", "sequence": number, "version": digest(b"more")}
    SealedRows(schema.touch).insert(connection, [values])
    return where


def version_that_is_missing(graph: Graph, connection: Connection) -> str:
    head = graph.snapshots.at(graph.branch("main").head)
    version = graph.tables(head)["t"]
    connection.execute(schema.version.delete().where(schema.version.c.address == version))
    return f"snapshot {short(head.address)}"


def log_of_nobody(graph: Graph, connection: Connection) -> str:
    SealedRows(schema.branch_log).insert_sealed(connection, log_lines(999, [(1, 0, "clone")]))
    return "branches"


def log_to(branch: str, snapshot: int) -> Plant:
    """A log whose last line leads elsewhere, with digests that say nothing."""

    def plant(graph: Graph, connection: Connection) -> str:
        row, log = graph.branch(branch), schema.branch_log
        moves = [(m.snapshot, m.time, m.operation) for m in reversed(graph.movements.of(row))]
        lines = log_lines(row.number, [*moves[:-1], (snapshot, *moves[-1][1:])])
        SealedRows(log).delete(connection, log.c.branch == row.number)
        SealedRows(log).insert_sealed(connection, lines)
        is_branch = schema.branch.c.number == row.number
        chain = {"chain": lines[-1][DIGEST]}
        SealedRows(schema.branch).update(connection, [is_branch], chain)
        return f"branch {branch}"

    return plant


def log_without_a_line(position: int) -> Plant:
    def plant(graph: Graph, connection: Connection) -> str:
        log = schema.branch_log.c
        is_line = log.branch == graph.branch("main").number, log.position == position
        assert SealedRows(schema.branch_log).delete(connection, *is_line)
        return "branch main"

    return plant


def line_that_was_moved(graph: Graph, connection: Connection) -> str:
    log, row = schema.branch_log, graph.branch("dev")
    is_last = log.c.branch == row.number, log.c.position == row.position
    connection.execute(log.update().where(*is_last).values(position=77))
    return f"row ({row.number}, 77) of table 'branch_log'"


def without_a_log(graph: Graph, connection: Connection) -> str:
    where = schema.branch_log.c.branch == graph.branch("dev").number
    connection.execute(schema.branch_log.delete().where(where))
    return "branch dev"


def head_elsewhere(graph: Graph, connection: Connection) -> str:
    where = schema.branch.c.name == "dev"
    SealedRows(schema.branch).update(connection, [where], {"head": 1})
    return "branch dev"


def tag_of_nothing(graph: Graph, connection: Connection) -> str:
    SealedRows(schema.tag).update(connection, [], {"snapshot": 999})
    return "tag v1"


def tag_that_was_moved(graph: Graph, connection: Connection) -> str:
    connection.execute(schema.tag.update().values(snapshot=1))
    return "row 'v1' of table 'tag'"


# --- chunks in the journal -----------------------------------------------------------------------


def chunk_of_another(graph: Graph, connection: Connection) -> str:
    chunks = list(graph.store.journal.chunks())[:2]
    where = schema.chunk.c.address == chunks[0].address
    connection.execute(schema.chunk.update().where(where).values(data=chunks[1].data))
    return f"journal, chunk {short(chunks[0].address)}"


def record_that_is_missing(graph: Graph, connection: Connection) -> str:
    head = graph.snapshots.at(graph.branch("main").head)
    connection.execute(schema.chunk.delete().where(schema.chunk.c.address == head.address))
    return f"snapshot {short(head.address)}"


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (with_wrong_digest, "it is not as it was written"),
        (with_more_changed, "the index does not say what the recipe says"),
        (with_change(depth=9), "the index does not say what the recipe says"),
        (with_change(skip=None), "its skip in the index leads to the wrong version"),
        (with_skip_to_base, "its skip in the index leads to the wrong version"),
        (with_change(keyframe=digest(b"nobody")), "its keyframe in the index is no ancestor"),
        (with_other_keyframe, "its keyframe in the index is no ancestor"),
        (with_wrong_count, "the index has a wrong count of its rows"),
        (without_its_base, "its base .* is not in the index"),
        (rows_as_a_change, "the index calls it a change, but it is rows"),
        (rows_with_another_keyframe, "its keyframe in the index is another version"),
        (rows_with_a_wrong_count, "the index does not say what the recipe says"),
        (tree_of_nobody, "there is no such version"),
        (tree_of_another, "it is not as it was written"),
        (tree_in_the_layout_of_another_table, "it lies in the layout of another table"),
        (tree_in_the_wrong_place, "the catalog has it in the wrong place"),
        (tree_that_is_missing, "chunk"),
        (set_head(message="another"), "the index does not say what the snapshot says"),
        (set_head(author="somebody"), "the index does not say what the snapshot says"),
        (set_head(time=1), "the index does not say what the snapshot says"),
        (set_head(kind="merge"), "the index does not say what the snapshot says"),
        (set_head(depth=99), "its depth or skip in the index is wrong"),
        (set_head(skip=2), "its depth or skip in the index is wrong"),
        (set_head(first=1), "the index names other parents than the snapshot"),
        (set_head(others="1"), "the index names other parents than the snapshot"),
        (set_head(first=999), "snapshot number 999 is missing"),
        (version_that_is_missing, "the version of table 't' is not in the index"),
        (touch_of_nobody, "the index has tables of snapshot 999, which is not"),
        (touch_that_is_missing, "the index names other tables than those it changed"),
        (touch_too_many, "the index names other tables than those it changed"),
        (log_of_nobody, "the log of a branch .number 999. that is not"),
        (log_to("dev", 1), "its log does not lead to its head"),
        (log_to("main", 999), "snapshot number 999 is missing"),
        (log_without_a_line(0), "row .*, 0. of table 'branch_log' is missing"),
        (log_without_a_line(2), "row .*, 2. of table 'branch_log' is missing"),
        (line_that_was_moved, "it is not as it was written"),
        (without_a_log, "of table 'branch_log' is missing"),
        (head_elsewhere, "its log does not lead to its head"),
        (tag_of_nothing, "snapshot number 999 is missing"),
        (tag_that_was_moved, "it is not as it was written"),
        (chunk_of_another, "chunk"),
        (record_that_is_missing, "chunk"),
    ],
)
def test_damage_is_found_and_named(graph: Graph, path: Path, plant: Plant, words: str) -> None:
    engine = create_engine(f"sqlite:///{path / 'catalog.db'}")  # which lets us do anything
    with engine.begin() as connection:
        where = plant(graph, connection)
    engine.dispose()
    problems = report_of(path).problems
    at_place = Report([problem for problem in problems if problem.where.startswith(where)])
    assert at_place.problems, f"nothing is said of {where}: {problems}"
    assert re.search(words, str(at_place)), at_place


@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.9, 0.999])
def test_a_wrong_byte_in_a_pack_is_found(path: Path, part: float) -> None:
    (pack,) = (path / "packs").glob("*.pack")
    data = bytearray(pack.read_bytes())
    data[int(len(data) * part)] ^= 0x10
    pack.write_bytes(bytes(data))
    report = report_of(path)
    assert not report.ok
    assert any(problem.where.startswith(f"pack {pack.name}") for problem in report.problems)


def test_a_pack_that_is_gone_is_found(path: Path) -> None:
    (pack,) = (path / "packs").glob("*.pack")
    pack.unlink()
    report = report_of(path)
    assert any(pack.name in str(problem) for problem in report.problems)


def test_a_report_shows_the_first_problems_and_counts_all() -> None:
    problems = [Problem(f"place {number}", "is wrong") for number in range(30)]
    text = str(Report(problems, snapshots=3, packs=2))
    assert text.startswith("30 problems in 3 snapshots, 0 versions, 0 chunks, 2 packs:")
    assert "place 19: is wrong" in text
    assert "place 20" not in text
    assert not Report(problems)
