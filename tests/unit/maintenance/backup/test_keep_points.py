"""Which backups stay, and that the files of the others go, but never under somebody's hands."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb
from livingdb import InvalidData, Locked
from livingdb.files.local import LocalFiles
from livingdb.maintenance.backup.keep_points import Keep, kept_points, prune
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.use import is_going_on

DAY = 86_400_000_000
NOON = 20_000 * DAY + DAY // 2


@dataclass(frozen=True)
class Ages:
    days: float | None = None
    snapshots: int | None = None
    thin: str | None = None
    thin_days: float | None = None
    branches: Any = None


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (1, [0]),
        (3, [2, 1, 0]),
        (9, [30, 8, 7.2, 7.1, 2, 1, 0]),
        (timedelta(days=2), [2, 1, 0]),
        (timedelta(0), [0]),
        (Ages(days=1, thin="daily", thin_days=10), [8, 7.1, 2, 1, 0]),
        (Ages(days=1, thin="weekly"), [30, 7.1, 1, 0]),
        (Ages(snapshots=3, thin="monthly"), [7.1, 2, 1, 0]),
        (Ages(), [30, 8, 7.2, 7.1, 2, 1, 0]),
    ],
)
def test_which_are_kept(keep: Keep, kept: list[float]) -> None:
    ages = [30, 8, 7.2, 7.1, 2, 1, 0]
    found = kept_points([NOON - int(age * DAY) for age in ages], keep, NOON)
    assert [age for age, is_kept in zip(ages, found, strict=True) if is_kept] == kept


@pytest.mark.parametrize("keep", [Ages(thin="yearly"), Ages(branches={"dev": 1})])
def test_what_cannot_be_kept_is_refused(keep: Keep) -> None:
    with pytest.raises(InvalidData, match=r"thin=|branches"):
        kept_points([], keep, NOON)


def test_files_that_no_backup_needs_go(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        for step in range(4):
            main.upsert("t", {"id": range(300), "v": [step * n for n in range(300)]})
            db.compact()  # so that each has packs of its own
            if step < 3:
                db.backup(place)
        assert len(list((place / "points").iterdir())) == 3
        made = db.backup(place, keep=2)
        assert len(made.dropped) == 2
        kept = BackupPlace.open(LocalFiles(place))
        assert len(kept.point_names()) == 2
        names = set(db._graph.catalog.packs.names())
        packs = {path.name for path in (place / "packs").iterdir()}
        assert names < packs
        db.backup(place, keep=1)
        assert {path.name for path in (place / "packs").iterdir()} == names
        with livingdb.restore(place, tmp_path / "copy") as copy:
            assert state_of(copy) == state_of(db)


def test_nothing_goes_while_somebody_backs_up(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        db.backup(tmp_path / "backup")
        place = BackupPlace.open(LocalFiles(tmp_path / "backup"))
        place.files.write("packs/copied-just-now.pack", b"")
        with place.backing_up():
            prune(place, 1)
            assert place.files.exists("packs/copied-just-now.pack")
        with place.pruning() as is_alone:
            assert is_alone
            with pytest.raises(Locked, match="being taken away"):
                db.backup(tmp_path / "backup")
        prune(place, 1)
        assert place.files.list("packs") == []
        assert place.files.list("uses") == []


def test_a_use_that_was_killed_lapses(tmp_path: Path) -> None:
    """At once if its process is gone, else after a day; what cannot be read is none."""
    place = BackupPlace.open_or_create(LocalFiles(tmp_path), "an id")
    with place.backing_up() as use:
        mine = json.loads(place.files.read(use.name))
        assert is_going_on(json.dumps({**mine, "host": "elsewhere"}).encode())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    told = [{**mine, "process": ended.pid}, {**mine, "host": "elsewhere", "time": 1000}, None]
    for number, each in enumerate(told):
        place.files.write(f"uses/backup-{number}", json.dumps(each).encode())
    with place.pruning() as is_alone:
        assert is_alone
    assert place.files.list("uses") == []
