"""`livingdb backup` and `livingdb restore`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.telling import tell

import livingdb
from livingdb.cli.exits import CORRUPTION, NOT_FOUND, USAGE


def test_out_and_back(shop: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "backup")
    first = tell("backup", place, "--verify", "-o", "json", db=shop).json
    assert first["copied_packs"] == first["packs"]
    assert tell("sql", "DELETE FROM visits", db=shop).code == 0
    told = tell("backup", place, db=shop)
    assert (told.code, "0 packs, " in told.out) == (0, True), told.err
    points = tell("backup", "--list", place, "-o", "json").json
    assert points[0]["point"] == first["point"]
    assert [*points[0]] == ["point", "time", "packs", "bytes"]
    made = tell("restore", place, str(tmp_path / "then.ldb"), "--at", first["time"], "-o", "json")
    assert made.json["database"] == str(tmp_path / "then.ldb")
    again = tell("restore", place, str(tmp_path / "now.ldb"))
    assert (again.code, "branches" in again.out) == (0, True), again.err
    with livingdb.open(tmp_path / "then.ldb") as then, livingdb.open(tmp_path / "now.ldb") as now:
        assert len(then.branch("main").table("visits")) > 0
        assert len(now.branch("main").table("visits")) == 0
        assert now.id == then.id == made.json["id"]
    kept = tell("backup", place, "--keep", "1", "-o", "json", db=shop).json
    assert len(kept["dropped"]) == 2


def test_what_is_said_of_damage_and_misuse(shop: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    assert tell("backup", str(place), db=shop).code == 0
    sound = tell("backup", "--check", str(place), "-o", "json")
    assert (sound.code, sound.json["ok"], sound.json["points"]) == (0, True, 1)
    (rows,) = (place / "rows").iterdir()
    rows.write_bytes(b"x")
    told = tell("backup", "--check", str(place))
    assert (told.code, rows.name in told.out) == (CORRUPTION, True)
    assert tell("restore", str(place), str(tmp_path / "copy")).code == CORRUPTION
    assert tell("restore", str(tmp_path / "none"), str(tmp_path / "copy")).code == NOT_FOUND
    for words in (
        ["--check", "--list"],
        ["--keep", "1", "--keep-days", "2"],
        ["--check", "--verify"],
    ):
        assert tell("backup", str(place), *words, db=shop).code == USAGE
