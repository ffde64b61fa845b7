"""The embedded engine: sessions, what SQL can reach, results, failures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import exp

import livingdb
from livingdb.chunks.memory import MemoryStore
from livingdb.engines.embedded.arrow_dataset import RowSetDataset
from livingdb.engines.embedded.duckdb_dialect import to_duckdb_sql
from livingdb.engines.embedded.session import EmbeddedEngine, Session
from livingdb.engines.request import Request, Source
from livingdb.errors import InvalidData, LivingDBError, NotFound, Unsupported, Untrusted
from livingdb.sql.parse import parse_statement
from livingdb.tables import ingest
from livingdb.tables.index import MemoryIndex
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions


def rows_of(data: pa.Table, key: str, layout: Layout | None = None) -> RowSet:
    store = MemoryStore()
    versions = Versions(store, MemoryIndex())
    definition = Definition(TableSchema.of(data.schema, key), layout or Layout(target_rows=64))
    shape = definition.layout.grouping(definition.schema).row_shape
    columns, _ = ingest.sorted_rows(definition.schema, shape, data)
    version = versions.create(definition, [columns], lambda chunk: store.put([chunk]))
    return versions.rows(version)


def test_a_session_sees_what_was_registered_with_it() -> None:
    with Session() as session:
        name = session.register(pa.table({"a": [1, 2]}))
        assert session.query(f"SELECT sum(a) AS s FROM {name}", {}).to_pylist() == [{"s": 3}]
        assert session.columns(f"SELECT a, $p AS p FROM {name}", {"p": "x"}) == [
            ("a", "BIGINT"),
            ("p", "VARCHAR"),
        ]
        with Session() as other, pytest.raises(LivingDBError):
            other.query(f"SELECT * FROM {name}", {})


def test_odd_names_of_columns_are_read_and_filtered() -> None:
    names = ["id", "a.b", "sp ace", 'quo"te', "x[0]", "Ünïcode", "id_2", "new\nline"]
    data = pa.table({name: list(range(100)) for name in names})
    with Session() as session:
        view = session.register(RowSetDataset(rows_of(data, "id")))
        for name in names:
            quoted = '"' + name.replace('"', '""') + '"'
            found = session.query(f"SELECT id FROM {view} WHERE {quoted} = 7 OR id = 9", {})
            assert found["id"].to_pylist() == [7, 9]


def test_a_filter_may_name_columns_that_are_not_read() -> None:
    scanned = RowSetDataset(
        rows_of(pa.table({"id": [1, 2, 3], "v": [5, 6, 7], "w": ["x", "y", "z"]}), "id")
    )
    found = scanned.scanner(columns=["id"], filter=pc.field("v") > 5).to_reader().read_all()
    assert found.to_pydict() == {"id": [2, 3]}
    assert scanned.scanner().to_reader().read_all().column_names == ["id", "v", "w"]


def test_a_query_with_a_limit_reads_no_batch_more_than_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = pa.table({"id": range(50_000), "v": [i % 7 for i in range(50_000)]})
    rows = rows_of(data, "id", Layout(target_rows=64))
    read: list[int] = []
    batches = type(rows).batches

    def watched(self: RowSet, *given: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(self, *given):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(type(rows), "batches", watched)

    def ask(query: str) -> pa.Table:
        read.clear()
        tree = parse_statement(query)
        assert isinstance(tree, exp.Query)
        return EmbeddedEngine().rows(Request(tree, {"t": Source(rows)}))

    for limit in (1, 10, 1000):
        found = ask(f"SELECT id FROM t WHERE v = 3 LIMIT {limit}")
        last = 3 + 7 * (limit - 1)
        assert found["id"].to_pylist() == list(range(3, last + 1, 7))
        assert sum(read[:-1]) <= last < sum(read)
    for query, first in (
        ("SELECT id FROM t WHERE v = 3", 3),
        ("SELECT id FROM t WHERE v = 3 LIMIT 20000", 3),
        ("SELECT id FROM t WHERE v = 3 ORDER BY id DESC LIMIT 7143", 49_997),
    ):
        found = ask(query)
        assert found["id"][0].as_py() == first
        assert sorted(found["id"].to_pylist()) == list(range(3, 50_000, 7)), query
    assert ask("SELECT count(*) AS n FROM t WHERE v = 3 LIMIT 1")["n"].to_pylist() == [7143]


def test_groups_of_columns() -> None:
    data = pa.table({"id": range(500), "a": range(500), "b": [str(i) for i in range(500)]})
    rows = rows_of(data, "id", Layout(target_rows=64, groups=[["a"], ["b"]]))
    with Session() as session:
        view = session.register(RowSetDataset(rows))
        found = session.query(f"SELECT b FROM {view} WHERE a = 77 AND id > 3", {})
        assert found.to_pylist() == [{"b": "77"}]


def test_sessions_in_many_threads() -> None:
    scanned = rows_of(pa.table({"id": range(5000)}), "id")

    def ask(number: int) -> int:
        with Session() as session:
            name = session.register(RowSetDataset(scanned))
            text = f"SELECT count(*) AS n FROM {name} WHERE id < $p"
            return int(session.query(text, {"p": number})["n"][0].as_py())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(0, 400, 10))) == list(range(0, 400, 10))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/livingdb_must_not_be.csv'",
        "ATTACH '/tmp/livingdb_must_not_be.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SELECT * FROM here",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM '/etc/passwd.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT getenv('HOME')",
        "SET lock_configuration = false",
        "SET python_enable_replacements = true",
        "SET autoload_known_extensions = true",
        "CREATE SECRET s (TYPE s3)",
        "EXPORT DATABASE '/tmp/livingdb_must_not_be'",
    ],
)
def test_nothing_else_can_be_reached(text: str) -> None:
    here = pa.table({"a": [1]})
    with Session() as session, pytest.raises(LivingDBError):
        session.query(text, {})
    del here


def test_access_to_anything_outside_is_off_and_stays_off() -> None:
    names = (
        *("enable_external_access", "python_enable_replacements"),
        *("autoinstall_known_extensions", "autoload_known_extensions"),
    )
    shown = ", ".join(f"CAST(current_setting('{name}') AS VARCHAR) AS {name}" for name in names)
    locked = "CAST(current_setting('lock_configuration') AS VARCHAR) AS locked"
    with Session() as session:
        (found,) = session.query(f"SELECT {shown}, {locked}", {}).to_pylist()
    assert found == {**dict.fromkeys(names, "false"), "locked": "true"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT getenv('HOME') FROM t",
        "SELECT current_setting('temp_directory') FROM t",
        "SELECT version() FROM t",
        "SELECT a FROM t WHERE query('SELECT 1')",
        "SELECT a FROM t WHERE length(read_text('/etc/hostname')) > 0",
    ],
)
def test_no_text_is_generated_for_what_is_not_on_the_list(text: str) -> None:
    tree = parse_statement(text)
    assert isinstance(tree, exp.Query)
    with pytest.raises(Untrusted):
        to_duckdb_sql(tree)
    request = Request(tree, {"t": Source(pa.table({"a": [1]}))})
    with pytest.raises(Untrusted):
        EmbeddedEngine().rows(request)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1::HUGEINT", pa.int64()),
        ("1::UBIGINT", pa.decimal128(20, 0)),
        ("1::UTINYINT", pa.int16()),
        ("TIMESTAMP_NS '2026-01-01 00:00:00'", pa.timestamp("us")),
        ("TIMESTAMPTZ '2026-01-01 00:00:00+00'", pa.timestamp("us", "UTC")),
        ("[TIMESTAMPTZ '2026-01-01 00:00:00+00']", pa.list_(pa.timestamp("us", "UTC"))),
        ("uuid()", pa.string()),
        ("{'a': 1}", pa.struct([("a", pa.int32())])),
        ("MAP {'a': 1}", pa.map_(pa.string(), pa.int32())),
        ("'x'::ENUM('x', 'y')", pa.string()),
        ("'\\x00'::BLOB", pa.binary()),
    ],
)
def test_results_are_of_types_that_can_be_stored(expression: str, expected: pa.DataType) -> None:
    with Session() as session:
        assert session.query(f"SELECT {expression} AS v", {}).schema.field("v").type == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT nope", NotFound),
        ("SELECT nope()", Unsupported),
        ("SELECT 1 % 0", InvalidData),
        ("SELECT 'x'::INT", InvalidData),
        ("SELECT TIME '10:00:00'", Unsupported),
        ("SELECT 170141183460469231731687303715884105727::HUGEINT", InvalidData),
        ("SELEC", Unsupported),
        ("SELECT error('boom')", InvalidData),
    ],
)
def test_failures_are_livingdb_errors(text: str, kind: type[LivingDBError]) -> None:
    with Session() as session, pytest.raises(kind):
        session.query(text, {})


def test_the_engine_is_loaded_only_when_it_is_used() -> None:
    code = (
        "import sys, livingdb, livingdb.sql; "
        "assert not {'duckdb', 'sqlglot', 'pandas', 'polars'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_written_arrays_structs_and_maps_need_no_spark(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        columns = (
            "tags ARRAY<STRING>, ns ARRAY<BIGINT>, place STRUCT<lat: DOUBLE>, m MAP<STRING, INT>"
        )
        main.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        values = "array('a', NULL), array(1, 2), named_struct('lat', 1.5D), map('a', 1)"
        assert main.sql(f"INSERT INTO t VALUES (1, {values})").engine == "embedded"
        assert main.sql("UPDATE t SET ns = array(id, 3)").engine == "embedded"
        found = main.table("t").get(1)
        kept = {"tags": ["a", None], "ns": [1, 3], "place": {"lat": 1.5}, "m": [("a", 1)]}
        assert found == {"id": 1, **kept}


def test_arrays_and_maps_of_nothing_need_no_spark(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        columns = "ns ARRAY<BIGINT>, m MAP<INT, DATE>, s STRUCT<a: ARRAY<STRING>, m: MAP<INT, INT>>"
        main.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        values = [
            "(1, array(), map(), named_struct('a', array(), 'm', map()))",
            "(2, array(NULL), map(1, NULL), named_struct('a', NULL, 'm', NULL))",
            "(3, array(3000000000), map(1, DATE '2026-01-01'), NULL)",
        ]
        assert main.sql(f"INSERT INTO t VALUES {values[0]}").engine == "embedded"
        assert main.sql(f"INSERT INTO t VALUES {', '.join(values[1:])}").engine == "embedded"
        merged = main.sql(
            "MERGE INTO t USING (SELECT 3 AS id) AS u ON t.id = u.id "
            "WHEN MATCHED THEN UPDATE SET ns = array(), m = map()"
        )
        assert merged.engine == "embedded"
        rows = [tuple(row.values()) for row in main.table("t").to_arrow().to_pylist()]
        assert rows == [
            (1, [], [], {"a": [], "m": []}),
            (2, [None], [(1, None)], {"a": None, "m": None}),
            (3, [], [], None),
        ]
        answer = main.sql("SELECT array() AS a, map() AS m")
        assert (answer.engine, list(answer)) == ("embedded", [{"a": [], "m": []}])
        assert answer.schema.types == [pa.list_(pa.null()), pa.map_(pa.string(), pa.null())]


def test_a_long_sum_is_nested_too_deeply() -> None:
    query = parse_statement(f"SELECT {' + '.join(['id'] * 900)} AS n FROM t")
    request = Request(query, {"t": Source(pa.table({"id": pa.array([1], pa.int32())}))})  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="nested too deeply for the embedded engine"):
        EmbeddedEngine().rows(request)


def test_sort_by_and_cluster_by_order_the_one_part_there_is(tmp_path: Path) -> None:
    """They are of Spark; where this engine is asked for, they are not left out."""
    with livingdb.create(tmp_path / "db", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int", "v": "string"}, "id")
        main.insert("t", {"id": [1, 2, 3], "v": ["b", "a", None]})
        for clause, ids in (
            ("SORT BY id DESC", [3, 2, 1]),
            ("CLUSTER BY v", [3, 2, 1]),
            ("DISTRIBUTE BY v SORT BY v DESC LIMIT 2", [1, 2]),
        ):
            found = main.sql(f"SELECT id FROM t {clause}").to_arrow()
            assert found.column("id").to_pylist() == ids, clause
