"""One bit of one cell of the catalog: never a wrong answer, and `check` finds it.

A question gives what it gave before, or one of LivingDB's errors; nothing else is raised.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clock import stopped
from tests.crash.scenarios import ORDERS, orders
from tests.ids import counted
from tests.property.trying import some_of

import livingdb
from livingdb import Database, LivingDBError, Retention, alert, condition
from livingdb.catalog import schema
from livingdb.catalog.jobs import JobRow
from livingdb.catalog.leases import LeaseRow
from livingdb.catalog.tuning import TuningRow
from livingdb.evolution import AddColumn, MaskColumn
from livingdb.graph.storage.drain_journal import drain_journal

Answers = dict[str, Any]


def build(path: Path) -> None:
    """Branches, tags, syncs of all kinds, views, masks, alerts, and a bit of everything else."""
    with (
        stopped() as clock,
        counted(),
        livingdb.create(path, engine="embedded", author="ann") as db,
    ):
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.insert("orders", orders(0, 30))
        clock.go_on()
        main.derive(
            "totals", sql="SELECT city, count(*) AS n FROM orders GROUP BY city", key="city"
        )
        held = condition.max_changed_share(0.1, action="hold")
        main.derive(
            "late", sql="SELECT id FROM orders", key="id", conditions=[held], when="deferred"
        )
        main.clone("masked", transform=[MaskColumn("orders", "city", key="text")], sync="forward")
        main.evolve(AddColumn("orders", "vat", "double", default=0.5), keep="old", sync="both")
        drain_journal(db._graph.store)
        clock.go_on()
        db.tag("v1", "main")
        db.set_alert_sinks([alert.command("nobody")])
        db.watch("changes", alert.on_merge())
        db.branch("old").upsert("orders", orders(5, 4, 3.0))
        main.clone("dev").delete("orders", [1, 2])
        db.rename_branch("dev", "trial")
        clock.go_on()
        db.merge("trial", into="main")
        db.propagate()
        db.sync("totals").detach(reason="enough")
        with db._graph.catalog.write() as connection:
            db._graph.catalog.streams.put(connection, "stream", 3, 1)
            db._graph.catalog.labels.add(connection, "orders", "city", "personal")
            row = JobRow("fold", "failed", "host:1:2:3 x", 4, 5, 6, 7, 8, "main", "full", {"a": 1})
            db._graph.catalog.jobs.swap(connection, None, row)
            advice = TuningRow("relayout", "a table", "undone", 9, {"why": "by hand"})
            db._graph.catalog.tuning.add(connection, [advice])
        db._graph.catalog.counters.take("column", 5)
        db.tag("v2", "main~1")
        for number in range(34):  # so that there is a run
            db.branch("trial").upsert("orders", orders(7, 1, float(number)))
        main.relayout("orders", livingdb.Layout(target_rows=8, groups=[["city"]]))
        main.migrate()
        db._graph.observer.save(1)
        ask_for_a_merge(db)
        let_people_in(db)
        db.erase("orders", [29], reason="asked")
        main.export(path.parent / f"{path.name} exported", tables=["orders"])
        forget_some(db)
        assert db.check().problems == []


def ask_for_a_merge(db: Database) -> None:
    """A request that somebody spoke about, and what its target asks for."""
    db.set_merge_rule("main", approvals=1)
    db.request_merge("trial", into="main", title="a trial").comment("why not")


def let_people_in(db: Database) -> None:
    """A user with roles, a token and a view, and what the audit says."""
    db.people.add("ann", role="writer", branches="dev*")
    db.people.grant("ann", role="reader", branches="main")
    db.people.issue_token("ann", note="laptop")
    db.people.grant_object("ann", "late")


def forget_some(db: Database) -> None:
    """Cut the history of a branch, drop another one, and leave a lease behind."""
    db.branch("main").clone("gone")
    db.drop_branch("gone")
    policy = Retention(branches={"trial": Retention(snapshots=3)}, grace_seconds=0)
    assert db.collect_garbage(policy).snapshots
    with db._graph.catalog.write() as connection:
        lease = LeaseRow("a lease", db.at("main").sequence, "somebody", 1, 1 << 52)
        db._graph.catalog.leases.add(connection, lease)


# --- questions -----------------------------------------------------------------------------------


def questions(db: Database) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What users ask; each answer is of plain values."""
    catalog = db._graph.catalog
    names = ("main", "totals", "late", "masked", "old", "trial")
    for name in names:
        yield f"rows of {name}", lambda name=name: rows_of(db, name)  # type: ignore[misc]
        yield (
            f"log of {name}",
            lambda name=name: [  # type: ignore[misc]
                (entry.id, entry.author, entry.message, entry.time)
                for entry in db.branch(name).log()
            ],
        )
        yield (
            f"steps of {name}",
            lambda name=name: [  # type: ignore[misc]
                (move.position, move.snapshot, move.time, move.operation)
                for move in catalog.movements.of(db._graph.branch(name))
            ],
        )
    for ref in ("v1", "v2", "main~2", "old~1", "main@2100-01-01", "main@2024-05-06T12:00:01"):
        yield f"what {ref} is", lambda ref=ref: db.at(ref).id  # type: ignore[misc]
    yield "branches", lambda: {branch.name: branch.head.id for branch in db.branches()}
    yield "tags", lambda: {name: snapshot.id for name, snapshot in db.tags().items()}
    yield "snapshots", lambda: [(s.id, s.parents, s.message, s.author) for s in db.snapshots()]
    yield "default branch", lambda: db.default_branch.name
    yield (
        "syncs",
        lambda: [
            (s.name, s.sources, s.target, s.direction, s.when, s.state, s.reason)
            for s in db.syncs()
        ],
    )
    yield "view", lambda: db.derived_at("totals", source="v1").id
    yield "alerts", lambda: [(a.id, a.event, a.message, a.state) for a in db.alerts()]
    yield "open alerts", lambda: [(a.id, a.event) for a in db.alerts(state="open")]
    yield "blame", lambda: db.blame("main", "orders").to_pylist()
    yield "history", lambda: db.history("main", "orders", 5).to_pylist()
    yield "labels", db.labels
    yield "watches", lambda: [repr(watch) for watch in db.watches()]
    yield "stream", lambda: catalog.streams.last("stream")
    yield "counter", lambda: catalog.counters.next("column")
    yield "former name", lambda: catalog.former_names.renamed("dev")
    yield "outbox", lambda: [(row.alert, row.sink, row.state) for row in catalog.outbox.all()]
    yield (
        "runs",
        lambda: db.branch("main").sql("SELECT * FROM livingdb.runs").to_arrow().to_pylist(),
    )
    yield "jobs", catalog.jobs.all
    yield "merge requests", lambda: [(m.number, m.state, m.title) for m in db.merge_requests()]
    yield "merge notes", lambda: db.merge_request(1).notes
    yield "users", db.people.list
    yield "objects", catalog.people.object_grants
    yield "tokens", lambda: db.people.tokens("ann")
    yield "audit", lambda: db.people.audit().to_pylist()
    yield "merge rule", lambda: db.merge_rule("main")
    yield "erasures", catalog.erasures.all
    yield "redactions", catalog.erasures.redactions
    yield "copies", catalog.outside_copies.all
    yield "trail", lambda: db.sync("totals").trail
    yield "layout", lambda: db.branch("main").table("orders").layout
    yield "tuning", catalog.tuning.all
    yield "observations", lambda: catalog.observations.all(1)


def rows_of(db: Database, name: str) -> dict[str, list[dict[str, Any]]]:
    branch = db.branch(name)
    return {table: branch.table(table).to_arrow().to_pylist() for table in branch.tables()}


def ask(path: Path, known: Answers | None = None) -> tuple[Answers, list[str]]:
    """All answers that there are, and which of them are not those that are known."""
    answers: Answers = {}
    with livingdb.open(path, engine="embedded") as db:
        for what, question in questions(db):
            try:
                answers[what] = question()
            except LivingDBError:
                if known is None:
                    raise
            except Exception as error:
                error.add_note(what)
                raise
    wrong = [] if known is None else [w for w, answer in answers.items() if answer != known[w]]
    return answers, wrong


# --- cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A column of a row, which its place in the order of its table's key names."""

    table: str
    column: str
    row: int

    def __str__(self) -> str:
        return f"{self.table}.{self.column}, row {self.row}"


def cells(path: Path, table: str) -> list[Cell]:
    """The cells of a table that say something."""
    connection = sqlite3.connect(path / "catalog.db")
    connection.text_factory = bytes
    found = connection.execute(f"SELECT * FROM {table} ORDER BY {_order(table)}")
    columns = [column[0] for column in found.description]
    rows = found.fetchall()
    connection.close()
    return [
        Cell(table, column, number)
        for number, row in enumerate(rows)
        for column, value in zip(columns, row, strict=True)
        if value is not None and value != b""
    ]


def _order(table: str) -> str:
    return ", ".join(f'"{column.name}"' for column in schema.metadata.tables[table].primary_key)


def turn(value: Any, choice: random.Random) -> Any:
    """A value with one bit turned."""
    if isinstance(value, int):
        return value ^ 1 << choice.randrange(40)
    data = bytearray(value)
    bit = choice.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def turn_cell(path: Path, cell: Cell) -> bool:
    """Turn one bit of a cell; whether the catalog lets us, which has keys that are unique."""
    connection = sqlite3.connect(path / "catalog.db", isolation_level=None)
    connection.text_factory = bytes
    key = [column.name for column in schema.metadata.tables[cell.table].primary_key]
    columns = ", ".join(f'"{name}"' for name in [*key, cell.column])
    found = connection.execute(
        f'SELECT {columns}, typeof("{cell.column}") FROM {cell.table} '
        f"ORDER BY {_order(cell.table)} LIMIT 1 OFFSET {cell.row}"
    )
    *place, value, kind = found.fetchone()
    new = "CAST(? AS TEXT)" if kind == b"text" else "?"
    where = " AND ".join(
        f'"{name}" = ' + ("CAST(? AS TEXT)" if is_text(cell.table, name) else "?") for name in key
    )
    try:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute(
            f'UPDATE {cell.table} SET "{cell.column}" = {new} WHERE {where}',
            (turn(value, random.Random(str(cell))), *place),
        )
        return True
    except sqlite3.IntegrityError:
        return False
    finally:
        connection.close()


def is_text(table: str, column: str) -> bool:
    return str(schema.metadata.tables[table].c[column].type) == "TEXT"


@dataclass(frozen=True)
class Shop:
    path: Path
    answers: Answers

    def look(self, path: Path, cell: Cell) -> list[str]:
        """What is wrong with what somebody sees after one bit was turned."""
        try:
            _, wrong = ask(path, self.answers)
            with livingdb.open(path, engine="embedded") as db:
                is_found = not db.check().ok
        except LivingDBError:
            return []
        except Exception as error:
            return [f"{cell}: {type(error).__name__}: {error}"]
        is_spare = (cell.table, cell.column) == SPARE
        missed = [] if is_found or is_spare else [f"{cell}: check is clean"]
        wrong = [what for what in wrong if (cell.table, cell.column, what) not in MISSING]
        return missed + [f"{cell}: {what}" for what in wrong]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    path: Path = tmp_path_factory.mktemp("cells") / "shop"
    build(path)
    return Shop(path, ask(path)[0])


MISSING = {("run", "sync", "runs")}
"""Runs are looked for by their sync, and are many: only `check` sees that one is missing."""
SPARE = ("chunk", "data")
"""A few bits say how a chunk is stored, and change nothing of what is read."""
TABLES = sorted(schema.metadata.tables)
CELLS_IN_SHORT = 2
CELLS = 60


def look_at(shop: Shop, folder: Path, chosen: Iterable[Cell]) -> list[str]:
    found = []
    for number, cell in enumerate(chosen):
        twin = folder / str(number)
        shutil.copytree(shop.path, twin)
        if turn_cell(twin, cell):
            found += shop.look(twin, cell)
        shutil.rmtree(twin)
    return found


def test_there_is_something_of_everything(shop: Shop) -> None:
    empty = {table for table in TABLES if not cells(shop.path, table)}
    assert empty <= {"retired", "course", "step"}  # which go when a database is closed
    assert ask(shop.path, shop.answers)[1] == []


@pytest.mark.parametrize("table", TABLES)
def test_a_bit_of_a_cell(shop: Shop, folder: Path, table: str) -> None:
    every = cells(shop.path, table)
    chosen = random.Random(table).sample(every, min(CELLS_IN_SHORT, len(every)))
    assert look_at(shop, folder, chosen) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("table", TABLES)
def test_a_bit_of_many_cells(shop: Shop, folder: Path, table: str) -> None:
    """Of every cell, where a table has few."""
    assert look_at(shop, folder, some_of(cells(shop.path, table), CELLS, table)) == []
