"""Erased rows are in no version and no file, and everything else is as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.maintenance.canary import places_of

import livingdb
from livingdb import Database, condition
from livingdb.chunks.chunk import Chunk
from livingdb.database.evolve import evolve as _evolve  # noqa: F401
from livingdb.errors import InvalidData, NotFound
from livingdb.evolution import (
    AddColumn,
    AddUnique,
    DropColumn,
    DropUnique,
    MaskColumn,
    RenameColumn,
)
from livingdb.graph.storage.drain_journal import drain_journal

CANARY = "zebra-canary"
KEY = 42

Contents = dict[tuple[str, str], list[dict[str, Any]]]


def _contents(database: Database) -> Contents:
    """The rows of every table of every snapshot, as they are stored."""
    graph = database._graph
    found: Contents = {}
    for row in graph.newest_snapshots():
        for name, address in graph.tables(row).items():
            rows = graph.versions.rows(graph.versions.require(address)).to_arrow()
            found[row.address.hex(), name] = rows.to_pylist()
    return found


def _without(contents: Contents) -> Contents:
    """The same without the rows that tell of the canary."""
    return {
        place: [row for row in rows if CANARY not in str(row)] for place, rows in contents.items()
    }


def _rows(word: str, ids: range = range(100)) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": word if i == KEY else f"name {i}", "city": f"city {i % 7}", "n": i}
        for i in ids
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Branches, folded trees, renamed tables and columns, views, a twin, a dropped branch."""
    path: Path = tmp_path_factory.mktemp("erase") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        columns = {"id": "bigint", "name": "string", "city": "string", "n": "bigint"}
        layout = livingdb.Layout(target_rows=16, fold=0.1, groups=[["name"], ["n"]])
        main.create_table("people", columns, key="id", layout=layout)
        main.create_table("twin", columns, key="id")
        main.insert("people", _rows(CANARY))
        main.insert("twin", _rows("innocent"))
        main.derive("named", "SELECT id, name FROM people", when="immediate")
        main.derive("bag", "SELECT name, city FROM people WHERE id < 60", when="immediate")
        joined = "SELECT t.id, t.city, p.name FROM twin t JOIN people p ON t.n = p.id"
        main.derive("joined", joined, when="immediate")
        main.derive("past", "SELECT name, n FROM people WHERE id > 10", when="immediate")
        main.update("people", [{"id": KEY, "n": -1}, {"id": 2, "n": -2}])
        database.drop_branch("past", detach=True)
        main.derive("towns", "SELECT city, count(*) AS c FROM people GROUP BY city")
        for step in range(3):
            main.update("people", [{"id": KEY, "n": step}, {"id": step, "n": -step}])
        side = main.clone("side")
        side.upsert("people", [{**_rows(f"{CANARY} aside")[KEY]}])
        main.clone("gone").delete("people", [KEY])
        database.drop_branch("gone")
        database.tag("first", "main~3")
        main.evolve([RenameColumn("people", "n", "number"), AddColumn("people", "age", "int")])
        main.sql("UPDATE people SET age = 7 WHERE id IN (41, 42, 43)")
        main.delete("people", [KEY])
        main.insert("people", [{"id": KEY, "name": f"{CANARY} again", "city": "x", "age": 3}])
    return path


@pytest.fixture
def database(world: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copytree(world, tmp_path / "db")
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as found:
        yield found


def _same_but_for_the_canary(before: Contents, after: Contents, kept: tuple[str, ...]) -> None:
    """Every version has the rows that it had, but for those that tell of the canary."""
    expected = _without(before)
    for place, rows in expected.items():
        if place[1] not in kept:
            assert _sorted(after[place]) == _sorted(rows), place


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("is_compacted", [False, True])
def test_nothing_of_the_row_is_left_and_everything_else_is_as_it_was(
    database: Database, is_compacted: bool
) -> None:
    if is_compacted:
        database.compact()
    graph = database._graph
    assert places_of(graph, CANARY)
    before = _contents(database)
    foretold = database.erase("people", [KEY], reason="she asked", dry_run=True)
    assert _contents(database) == before
    told = database.erase("people", [KEY], reason="she asked")
    after = _contents(database)
    _same_but_for_the_canary(before, after, ("towns", "joined"))
    assert {p: r for p, r in after.items() if p[1] == "towns" and p in before} == {
        p: r for p, r in before.items() if p[1] == "towns"
    }
    assert places_of(graph, CANARY) == []
    assert database.check(deep=True).problems == []
    assert told.places == foretold.places
    assert any("towns" in line for line in told.kept)
    assert not told.waiting
    (row,) = graph.catalog.erasures.all()
    assert (row.number, row.table, row.author, row.reason) == (1, "people", "ann", "she asked")
    assert str(KEY) not in str(row.details)


def test_aggregates_of_the_past_can_be_computed_anew(database: Database) -> None:
    before = _contents(database)
    database.erase("people", [KEY], reason="she asked", aggregates="recompute")
    after = _contents(database)
    towns = [p for p in before if p[1] == "towns" and before[p] != after[p]]
    assert towns
    for place in towns:
        gone = sum(row["c"] for row in before[place]) - sum(row["c"] for row in after[place])
        assert gone == 1
    assert database.check(deep=True).problems == []


def test_a_row_that_comes_back_is_kept(database: Database) -> None:
    main = database.branch("main")
    again = {"id": KEY, "name": f"{CANARY} again", "city": "x", "age": 3, "number": None}
    database.erase("people", [KEY], reason="she asked")
    head = main.head.id
    main.insert("people", [again])
    assert main.table("people").get(KEY) == again
    assert database.at(head).table("people").get(KEY) is None
    old = database.at("first").clone("old")
    first = {**_rows(CANARY)[KEY], "n": 0}
    old.upsert("people", [first])
    assert old.table("people").get(KEY) == first
    assert database.at("first").table("people").get(KEY) is None
    database.compact()
    assert database.check(deep=True).problems == []
    assert old.table("people").get(KEY) == first
    told = database.erase("people", [KEY], reason="she asked again")
    assert told.number == 2
    assert places_of(database._graph, CANARY) == []
    assert old.table("people").get(KEY) is None
    assert database.check(deep=True).problems == []


def test_another_process_reads_and_writes_on(database: Database, tmp_path: Path) -> None:
    with livingdb.open(tmp_path / "db", engine="embedded") as other:
        main = other.branch("main")
        assert main.table("people").get(KEY) is not None
        told = database.erase("people", [KEY], reason="she asked")
        assert any(what.startswith("pack") for what in told.waiting)
        assert main.table("people").get(KEY) is None
        assert other.at("first").table("people").get(KEY) is None
        main.upsert("people", [{"id": 1000, "name": "new"}])
        assert main.table("people").get(1000)["name"] == "new"
    with livingdb.open(tmp_path / "db", engine="embedded"):
        pass
    assert database.check().problems == []
    database.close()
    with livingdb.open(tmp_path / "db", engine="embedded") as found:
        found.erase("people", [KEY], reason="nothing is there any more")
        assert places_of(found._graph, CANARY) == []


def test_a_copy_of_before_brings_nothing_back(database: Database, tmp_path: Path) -> None:
    database._graph.catalog.engine.dispose()
    shutil.copytree(tmp_path / "db", tmp_path / "copy")
    database.erase("people", [KEY], reason="she asked")
    drain_journal(database._graph.store)
    graph = database._graph
    row = graph.catalog.erasures.redactions()[0]
    (pack,) = graph.catalog.packs.names()[:1]
    path = tmp_path / "db" / "packs" / pack
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    database.close()
    path.write_bytes(data)
    with livingdb.open(tmp_path / "db", engine="embedded") as found:
        found.check(repair_from=tmp_path / "copy")
        assert places_of(found._graph, CANARY) == []
        held = bytes(row.old) in {bytes(a) for a in found._graph.store.addresses()}
        assert not held or Chunk(row.old, found._graph.store.get(row.old)).redaction == row.new


def test_a_table_that_shares_its_bytes_keeps_its_rows(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as database:
        main = database.branch("main")
        for name in ("one", "other"):
            columns = {"id": "bigint", "name": "string", "mail": "string"}
            main.create_table(name, columns, key="id")
            names = [CANARY if i == KEY else "x" for i in range(60)]
            mails = [f"{CANARY}@x" if i == KEY else f"{i}@x" for i in range(60)]
            main.insert(name, {"id": range(60), "name": names, "mail": mails})
            main.evolve(AddUnique(name, "mail"))
            main.upsert(name, [{"id": KEY, "name": f"{CANARY} again", "mail": CANARY}])
        mask = [MaskColumn("one", "name", key="a secret"), DropUnique("one", "mail")]
        mask.append(DropColumn("one", "mail"))
        clone = main.clone("masked", transform=mask, sync="forward", when="immediate")
        short = condition.not_null("short", action="quarantine")
        query = "SELECT id, name, nullif(id, 42) AS short FROM one"
        main.derive("odd", query, when="immediate", conditions=[short])
        assert database.sync("odd").quarantined().num_rows == 1
        before = _contents(database)
        database.erase("one", [KEY], reason="she asked")
        after = _contents(database)
        assert {p: r for p, r in after.items() if p in before and p[1] == "other"} == {
            p: r for p, r in before.items() if p[1] == "other"
        }
        assert clone.table("one").get(KEY) is None
        assert database.sync("odd").quarantined().num_rows == 0
        assert database.check(deep=True).problems == []
        database.erase("other", [KEY], reason="she asked")
        assert places_of(database._graph, CANARY) == []
        assert database.check(deep=True).problems == []


def test_words_leave_messages_and_alerts(database: Database) -> None:
    main = database.branch("main")
    main.upsert("twin", [{"id": 1, "n": 5}], message=f"for {CANARY}, who asked")
    before = {snapshot.id for snapshot in database.snapshots()}
    told = database.erase("people", [KEY], reason="she asked", texts=[CANARY])
    assert told.snapshots == 2  # the view that reads the table was told the message, too
    assert before <= {snapshot.id for snapshot in database.snapshots()}
    told_of = {s.message for s in database.snapshots() if "who asked" in s.message}
    assert told_of == {"for [erased], who asked"}
    assert places_of(database._graph, CANARY) == []
    assert database.check().problems == []


def test_words_leave_what_is_told_and_no_names(database: Database) -> None:
    """Kinds, addresses, names of tables and branches are how records are read."""
    main = database.branch("main")
    main.upsert("twin", [{"id": 1, "n": 5}], message="an open letter to main")
    main.evolve(RenameColumn("twin", "n", "m"), keep="old", sync="both")
    before = {s.id: (s.edge.kind, s.edge.operation, s.tables()) for s in database.snapshots()}
    words = ["transaction", "open", "main", "id", "rows", "sync", "a", "e", "0", "1"]
    database.erase("people", [KEY], reason="she asked", texts=words)
    after = {s.id: (s.edge.kind, s.edge.operation, s.tables()) for s in database.snapshots()}
    assert after.items() >= before.items()
    (told,) = {s.message for s in main.log() if "l[erased]tt" in s.message}
    assert told == "[erased]n [erased] l[erased]tt[erased]r to [erased]"
    main.upsert("twin", [{"id": 2, "m": 6}])
    assert database.branch("old").table("twin").get(2)["n"] == 6
    assert database.check(deep=True).problems == []


def test_words_are_a_list(database: Database) -> None:
    before = database.branch("main").head.id
    with pytest.raises(InvalidData, match=r"texts='Kari': a list of words"):
        database.erase("people", [KEY], reason="she asked", texts="Kari")
    assert database.branch("main").head.id == before


def test_what_is_wrong_is_told(database: Database) -> None:
    with pytest.raises(InvalidData, match="reason"):
        database.erase("people", [KEY], reason=" ")
    with pytest.raises(InvalidData, match="aggregates"):
        database.erase("people", [KEY], reason="r", aggregates="drop")
    with pytest.raises(NotFound, match="no table 'persons'"):
        database.erase("persons", [KEY], reason="r")
    told = database.erase("people", [123_456], reason="nobody has that key")
    assert (told.number, told.versions, told.places) == (None, 0, ())
