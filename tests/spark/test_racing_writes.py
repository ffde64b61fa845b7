"""Writes from Spark that race a schema change: rows are checked in tasks, and committed later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb import evolution as ev
from livingdb.spark.writer import StreamSink, TableWriter

SCHEMA = {"id": "bigint", "a": "string", "b": "string"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        db.branch("main").create_table("t", SCHEMA, key="id")
        db.branch("main").insert("t", {"id": [1], "a": ["x"], "b": ["y"]})
        return str(db.name)


def rows() -> pa.RecordBatch:
    return pa.record_batch({"id": [2], "a": ["p"], "b": ["q"]})


def drop_and_create(main: livingdb.Branch) -> None:
    main.evolve([ev.DropTable("t"), ev.CreateTable("t", SCHEMA, "id")])


RACES: dict[str, Callable[[livingdb.Branch], object]] = {
    "dropped": lambda main: main.evolve(ev.DropTable("t")),
    "made anew": drop_and_create,
    "column dropped": lambda main: main.evolve(ev.DropColumn("t", "b")),
    "column made anew": lambda main: main.evolve(
        [ev.DropColumn("t", "a"), ev.AddColumn("t", "a", "string")]
    ),
    "renamed": lambda main: main.evolve(ev.RenameTable("t", "u")),
}


@pytest.mark.parametrize("operation", ["insert", "upsert", "overwrite", "stream"])
@pytest.mark.parametrize("name", RACES)
def test_a_racing_write(url: str, name: str, operation: str) -> None:
    options = {"checkpointLocation": "s"} if operation == "stream" else {"operation": operation}
    kind = StreamSink if operation == "stream" else TableWriter
    is_whole = operation == "overwrite"
    writer = kind(url, "t", {} if is_whole else options, is_whole, rows().schema)
    message = writer.write(iter([rows()]))
    with livingdb.open(url) as db:
        main = db.branch("main")
        RACES[name](main)
        head = main.head
        with pytest.raises(livingdb.TransactionConflict, match="'t'"):
            _commit(writer, message)
        assert main.head == head


def test_others_may_write(url: str) -> None:
    writer = TableWriter(url, "t", {}, False, rows().schema)
    message = writer.write(iter([rows()]))
    with livingdb.open(url) as db:
        main = db.branch("main")
        main.insert("t", {"id": [3], "a": ["x"], "b": ["y"]})
        main.create_table("u", SCHEMA, key="id")
        _commit(writer, message)
        assert main.table("t").get(2) == {"id": 2, "a": "p", "b": "q"}


def _commit(writer: StreamSink | TableWriter, message: object) -> None:
    if isinstance(writer, StreamSink):
        writer.commit([message], 1)  # type: ignore[list-item]
    else:
        writer.commit([message])  # type: ignore[list-item]
