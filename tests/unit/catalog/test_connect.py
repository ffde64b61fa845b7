"""Where a database lies, and that its folder is there for good once it was made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import InvalidName, StorageFailure
from livingdb.files.syscalls import Syscalls


def test_new_folders_are_synced_into_those_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []

    def note(kind: str) -> None:
        original = getattr(Syscalls, kind)

        def noted(self: Syscalls, path: str) -> None:
            done.append((kind, os.path.relpath(path, tmp_path)))
            original(self, path)

        monkeypatch.setattr(Syscalls, kind, noted)

    note("mkdir")
    note("fsync_folder")
    livingdb.create(tmp_path / "a" / "shop.ldb").close()
    made = [("mkdir", "a"), ("fsync_folder", "."), ("mkdir", "a/shop.ldb"), ("fsync_folder", "a")]
    assert done[:4] == made


def test_a_folder_that_nobody_can_look_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for act in (livingdb.create, livingdb.open):
        with pytest.raises(StorageFailure, match="cannot look into"):
            act(tmp_path / ("a" * 300) / "shop.ldb")
        with pytest.raises(InvalidName, match="home folder"):
            act("~nobody-knows-them/shop.ldb")

    def refuse(path: Path, **_: bool) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    for opened in (livingdb.create, livingdb.open, lambda p: livingdb.open(p, read_only=True)):
        with pytest.raises(StorageFailure, match="Permission denied"):
            opened(tmp_path / "shop.ldb")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailure, match=r"make the folder.*file"):
        livingdb.create(tmp_path / "file" / "shop.ldb")
