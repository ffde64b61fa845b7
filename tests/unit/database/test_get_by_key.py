"""A row is got by every value that its key is written by, and by no other."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import InvalidData


@pytest.mark.parametrize(
    ("kind", "written", "asked"),
    [
        ("date", date(2026, 11, 18), "2026-11-18"),
        ("timestamp_ntz", datetime(2026, 11, 18, 3), "2026-11-18 03:00:00"),
        ("string", "Bodø", "Bodø"),
        ("binary", b"\xff\x00", b"\xff\x00"),
        ("bigint", 7, 7),
    ],
)
def test_a_key_as_it_is_written(tmp_path: Path, kind: str, written: object, asked: object) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"k": kind, "v": "int"}, key="k")
        main.insert("t", [{"k": written, "v": 1}])
        assert main.table("t").get(written) == main.table("t").get(asked) == {"k": written, "v": 1}


@pytest.mark.parametrize("asked", [b"a", "\ud800"])
def test_what_is_no_text_is_no_key_of_texts(tmp_path: Path, asked: object) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"k": "string", "v": "int"}, key="k")
        main.insert("t", [{"k": "a", "v": 1}])
        with pytest.raises(InvalidData):
            main.table("t").get(asked)
