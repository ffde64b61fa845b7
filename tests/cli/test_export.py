"""`livingdb export`, and `livingdb import` of what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.telling import tell

import livingdb


def test_out_and_in_again(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = tell("export", str(out), "-o", "json", db=shop)
    assert told.code == 0, told.err
    tables = json.loads(told.out)["tables"]
    assert set(tables) == {path.stem for path in out.glob("*.parquet")}
    again = tmp_path / "again.ldb"
    assert tell("init", str(again)).code == 0
    made = tell("import", str(out), db=again)
    assert made.code == 0, made.err
    with livingdb.open(shop) as old, livingdb.open(again) as new:
        for name in tables:
            assert new.branch("main").table(name).root() == old.branch("main").table(name).root()
    assert "already" in tell("import", str(out), db=again).err


def test_what_is_said(shop: Path, tmp_path: Path) -> None:
    told = tell("export", str(tmp_path / "out"), "--table", "orders", "--format", "csv", db=shop)
    assert (told.code, told.out.startswith("1 table, ")) == (0, True)
    assert (tmp_path / "out" / "orders.csv").exists()
    assert tell("export", str(tmp_path / "x"), "--format", "json", db=shop).code == 2
    assert "--table" in tell("import", str(tmp_path), db=shop).err
    wrong = tell("import", str(tmp_path / "out"), "--key", "id", db=shop)
    assert (wrong.code, "no other options" in wrong.err) == (2, True)
