"""A second copy mends what is damaged: rows of the catalog, packs and chunks."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.telling import tell

import livingdb
from livingdb import InvalidData, Layout
from livingdb.graph.storage.drain_journal import drain_journal

SCHEMA = {"id": "bigint", "name": "string"}


def rows(first: int, count: int, name: str = "x") -> list[dict[str, object]]:
    return [{"id": number, "name": f"{name} {number}"} for number in range(first, first + count)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a pack, a journal, two branches, a tag and a view."""
    path: Path = tmp_path_factory.mktemp("whole") / "db"
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", SCHEMA, key="id", layout=Layout(target_rows=16))
        main.insert("t", rows(0, 100))
        main.derive("counted", sql="SELECT count(*) AS n FROM t", when="deferred")
        drain_journal(db._graph.store)
        main.upsert("t", rows(50, 3, "y"))
        main.clone("dev").delete("t", [1])
        db.tag("v1", "main")
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "db")
    return tmp_path / "db"


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path / "catalog.db", isolation_level=None)
    for statement in statements:
        assert connection.execute(statement).rowcount == 1, statement
    connection.close()


def contents(path: Path) -> dict[str, object]:
    with livingdb.open(path, engine="embedded") as db:
        found: dict[str, object] = {
            b.name: b.table(b.tables()[0]).to_arrow() for b in db.branches()
        }
        return found | {name: snapshot.id for name, snapshot in db.tags().items()}


def mend(path: Path, copy: object) -> tuple[list[str], list[str]]:
    """Where something was mended, and the problems that are left."""
    with livingdb.open(path, engine="embedded") as db:
        assert not db.check().ok
        report = db.check(repair_from=copy)
        assert [str(one) in str(report) for one in report.mended] == [True] * len(report.mended)
        return [one.where for one in report.mended], [str(one) for one in report.problems]


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        ("UPDATE tag SET snapshot = 1", "row 'v1' of table 'tag'"),
        ("UPDATE tag SET name = 'v3'", "row 'v1' of table 'tag'"),
        ("UPDATE tag SET digest = x'00'", "row 'v1' of table 'tag'"),
        ("UPDATE branch SET head = 1 WHERE name = 'dev'", "row 3 of table 'branch'"),
        ("UPDATE branch SET name = CAST(x'e4' AS TEXT) WHERE number = 3",
         "row 3 of table 'branch'"),
        ("UPDATE branch_log SET position = 9 WHERE branch = 3 AND position = 1",
         "row (3, 1) of table 'branch_log'"),
        ("UPDATE sync SET spec = '{}'", "row 1 of table 'sync'"),
        ("UPDATE snapshot SET depth = 0 WHERE sequence = 3", "row 3 of table 'snapshot'"),
        ("UPDATE snapshot SET author = 'eve' WHERE sequence = 3", "row 3 of table 'snapshot'"),
    ],
)  # fmt: skip
def test_a_row_is_mended(whole: Path, path: Path, damage: str, where: str) -> None:
    execute(path, damage)
    assert mend(path, whole) == ([where], [])
    assert contents(path) == contents(whole)


def test_a_branch_that_moved_on_since_the_copy_was_made(whole: Path, path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").upsert("t", rows(0, 2, "later"))
    expected = contents(path)
    for damage in (
        "head = 1",
        "origin = 'x'",
        "position = 77",
        "digest = x'01'",
        "time = time + 8",
    ):
        execute(path, f"UPDATE branch SET {damage} WHERE name = 'main'")
        assert mend(path, str(whole)) == (["row 1 of table 'branch'"], [])
        assert contents(path) == expected


def test_an_index_that_does_not_find_a_row(whole: Path, path: Path) -> None:
    """The rows are sound, and one of them is not found by what it is looked up by."""
    connection = sqlite3.connect(path / "catalog.db", isolation_level=None)
    (tag,) = connection.execute("SELECT name FROM tag").fetchone()
    index = connection.execute(
        "SELECT name, rootpage FROM sqlite_master WHERE tbl_name = 'tag' AND type = 'index'"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    file = path / "catalog.db"
    data = bytearray(file.read_bytes())
    start = (index[1] - 1) * size
    at = data.index(tag.encode(), start, start + size)
    data[at] ^= 1
    file.write_bytes(data)
    with livingdb.open(path, engine="embedded") as db:
        told = db.check()
        assert told.problems[0].where == "catalog.db"
        assert "index" in told.problems[0].what
        mended = db.check(repair_from=whole)
        assert mended.ok
        assert "its indexes were made anew" in str(mended)
        assert db.at(tag).id == db.at("main").id


def test_what_the_copy_does_not_have_is_told(whole: Path, path: Path) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.tag("later", "main~1")
    execute(path, "UPDATE tag SET snapshot = 1 WHERE name = 'later'")
    mended, left = mend(path, whole)
    assert mended == []
    assert left[0] == "row 'later' of table 'tag': it is not as it was written"


def pack_of(path: Path) -> Path:
    (found,) = (path / "packs").glob("*.pack")
    return found


def turn(at: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        pack = pack_of(path)
        data = bytearray(pack.read_bytes())
        data[int(len(data) * at)] ^= 0x10
        pack.write_bytes(bytes(data))

    return damage


def cut(path: Path) -> None:
    pack = pack_of(path)
    pack.write_bytes(pack.read_bytes()[:-9])


@pytest.mark.parametrize(
    "damage",
    [*map(turn, (0.0, 0.3, 0.6, 0.999)), cut, lambda path: pack_of(path).unlink()],
    ids=["header", "body", "other body", "trailer", "cut", "gone"],
)
def test_a_pack_is_mended(whole: Path, path: Path, damage: Callable[[Path], None]) -> None:
    name = pack_of(path).name
    damage(path)
    mended, left = mend(path, whole)
    assert mended == [f"pack {name}"]
    assert left == []
    assert contents(path) == contents(whole)


def test_a_copy_with_other_packs(whole: Path, path: Path, tmp_path: Path) -> None:
    """It has the same chunks elsewhere, and the index of the damaged pack cannot be read."""
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    with livingdb.open(copy, engine="embedded") as db:
        db.compact()
    name = pack_of(path).name
    cut(path)
    mended, left = mend(path, copy)
    assert mended[-1] == f"pack {name}"
    assert {where.split()[0] for where in mended[:-1]} == {"chunk"}
    assert left == []
    assert contents(path) == contents(whole)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.999])
@pytest.mark.parametrize("is_cut", [False, True])
def test_both_are_damaged(whole: Path, path: Path, tmp_path: Path, at: float, is_cut: bool) -> None:
    """What one of them has whole is mended, what neither has is told, and nothing bad is taken."""
    copy, expected = tmp_path / "copy", contents(whole)
    shutil.copytree(whole, copy)
    turn(at)(copy)
    execute(copy, "UPDATE branch SET head = 1 WHERE name = 'dev'")
    (cut if is_cut else turn(0.3))(path)
    execute(path, "UPDATE tag SET snapshot = 1")
    mended, left = mend(path, copy)
    assert "row 'v1' of table 'tag'" in mended
    assert "row 3 of table 'branch'" not in mended
    if not left:
        assert contents(path) == expected
    with livingdb.open(path, engine="embedded") as db:
        assert db.check().ok == (not left)
        for branch in db.branches():
            try:
                rows = branch.table(branch.tables()[0]).to_arrow()
            except livingdb.LivingDBError:
                assert left
            else:
                assert rows == expected[branch.name]


def test_chunks_of_the_journal_are_mended(whole: Path, path: Path) -> None:
    connection = sqlite3.connect(path / "catalog.db", isolation_level=None)
    (one,), (two,), *_ = connection.execute("SELECT address FROM chunk").fetchall()
    connection.execute("UPDATE chunk SET data = zeroblob(9) WHERE address = ?", (one,))
    connection.execute("DELETE FROM chunk WHERE address = ?", (two,))
    connection.close()
    with livingdb.open(whole, engine="embedded") as copy:
        mended, left = mend(path, copy)
    assert sorted(mended) == sorted(f"chunk {address.hex()[:12]}" for address in (one, two))
    assert left == []
    assert contents(path) == contents(whole)


def test_another_database_is_no_copy(path: Path, tmp_path: Path) -> None:
    livingdb.create(tmp_path / "other").close()
    with livingdb.open(path) as db, pytest.raises(InvalidData, match="no copy of this database"):
        db.check(repair_from=tmp_path / "other")


def test_a_database_that_cannot_be_opened(whole: Path, path: Path) -> None:
    execute(path, "UPDATE meta SET value = '6' WHERE name = 'schema'")
    execute(path, "UPDATE pack SET level = 5")
    with pytest.raises(livingdb.Corruption, match="row 'schema' of table 'meta'"):
        livingdb.open(path)
    told = tell("-o", "json", "check", "--repair-from", str(whole), db=path)
    assert told.code == 0
    assert {one["where"] for one in told.json["mended"]} == {
        "row 'schema' of table 'meta'",
        "row 1 of table 'pack'",
    }
    assert contents(path) == contents(whole)
