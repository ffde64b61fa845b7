"""What is easily got wrong is answered at once, with what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import livingdb
from livingdb import InvalidData


def test_an_engine_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="'duckdb': choose one of auto, embedded, spark"):
        livingdb.create(tmp_path / "shop.ldb", engine="duckdb")
    assert not (tmp_path / "shop.ldb").exists()
    livingdb.create(tmp_path / "shop.ldb").close()
    with pytest.raises(InvalidData, match="choose one of"):
        livingdb.open(tmp_path / "shop.ldb", engine="duckdb")


def test_messages_and_times(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table(
            "visits", {"id": "bigint", "at": "timestamp", "noon": "timestamp_ntz"}, "id"
        )
        assert main.insert("visits", [{"id": 1}], message=None).message == ""
        with main.transaction(message=None) as tx:
            tx.insert("visits", [{"id": 2}])
        with pytest.raises(InvalidData, match="a message is a text, not int"):
            main.insert("visits", [{"id": 3}], message=5)
        with pytest.raises(InvalidData, match=r"row 0: .*it has no time zone; give it one, as in"):
            main.insert("visits", [{"id": 3, "at": datetime(2026, 1, 1)}])
        with pytest.raises(InvalidData, match="it has a time zone and the column has none"):
            main.insert("visits", [{"id": 3, "noon": datetime(2026, 1, 1, tzinfo=UTC)}])
        assert len(main.table("visits")) == 2


@pytest.mark.parametrize("limit", [-1, "2", 1.5, True])
def test_a_limit_that_is_none(tmp_path: Path, limit: object) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        for ask in (main.log, main.movements, main.head.log, db.branches):
            with pytest.raises(InvalidData, match=r"limit .*: a whole number"):
                ask(limit=limit)
            assert ask(limit=0) == []
            assert len(ask(limit=5)) == 1


@pytest.mark.parametrize("trust", ["shop.*", 5, [5], [""], None])
def test_what_is_trusted_is_a_list(tmp_path: Path, trust: object) -> None:
    """A text is a list of its letters, and one of them may be a star."""
    with pytest.raises(InvalidData, match="trust"):
        livingdb.create(tmp_path / "shop.ldb", trust=trust)
    assert not (tmp_path / "shop.ldb").exists()
    livingdb.create(tmp_path / "shop.ldb").close()
    with pytest.raises(InvalidData, match="trust"):
        livingdb.open(tmp_path / "shop.ldb", trust=trust)
    with livingdb.open(tmp_path / "shop.ldb", trust=["shop.*"]) as db:
        assert db.trust == ("shop.*",)


def test_columns_are_a_list(tmp_path: Path) -> None:
    """A text is not taken for the list of its letters, even if there are such columns."""
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"a": "int", "b": "int"}, "a")
        table = main.table("t")
        with main.transaction() as tx:
            for rows in (table, tx.table("t")):
                for read in (rows.to_arrow, rows.to_pandas, rows.to_polars, rows.batches):
                    for where in (None, "a = 1"):
                        with pytest.raises(InvalidData, match=r"columns='ab': a list of names"):
                            read(columns="ab", where=where)
        with pytest.raises(InvalidData, match="columns='ab': a list of names"):
            table.to_parquet(tmp_path / "t.parquet", columns="ab")
        assert table.to_arrow(columns=["a"]).column_names == ["a"]


def test_no_table_is_said_once(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        for text in ("INSERT INTO t VALUES (1)", "SELECT * FROM t", "DELETE FROM t"):
            with pytest.raises(livingdb.NotFound) as caught:
                db.branch("main").sql(text)
            assert str(caught.value).count("there are") == 1


def test_events_to_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        for place in (tmp_path / "nowhere" / "events.json", tmp_path):
            with pytest.raises(livingdb.StorageFailure, match="cannot write"):
                db.export_openlineage(place)
    assert [path.name for path in tmp_path.iterdir()] == ["shop.ldb"]
    assert not list(tmp_path.parent.glob("*.part"))
