"""Several programs at work on one branch of one database."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from tests.crash.writer import ACCOUNTS
from tests.crash.writers import Program, together

import livingdb
from livingdb import Database, TransactionConflict
from livingdb.catalog import connect
from livingdb.catalog.sql.sqlite import sqlite_engine

WRITERS = 4
BALANCE = 1_000


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "shop"


@pytest.mark.parametrize(
    "count", [15, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_disjoint_rows(path: Path, count: int) -> None:
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("rows", {"id": "bigint", "writer": "bigint"}, key="id")
        together(str(path), [("insert_own_rows", count)] * WRITERS)
        expected = [w * 1_000_000 + n for w in range(WRITERS) for n in range(count)]
        assert main.table("rows").to_arrow()["id"].to_pylist() == expected
        log = main.log()
        messages = [f"writer {w} row {n}" for w in range(WRITERS) for n in range(count)]
        assert sorted(messages) == sorted(s.message for s in log if s.message in set(messages))
        assert len(log) == len(messages) + 2
        assert [len(s.table("rows")) for s in reversed(log[:-1])] == list(range(len(messages) + 1))
        assert db.check().problems == []


@pytest.mark.parametrize("count", [20, pytest.param(250, marks=pytest.mark.slow)])
def test_bank(path: Path, count: int) -> None:
    """Money is neither made nor lost, in any snapshot; no transfer is lost or made twice."""
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("accounts", {"id": "bigint", "balance": "bigint"}, key="id")
        main.insert("accounts", [{"id": n, "balance": BALANCE} for n in range(ACCOUNTS)])
        first = len(main.log())
        told = together(str(path), [("transfer", count)] * WRITERS)
        log = main.log()
        assert len(log) == first + WRITERS * count
        assert count < 250 or sum(part["conflicts"] for part in told) > 0
        for snapshot in log[: -(first - 1)]:
            balances = snapshot.table("accounts").to_arrow()["balance"].to_pylist()
            assert sum(balances) == ACCOUNTS * BALANCE
        expected = [BALANCE] * ACCOUNTS
        for giver, taker, amount in (transfer for part in told for transfer in part["made"]):
            expected[giver] -= amount
            expected[taker] += amount
        assert main.table("accounts").to_arrow()["balance"].to_pylist() == expected
        assert db.check().problems == []


# --- isolation -----------------------------------------------------------------------------------


def doctors(path: Path, count: int) -> Database:
    db = livingdb.create(path)
    db.branch("main").create_table("doctors", {"id": "bigint", "on_duty": "boolean"}, key="id")
    db.branch("main").insert("doctors", [{"id": n, "on_duty": True} for n in range(count)])
    return db


def on_duty(rows: livingdb.Table) -> list[int]:
    return [row["id"] for row in rows.to_arrow().to_pylist() if row["on_duty"]]


def both_leave(path: Path, isolation: str) -> None:
    """Each of two sees that the other is on duty, and leaves."""
    with livingdb.open(path) as one, livingdb.open(path) as two:
        open_ones = [db.branch("main").transaction(isolation=isolation) for db in (one, two)]
        for number, tx in enumerate(open_ones):
            assert on_duty(tx.table("doctors")) == [0, 1]
            tx.update("doctors", [{"id": number, "on_duty": False}])
        for tx in open_ones:
            tx.commit()


def test_snapshot_isolation_allows_write_skew(path: Path) -> None:
    with doctors(path, 2) as db:
        both_leave(path, "snapshot")
        assert on_duty(db.branch("main").table("doctors")) == []


def test_serializable_prevents_write_skew(path: Path) -> None:
    with doctors(path, 2) as db:
        with pytest.raises(TransactionConflict):
            both_leave(path, "serializable")
        assert on_duty(db.branch("main").table("doctors")) == [1]
        assert db.check().problems == []


def test_serializable_sees_new_rows_as_conflicts(path: Path) -> None:
    """Two count the rows and each puts one more: one of them counted wrong."""
    with doctors(path, 2) as db, livingdb.open(path) as other:
        one = db.branch("main").transaction(isolation="serializable")
        two = other.branch("main").transaction(isolation="serializable")
        for tx in (one, two):
            tx.insert("doctors", [{"id": 10 + len(tx.table("doctors")), "on_duty": False}])
        one.commit()
        with pytest.raises(TransactionConflict):
            two.commit()
        assert len(db.branch("main").table("doctors")) == 3


def test_serializable_reads_of_other_rows_do_not_conflict(path: Path) -> None:
    with doctors(path, 4) as db, livingdb.open(path) as other:
        one = db.branch("main").transaction(isolation="serializable")
        two = other.branch("main").transaction(isolation="serializable")
        for tx, number in ((one, 0), (two, 2)):
            assert tx.table("doctors").get(number)["on_duty"]
            tx.update("doctors", [{"id": number + 1, "on_duty": False}])
        one.commit()
        two.commit()
        assert on_duty(db.branch("main").table("doctors")) == [0, 2]


def test_lost_update_is_prevented(path: Path) -> None:
    """Who read a row and writes it after somebody else did is told so."""
    with doctors(path, 2) as db, livingdb.open(path) as other:
        one, two = (d.branch("main").transaction() for d in (db, other))
        for tx in (one, two):
            tx.update("doctors", [{"id": 0, "on_duty": not tx.table("doctors").get(0)["on_duty"]}])
        one.commit()
        with pytest.raises(TransactionConflict):
            two.commit()
        assert on_duty(db.branch("main").table("doctors")) == [1]


@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_somebody_is_always_on_duty(path: Path, count: int) -> None:
    with doctors(path, WRITERS) as db:
        left = together(str(path), [("leave_duty", count)] * WRITERS)
        assert sum(left) > 0
        log = db.branch("main").log()[:-2]
        assert len(log) == sum(left) + 1
        assert all(on_duty(snapshot.table("doctors")) for snapshot in log)


# --- readers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_readers_see_whole_transactions(path: Path, count: int) -> None:
    with livingdb.create(path) as db:
        main = db.branch("main")
        for table in ("left", "right"):
            main.create_table(table, {"id": "bigint", "stamp": "bigint"}, key="id")
        with main.transaction() as tx:
            for table in ("left", "right"):
                tx.insert(table, [{"id": row, "stamp": -1} for row in range(50)])
        *_, one, two = together(str(path), [("stamp", count)] * 2 + [("watch", 20)] * 2)
        for reader in (one, two):
            assert reader["reads"] >= 20
        assert db.check().problems == []


def test_readers_never_wait_for_a_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is in the middle of a commit for ever: others open, read and look back."""
    wait_for_ever = partial(sqlite_engine, timeout_seconds=86_400)
    monkeypatch.setattr(connect, "sqlite_engine", wait_for_ever)
    with doctors(path, 3) as db:
        db.branch("main").update("doctors", [{"id": 1, "on_duty": False}])
        writer = sqlite3.connect(path / "catalog.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE branch SET position = 99")
        assert on_duty(db.branch("main").table("doctors")) == [0, 2]
        with livingdb.open(path) as other:
            assert on_duty(other.branch("main").table("doctors")) == [0, 2]
            assert on_duty(other.at("main~1").table("doctors")) == [0, 1, 2]
            assert len(other.branch("main").log()) == 4
            assert other.check().ok
        writer.execute("ROLLBACK")
        writer.close()


# --- creating ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [6, pytest.param(24, marks=pytest.mark.slow)])
def test_created_at_once(folder: Path, rounds: int) -> None:
    """Of programs that create the same database at the same moment, exactly one does."""
    with ExitStack() as stack:
        programs = [
            stack.enter_context(Program("create", str(folder), number, rounds))
            for number in range(3)
        ]
        for program in programs:
            assert program.hear() == "ready"
        for _ in range(rounds):
            for program in programs:
                program.go()
            for program in programs:
                assert program.hear() == "created"
        told = [program.told() for program in programs]
    assert [sum(made) for made in zip(*told, strict=True)] == [1] * rounds
    for number in range(rounds):
        with livingdb.open(folder / str(number)) as db:
            assert db.check().problems == []
            assert len(db.snapshots()) == 1
