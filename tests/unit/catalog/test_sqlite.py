"""SQLite engines sync in full, let readers read, and fail with typed errors."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from sqlalchemy import Engine, MetaData, text

from livingdb.catalog import schema
from livingdb.catalog.dump import rows_of
from livingdb.catalog.journal import Journal, journal_table
from livingdb.catalog.sql.sqlite import sqlite_engine, sqlite_failure, writing_engine
from livingdb.errors import Corruption, Locked, StorageFailure, Unsupported
from livingdb.testing.store_contract import chunk_of, small_chunks


def journal_on(engine: Engine) -> Journal:
    metadata = MetaData()
    table = journal_table(metadata)
    metadata.create_all(engine)
    return Journal(engine, table)


def test_a_reader_never_waits_for_a_writer(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db", timeout_seconds=0.05)
    journal = journal_on(engine)
    journal.put(small_chunks(1))
    with writing_engine(engine).begin() as connection:
        journal.put(small_chunks(9, seed=1), connection)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(len, journal).result() == 1
    assert len(journal) == 10


def test_a_reader_sees_one_snapshot(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal = journal_on(engine)
    counted = text("SELECT count(*) FROM chunk")
    with engine.connect() as connection:
        assert connection.execute(counted).scalar() == 0
        journal.put(small_chunks(3))
        assert connection.execute(counted).scalar() == 0
    assert len(journal) == 3


def test_a_second_writer_waits_then_gives_up(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db", timeout_seconds=0.05)
    journal = journal_on(engine)
    with writing_engine(engine).begin(), pytest.raises(Locked):
        journal.put(small_chunks(1))
    journal.put(small_chunks(1))
    assert len(journal) == 1


def test_writers_take_turns(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal = journal_on(engine)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: journal.put(small_chunks(5, seed)), range(40)))
    assert len(journal) == 200


def test_many_open_the_same_new_file(tmp_path: Path) -> None:
    gate = threading.Barrier(8)

    def open_it(_: int) -> str:
        gate.wait()
        engine = sqlite_engine(tmp_path / "catalog.db", timeout_seconds=120)
        with writing_engine(engine).begin() as connection:
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS t (x INTEGER)")
            return str(connection.exec_driver_sql("PRAGMA journal_mode").scalar())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(open_it, range(8))) == ["wal"] * 8


def test_commits_are_synced_in_full(tmp_path: Path) -> None:
    with sqlite_engine(tmp_path / "catalog.db").connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_pages_are_small_and_given_back(tmp_path: Path) -> None:
    with sqlite_engine(tmp_path / "catalog.db").connect() as connection:
        assert connection.exec_driver_sql("PRAGMA page_size").scalar() == 1024
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2  # incremental


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_bytes(b"not a database, not at all" * 100)
    with pytest.raises(Corruption), sqlite_engine(path).connect():
        pass


@pytest.mark.parametrize("lost", ["chunk RENAME COLUMN data TO dbta", "chunk RENAME TO chvnk"])
def test_a_name_that_was_lost(tmp_path: Path, lost: str) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal = journal_on(engine)
    (chunk,) = small_chunks(1)
    journal.put([chunk])
    with writing_engine(engine).begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {lost}")
    with pytest.raises(Corruption, match="no such"):
        journal.get(chunk.address)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal = journal_on(engine)
    with writing_engine(engine).connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=20")
        with pytest.raises(StorageFailure):
            journal.put([chunk_of(bytes(1_000_000))], connection)
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        connection.rollback()
    journal.put(small_chunks(2))
    assert len(journal) == 2


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure), sqlite_engine(tmp_path / "no" / "c.db").connect():
        pass


def test_other_databases_are_refused() -> None:
    elsewhere = MagicMock()
    elsewhere.dialect.name = "mysql"
    with pytest.raises(Unsupported, match="mysql"):
        Journal(elsewhere, journal_table(MetaData()))


def test_the_driver_begins_nothing_by_itself(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db")
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        assert driver.isolation_level is None
        assert not driver.in_transaction
        connection.begin()
        assert driver.in_transaction


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_WRITE])
def test_after_a_failed_sync_nothing_more_is_written(tmp_path: Path, code: int) -> None:
    """What the disk holds is unknown: reading goes on, and a new engine writes again."""
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal = journal_on(engine)
    journal.put(small_chunks(3))
    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorcode = code
    with engine.connect() as connection:
        assert isinstance(sqlite_failure(failed, connection), StorageFailure)
    for _ in range(2):
        with pytest.raises(StorageFailure, match="reopen the database"):
            journal.put(small_chunks(2, seed=1))
    assert len(journal) == 3
    engine.dispose()
    again = journal_on(sqlite_engine(tmp_path / "catalog.db"))
    again.put(small_chunks(2, seed=1))
    assert len(again) == 5


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal = journal_on(engine)
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    with engine.connect() as connection:
        assert isinstance(sqlite_failure(full, connection), StorageFailure)
    journal.put(small_chunks(2))
    assert len(journal) == 2


def test_a_chunk_that_is_stored_as_a_text(tmp_path: Path) -> None:
    """One bit of a row's header makes a text of bytes: then they are damaged."""
    engine = sqlite_engine(tmp_path / "catalog.db")
    journal, chunk = journal_on(engine), small_chunks(1)[0]
    journal.put([chunk])
    with writing_engine(engine).begin() as connection:
        connection.execute(text("UPDATE chunk SET data = 'LDC1'"))
    for read in (
        lambda: journal.get(chunk.address),
        lambda: journal.get_many([chunk.address]),
        lambda: list(journal.chunks()),
    ):
        with pytest.raises(Corruption, match="not stored as bytes"):
            read()
    with engine.connect() as connection, pytest.raises(Corruption, match="table 'chunk'"):
        list(rows_of(connection, schema.metadata.tables["chunk"], lambda mark: False))
