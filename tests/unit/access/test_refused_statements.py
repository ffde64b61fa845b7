"""Who may not write is refused by the statement that would, and not by the commit alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb.database.sql_session import SqlSession
from livingdb.errors import Forbidden, TransactionConflict
from livingdb.evolution import AddColumn

ROW = {"id": 2, "name": "Bob"}
WRITES: dict[str, Callable[[Any], Any]] = {
    "insert": lambda tx: tx.insert("users", [ROW]),
    "insert of nothing": lambda tx: tx.insert("users", []),
    "upsert": lambda tx: tx.upsert("users", [ROW]),
    "update": lambda tx: tx.update("users", [{"id": 1, "name": "x"}]),
    "delete": lambda tx: tx.delete("users", [1]),
    "INSERT": lambda tx: tx.sql("INSERT INTO users VALUES (2, 'Bob')"),
    "INSERT RETURNING": lambda tx: tx.sql("INSERT INTO users VALUES (2, 'Bob') RETURNING id"),
    "UPDATE": lambda tx: tx.sql("UPDATE users SET name = 'x' WHERE id = 1"),
    "UPDATE of nothing": lambda tx: tx.sql("UPDATE users SET name = 'x' WHERE id = 9"),
    "DELETE": lambda tx: tx.sql("DELETE FROM users"),
    "MERGE": lambda tx: tx.sql(
        "MERGE INTO users USING (SELECT 1 AS id) s ON users.id = s.id WHEN MATCHED THEN DELETE"
    ),
}
"""What writes rows, in a transaction or by itself."""

TABLES: dict[str, Callable[[Any], Any]] = {
    "create table": lambda tx: tx.create_table("t", {"id": "bigint"}, key="id"),
    "CREATE TABLE AS": lambda tx: tx.sql("CREATE TABLE t AS SELECT id, name FROM users"),
}
"""What makes tables, which a writer may not."""


@pytest.fixture
def db(
    create_database: Callable[..., livingdb.Database], tmp_path: Path
) -> Iterator[livingdb.Database]:
    """ann reads everything and writes dev/*, rita reads."""
    with create_database(tmp_path, author="holder", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("users", {"id": "bigint", "name": "string"}, key="id")
        main.insert("users", [{"id": 1, "name": "Ada"}])
        main.clone("dev/a")
        db.people.add("rita", role="reader")
        db.people.add("ann", role="reader")
        db.people.grant("ann", role="writer", branches="dev/*")
        yield db


def refused(
    db: livingdb.Database, branch: str, writes: dict[str, Callable[[Any], Any]], words: str
) -> None:
    """Each write is refused with words, and leaves a transaction that reads on and has nothing."""
    head = db.branch(branch).head
    with db.branch(branch).transaction() as tx:
        for write in writes.values():
            with pytest.raises(Forbidden, match=words):
                write(tx)
            assert not tx.has_changes
        assert len(tx.table("users")) == 1
        assert tx.sql("SELECT count(*) AS n FROM users").to_arrow()["n"].to_pylist() == [1]
    for write in writes.values():
        with pytest.raises(Forbidden):
            write(db.branch(branch))
    assert db.branch(branch).head.id == head.id


def test_each_write_of_a_reader_is_refused(db: livingdb.Database) -> None:
    with db.acting_as("rita"):
        refused(db, "main", WRITES, r"rita may not write to 'main': that takes the role writer")
        refused(db, "main", TABLES, r"rita may not .*'main': that takes the role")


def test_a_writer_makes_no_tables(db: livingdb.Database) -> None:
    with db.acting_as("ann"):
        refused(db, "dev/a", TABLES, r"ann may not .*'dev/a': that takes the role maintainer")
        with db.branch("dev/a").transaction() as tx:
            tx.sql("INSERT INTO users VALUES (2, 'Bob')")
            with pytest.raises(Forbidden):
                tx.create_table("t", {"id": "bigint"}, key="id")
        assert len(db.branch("dev/a").table("users")) == 2


def test_a_session_goes_on_after_what_was_refused(db: livingdb.Database) -> None:
    with db.acting_as("rita"):
        session = SqlSession(db, db.branch("main"))
        session.execute("BEGIN")
        for write in (
            lambda: session.execute("DELETE FROM users"),
            lambda: session.insert("users", [ROW]),
        ):
            with pytest.raises(Forbidden, match="rita may not write to 'main'"):
                write()
            assert session.is_open
            assert not session.has_changes
        assert session.execute("SELECT id FROM users").to_arrow().num_rows == 1
        session.execute("COMMIT")


def test_what_takes_merges_only(db: livingdb.Database) -> None:
    db.branch("dev/a").clone("dev/guarded")
    db.people.grant("ann", role="maintainer", branches="dev/guarded")
    db.protect("dev/guarded")
    with db.acting_as("ann"), db.branch("dev/guarded").transaction() as tx:
        for write in WRITES.values():
            with pytest.raises(Forbidden, match="'dev/guarded' takes merges only"):
                write(tx)


def test_what_is_in_step_counts_too(db: livingdb.Database) -> None:
    pair = db.branch("dev/a").clone("dev/pair")
    pair.evolve(AddColumn("users", "extra", "int"), to="far", sync="both")
    with db.acting_as("ann"), db.branch("dev/pair").transaction() as tx:
        for write in WRITES.values():
            with pytest.raises(Forbidden, match="the role writer on 'far'"):
                write(tx)


def test_what_is_in_step_and_not_seen_is_not_named(db: livingdb.Database) -> None:
    db.people.add("eve", role="maintainer", branches="dev/*")
    pair = db.branch("dev/a").clone("dev/pair")
    pair.evolve(AddColumn("users", "extra", "int"), to="secret", sync="both")
    for is_guarded in (False, True):
        db.protect("secret", merge_only=is_guarded)
        with db.acting_as("eve"), db.branch("dev/pair").transaction() as tx:
            for write in WRITES.values():
                with pytest.raises(Forbidden, match="in step with it") as told:
                    write(tx)
                assert "secret" not in str(told.value)
    db.set_merge_rule("secret", approvals=1, merge_only=False)
    db.branch("dev/pair").clone("dev/ahead").insert("users", [ROW])
    with db.acting_as("eve"), pytest.raises(Forbidden, match="in step with it") as told:
        db.merge("dev/ahead", into="dev/pair", fast_forward=False)
    assert "secret" not in str(told.value)


def test_a_right_that_another_process_withdraws(
    db: livingdb.Database, open_again: Callable[[livingdb.Database], livingdb.Database]
) -> None:
    with open_again(db) as other, db.acting_as("ann"):
        tx = db.branch("dev/a").transaction()
        tx.sql("INSERT INTO users VALUES (2, 'Bob')")
        other.people.withdraw("ann", "writer", "dev/*")
        with pytest.raises(Forbidden, match="ann may not write to 'dev/a'"):
            tx.sql("INSERT INTO users VALUES (3, 'Cleo')")
        assert len(tx.table("users")) == 2
        with pytest.raises(Forbidden, match="ann may not write to 'dev/a'"):
            tx.commit()
        tx = db.branch("dev/a").transaction()
        other.people.grant("ann", "writer", "dev/*")
        tx.insert("users", [ROW])
        other.protect("dev/a")
        with pytest.raises(Forbidden, match="takes merges only"):
            tx.delete("users", [1])
        tx.rollback()
    assert len(db.branch("dev/a").table("users")) == 1


def test_a_branch_that_is_renamed_or_dropped_meanwhile(
    db: livingdb.Database, open_again: Callable[[livingdb.Database], livingdb.Database]
) -> None:
    db.branch("dev/a").clone("dev/b")
    with open_again(db) as other, db.acting_as("ann"):
        moved, gone = (db.branch(name).transaction() for name in ("dev/a", "dev/b"))
        other.rename_branch("dev/a", "kept")
        other.drop_branch("dev/b")
        with pytest.raises(Forbidden, match="ann may not write to 'kept'"):
            moved.insert("users", [ROW])
        with pytest.raises(TransactionConflict):
            gone.insert("users", [ROW])
            gone.commit()


def test_who_acts_is_the_author_of_each_write(db: livingdb.Database) -> None:
    with db.acting_as("ann"):
        tx = db.branch("dev/a").transaction(author="bob")
        with pytest.raises(Forbidden, match="ann may not commit as 'bob'"):
            tx.insert("users", [ROW])


def test_a_refused_statement_is_in_the_audit_trail(db: livingdb.Database) -> None:
    with pytest.raises(Forbidden), db.acting_as("rita"):
        db.branch("main").transaction().insert("users", [ROW])
    newest = db.people.audit(1).to_pylist()[0]
    assert (newest["person"], newest["outcome"]) == ("rita", "refused")
    assert "rita may not write to 'main'" in newest["details"]


def test_who_holds_the_files_writes_what_takes_merges_only(db: livingdb.Database) -> None:
    db.protect("dev/a")
    with db.branch("dev/a").transaction() as tx:
        assert tx.insert("users", [ROW]) == 1
