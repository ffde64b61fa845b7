"""The faulty twin does what it says, and finds what it is there to find."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from livingdb.errors import LivingDBError, StorageFailure
from livingdb.files.base import Files
from livingdb.files.local import LocalFiles
from livingdb.testing import Fault, FaultyFiles, Loss, Step
from livingdb.testing.faulty_files import FaultySyscalls

LONG = bytes(range(1, 256)) * 100
SEEDS = range(12)

Script = list[tuple[str, bytes | None]]

SCRIPT: Script = [
    ("a/one", b"first"),
    ("a/two", LONG),
    ("a/one", b"second"),
    ("b/c/three", LONG[::-1]),
    ("a/two", None),
    ("four", b""),
    ("a/two", b"again"),
]


def play(files: Files, path: str, content: bytes | None) -> None:
    if content is None:
        files.delete(path)
    else:
        files.write(path, content)


class History:
    """What each file may hold: what it was acknowledged to hold, or what came after that."""

    def __init__(self) -> None:
        self.allowed: dict[str, list[bytes | None]] = {}

    def begin(self, path: str, content: bytes | None) -> None:
        self.allowed.setdefault(path, [None]).append(content)

    def acknowledge(self, path: str) -> None:
        latest = self.allowed[path][-1]
        if latest is not None:
            self.allowed[path] = [latest]

    def copy(self) -> History:
        twin = History()
        twin.allowed = {path: list(contents) for path, contents in self.allowed.items()}
        return twin

    def check(self, files: Files) -> None:
        assert set(files.list()) <= set(self.allowed)
        for path, contents in self.allowed.items():
            held = files.read(path) if files.exists(path) else None
            assert held in contents, path


def record(files: FaultyFiles, script: Script) -> list[History]:
    """What a crash after each change of the disk may leave, by the number of changes."""
    history = History()
    histories = [history.copy()]

    def keep() -> None:
        while len(histories) <= len(files.disk):
            histories.append(history.copy())

    for path, content in script:
        history.begin(path, content)
        play(files, path, content)
        keep()
        history.acknowledge(path)
        histories[len(files.disk)] = history.copy()
    return histories


@pytest.mark.parametrize("loss", ["drop", "tear", "reorder", None])
def test_local_files_survive_a_power_loss_at_any_moment(tmp_path: Path, loss: Loss | None) -> None:
    files = FaultyFiles(tmp_path / "root", power_loss=True)
    histories = record(files, SCRIPT)
    for at, history in enumerate(histories):
        for seed in SEEDS if loss != "drop" else [0]:
            image = tmp_path / f"image-{at}-{seed}"
            files.disk.write_image(image, seed, loss=loss, at=at)
            history.check(LocalFiles(image))


def violations(tmp_path: Path, sloppy: type[FaultySyscalls]) -> int:
    """How many images break a promise when local files run on sloppy steps."""
    files = FaultyFiles(tmp_path / "root", power_loss=True)
    files._syscalls = sloppy((), None, files.disk)
    histories = record(files, SCRIPT)
    broken = 0
    for at, history in enumerate(histories):
        for seed in SEEDS:
            image = tmp_path / f"image-{at}-{seed}"
            files.disk.write_image(image, seed, at=at)
            try:
                history.check(LocalFiles(image))
            except AssertionError:
                broken += 1
    return broken


class NoFileSync(FaultySyscalls):
    def fsync(self, descriptor: int) -> None:
        pass


class NoFolderSync(FaultySyscalls):
    def fsync_folder(self, path: str) -> None:
        pass


@pytest.mark.parametrize("sloppy", [NoFileSync, NoFolderSync])
def test_a_power_loss_finds_a_forgotten_sync(tmp_path: Path, sloppy: type[FaultySyscalls]) -> None:
    assert violations(tmp_path, sloppy) > 0


def test_a_power_loss_finds_a_retried_sync(tmp_path: Path) -> None:
    class Retrying(FaultySyscalls):
        def fsync(self, descriptor: int) -> None:
            self.faults = (Fault("fsync", self.counts["fsync"] + 1),)
            with pytest.raises(OSError, match="Input/output"):
                super().fsync(descriptor)
            super().fsync(descriptor)

    assert violations(tmp_path, Retrying) > 0


def test_unsynced_bytes_are_torn_at_blocks(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path / "root", power_loss=True)
    with files.create("a") as writer:
        writer.write(LONG)
        files.disk.log_folder_sync(files.root)
        lengths, torn = set(), 0
        for seed in range(40):
            image = tmp_path / f"image-{seed}"
            files.disk.write_image(image, seed, loss="tear")
            (held,) = [path.read_bytes() for path in image.iterdir()]
            lengths.add(len(held))
            blocks = [held[start : start + 512] for start in range(0, len(held), 512)]
            for number, block in enumerate(blocks):
                whole = LONG[number * 512 :][: len(block)]
                edge = len(LONG) // 2 // 512 == number
                assert edge or block in (whole, bytes(len(block)))
            torn += held != LONG
    assert len(lengths) > 2
    assert torn > 30


def test_renames_are_reordered(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path / "root", power_loss=True)
    files.write("one", b"old")
    files.write("two", b"old")
    files._syscalls = NoFolderSync((), None, files.disk)
    files.write("one", b"new")
    files.write("two", b"new")
    seen = set()
    for seed in range(60):
        files.disk.write_image(tmp_path / f"image-{seed}", seed, loss="reorder")
        image = LocalFiles(tmp_path / f"image-{seed}")
        seen.add((image.read("one"), image.read("two")))
    assert len(seen) == 4


def test_what_was_there_before_is_safe(tmp_path: Path) -> None:
    LocalFiles(tmp_path / "root").write("a/b", b"old")
    files = FaultyFiles(tmp_path / "root", power_loss=True)
    files.delete("a/b")
    files.disk.write_image(tmp_path / "image", 0, loss="drop")
    assert LocalFiles(tmp_path / "image").read("a/b") == b"old"


def test_the_same_seed_gives_the_same_image(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path / "root", power_loss=True)
    record(files, SCRIPT)
    middle = len(files.disk) // 2
    for twin in ("x", "y"):
        files.disk.write_image(tmp_path / twin, 7, at=middle)
    first, second = LocalFiles(tmp_path / "x"), LocalFiles(tmp_path / "y")
    assert first.list() == second.list()
    assert [first.read(path) for path in first.list()] == [
        second.read(path) for path in second.list()
    ]


def test_there_is_no_log_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="power_loss"):
        _ = FaultyFiles(tmp_path).disk


def steps_of(tmp_path: Path, script: Script) -> int:
    files = FaultyFiles(tmp_path / "counted")
    for path, content in script:
        play(files, path, content)
    return files.counts.total()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_every_step_can_fail_and_no_promise_breaks(tmp_path: Path, error: int) -> None:
    for nth in range(1, steps_of(tmp_path, SCRIPT) + 1):
        root = tmp_path / f"root-{nth}"
        files = FaultyFiles(root, faults=[Fault(None, nth, error)])
        history = History()
        failures = 0
        for path, content in SCRIPT:
            history.begin(path, content)
            try:
                play(files, path, content)
            except StorageFailure:
                failures += 1
            else:
                history.acknowledge(path)
        assert failures >= 1
        history.check(LocalFiles(root))
        assert not list(root.rglob(".tmp-*"))


def test_a_lasting_fault_lasts_until_healed(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path, faults=[Fault("write", 2, errno.ENOSPC, lasting=True)])
    files.write("a", b"x")
    for _ in range(3):
        with pytest.raises(StorageFailure, match="full"):
            files.write("b", b"x")
    files.heal()
    files.write("b", b"x")


def in_a_child(work: Callable[[], None]) -> int:
    """Run the work in a forked process; the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@pytest.mark.slow
def test_a_process_killed_at_any_step_breaks_no_promise(tmp_path: Path) -> None:
    script = SCRIPT[:3]
    for number in range(1, steps_of(tmp_path, script) + 1):
        for moment in ("before", "middle", "after"):
            root = tmp_path / f"root-{number}-{moment}"
            acknowledged = tmp_path / f"acknowledged-{number}-{moment}"

            def kill(step: Step, number: int = number, moment: str = moment) -> None:
                if (step.number, step.moment) == (number, moment):
                    os.kill(os.getpid(), signal.SIGKILL)

            def work(root: Path = root, acknowledged: Path = acknowledged, kill=kill) -> None:  # type: ignore[no-untyped-def]
                files = FaultyFiles(root, on_step=kill)
                for done, (path, content) in enumerate(script, start=1):
                    play(files, path, content)
                    acknowledged.write_text(str(done))

            ended = in_a_child(work)
            assert ended == signal.SIGKILL or moment == "middle"
            history = History()
            count = int(acknowledged.read_text()) if acknowledged.exists() else 0
            for position, (path, content) in enumerate(script[: count + 1]):
                history.begin(path, content)
                if position < count:
                    history.acknowledge(path)
            survivor = LocalFiles(root)
            history.check(survivor)
            survivor.sweep(older_than_seconds=0)
            assert not list(root.rglob(".tmp-*"))
            survivor.write("next", b"works")


def test_errors_are_of_the_tree(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path, faults=[Fault("create")])
    with pytest.raises(LivingDBError) as caught:
        files.write("a", b"x")
    assert caught.value.code == "storage_failure"
    assert isinstance(caught.value.__cause__, OSError)
