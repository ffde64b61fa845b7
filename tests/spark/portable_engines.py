"""The same query on the embedded engine and on Spark, and whether the answers are the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.duckdb_dialect import to_duckdb_sql
from livingdb.engines.embedded.recursion import answer_recursion
from livingdb.engines.embedded.session import Session
from livingdb.engines.portable.portability import PortableQuery, as_spark_types, check_portability
from livingdb.errors import LivingDBError
from livingdb.sql.parse import parse_statement
from livingdb.sql.table_names import is_cte

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOLERANCE = 1e-9


class Failed(Exception):
    """An engine refused the query or failed on a value."""


class EmbeddedTables:
    """The embedded engine over some tables."""

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}

    def add(self, name: str, table: pa.Table) -> None:
        """Let it see a table."""
        self.tables[name] = table

    def portable(self, text: str) -> PortableQuery | str:
        """Whether the query is portable, and the columns it gives."""
        return self._typed(text)[1]

    def _typed(self, text: str) -> tuple[exp.Query, PortableQuery | str, dict[str, pa.Table]]:
        query = parse_statement(text)
        assert isinstance(query, exp.Query)
        used = {name: narrowed(table, text) for name, table in self.tables.items() if name in text}
        return (
            query,
            check_portability(query, {name: table.schema for name, table in used.items()}),
            used,
        )

    def embedded(self, text: str) -> pa.Table:
        """The embedded engine's answer, in Spark's types."""
        query, found, used = self._typed(text)
        assert isinstance(found, PortableQuery), f"{text}: {found}"
        with Session() as session:
            _point_at_rows(query, used, session)
            try:
                answer_recursion(query, session, {})
                return as_spark_types(session.query(session.duckdb_sql(query), {}), found)
            except LivingDBError as error:
                raise Failed(f"embedded: {error}") from None

    def null_rows(self, text: str) -> list[int]:
        """The `n` of rows for which the column `v` of a query is null, or fails."""
        query, _, used = self._typed(text)
        with Session() as session:
            _point_at_rows(query, used, session)
            to_duckdb_sql(query)
            value = query.selects[1].this
            value.replace(exp.Anonymous(this="TRY", expressions=[value.copy()]))
            found = session.query(query.sql("duckdb"), {})
        rows: list[int] = found.filter(found["v"].is_null())["n"].to_pylist()
        return rows


class Engines(EmbeddedTables):
    """Both engines over the same tables."""

    def __init__(self, spark: SparkSession):
        super().__init__()
        self._spark = spark

    def add(self, name: str, table: pa.Table) -> None:
        """Let both see a table."""
        if name in self.tables:
            return
        super().add(name, table)
        frame = self._spark.createDataFrame(table)
        columns = [
            f"CAST({field.name} AS TIMESTAMP_NTZ) AS {field.name}"
            if field.type == pa.timestamp("us")
            else field.name
            for field in table.schema
        ]
        frame.selectExpr(*columns).createOrReplaceTempView(name)

    def spark(self, text: str) -> pa.Table:
        """Spark's answer."""
        try:
            return self._spark.sql(text).toArrow()
        except Exception as error:
            raise Failed(f"Spark: {str(error)[:300]}") from None

    def compare(self, text: str, *, ordered: bool = False) -> None:
        """Check that the query is portable and that both engines give or refuse the same."""
        try:
            ours = self.embedded(text)
        except Failed as failure:
            try:
                theirs = self.spark(text)
            except Failed:
                return
            raise AssertionError(f"{text}: {failure}; Spark gives {theirs.to_pylist()}") from None
        check_same(text, ours, self.spark(text), ordered=ordered)


def narrowed(table: pa.Table, text: str) -> pa.Table:
    """A wide table without the columns a query does not name."""
    if table.num_columns < 50:
        return table
    return table.select([name for name in table.column_names if name in text])


def _point_at_rows(query: exp.Expr, tables: Mapping[str, pa.Table], session: Session) -> None:
    """Let the names of tables in a query stand for their rows."""
    for table in list(query.find_all(exp.Table)):
        rows = tables.get(table.name.lower())
        if rows is None or is_cte(table):
            continue
        alias = table.args.get("alias") or exp.TableAlias()
        if alias.this is None:
            alias.set("this", exp.to_identifier(table.name, quoted=True))
        table.set("alias", alias)
        table.set("this", exp.to_identifier(session.register(rows)))


def check_same(text: str, ours: pa.Table, theirs: pa.Table, *, ordered: bool) -> None:
    """Check that two answers have the same types and rows."""
    types = [[shape(field.type) for field in table.schema] for table in (ours, theirs)]
    assert types[0] == types[1], f"{text}: embedded gives {types[0]}, Spark {types[1]}"
    rows = [list(zip(*map(plain, table.columns), strict=True)) for table in (ours, theirs)]
    if not ordered:
        rows = [sorted(part, key=_sorted_by) for part in rows]
    assert len(rows[0]) == len(rows[1]), f"{text}: {len(rows[0])} and {len(rows[1])} rows"
    different = [pair for pair in zip(*rows, strict=True) if not same(*pair)]
    assert not different, f"{text}: (embedded, Spark) {different[:5]}"


def shape(data_type: pa.DataType) -> str:
    """A type without the names and nullability of the fields Arrow makes up."""
    kinds = pa.types
    if kinds.is_map(data_type):
        return f"map<{shape(data_type.key_type)}, {shape(data_type.item_type)}>"
    if kinds.is_list(data_type):
        return f"array<{shape(data_type.value_type)}>"
    if kinds.is_struct(data_type):
        return f"struct<{', '.join(f'{part.name}: {shape(part.type)}' for part in data_type)}>"
    return str(data_type)


def plain(column: pa.ChunkedArray) -> Sequence[Any]:
    """Values that can be compared; times as numbers, for Python has no year 10000."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    return column.to_pylist()


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, doubles within a tolerance; NaN is NaN."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return type(one) is type(other) and bool(one == other)


def _sorted_by(row: Sequence[Any]) -> list[tuple[bool, str]]:
    """An order for rows of anything, in which doubles that are nearly the same are neighbours."""
    return [
        (value is None, f"{value + 0.0:.6e}" if isinstance(value, float) else repr(value))
        for value in row
    ]
