"""Work that moves no branch is in the audit trail in the transaction that does it.

Of files, which no transaction writes, the trail says that somebody begins, and how that ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Layout
from livingdb.catalog.audit import AuditTrail
from livingdb.database.people import People
from livingdb.errors import Forbidden, StorageFailure
from livingdb.evolution import AddColumn
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.records import new_record, save_records
from livingdb.tables.layout import TableLayout

Act = Callable[[livingdb.Database, Path], Any]

WORK: dict[tuple[str, str], Act] = {
    ("lay out", "users"): lambda db, path: db.branch("main").relayout(
        "users", Layout(target_rows=64)
    ),
    ("migrate", "main"): lambda db, path: db.branch("main").migrate(),
    ("make index", "users"): lambda db, path: db.branch("main").create_index("users", "name"),
    ("drop index", "by_id"): lambda db, path: db.branch("main").drop_index("by_id"),
    ("apply advice", "1"): lambda db, path: db.advice(1).apply(),
    ("undo advice", "2"): lambda db, path: db.advice(2).undo(),
    ("set budget", ""): lambda db, path: db.budget(bytes=1 << 40),
    ("set tuning", "auto"): lambda db, path: setattr(db, "tuning", "auto"),
    ("tune", ""): lambda db, path: db.tune(seconds=0.1),
}
"""What ends in a transaction, by what is noted of it."""

FILES: dict[str, Act] = {
    "export": lambda db, path: db.branch("main").export(path / "exported"),
    "export lineage": lambda db, path: db.export_openlineage(path / "events"),
    "back up": lambda db, path: db.backup(path / "backup"),
}
"""What writes files."""


@pytest.fixture
def db(
    create_database: Callable[..., livingdb.Database], tmp_path: Path
) -> Iterator[livingdb.Database]:
    """A table to be migrated, with an index; one advice to be applied and one to be undone."""
    with create_database(tmp_path, author="holder", engine="embedded") as db:
        main = db.branch("main")
        for table in ("users", "pets", "toys"):
            main.create_table(table, {"id": "bigint", "name": "string"}, key="id")
            main.insert(table, [{"id": n, "name": f"name {n % 3}"} for n in range(200)])
        main.create_index("users", "id", name="by_id")
        advised = [new_record(advice(db, name), None, True, 1) for name in ("pets", "toys")]
        save_records(db._graph, advised)
        db.advice(2).apply()
        main.evolve(AddColumn("users", "age", "int", default=7))
        db.people.add("olga", "owner")
        yield db


def advice(db: livingdb.Database, table: str) -> Candidate:
    """Another layout for a table."""
    definition = db.branch("main").table(table).definition
    assert definition.id is not None
    layout = TableLayout.of(Layout(target_rows=16), definition.schema)
    action = Relayout(definition.id, table, "small leaves", None, layout)
    return Candidate(action, "many gets", Gain(1.0, 0.5), Price(), "nobody")


def state(db: livingdb.Database, path: Path) -> object:
    """What the work is about: settings, trees, advice and files."""
    main = db.branch("main")
    told = [(main.table(name).layout, main.table(name).indexes()) for name in main.tables()]
    graph = db._graph
    versions = graph.tables(graph.snapshots.at(graph.branch("main").head)).values()
    trees = [graph.index.tree(version) for version in versions]
    advised = [(each.number, each.state) for each in db.advices()]
    files = sorted(path.rglob("exported/*")) + sorted(path.rglob("backup/*"))
    return told, trees, advised, db.tuning, db.budget().bytes, files, (path / "events").exists()


def noted(db: livingdb.Database) -> list[tuple[str, str, str]]:
    """What olga did, the oldest first."""
    rows = reversed(db.people.audit().to_pylist())
    return [(r["action"], r["subject"], r["outcome"]) for r in rows if r["person"] == "olga"]


def fail(*given: object, **named: object) -> None:
    raise StorageFailure("the disk is full")


def test_what_cannot_be_noted_is_not_done(
    db: livingdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(db, tmp_path)
    monkeypatch.setattr(AuditTrail, "add", fail)
    with db.acting_as("olga"):
        for what, act in {**WORK, **FILES}.items():
            with pytest.raises(StorageFailure):
                act(db, tmp_path)
            assert state(db, tmp_path) == before, what


@pytest.mark.parametrize("what", WORK)
def test_it_is_noted_in_the_transaction_that_does_it(
    db: livingdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: tuple[str, str]
) -> None:
    before = state(db, tmp_path)
    monkeypatch.setattr(People, "record", fail)  # as if it were killed once the work is stored
    with db.acting_as("olga"):
        WORK[what](db, tmp_path)
    monkeypatch.undo()
    assert noted(db) == [(*what, "done")]
    assert state(db, tmp_path) != before or what == ("tune", "")


def test_what_changes_nothing_is_noted_once_it_is_done(db: livingdb.Database) -> None:
    with db.acting_as("olga"):
        db.branch("main").migrate()
        db.branch("main").migrate()
        layout = db.branch("main").table("users").layout
        db.branch("main").relayout("users", layout)
        db.branch("main").relayout("users", layout)
    assert [what for what, _, _ in noted(db)] == ["migrate", "migrate", "lay out", "lay out"]


@pytest.mark.parametrize("what", FILES)
def test_files_are_noted_before_and_after(
    db: livingdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with db.acting_as("olga"):
        FILES[what](db, tmp_path)
    assert [(action, outcome) for action, _, outcome in noted(db)] == [
        (what, "begun"),
        (what, "done"),
    ]
    assert db.check().problems == []


def test_an_export_that_fails_says_so(db: livingdb.Database, tmp_path: Path) -> None:
    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    main = db.branch("main")
    with db.acting_as("olga"):
        with pytest.raises(livingdb.LivingDBError):
            main.export(tmp_path / "exported", ["no such table"])
        with pytest.raises(KeyboardInterrupt):
            main.export(tmp_path / "exported", progress=stop)
    told = [row for row in db.people.audit().to_pylist() if row["action"] == "export"]
    assert [row["outcome"] for row in reversed(told)] == ["begun", "failed", "begun", "failed"]
    assert [row["details"] for row in reversed(told)][1::2] == [
        '{"error": "not_found"}',
        '{"error": "KeyboardInterrupt"}',
    ]


def test_who_may_not_export_begins_nothing(db: livingdb.Database, tmp_path: Path) -> None:
    db.people.add("mia", "maintainer")
    for act in FILES.values():
        with pytest.raises(Forbidden), db.acting_as("mia"):
            act(db, tmp_path)
    rows = db.people.audit().to_pylist()
    assert [row["outcome"] for row in rows if row["person"] == "mia"] == ["refused"] * len(FILES)
