"""Tables of very many columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.evolution import AddColumn, DropColumn
from livingdb.tables import given_schema

COUNT = 10_000


def test_too_many_columns(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "wide.ldb", engine="embedded") as db:
        columns = dict.fromkeys((f"c{at}" for at in range(20_001)), "int")
        with pytest.raises(livingdb.Unsupported, match="at most 20,000"):
            db.branch("main").create_table("w", columns, key="c0")


def test_a_table_grows_to_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with livingdb.create(tmp_path / "wide.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("w", {"id": "int", "a": "int", "b": "int"}, key="id")
        monkeypatch.setattr(given_schema, "_MAX_COLUMNS", 3)
        with pytest.raises(livingdb.Unsupported, match="4 columns: a table has at most 3"):
            main.evolve(AddColumn("w", "c", "int"))
        with pytest.raises(livingdb.Unsupported, match="at most 3"):
            main.sql("ALTER TABLE w ADD COLUMN c INT")
        main.evolve([DropColumn("w", "b"), AddColumn("w", "c", "int")])
        monkeypatch.setattr(given_schema, "_MAX_COLUMNS", 2)
        with pytest.raises(livingdb.Unsupported, match="at most 2"):
            main.evolve(AddColumn("w", "d", "int"))


@pytest.mark.slow
def test_ten_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{at}" for at in range(1, COUNT)]
    with livingdb.create(tmp_path / "wide.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("w", {"id": "bigint", **dict.fromkeys(names, "bigint")}, key="id")
        rows = {"id": pa.array(range(20)), **{n: pa.array([int(n[1:])] * 20) for n in names}}
        main.insert("w", pa.table(rows))
        main.upsert("w", [{"id": 3, **dict.fromkeys(names, 0)}])
        main.update("w", [{"id": 4, "c7": 9}])
    with livingdb.open(tmp_path / "wide.ldb", engine="embedded") as db:
        main = db.branch("main")
        found = main.table("w").to_arrow()
        assert found.shape == (20, COUNT)
        assert found.column("c9999")[3].as_py() == 0
        assert main.table("w").get(4)["c7"] == 9
        whole = main.sql("SELECT * FROM w WHERE c9999 = 0").to_arrow()
        assert whole.shape == (1, COUNT)
        assert main.sql("UPDATE w SET c5 = c5 + 1 WHERE id < 2").changed == 2
        (change,) = db.diff("main~2", "main~1")["w"].to_arrow().to_pylist()
        assert {n for n in names if change["_before"][n] != change["_after"][n]} == {"c7"}
        assert db.check().problems == []
