"""Whatever file of a backup is damaged or gone, it is found and named, and mended where it can."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb
from livingdb import Corruption, Database, LivingDBError, Unsupported
from livingdb.catalog import schema
from livingdb.catalog.dump import TABLES
from livingdb.files.local import LocalFiles
from livingdb.maintenance.backup.rows_file import decode_rows
from livingdb.maintenance.backup.verify import check_place


def _rows(digest: object) -> bytes:
    """Rows of a table, of which the length of one value is this."""
    columns = ["name", "value", "digest"]
    rows = [{"table": "meta", "columns": columns, "rows": [["a", "b", digest]], "removed": []}]
    return json.dumps(rows).encode()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.insert("t", {"id": range(300), "v": range(300)})
        made.compact()
        made.backup(tmp_path / "backup")
        main.upsert("t", {"id": range(10), "v": range(10)})
        made.backup(tmp_path / "backup")
        yield made


def damage(path: Path, how: str) -> None:
    if how == "gone":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data) if how == "turned" else bytes(data[:-3]))


@pytest.mark.parametrize("how", ["turned", "cut", "gone"])
@pytest.mark.parametrize("folder", ["packs", "rows"])
def test_damage_is_named_and_mended(db: Database, tmp_path: Path, folder: str, how: str) -> None:
    place = tmp_path / "backup"
    files = sorted((place / folder).iterdir())
    for file in files:
        damage(file, how)
    report = check_place(LocalFiles(place))
    assert report.points == 2
    assert not report.ok
    for file in files:
        assert any(file.name in problem for problem in report.problems)
    with pytest.raises(Corruption, match=files[0].name if folder == "packs" else "rows/"):
        livingdb.restore(place, tmp_path / "copy")
    with pytest.raises(LivingDBError):
        livingdb.open(tmp_path / "copy")
    made = db.backup(place, verify=True)
    assert check_place(LocalFiles(place), [made.point]).ok
    with livingdb.restore(place, tmp_path / "copy") as copy:
        assert state_of(copy) == state_of(db)


def test_a_damaged_point_is_named(db: Database, tmp_path: Path) -> None:
    newest = sorted((tmp_path / "backup" / "points").iterdir())[-1]
    damage(newest, "turned")
    (problem,) = check_place(LocalFiles(tmp_path / "backup")).problems
    assert newest.name in problem
    with pytest.raises(Corruption, match="points/"):
        livingdb.restore(tmp_path / "backup", tmp_path / "copy")
    db.backup(tmp_path / "backup", keep=1)
    assert check_place(LocalFiles(tmp_path / "backup")).ok


def test_a_point_of_another_schema_is_refused(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next backup is whole by itself."""
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    with pytest.raises(Unsupported, match="restore it with the version that made it"):
        livingdb.restore(tmp_path / "backup", tmp_path / "copy")


@pytest.mark.parametrize(
    "told",
    [b"", b"[{}]", b"{}", b'[{"table": 1}]', b"[1]", _rows(-1), _rows(99), _rows("x"), _rows([])],
)
def test_rows_of_strangers(told: bytes) -> None:
    """They end in an error that names the file, whatever they say."""
    expand = zstandard.ZstdCompressor().compress
    packed = expand(told)
    data = b"LDBROWS1" + len(packed).to_bytes(8, "little") + packed + expand(b"8 bytes!")
    with pytest.raises((Corruption, Unsupported), match="the file"):
        list(decode_rows(TABLES.values(), data, "the file"))


def test_frames_that_claim_too_much() -> None:
    frame = bytes.fromhex("28b52ffd") + b"\xe0" + (1 << 40).to_bytes(8, "little")
    data = b"LDBROWS1" + len(frame).to_bytes(8, "little") + frame
    for each in (data, b"LDBROWS1", b"", b"LDBROWS1" + b"\xff" * 40):
        with pytest.raises(Corruption, match="the file"):
            list(decode_rows(TABLES.values(), each, "the file"))
