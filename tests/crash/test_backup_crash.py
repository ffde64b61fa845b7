"""kill -9 while a database is backed up and while it is restored.

Run as a program, this file is the one whose children are killed.  A backup that was killed leaves
the earlier ones whole, and the next one goes on with what is there; a restore that was killed
leaves nothing that opens as a database, and can be done again in the same place.  And writers in
other processes go on while a backup is made, which is one moment of what they do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.crash.conftest import Victim
from tests.crash.moments import states
from tests.crash.scenarios import SCENARIOS, Done, Scenario, noise, orders, shop
from tests.crash.test_kill import sample
from tests.crash.writer import ACCOUNTS
from tests.crash.writers import Program
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb
from livingdb import LivingDBError, NotFound
from livingdb.files.local import LocalFiles
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance.backup.verify import check_place


def start(path: Path) -> None:
    """A database that has a backup, and commits and packs that this one has not."""
    shop(path / "db")
    with livingdb.open(path / "db") as db:
        db.backup(path / "backup")
        db.branch("main").upsert("blobs", noise(200, 30, 400))
        drain_journal(db._graph.store)
        db.backup(path / "backup")
        db.compact()
        db.branch("main").upsert("orders", orders(10, 20, 7.0))


def back_up(path: Path, done: Done) -> None:
    with livingdb.open(path / "db") as db:
        db.backup(path / "backup", keep=2)
        done()


def restore(path: Path, done: Done) -> None:
    with livingdb.restore(path / "backup", path / "copy"):
        done()


BACKUPS = {
    "back up": Scenario(start, back_up, changes_rows=False),
    "restore": Scenario(start, restore, changes_rows=False),
}


def main() -> None:
    """Be killed."""
    SCENARIOS.update(BACKUPS)
    from tests.crash.victim import main as serve

    serve()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    made = Victim("tests.crash.test_backup_crash")
    yield made
    made.close()


def check_backed_up(path: Path, acknowledged: bool) -> None:
    """All backups that count are whole, and the next one is as well."""
    report = check_place(LocalFiles(path / "backup"))
    assert report.problems == []
    assert report.points >= 2
    with livingdb.open(path / "db") as db:
        made = db.backup(path / "backup", keep=1, verify=True)
        if acknowledged:
            assert made.copied_packs == 0
        with livingdb.restore(path / "backup", path / "copy") as copy:
            assert state_of(copy) == state_of(db)


def check_restored(path: Path, acknowledged: bool) -> None:
    """There is all of it or nothing that opens, and then it can be restored."""
    try:
        copy = livingdb.open(path / "copy")
    except NotFound:
        assert not acknowledged
        with pytest.raises(LivingDBError):
            livingdb.open(path / "copy", read_only=True)
        copy = livingdb.restore(path / "backup", path / "copy")
    with copy, livingdb.restore(path / "backup", path / "other") as other:
        assert state_of(copy) == state_of(other)
        assert copy.check().problems == []


CHECKS = {"back up": check_backed_up, "restore": check_restored}


def kill_some(name: str, victim: Victim, folder: Path, count: int) -> None:
    begin = folder / "start"
    BACKUPS[name].start(begin)
    whole = victim.run(name, Path(shutil.copytree(begin, folder / "whole")))
    assert whole.acknowledged
    for moment in sample(whole.moments, count) if count else states(whole.moments):
        path = Path(shutil.copytree(begin, folder / "killed"))
        outcome = victim.run(name, path, moment)
        assert not outcome.failed
        try:
            CHECKS[name](path, outcome.acknowledged)
        except BaseException as error:
            error.add_note(f"{name}, killed at {moment}, {whole.moments[moment - 1]}")
            raise
        shutil.rmtree(path)


@pytest.mark.parametrize("name", list(BACKUPS))
def test_killed_at_some_moments(name: str, victim: Victim, folder: Path) -> None:
    kill_some(name, victim, folder, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", list(BACKUPS))
def test_killed_at_every_moment(name: str, victim: Victim, folder: Path) -> None:
    kill_some(name, victim, folder, 0)


def test_backups_while_others_write(folder: Path) -> None:
    """Every backup is one moment: no transfer is half in it, and none is lost that is older."""
    path, backup = folder / "db", folder / "backup"
    with livingdb.create(path) as db, ExitStack() as stack:
        main = db.branch("main")
        main.create_table("accounts", {"id": "bigint", "balance": "bigint"}, key="id")
        main.insert("accounts", {"id": range(ACCOUNTS), "balance": [100] * ACCOUNTS})
        tasks = [("transfer", 12), ("transfer", 12), ("compact", 2)]
        programs = [
            stack.enter_context(Program(task, str(path), number, count))
            for number, (task, count) in enumerate(tasks)
        ]
        for program in programs:
            assert program.hear() == "ready"
        for program in programs:
            program.go()
        moments = []
        for _ in range(4):
            seen = {snapshot.id for snapshot in db.snapshots()}
            moments.append((db.backup(backup).time, seen))
        for program in programs:
            program.told()
    for number, (time, seen) in enumerate(moments[::2]):
        with livingdb.restore(backup, folder / str(number), at=time) as copy:
            assert copy.check().problems == []
            assert {snapshot.id for snapshot in copy.snapshots()} >= seen
            for snapshot in copy.branch("main").log(limit=5):
                if "accounts" in snapshot.tables() and len(snapshot.table("accounts")):
                    balances = snapshot.table("accounts").to_arrow()["balance"].to_pylist()
                    assert sum(balances) == 100 * ACCOUNTS


if __name__ == "__main__":
    main()
