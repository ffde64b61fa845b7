"""Power loss of a whole database, its catalog and log included.

The model is the strict one of `livingdb.testing.power_loss`: what was not synced may be lost, torn
at blocks of 512 or 4,096 bytes, or be there out of order.  Whatever the moment, what was
acknowledged is there, the head is the old one or the new one, `check` is clean and the next commit
works.
"""

from __future__ import annotations

import json
import platform
import random
import shutil
import sys
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash import nursery
from tests.crash.conftest import folder_in_memory
from tests.crash.power import STEPS, states
from tests.crash.scenarios import Contents, contents, noise
from tests.property.trying import SEED, tries

import livingdb
from livingdb import LivingDBError, NotFound

STATES = 2_000
SAMPLE = 16

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.python_implementation() != "CPython",
    reason="SQLite's calls are watched on Linux",
)


class Disk:
    """A `tests.crash.power` that has made its database, and what that held after each step."""

    def __init__(self, folder: Path, known: list[Contents], steps: int, how: str = "strict"):
        self.folder, self.states = folder, known
        given = (str(folder / f"recorded {how}"), str(steps), how)
        self.process = nursery.start("tests.crash.power", *given)
        told = json.loads(self.process.stdout.readline())
        self.changes: int = told["changes"]
        self.acknowledged: list[int] = told["acknowledged"]

    def lose_power(self, seed: int) -> None:
        """At a moment that the seed says; most are when something was not synced yet."""
        at = random.Random(f"moment {seed}").randint(0, self.changes)
        self.lose_power_at(at, seed)

    def lose_power_at(self, at: int, seed: int) -> None:
        image = self.folder / f"image-{seed}"
        order = {"folder": str(image), "seed": seed, "at": at}
        print(json.dumps(order), file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "written\n"
        steps = bisect_right(self.acknowledged, at)
        try:
            check_image(image, self.states, steps)
        except BaseException as error:
            error.add_note(f"seed {seed}, change {at} of {self.changes}, after {steps} steps")
            raise
        shutil.rmtree(image)

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(240) == 0


def check_image(image: Path, known: list[Contents], steps: int) -> None:
    """A database that was acknowledged so many times; the next step may be there as well."""
    try:
        db = livingdb.open(image)
    except NotFound:
        assert steps == 0, "the database was created and is gone"
        db = livingdb.create(image)
    with db:
        found = contents(db)
        assert found in known[max(0, steps - 1) : steps + 1]
        assert db.check().problems == []
    with livingdb.open(image) as db:
        main = db.branch("main")
        if "blobs" not in main.tables():
            main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        before = len(main.table("blobs"))
        main.upsert("blobs", noise(5_000, 2, 20))
        assert len(main.table("blobs")) == before + 2
    with livingdb.open(image) as db:
        assert len(db.branch("main").table("blobs")) == before + 2


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with folder_in_memory() as folder:
        made = Disk(folder, states(folder / "plain"), len(STEPS))
        yield made
        made.close()


def test_the_power_goes_at_some_moments(disk: Disk) -> None:
    for seed in range(SAMPLE):
        disk.lose_power(seed)


def test_the_power_goes_when_something_was_acknowledged(disk: Disk) -> None:
    """Nothing of it waits to be synced."""
    for number, at in enumerate(disk.acknowledged[:: len(disk.acknowledged) // 4]):
        disk.lose_power_at(at, 10_000 + number)


def test_a_forgotten_sync_is_found(disk: Disk) -> None:
    """The same with syncs that count for nothing: what was acknowledged is not there."""
    sloppy = Disk(disk.folder, disk.states, 2, "sloppy")
    broken = 0
    for number, at in enumerate(sloppy.acknowledged):
        try:
            sloppy.lose_power_at(at, 20_000 + number)
        except (AssertionError, LivingDBError):
            broken += 1
    sloppy.close()
    assert broken == len(sloppy.acknowledged)


def test_the_power_goes_while_the_database_is_made(disk: Disk) -> None:
    """SQLite's journal may reach the disk before its database does."""
    for at in range(1, disk.acknowledged[0], 4):
        disk.lose_power_at(at, 1_812)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(4))
def test_the_power_goes_at_many_moments(disk: Disk, part: int) -> None:
    first = STATES * SEED + SAMPLE
    for seed in range(first + part, first + tries(STATES), 4):
        disk.lose_power(seed)
