"""Databases that cannot be written open for reading: other owners, read-only and full disks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.crash import nursery
from tests.frozen.archive import unpack

import livingdb
from livingdb import Forbidden, Forgotten, StorageFailure
from livingdb.files.read_only import is_fixed_media
from livingdb.graph.storage.drain_journal import drain_journal

NOBODY = "65534"
ROWS = 300


@pytest.fixture
def path(folder: Path) -> Path:
    """A database with packs and a journal, which everybody may look at."""
    folder.chmod(0o755)
    made = folder / "shop"
    with livingdb.create(made, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.insert("t", {"id": range(ROWS), "v": range(ROWS)})
        drain_journal(db._graph.store)
        main.upsert("t", {"id": [0], "v": [1_000]})
    return made


def files(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


class Reader:
    """A `tests.crash.reader`, and what it said first."""

    def __init__(self, path: Path, user: str = ""):
        self.process = nursery.start("tests.crash.reader", str(path), user)
        self.told = self.hear()

    def hear(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line, "the reader ended without an answer"
        found: dict[str, Any] = json.loads(line)
        return found

    def look(self) -> dict[str, Any]:
        print("once more", file=self.process.stdin, flush=True)
        return self.hear()

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(240) == 0


@contextmanager
def reader(path: Path, user: str = "") -> Iterator[Reader]:
    made = Reader(path, user)
    yield made
    made.close()


def check_read(told: dict[str, Any], refused: str = "forbidden") -> None:
    assert told["rows"] == told["old"] == told["blamed"] == ROWS
    assert told["sum"] == sum(range(ROWS)) + 1_000
    assert told["problems"] == []
    assert set(told["writes"].values()) == {refused}, told["writes"]


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")


@needs_root
def test_of_another_owner(path: Path) -> None:
    """Nobody has it open, so that its catalog cannot be read in place; nothing is left behind."""
    before = files(path)
    with reader(path, NOBODY) as one:
        assert "this user may not write" in one.told["read_only"]
        check_read(one.told)
    assert files(path) == before
    assert list(Path("/tmp").glob("livingdb-catalog-*")) == []


@needs_root
def test_of_another_owner_who_has_it_open(path: Path) -> None:
    """It is read in place, follows commits, and compacting takes nothing from under it."""
    with livingdb.open(path, engine="embedded") as db:
        main = db.branch("main")
        main.upsert("t", {"id": [0], "v": [1_000]})
        with reader(path, NOBODY) as one:
            check_read(one.told)
            main.insert("t", {"id": [ROWS], "v": [0]})
            main.upsert("t", {"id": range(ROWS), "v": range(ROWS)})
            db.compact()
            assert one.look()["rows"] == ROWS + 1
            db.close()
            again = one.look()
            assert (again["rows"], again["problems"]) == (ROWS + 1, [])
    with livingdb.open(path) as db:
        db.branch("main").insert("t", {"id": [ROWS + 1], "v": [0]})
        assert db.check().problems == []


@needs_root
def test_of_another_owner_who_was_killed(path: Path, folder: Path) -> None:
    """What is in the catalog's log only is read as well, with or without its index."""
    killed = folder / "killed"
    with livingdb.open(path) as db:
        db.branch("main").insert("t", {"id": [ROWS], "v": [7]})
        shutil.copytree(path, killed)
    assert (killed / "catalog.db-wal").stat().st_size > 0
    for _ in range(2):
        with reader(killed, NOBODY) as one:
            assert one.told["rows"] == ROWS + 1
            assert one.told["problems"] == []
        (killed / "catalog.db-shm").unlink(missing_ok=True)


@needs_root
def test_who_cannot_share_the_lease_is_told_what_is_gone(path: Path) -> None:
    """Never wrong rows: what is taken away from under a reader whom nobody knows is `Forgotten`."""
    (path / "lease").chmod(0o600)
    with reader(path, NOBODY) as one:
        check_read(one.told)
        with livingdb.open(path) as db:
            main = db.branch("main")
            main.upsert("t", {"id": range(ROWS), "v": range(1, ROWS + 1)})
            drain_journal(db._graph.store)
            db.compact()
        for pack in path.rglob("*.pack"):
            pack.rename(pack.with_suffix(".gone"))
        seen = one.look()
        if "error" in seen:
            assert seen["error"] in ("forgotten", "locked")
        else:  # what it has mapped is there as long as it is
            assert (seen["rows"], seen["sum"]) == (ROWS, sum(range(ROWS)) + 1_000)


def test_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader without a lease that has not opened a pack before it went."""
    (path / "lease").unlink()
    with livingdb.open(path, read_only=True) as db:
        for pack in path.rglob("*.pack"):
            pack.unlink()
        with pytest.raises(Forgotten, match="open it again"):
            db.branch("main").table("t").to_arrow()


def test_by_choice(path: Path) -> None:
    """On a folder that can be written: nothing is, and commits of others are seen."""
    with livingdb.open(path, read_only=True) as db, livingdb.open(path) as other:
        assert (db.read_only, other.read_only) == ("it was opened with read_only=True", None)
        with pytest.raises(Forbidden, match="reading only: it was opened with read_only=True"):
            db.branch("main").insert("t", {"id": [ROWS], "v": [0]})
        with pytest.raises(Forbidden):
            db.branch("main").transaction()
        other.branch("main").insert("t", {"id": [ROWS], "v": [0]})
        assert len(db.branch("main").table("t")) == ROWS + 1
        root = db.branch("main").table("t").root()
        assert other.branch("main").table("t").root() == root
    with pytest.raises(livingdb.NotFound):
        livingdb.open(path.parent / "none", read_only=True)


def test_an_older_catalog_is_read_and_stays_as_it_is(folder: Path) -> None:
    path = unpack("catalog-4", folder)
    before = (path / "catalog.db").read_bytes()
    with livingdb.open(path, read_only=True, engine="embedded") as db:
        assert db.branch("main").table("orders").to_arrow().num_rows > 0
        assert db.check().problems == []
        with pytest.raises(Forbidden):
            db.branch("main").delete("orders", [1])
    assert (path / "catalog.db").read_bytes() == before


# --- disks ---------------------------------------------------------------------------------------


def mount(*arguments: str) -> None:
    try:
        subprocess.run(["mount", *arguments], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not permitted here (needs root)")


@pytest.fixture
def disk(path: Path, folder: Path) -> Iterator[Path]:
    """A small disk with the database on it."""
    place = folder / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "livingdb", str(place))
    try:
        shutil.copytree(path, place / "shop")
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_is_mounted_read_only(disk: Path) -> None:
    mount("-o", "remount,ro", str(disk))
    with reader(disk / "shop") as one:
        assert "mounted read-only" in one.told["read_only"]
        check_read(one.told)


def test_a_folder_that_is_bound_read_only_and_written_elsewhere(path: Path, folder: Path) -> None:
    """Its media are not read-only: who writes is seen, and takes nothing away."""
    bound = folder / "bound"
    bound.mkdir()
    mount("--bind", str(path), str(bound))
    try:
        mount("-o", "remount,bind,ro", str(bound))
        with livingdb.open(path, engine="embedded") as db:
            db.branch("main").upsert("t", {"id": [0], "v": [1_000]})
            with reader(bound) as one:
                check_read(one.told)
                db.branch("main").insert("t", {"id": [ROWS], "v": [0]})
                assert one.look()["rows"] == ROWS + 1
    finally:
        subprocess.run(["umount", "--lazy", str(bound)], check=True)


def test_a_full_disk_still_reads(disk: Path) -> None:
    """Who opens a database on one is told so by the first write; with room, it is as before."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    with reader(disk / "shop") as one:
        assert "full" in one.told["read_only"]
        check_read(one.told, "storage_failure")
    with (
        livingdb.open(disk / "shop") as db,
        pytest.raises(StorageFailure, match="full"),
    ):
        db.branch("main").insert("t", {"id": [ROWS], "v": [0]})
    filler.unlink()
    with livingdb.open(disk / "shop") as db:
        db.branch("main").insert("t", {"id": [ROWS], "v": [0]})
        assert db.check().problems == []


MOUNTS = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 7:0 / /media/cd\\040rom ro,relatime - iso9660 /dev/sr0 ro
31 21 0:40 / /data ro,relatime - ext4 /dev/sdb1 ro
32 31 0:41 / /data/image ro,relatime shared:3 - squashfs /dev/loop0 ro
33 32 0:42 / /data/image/over rw - overlay overlay rw
"""


@pytest.mark.parametrize(
    ("folder", "is_fixed"),
    [
        ("/home/shop", False),
        ("/media/cd rom/shop", True),
        ("/media/cd romance", False),
        ("/data/shop", False),
        ("/data/image", True),
        ("/data/image/a/shop", True),
        ("/data/image/over/shop", False),
    ],
)
def test_media_that_nobody_can_write(folder: str, is_fixed: bool) -> None:
    assert is_fixed_media(Path(folder), MOUNTS) == is_fixed


def test_media_that_nobody_can_write_are_read_without_locks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livingdb.catalog.read_only.is_fixed_media", lambda folder: True)
    before = files(path)
    with livingdb.open(path, read_only=True) as db:
        assert len(db.branch("main").table("t")) == ROWS
        assert files(path) == before
        with pytest.raises(Forbidden):
            db.tag("tagged", "main")
