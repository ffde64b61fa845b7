"""Where a database lies, and that its folder is there for good once it was made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import StorageFailure
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


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailure, match=r"make the folder.*file"):
        livingdb.create(tmp_path / "file" / "shop.ldb")
