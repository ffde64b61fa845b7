"""Export and import: out and in again gives the same tables."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import livingdb
from livingdb.database.import_tables import import_tables
from livingdb.errors import AlreadyExists, InvalidData, NotFound, StorageFailure, Unsupported
from livingdb.evolution import AddUnique

UTC = datetime.UTC
PLAIN = {
    "id": "bigint",
    "flag": "boolean",
    "tiny": "tinyint",
    "single": "float",
    "real": "double",
    "money": "decimal(10,2)",
    "text": "string",
    "code": "varchar(5)",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
}
NESTED = {
    **PLAIN,
    "raw": "binary",
    "list": "array<string>",
    "pair": "struct<a:int,b:array<double>>",
    "map": "map<string,bigint>",
}
ROW: dict[str, Any] = {
    "id": 1,
    "flag": True,
    "tiny": -128,
    "single": 0.1,
    "real": -0.0,
    "money": Decimal("-1.10"),
    "text": 'Bodø,\n"x"\\',
    "code": "",
    "day": datetime.date(1582, 10, 4),
    "at": datetime.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "local": datetime.datetime(2024, 3, 31, 2, 30),
}
MORE = {"raw": b"\x00", "list": ["", None], "pair": {"a": 1, "b": [None, 1.5]}, "map": {"x": None}}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """A database with a table of every type, an empty one, and one that refers to another."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as database:
        main = database.branch("main")
        main.create_table("plain", PLAIN, key="id")
        empty = dict.fromkeys(PLAIN)
        main.insert("plain", [ROW, {**empty, "id": -(2**63)}, {**empty, "id": 7, "text": ""}])
        main.create_table("nested", NESTED, key="id")
        main.insert("nested", [{**ROW, **MORE}, {**dict.fromkeys(NESTED), "id": 2}])
        main.create_table("none", {"a b": "int"}, key="a b")
        main.create_table(
            "lines", {"n": "int", "of": "bigint"}, key="n", foreign_keys={"of": "plain"}
        )
        main.insert("lines", {"n": [1, 2], "of": [7, None]})
        yield database


def roots(branch: Any, names: list[str] | None = None) -> dict[str, str]:
    return {name: branch.table(name).root() for name in names or branch.tables()}


@pytest.mark.parametrize("written", ["parquet", "arrow", "csv"])
def test_out_and_in_again(db: livingdb.Database, tmp_path: Path, written: str) -> None:
    main = db.branch("main")
    names = [name for name in main.tables() if written != "csv" or name != "nested"]
    made = main.export(tmp_path / "out", names, written)
    assert made.snapshot == main.head.id
    assert made.rows == sum(len(main.table(name)) for name in names)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        ["tables.json", *(f"{name}.{written}" for name in names)]
    )
    with livingdb.create(tmp_path / "again.ldb") as again:
        snapshot, rows = import_tables(again.branch("main"), tmp_path / "out")
        assert rows == {name: len(main.table(name)) for name in names}
        assert snapshot == again.branch("main").head
        assert roots(again.branch("main")) == roots(main, names)
        for name in names:
            assert again.branch("main").table(name).schema == main.table(name).schema
            assert again.branch("main").table(name).key == main.table(name).key
        assert again.check().ok
        with pytest.raises(InvalidData, match=r"lines.*of"):
            again.branch("main").insert("lines", {"n": [9], "of": [99]})
        with pytest.raises(InvalidData, match="5"):
            again.branch("main").insert("plain", [{**ROW, "id": 3, "code": "too long"}])


def test_other_programs_read_the_files(db: livingdb.Database, tmp_path: Path) -> None:
    main = db.branch("main")
    expected = main.table("plain").to_arrow()
    main.export(tmp_path / "a", ["plain"])
    assert pq.read_table(tmp_path / "a" / "plain.parquet").equals(expected)
    main.export(tmp_path / "b", ["plain"], "arrow")
    with pa.ipc.open_file(tmp_path / "b" / "plain.arrow") as reader:
        assert reader.read_all().equals(expected)
    main.export(tmp_path / "c", ["plain"], "csv")
    first = (tmp_path / "c" / "plain.csv").read_text(encoding="utf-8").splitlines()[0]
    assert first.replace('"', "").split(",") == list(PLAIN)
    assert main.table("plain").to_parquet(tmp_path / "one.parquet", ["id"], "id > 0") > 0
    assert pq.read_table(tmp_path / "one.parquet").to_pydict() == {"id": [1, 7]}


def test_any_ref_and_any_table(db: livingdb.Database, tmp_path: Path) -> None:
    main = db.branch("main")
    main.sql("DELETE FROM lines")
    made = db.at("main~1").export(tmp_path / "old", ["lines"])
    assert (made.rows, list(made.tables)) == (2, ["lines"])
    main.derive(
        "flags", sql="SELECT flag, count(*) AS n FROM plain GROUP BY flag", when="immediate"
    )
    db.at("flags").export(tmp_path / "view")
    assert pq.read_table(tmp_path / "view" / "flags.parquet").num_rows == 2
    main.create_table("ø b", {"id": "int"}, key="id")
    main.export(tmp_path / "odd", ["ø b"])
    assert (tmp_path / "odd" / "%C3%B8 b.parquet").exists()
    side = main.clone("side")
    with pytest.raises(AlreadyExists, match="lines"):
        import_tables(side, tmp_path / "old")
    assert side.head == db.at("main")


def test_constraints_come_back(db: livingdb.Database, tmp_path: Path) -> None:
    main = db.branch("main")
    main.create_table(
        "users",
        pa.schema([pa.field("id", pa.int64(), False), pa.field("name", pa.string(), False)]),
        key="id",
        defaults={"name": "nobody"},
        generated="id",
        layout=livingdb.Layout(target_rows=64),
    )
    main.insert("users", {"name": ["ann", "bob"]})
    main.evolve(AddUnique("users", "name"))
    main.sql("ALTER TABLE users ADD COLUMN long INT GENERATED ALWAYS AS (length(name))")
    main.export(tmp_path / "out", ["users"])
    with livingdb.create(tmp_path / "again.ldb") as again:
        other = again.branch("main")
        import_tables(other, tmp_path / "out")
        assert roots(other) == roots(main, ["users"])
        assert other.table("users").unique == main.table("users").unique
        other.insert("users", {"name": ["eva"]})
        assert other.table("users").to_arrow().to_pylist()[-1] == {
            "id": 3,
            "name": "eva",
            "long": 3,
        }
        with pytest.raises(livingdb.errors.DuplicateValue):
            other.insert("users", {"name": ["bob"]})
    contents = tmp_path / "out" / "tables.json"
    said = json.loads(contents.read_text(encoding="utf-8"))
    said["tables"]["users"]["rows"] = 1
    contents.write_text(json.dumps(said), encoding="utf-8")
    with (
        livingdb.create(tmp_path / "third.ldb") as third,
        pytest.raises(InvalidData, match=r"2 rows.* says 1"),
    ):
        import_tables(third.branch("main"), tmp_path / "out")


def test_what_is_refused(db: livingdb.Database, tmp_path: Path) -> None:
    main = db.branch("main")
    with pytest.raises(InvalidData, match="parquet, csv, arrow"):
        main.export(tmp_path / "out", format="xml")
    with pytest.raises(Unsupported, match=r"'raw'.*parquet or arrow"):
        main.export(tmp_path / "out", format="csv")
    with pytest.raises(NotFound, match="nothing"):
        main.export(tmp_path / "out", ["nothing"])
    with pytest.raises(InvalidData, match="a list of names"):
        main.export(tmp_path / "out", "plain")
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailure, match="file"):
        main.export(tmp_path / "file" / "out")
    main.export(tmp_path / "out", ["plain"])
    with pytest.raises(AlreadyExists, match=r"tables\.json"):
        main.export(tmp_path / "out", ["lines"])
    with pytest.raises(NotFound, match="exported"):
        import_tables(main, tmp_path)


def test_nothing_is_left_of_an_export_that_fails(db: livingdb.Database, tmp_path: Path) -> None:
    def fail(name: str, done: int, total: int) -> None:
        if name == "plain":
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        db.branch("main").export(tmp_path / "out", ["lines", "plain"], progress=fail)
    assert list((tmp_path / "out").iterdir()) == []
    assert db.branch("main").export(tmp_path / "out", ["lines", "plain"]).rows == 5


@pytest.mark.parametrize("damage", ["cut", "missing", "rows", "outside", "format", "text"])
def test_a_damaged_export_changes_nothing(
    db: livingdb.Database, tmp_path: Path, damage: str
) -> None:
    main, out = db.branch("main"), tmp_path / "out"
    main.export(out, ["plain", "lines"])
    contents = out / "tables.json"
    said = json.loads(contents.read_text(encoding="utf-8"))
    if damage == "cut":
        data = (out / "lines.parquet").read_bytes()
        (out / "lines.parquet").write_bytes(data[: len(data) // 2])
    elif damage == "missing":
        (out / "lines.parquet").unlink()
    elif damage == "rows":
        said["tables"]["lines"]["rows"] = 3
    elif damage == "outside":
        said["tables"]["lines"]["files"] = ["../shop.ldb/catalog.db"]
    elif damage == "format":
        said["livingdb"] = 99
    contents.write_text("{" if damage == "text" else json.dumps(said), encoding="utf-8")
    with livingdb.create(tmp_path / "again.ldb") as again:
        head = again.branch("main").head
        with pytest.raises((InvalidData, Unsupported)):
            import_tables(again.branch("main"), out)
        assert again.branch("main").head == head
        assert again.check().ok


def test_progress(db: livingdb.Database, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    db.branch("main").export(tmp_path / "out", ["plain"], progress=lambda *t: told.append(t))
    assert told == [("plain", 3, 3)]


def test_the_database_knows_what_was_exported(db: livingdb.Database, tmp_path: Path) -> None:
    main = db.branch("main")
    name = main.tables()[0]
    main.export(tmp_path / "out", [name])
    main.table(name).to_parquet(tmp_path / "one.parquet")
    main.table(name).to_parquet(tmp_path / "one.parquet")
    found = db._graph.catalog.outside_copies.all()
    assert [(copy.kind, copy.place) for copy in found] == [
        ("export", (tmp_path / "out").as_uri()),
        ("export", (tmp_path / "one.parquet").as_uri()),
    ]
    assert found[0].details == {"tables": [name], "format": "parquet"}
    assert {copy.snapshot for copy in found} == {main.head._row.sequence}
    with livingdb.open(db.name, read_only=True) as reader:
        reader.branch("main").export(tmp_path / "read", [name])
    assert len(db._graph.catalog.outside_copies.all()) == 2
