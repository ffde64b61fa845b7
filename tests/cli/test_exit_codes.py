"""How commands end: one table of what is done, and the code scripts see."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.telling import tell

import livingdb
from livingdb.errors import Locked, TransactionConflict

HERE = "{shop}"
CASES: list[tuple[int, list[str], str]] = [
    (0, ["--db", HERE, "log"], ""),
    (0, ["--db", HERE, "diff", "v1", "v1"], ""),
    (0, ["--db", HERE, "evolve", "DROP TABLE IF EXISTS nothing"], ""),
    (0, ["--db", HERE, "sql", ""], ""),
    (0, ["--db", HERE, "sql", "/* nothing */;"], ""),
    (1, ["--db", HERE, "diff", "v1", "main"], ""),
    (1, ["--db", HERE, "merge", "dev"], "--on-conflict"),
    (1, ["--db", HERE, "merge", "dev", "--preview"], ""),
    (2, ["log"], "--db"),
    (2, [], "Usage"),
    (2, ["--db", "", "log"], "--db"),
    (2, ["nothing"], "No such command"),
    (2, ["--db", HERE, "log", "-n", "-1"], "-n"),
    (2, ["--db", HERE, "diff", "v1"], "B"),
    (2, ["--db", HERE, "diff", "v1", "main", "--rows", "--summary"], "--summary"),
    (2, ["--db", HERE, "merge", "dev", "--on-conflict", "ours", "--on-conflict", "x"], "name=word"),
    (2, ["--db", HERE, "derive", "x"], "--sql"),
    (2, ["--db", HERE, "derive", "x", "--sql", "SELECT 1", "--model", "a:b"], "--sql"),
    (2, ["--db", HERE, "derive", "x", "--sql", "SELECT 1", "--action", "hold"], "--condition"),
    (2, ["--db", HERE, "derive", "x", "--model", "a:b", "--params", "[1]"], "--params"),
    (2, ["--db", HERE, "derive", "x", "--model", "a:b", "--params", "{"], "--params"),
    (2, ["--db", HERE, "sql", "SELECT 1", "-f", "x.sql"], "--file"),
    (2, ["--db", HERE, "sync", "totals", "explode"], "act"),
    (2, ["--db", HERE, "sync", "totals", "--by", "eva"], "--by"),
    (2, ["--db", HERE, "sync", "totals", "--reason", "x"], "--reason"),
    (2, ["--db", HERE, "alerts", "--state", "open", "ack", "1"], "--state"),
    (2, ["--db", HERE, "alerts", "ack", "one"], "integer"),
    (2, ["--db", HERE, "lineage"], "VIEW"),
    (2, ["--db", HERE, "lineage", "totals", "Oslo", "--forward", "orders"], "--forward"),
    (2, ["--db", HERE, "import", "cities.csv"], "--table"),
    (2, ["--db", HERE, "import", "cities.unknown", "--table", "c"], "--format"),
    (2, ["--db", HERE, "import", "cities.csv", "--table", "c", "--key", "nothing"], "id, city"),
    (2, ["--db", HERE, "import", "cities.csv", "--table", "orders", "--key", "city"], "id"),
    (2, ["--db", HERE, "import", "cities.csv", "--table", "c", "--type", "city"], "column=type"),
    (2, ["--db", HERE, "import", "cities.csv", "--table", "c", "--type", "town=int"], "id, city"),
    (2, ["completion", "tcsh"], "'shell': 'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    (3, ["--db", "nowhere.ldb", "log"], "no database"),
    (3, ["--db", HERE, "--branch", "nothing", "log"], "nothing"),
    (3, ["--db", HERE, "log", "nothing"], "nothing"),
    (3, ["--db", HERE, "branch", "drop", "nothing"], "nothing"),
    (3, ["--db", HERE, "branch", "create", "x", "nothing"], "nothing"),
    (3, ["--db", HERE, "tag", "drop", "nothing"], "nothing"),
    (3, ["--db", HERE, "diff", "v1", "main", "--table", "nothing"], "nothing"),
    (3, ["--db", HERE, "blame", "nothing"], "nothing"),
    (3, ["--db", HERE, "history", "nothing", "1"], "nothing"),
    (3, ["--db", HERE, "sql", "SELECT * FROM nothing"], "nothing"),
    (3, ["--db", HERE, "sql", "-f", "nothing.sql"], "nothing.sql"),
    (3, ["--db", HERE, "import", "nothing.csv", "--table", "x"], "nothing.csv"),
    (3, ["--db", HERE, "refresh", "nothing"], "nothing"),
    (3, ["--db", HERE, "sync", "nothing"], "nothing"),
    (3, ["--db", HERE, "alerts", "resolve", "99"], "99"),
    (4, ["--db", HERE, "--branch", "totals", "sql", "DELETE FROM totals"], "totals"),
    (4, ["--db", HERE, "refresh", "notes"], "detached"),
    (4, ["--db", HERE, "derive", "x", "--sql", "SELECT id FROM orders", "--when", "immediate",
         "--condition", "rows <= 1", "--action", "fail"], "rows"),
    (5, ["--db", HERE, "derive", "x", "--sql", "SELECT id FROM orders", "--condition", "rows <"],
     "missing"),
    (5, ["--db", HERE, "derive", "x", "--sql", "SELECT id FROM orders", "--alert", "pigeon"],
     "pigeon"),
    (4, ["--db", HERE, "merge", "totals"], "both sides come from"),
    (4, ["--db", HERE, "merge", "totals", "--preview"], "both sides come from"),
    (4, ["--db", HERE, "derive", "x", "--model", "a.b:c"], "trust"),
    (4, ["--db", HERE, "derive", "x", "--sql", "SELECT id FROM orders", "--sync", "both", "--when",
         "every 1 hour"], "two-way"),
    (5, ["init", HERE], "already"),
    (5, ["--db", HERE, "sql", "SELEC 1"], "SELEC"),
    (5, ["--db", HERE, "sql", "INSERT INTO orders (id) VALUES (1)"], "1"),
    (5, ["--db", HERE, "sql", "-f", "latin.sql"], "UTF-8"),
    (5, ["--db", HERE, "sql", "-f", "."], "."),
    (5, ["--db", HERE, "branch", "create", "a b"], "a b"),
    (5, ["--db", HERE, "branch", "create", "dev"], "dev"),
    (5, ["--db", HERE, "history", "orders", "one"], "'one' is no bigint"),
    (5, ["--db", HERE, "history", "visits", "Oslo"], "city, day"),
    (5, ["--db", HERE, "merge", "dev", "--on-conflict", "mine"], "mine: choose one of fail"),
    (5, ["--db", HERE, "evolve", "SELECT 1"], "ALTER"),
    (5, ["--db", HERE, "evolve", "{}"], "change"),
    (5, ["--db", HERE, "evolve", "[{]"], "JSON"),
    (5, ["--db", HERE, "evolve", '{"change": "Explode"}'], "Explode"),
    (5, ["--db", HERE, "evolve", '{"change": "DropTabel"}'], "did you mean 'DropTable'"),
    (5, ["--db", HERE, "evolve", '{"change": "DropTable", "x": 1}'], "DropTable: got an"),
    (5, ["--db", HERE, "derive", "x", "--sql", "SELECT 1", "--when", "never"], "never"),
    (5, ["--db", HERE, "import", "twins.csv", "--table", "t", "--key", "id"], "same key"),
    (5, ["--db", HERE, "import", "cities.csv", "--table", "orders"], "founded"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def files(shop: Path) -> None:
    Path("cities.csv").write_text("id,city,founded\n1,Oslo,1048-01-01\n2,Bodø,1816-05-20\n")
    Path("cities.unknown").write_text("id\n1\n")
    Path("twins.csv").write_text("id\n1\n1\n")
    Path("latin.sql").write_bytes(b"SELECT '\xe6'")


@pytest.mark.parametrize(("code", "arguments", "says"), CASES)
def test_exit_code(code: int, arguments: list[str], says: str, shop: Path) -> None:
    told = tell(*(str(shop) if word == HERE else word for word in arguments))
    assert (told.code, "Traceback" in told.err) == (code, False), told
    assert says.lower() in told.err.lower()
    if code > 1:
        assert told.out == ""


def test_usage_is_told_as_json_where_it_is_asked_for(shop: Path) -> None:
    for code, arguments, _ in CASES:
        if code == 2:
            told = tell("-o", "json", *(str(shop) if word == HERE else word for word in arguments))
            found = json.loads(told.err)
            assert (told.code, told.out, found["error"], found["exit_code"]) == (2, "", "usage", 2)
            assert "--help tells" in found["message"]


def test_what_failed_changed_nothing(shop: Path) -> None:
    with livingdb.open(shop) as db:
        before = [snapshot.id for snapshot in db.snapshots()]
    for code, arguments, _ in CASES:
        if code > 0:
            tell(*(str(shop) if word == HERE else word for word in arguments))
    with livingdb.open(shop) as db:
        assert [snapshot.id for snapshot in db.snapshots()] == before


def test_corruption(shop: Path) -> None:
    assert tell("compact", db=shop).code == 0
    for pack in (shop / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[len(data) // 3] ^= 0xFF
        pack.write_bytes(bytes(data))
    told = tell("-o", "json", "check", db=shop)
    assert told.code == 6
    assert told.json["ok"] is False
    assert told.json["problems"]


@pytest.mark.parametrize("error", [TransactionConflict("somebody was faster"), Locked("held")])
def test_another_writer(error: Exception, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("livingdb.commit.writing.transaction.BranchTransaction.commit", fail)
    told = tell("sql", "DELETE FROM orders", db=shop)
    assert (told.code, told.err) == (7, f"livingdb: {error}\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (OSError(28, "No space left on device"), 6),
        (PermissionError(13, "Permission denied", "orders.csv"), 5),
        (BrokenPipeError(32, "Broken pipe"), 0),
    ],
)
def test_from_outside(
    error: BaseException, code: int, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("livingdb.database.database.Database.storage", fail)
    told = tell("storage", db=shop)
    assert (told.code, told.out) == (code, "")
    assert "Traceback" not in told.err


def test_nobody_reads_on(shop: Path) -> None:
    program = [sys.executable, "-m", "livingdb", "--db", str(shop), "-o", "csv", "sql"]
    query = "SELECT a.id FROM orders a, orders b, orders c, orders d, orders e, orders f, orders g"
    with subprocess.Popen(
        [*program, query], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "id\n"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(240)) == ("", 0)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(closed: str, shop: Path) -> None:
    line = f'exec "$0" -m livingdb --db "$1" sql {closed}'
    answer = subprocess.run(
        ["bash", "-c", line, sys.executable, str(shop)],
        input="SELECT 1 AS one",
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.returncode == 0
    assert "Traceback" not in answer.stderr


def test_progress_is_for_terminals(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for command in ("check", "compact", "propagate"):
        assert tell(command, db=shop).err == ""


def test_a_shop_that_moved_is_the_same(shop: Path, tmp_path: Path) -> None:
    """Nothing of a database is tied to where it was made."""
    moved = shutil.move(shop, tmp_path / "elsewhere.ldb")
    assert tell("check", db=moved).code == 0


def test_a_sync_that_is_not_as_it_should_be(shop: Path) -> None:
    """That is no damage: a deep check ends with 1, and says what mends it."""
    assert tell("sql", "INSERT INTO orders (id, amount) VALUES (6, 8.0)", db=shop).code == 0
    assert tell("propagate", "--engine", "embedded", db=shop).code == 0
    told = tell("-o", "json", "check", "--deep", db=shop)
    assert told.code == 0
    assert [one["sync"] for one in told.json["not_checked"]] == ["main/notes"]
    with livingdb.open(shop, engine="embedded") as db:
        graph = db._graph
        row = graph.branch("large")
        older = graph.snapshots.at(graph.snapshots.at(row.head).first)
        with graph.catalog.write() as connection:
            assert graph.branches.move(connection, row, older.sequence, row.time, "restore")
    assert tell("check", db=shop).code == 0
    told = tell("-o", "json", "check", "--deep", db=shop)
    assert told.code == 1
    (problem,) = told.json["problems"]
    assert (problem["sync"], problem["table"]) == ("main/large", "large")
    assert problem["mend"] == "db.refresh('large', full=True) makes it anew"
    text = tell("check", "--deep", db=shop).out
    assert "main/large" in text
    assert problem["mend"] in text
    assert tell("refresh", "large", "--full", db=shop).code == 0
    assert tell("check", "--deep", db=shop).code == 0
