"""What needs room for files, and has none: errors of ours, and queries that go on without."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import livingdb
from livingdb.alerts.delivery import _VARIABLES, NotSent, run
from livingdb.catalog.connect import CATALOG_FILE
from livingdb.catalog.read_only import read_catalog
from livingdb.engines.embedded import session
from livingdb.files.read_only import Refusal


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
        main.insert("t", {"id": [1, 2, 3], "v": ["a", "b", None]})
        yield database


@pytest.fixture
def full_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk takes a file for a while."""

    def refuse(*given: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("gettempdir", "mkdtemp", "TemporaryFile", "TemporaryDirectory"):
        monkeypatch.setattr(tempfile, name, refuse)


@pytest.mark.usefixtures("full_disks")
def test_queries_go_on(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need more than memory end with the error of that."""
    monkeypatch.setattr(session, "_instances", {})
    monkeypatch.setattr(session, "_memory_limit", "20 MB")
    main = db.at("main")
    assert main.sql("SELECT max(v) AS v FROM t").to_arrow().to_pydict() == {"v": ["b"]}
    pairs = "SELECT DISTINCT a.id * b.id AS x FROM range(3000) a, range(3000) b"
    with pytest.raises(livingdb.Unsupported, match="memory_limit"):
        main.sql(f"SELECT count(*) AS n FROM ({pairs})")


def test_a_query_that_cannot_spill() -> None:
    error = duckdb.IOException("IO Error: Could not write file: No space left on device")
    found = session.translate_error(error)
    assert isinstance(found, livingdb.errors.StorageFailure)
    assert "No space left" in str(found)


@pytest.mark.usefixtures("full_disks")
def test_no_room_for_a_copy_of_the_catalog(
    db: livingdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livingdb.catalog.read_only._is_current", lambda engine: False)
    with pytest.raises(livingdb.errors.StorageFailure, match="No space left"):
        read_catalog(tmp_path / "shop.ldb" / CATALOG_FILE, Refusal("it is full"))


@pytest.mark.usefixtures("full_disks")
def test_no_room_for_what_a_program_says() -> None:
    with pytest.raises(NotSent, match="No space left"):
        run(dict.fromkeys(_VARIABLES, ""), ["true"], 1)


def test_pictures_and_exports_that_cannot_be_written(
    db: livingdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(livingdb.errors.StorageFailure, match="cannot write"):
        db.graph().to_svg(tmp_path / "none" / "graph.svg")

    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(livingdb.errors.StorageFailure, match="cannot look into"):
        db.branch("main").export(tmp_path / "out")
