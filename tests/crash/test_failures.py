"""A disk that fails or is full: a typed error, nothing changed, and on it goes once it is well."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from tests.crash import nursery, sqlite_calls
from tests.crash.conftest import Victim, folder_in_memory
from tests.crash.scenarios import SCENARIOS, contents, noise, orders
from tests.property.trying import some_of
from tests.thinned import thinned

import livingdb
from livingdb import Corruption, Database, StorageFailure
from livingdb.files import local
from livingdb.testing import Fault
from livingdb.testing.faulty_files import FaultySyscalls

KIB = 1 << 10
PACKING = ["large commit", "fold", "drain", "compact"]
_FAILING = 8
"""Of each operation so many calls fail, for each error, once and from then on."""
WRITING = ["small commit", "large commit", "fold", "drain", "compact", "merge", "clone", "rename"]


class Trial:
    """One scenario, and what its database holds before and after it."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder
        folder.mkdir()
        self.start = folder / "start"
        SCENARIOS[name].start(self.start)
        with livingdb.open(self.start) as db:
            self.before = contents(db)
        whole = self.copy("whole")
        SCENARIOS[name].run(whole, lambda: None)
        with livingdb.open(whole) as db:
            self.after = contents(db)

    def copy(self, name: str) -> Path:
        target = self.folder / name
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(self.start, target))

    def check(self, path: Path, is_done: bool, note: str, left: int = 0) -> None:
        """What is there after a failure, or after all went well; and then it goes on.

        At most `left` temporary files are there, too.
        """
        try:
            with livingdb.open(path) as db:
                assert contents(db) == (self.after if is_done else self.before)
                assert db.check().problems == []
            if not is_done:
                SCENARIOS[self.name].run(path, lambda: None)
                with livingdb.open(path) as db:
                    assert contents(db) == self.after
                    assert db.check().problems == []
            assert len(list(path.rglob(".tmp-*"))) <= left
        except BaseException as error:
            error.add_note(f"{self.name}: {note}")
            raise


@pytest.fixture(scope="module")
def trials() -> Iterator[Callable[[str], Trial]]:
    """Each scenario is made ready once."""
    with folder_in_memory() as folder:
        yield cache(lambda name: Trial(name, folder / name))


@pytest.fixture
def trial(request: pytest.FixtureRequest, trials: Callable[[str], Trial]) -> Trial:
    return trials(request.param)


# --- files ---------------------------------------------------------------------------------------


def use(monkeypatch: pytest.MonkeyPatch, *faults: Fault) -> FaultySyscalls:
    """Databases opened from now on meet these faults."""
    made = FaultySyscalls(faults)
    monkeypatch.setattr(local, "Syscalls", lambda: made)
    return made


def attempt(trial: Trial, path: Path) -> bool:
    """Run it; whether it was done.  What it raises is typed."""
    done: list[bool] = []
    try:
        SCENARIOS[trial.name].run(path, lambda: done.append(True))
    except StorageFailure:
        assert not done
        return False
    return True


@pytest.mark.parametrize("trial", PACKING, indirect=True)
def test_some_file_operations_fail(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_operations(trial, errno.EIO, False, monkeypatch, count=4)


@pytest.mark.slow
@pytest.mark.parametrize("trial", PACKING, indirect=True)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_many_file_operations_fail(
    trial: Trial, error: int, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_operations(trial, error, lasting, monkeypatch, count=0)


def _failing(total: int, count: int, what: str) -> list[int]:
    """Which of all operations fail, one at a time."""
    every = range(1, total + 1)
    return list(every[:: max(1, total // count)]) if count else some_of(every, _FAILING, what)


def failing_operations(
    trial: Trial, error: int, lasting: bool, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The k-th operation fails: create, write, sync, rename, unlink, sync of a folder, read.

    So many of them; with 0 other ones each time.
    """
    with monkeypatch.context() as patch:
        counted = use(patch)
        assert attempt(trial, trial.copy("counted"))
    total = counted.counts.total()
    for number in _failing(total, count, f"{trial.name} {error} {lasting}"):
        path = trial.copy("failing")
        with monkeypatch.context() as patch:
            use(patch, Fault(None, number, error, lasting))
            is_done = attempt(trial, path)
        note = f"operation {number} of {dict(counted.counts)} failed"
        trial.check(path, is_done, note, left=int(lasting))


@pytest.mark.parametrize("trial", ["large commit"], indirect=True)
def test_a_failed_sync_is_never_retried(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The open database writes no more packs and still reads; a new one does both."""
    path = trial.copy("failing")
    with monkeypatch.context() as patch:
        calls = use(patch, Fault("fsync"))
        with livingdb.open(path) as db:
            main = db.branch("main")
            for _ in range(3):
                with pytest.raises(StorageFailure):
                    main.insert("blobs", noise(1000, 90, 64 * KIB))
                assert contents(db) == trial.before
                assert calls.counts["fsync"] == 1
    trial.check(path, False, "after failed syncs")


@pytest.mark.parametrize("trial", ["large commit"], indirect=True)
def test_a_full_disk_is_no_damage(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is room, the same open database goes on."""
    path = trial.copy("failing")
    with monkeypatch.context() as patch:
        calls = use(patch, Fault("write", 2, errno.ENOSPC, lasting=True))
        with livingdb.open(path) as db:
            main = db.branch("main")
            head = main.head.id
            with pytest.raises(StorageFailure, match="full"):
                main.insert("blobs", noise(1000, 90, 64 * KIB))
            assert main.head.id == head
            calls.faults = ()
            main.insert("blobs", noise(1000, 90, 64 * KIB))
            main.upsert("orders", orders(0, 10, 3.0))
            assert contents(db) == trial.after
    trial.check(path, True, "after a full disk")


@pytest.mark.parametrize("trial", ["drain", "compact"], indirect=True)
def test_a_pack_that_cannot_be_read(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads fail with a typed error, `check` reports it, and nothing is harmed."""
    with monkeypatch.context() as patch:
        use(patch, Fault("map", lasting=True))
        path = trial.copy("failing")
        with livingdb.open(path) as db:
            with pytest.raises((StorageFailure, Corruption)):
                contents(db)
            assert not db.check().ok
    trial.check(path, False, "after failed reads")


# --- SQLite --------------------------------------------------------------------------------------


def failing_calls(trial: Trial, victim: Victim, error: int, lasting: bool, count: int) -> None:
    calls = victim.run(trial.name, trial.copy("counted")).calls
    for number in _failing(calls, count, f"{trial.name} {error} {lasting}"):
        path = trial.copy("failing")
        outcome = victim.run(trial.name, path, fail_at=number, error=error, lasting=lasting)
        note = f"SQLite's call {number} of {calls} failed"
        assert not outcome.failed, note
        assert outcome.error in (None, "storage_failure"), note
        assert outcome.acknowledged == (outcome.error is None), note
        trial.check(path, outcome.acknowledged, note)


@pytest.mark.parametrize(
    ("trial", "error"),
    thinned(WRITING, [errno.EIO, errno.ENOSPC]),
    indirect=["trial"],
    ids=lambda value: errno.errorcode.get(value, value),
)
def test_some_calls_of_sqlite_fail(trial: Trial, victim: Victim, error: int) -> None:
    failing_calls(trial, victim, error, lasting=False, count=2)


@pytest.mark.slow
@pytest.mark.parametrize("trial", WRITING, indirect=True)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_many_calls_of_sqlite_fail(trial: Trial, victim: Victim, error: int, lasting: bool) -> None:
    failing_calls(trial, victim, error, lasting, count=0)


@pytest.mark.skipif(not sqlite_calls.can_fail_syncs(), reason="needs seccomp on Linux")
@pytest.mark.parametrize("trial", ["small commit", "merge", "clone"], indirect=True)
def test_sqlite_cannot_sync(trial: Trial, victim: Victim) -> None:
    """No sync, no acknowledgement; reopening gives the old head."""
    path = trial.copy("failing")
    outcome = victim.run(trial.name, path, sync_error=errno.EIO)
    assert outcome.error == "storage_failure"
    assert not outcome.acknowledged
    trial.check(path, False, "every sync failed")


@pytest.mark.skipif(not sqlite_calls.can_fail_syncs(), reason="needs seccomp on Linux")
@pytest.mark.slow
@pytest.mark.parametrize("trial", ["tag and commit"], indirect=True)
def test_commit_cannot_sync_and_the_process_dies(trial: Trial, victim: Victim) -> None:
    """Whether the catalog's last words reached the disk is unknown; both heads can be read."""
    how = {"commit_sync_error": errno.EIO, "failing_commit": 2}
    outcome = victim.run(trial.name, trial.copy("failing"), **how)
    assert outcome.error == "storage_failure"
    heads = []
    last = len(outcome.moments) - outcome.moments[::-1].index("before commit")
    for moment in range(last, len(outcome.moments) + 1):
        path = trial.copy("failing")
        victim.run(trial.name, path, moment, **how)
        with livingdb.open(path) as db:
            heads.append(contents(db))
            assert heads[-1] in (trial.before, trial.after), outcome.moments[moment - 1]
            assert db.check().problems == [], outcome.moments[moment - 1]
    assert trial.after in heads, "the log of the catalog should have kept what was not synced"


# --- a disk that is full -------------------------------------------------------------------------

Disk = Callable[[int], Path]


def enlarge(place: Path, size_bytes: int) -> None:
    command = ["mount", "-o", f"remount,size={size_bytes}", str(place)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Makes disks of a size in bytes."""
    mounted: list[Path] = []

    def mount(size_bytes: int) -> Path:
        target = tmp_path / f"disk{len(mounted)}"
        target.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "livingdb", str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("mounting a small tmpfs is not permitted here (needs root)")
        mounted.append(target)
        return target

    yield mount
    for target in mounted:
        subprocess.run(["umount", "--lazy", str(target)], check=True)


@pytest.mark.parametrize(
    ("size_kib", "row_bytes"),
    [
        (256, 200),
        (512, 20 * KIB),
        (1024, 200),
        (2048, 20 * KIB),
        *(
            pytest.param(size_kib, row_bytes, marks=pytest.mark.slow)
            for size_kib in (384, 640, 768, 1536, 3072, 4096)
            for row_bytes in (200, 20 * KIB)
        ),
    ],
)
def test_disk_full(size_kib: int, row_bytes: int, disk: Disk) -> None:
    """Commits until the disk is full: all of them are there, and it goes on with more room.

    The writer is a program of its own: a disk like this one can end a process.
    """
    place = disk(size_kib * KIB)
    writer = nursery.start("tests.crash.filler", str(place), str(row_bytes))
    full = json.loads(writer.stdout.readline())
    assert full["error"] == "storage_failure"
    assert full["seen"] == full["acknowledged"]
    enlarge(place, 4 * size_kib * KIB)
    print("there is room", file=writer.stdin, flush=True)
    later = json.loads(writer.stdout.readline())
    assert later["acknowledged"][:-3] == full["acknowledged"]
    assert later["seen"] == later["acknowledged"]
    assert writer.wait(240) == 0
    with livingdb.open(place / "shop") as db:
        assert found(db) == later["acknowledged"]
        assert db.check().problems == []


def found(db: Database) -> list[int]:
    main = db.branch("main")
    return main.table("blobs").to_arrow()["id"].to_pylist() if main.tables() else []


@pytest.mark.parametrize("size_kib", [1024, 4096])
def test_disk_too_small_for_a_pack(size_kib: int, disk: Disk) -> None:
    place = disk(size_kib * KIB)
    with livingdb.create(place / "shop") as db:
        main = db.branch("main")
        main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        main.insert("blobs", noise(1, 3, 100))
        head = main.head.id
        for _ in range(3):
            with pytest.raises(StorageFailure):
                main.insert("blobs", noise(1000, 90, 64 * KIB))
        assert main.head.id == head
        assert list(place.rglob("*.pack")) + list(place.rglob(".tmp-*")) == []
        main.insert("blobs", noise(4, 3, 100))
        assert found(db) == [1, 2, 3, 4, 5, 6]
        assert db.check().problems == []


EVERYTHING: dict[str, Callable[[Database, Path], object]] = {
    "commit": lambda db, place: db.branch("main").insert("blobs", noise(5000, 9, KIB)),
    "compact": lambda db, place: db.compact(),
    "derive": lambda db, place: db.branch("main").derive("w", sql="SELECT * FROM blobs"),
    "index": lambda db, place: db.branch("main").sql("CREATE INDEX ids ON blobs (id)"),
    "tag": lambda db, place: db.tag("late", "main"),
    "clone": lambda db, place: db.branch("main").clone("dev"),
    "schema": lambda db, place: db.branch("main").sql("ALTER TABLE blobs ADD COLUMN x INT"),
    "export": lambda db, place: db.branch("main").export(place / "out"),
    "backup": lambda db, place: db.backup(place / "copy"),
    "picture": lambda db, place: db.graph().to_svg(place / "graph.svg"),
}


FITS = ("index", "tag", "clone", "schema")
"""What may have room in the log of the catalog, which is as large as it was."""


@pytest.mark.parametrize("name", EVERYTHING)
def test_everything_on_a_full_disk(name: str, disk: Disk) -> None:
    """It fits or ends with an error of ours and changes nothing; what was there is read."""
    place = disk(2048 * KIB)
    with livingdb.create(place / "shop", engine="embedded") as db:
        main, number = db.branch("main"), 0
        main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        with pytest.raises(StorageFailure):
            while True:
                main.insert("blobs", noise(number, 20, KIB))
                number += 20
        with (place / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(KIB))
        head = main.head.id
        try:
            EVERYTHING[name](db, place)
        except StorageFailure as error:
            assert "full" in str(error) or "No space left" in str(error)  # noqa: PT017
            assert main.head.id == head
        else:
            assert name in FITS
        count = main.sql("SELECT count(*) AS n FROM blobs").to_arrow()["n"][0].as_py()
        assert count == number
        assert db.check().problems == []
