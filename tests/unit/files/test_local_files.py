"""Local files: the order of steps, and what each failing step leaves behind."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from livingdb.errors import InvalidName, NotFound, StorageFailure, Unsupported
from livingdb.files.local import LocalFiles
from livingdb.files.objects import ObjectFiles
from livingdb.files.syscalls import Syscalls
from livingdb.files.url import open_files
from livingdb.testing import Fault, FaultyFiles, Step


def names(folder: Path) -> list[str]:
    """Every file below the folder, temporaries too."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_commit_syncs_before_it_renames_and_after(tmp_path: Path) -> None:
    steps: list[Step] = []
    files = FaultyFiles(tmp_path / "root", on_step=steps.append)
    files.write("a/b/c", b"x")
    done = [(step.kind, os.path.relpath(step.path, tmp_path)) for step in steps]
    done = [step for step, moment in zip(done, steps, strict=True) if moment.moment == "after"]
    temporary = done[6][1]
    assert os.path.dirname(temporary) == "root/a/b"
    assert os.path.basename(temporary).startswith(".tmp-")
    assert done == [
        ("mkdir", "root"),
        ("fsync_folder", "."),
        ("mkdir", "root/a"),
        ("fsync_folder", "root"),
        ("mkdir", "root/a/b"),
        ("fsync_folder", "root/a"),
        ("create", temporary),
        ("write", temporary),
        ("fsync", temporary),
        ("close", temporary),
        ("replace", "root/a/b/c"),
        ("fsync_folder", "root/a/b"),
    ]


def test_folders_are_synced_once(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    files.write("a/one", b"x")
    before = files.counts["fsync_folder"]
    files.write("a/two", b"x")
    assert files.counts["fsync_folder"] == before + 1


def test_a_folder_somebody_else_made_is_synced_too(tmp_path: Path) -> None:
    (tmp_path / "root" / "a").mkdir(parents=True)
    files = FaultyFiles(tmp_path / "root")
    files.write("a/one", b"x")
    assert files.counts["fsync_folder"] == 3


def test_an_existing_root_in_a_folder_that_cannot_be_opened_is_fine(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()

    class ClosedParent(Syscalls):
        def fsync_folder(self, path: str) -> None:
            if path == str(tmp_path):
                raise PermissionError(errno.EACCES, "closed")
            super().fsync_folder(path)

    LocalFiles(root, syscalls=ClosedParent()).write("a", b"x")
    assert (root / "a").read_bytes() == b"x"


def test_a_write_in_many_short_pieces(tmp_path: Path) -> None:
    class ShortWrites(Syscalls):
        def write(self, descriptor: int, data: memoryview) -> int:
            return super().write(descriptor, data[:7])

    content = os.urandom(1000)
    files = LocalFiles(tmp_path, syscalls=ShortWrites())
    files.write("a", content)
    assert files.read("a") == content


@pytest.mark.parametrize("kind", ["fsync", "fsync_folder", "close"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_sync_nothing_more_is_written(tmp_path: Path, kind: str, error: int) -> None:
    LocalFiles(tmp_path).write("a", b"old")
    files = FaultyFiles(tmp_path, faults=[Fault(kind, 1, error)])  # type: ignore[arg-type]
    with pytest.raises(StorageFailure):
        files.write("a", b"new")
    with pytest.raises(StorageFailure, match="reopen"):
        files.write("b", b"new")
    with pytest.raises(StorageFailure, match="reopen"):
        files.create("b")
    with pytest.raises(StorageFailure, match="reopen"):
        files.delete("a")
    assert files.counts[kind] == 1  # type: ignore[index]
    assert files.read("a") == b"old"
    assert names(tmp_path) == ["a"]
    LocalFiles(tmp_path).write("b", b"reopened")


def test_the_last_sync_failing_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    LocalFiles(tmp_path).write("a", b"old")
    files = FaultyFiles(tmp_path, faults=[Fault("fsync_folder", 2)])
    with pytest.raises(StorageFailure, match="sync the folder"):
        files.write("a", b"new")
    assert files.read("a") in (b"old", b"new")
    with pytest.raises(StorageFailure, match="reopen"):
        files.write("b", b"x")


def test_an_open_writer_is_poisoned_by_anothers_failed_sync(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path, faults=[Fault("fsync")])
    writer = files.create("a")
    with pytest.raises(StorageFailure):
        files.write("b", b"x")
    with pytest.raises(StorageFailure, match="reopen"):
        writer.write(b"x")
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["create", "write", "replace", "mkdir"])
def test_a_device_error_poisons_and_a_full_disk_does_not(tmp_path: Path, kind: str) -> None:
    LocalFiles(tmp_path).write("a", b"old")
    failing = FaultyFiles(tmp_path, faults=[Fault(kind, 1, errno.EIO)])  # type: ignore[arg-type]
    with pytest.raises(StorageFailure, match="Input/output error"):
        failing.write("new/a", b"new")
    with pytest.raises(StorageFailure, match="reopen"):
        failing.write("b", b"new")

    full = FaultyFiles(tmp_path, faults=[Fault(kind, 1, errno.ENOSPC, lasting=True)])  # type: ignore[arg-type]
    with pytest.raises(StorageFailure, match=r": the disk is full"):
        full.write("new2/a", b"new" * 1000)
    assert names(tmp_path) == ["a"]
    assert full.read("a") == b"old"
    full.heal()
    full.write("new2/a", b"new")
    assert full.read("new2/a") == b"new"


def test_a_failed_write_ends_the_writer(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path, faults=[Fault("write", 2, errno.ENOSPC)])
    with files.create("a") as writer:
        writer.write(b"one")
        with pytest.raises(StorageFailure, match="full"):
            writer.write(b"two")
        with pytest.raises(ValueError, match="already"):
            writer.commit()
    assert names(tmp_path) == []


def test_a_read_that_fails_poisons_nothing(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path, faults=[Fault("read"), Fault("map")])
    files.write("a", b"x")
    with pytest.raises(StorageFailure, match=r"cannot read .*/a: Input/output error"):
        files.read("a")
    with pytest.raises(StorageFailure, match=r"cannot read .*/a: Input/output error"):
        files.view("a")
    files.write("b", b"x")


def test_a_view_outlives_its_file(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("a", b"old rows")
    view = files.view("a")
    files.write("a", b"new")
    assert bytes(view) == b"old rows"
    files.delete("a")
    assert bytes(view[4:]) == b"rows"
    assert view.readonly


def test_sweep_removes_what_killed_writers_left(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("a/b", b"x")
    abandoned = files.create("a/c")
    abandoned.write(b"x")
    assert files.list() == ["a/b"]
    assert files.sweep(older_than_seconds=60) == 0
    assert len(names(tmp_path)) == 2
    assert files.sweep(older_than_seconds=0) == 1
    assert names(tmp_path) == ["b"]
    with pytest.raises(StorageFailure):
        abandoned.commit()
    assert files.list() == ["a/b"]


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        LocalFiles(tmp_path).write("a", b"x")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "root")
    files.write("a/b", b"x")
    (tmp_path / "root" / "a" / "loop").symlink_to(tmp_path / "root")
    assert files.list() == ["a/b"]


def test_a_file_in_the_way_of_a_folder_is_a_failure(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("a", b"x")
    with pytest.raises(StorageFailure, match="a/b"):
        files.write("a/b", b"x")
    assert LocalFiles(tmp_path).list() == ["a"]


def test_a_folder_in_the_way_of_a_file_is_a_failure(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("a/b", b"x")
    with pytest.raises(StorageFailure, match="rename"):
        files.write("a", b"x")
    assert names(tmp_path) == ["b"]


def test_the_url_opens_the_same_files(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "with space & 100%")
    files.write("a", b"x")
    assert files.url.startswith("file:///")
    assert open_files(files.url).read("a") == b"x"
    assert repr(files) == f"LocalFiles({str(tmp_path / 'with space & 100%')!r})"


def test_a_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = open_files("shop.ldb")
    monkeypatch.chdir("/")
    files.write("a", b"x")
    assert (tmp_path / "shop.ldb" / "a").read_bytes() == b"x"


def test_urls_that_name_no_place_are_refused() -> None:
    for url in ("", "a\0b", "file://elsewhere/data", "file://", "file:///data?x=1"):
        with pytest.raises(InvalidName):
            open_files(url)
    for url in ("http://somewhere/data", "memory://", "postgresql://user:canary@host/db"):
        with pytest.raises(Unsupported) as caught:
            open_files(url)
        assert "canary" not in str(caught.value)
    assert isinstance(open_files("s3://bucket/prefix?region=us-east-1"), ObjectFiles)


def test_opening_makes_nothing(tmp_path: Path) -> None:
    files = open_files(str(tmp_path / "absent"))
    assert files.list() == []
    with pytest.raises(NotFound):
        files.read("a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (3 << 20) + 5])
def test_large_blocks_that_need_not_be_cached(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "source").write_bytes(content)
    files = LocalFiles(tmp_path)
    mapped = files.view("source")
    with files.create("a", cached=False) as writer:
        writer.write(b"" if not size else mapped)
        writer.write(b"and more")
        writer.write(content)  # which begins where no block does
        writer.commit()
    assert files.read("a") == content + b"and more" + content


def test_a_file_system_that_caches_everything(tmp_path: Path) -> None:
    class Refusing(Syscalls):
        passing = False
        refused = 0

        def pass_by_cache(self, descriptor: int, is_on: bool) -> bool:
            self.passing = is_on
            return is_on

        def write(self, descriptor: int, data: memoryview) -> int:
            if self.passing:
                self.refused += 1
                raise OSError(errno.EINVAL, "no such thing")
            return super().write(descriptor, data)

    content, refusing = os.urandom(2 << 20), Refusing()
    files = LocalFiles(tmp_path, syscalls=refusing)
    with files.create("a", cached=False) as writer:
        writer.write(content)
        writer.write(content)
        writer.commit()
    assert files.read("a") == content * 2
    assert refusing.refused == 1


def test_a_direct_write_that_fails_is_a_failure(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path, faults=[Fault("write", 1, errno.ENOSPC)])
    with files.create("a", cached=False) as writer, pytest.raises(StorageFailure):
        writer.write(os.urandom(1 << 20))
    assert names(tmp_path) == []
