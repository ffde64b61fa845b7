"""A table as Spark reads it natively: Parquet files, and the changes that lie over them.

The files hold columns under their identities.  What changed since they were written are the rows
of some keys: those are left out of the files that may have them, and put beside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ProjectedTable", "can_exclude", "can_project", "projected_frame"]

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9 _.:/@+-]*")


@dataclass(frozen=True)
class ProjectedTable:
    """A version of a table in files.

    columns    by name, in order: the column of the files, or the value that all rows have
    schema     what Spark is to see
    key        the columns of the files by which rows are left out
    files      those that are read as they are
    changed    those of which the rows with the keys `gone` are left out
    put        the rows to put beside
    """

    columns: Mapping[str, str | pa.Scalar]
    schema: pa.Schema
    key: Sequence[str]
    files: Sequence[str]
    changed: Sequence[str] = ()
    gone: pa.Table | None = None
    put: pa.Table | None = None


def can_project(data_type: pa.DataType) -> bool:
    """Whether Spark reads back from Parquet exactly what Arrow wrote."""
    types = pa.types
    if types.is_list(data_type):
        return can_project(data_type.value_type)
    if types.is_map(data_type):
        return can_project(data_type.key_type) and can_project(data_type.item_type)
    if types.is_struct(data_type):
        return data_type.num_fields > 0 and all(can_project(field.type) for field in data_type)
    if types.is_timestamp(data_type):
        return data_type.unit == "us" and data_type.tz in (None, "UTC")
    return any(
        is_kind(data_type)
        for is_kind in (
            types.is_boolean,
            types.is_signed_integer,
            types.is_float32,
            types.is_float64,
            types.is_decimal128,
            types.is_string,
            types.is_binary,
            types.is_date32,
        )
    )


def projected_frame(
    session: SparkSession, table: ProjectedTable, names: Sequence[str]
) -> DataFrame:
    """Some columns of a projected table."""
    plain = _scan(session, table, names, table.files, excluded=False)
    parts = [] if plain is None else [plain]
    changed = _scan(session, table, names, table.changed, excluded=True)
    if changed is not None:
        parts.append(changed)
    if (table.put is not None and table.put.num_rows) or not parts:
        rows = table.schema.empty_table() if table.put is None else table.put
        schema = _spark_schema(pa.schema([table.schema.field(name) for name in names]))
        parts.append(session.createDataFrame(rows.select(list(names)), schema=schema))
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionAll(part)
    return frame


def _scan(
    session: SparkSession,
    table: ProjectedTable,
    names: Sequence[str],
    files: Sequence[str],
    *,
    excluded: bool,
) -> DataFrame | None:
    """The rows of some files, without those whose keys are gone."""
    if not files:
        return None
    types = {c: table.schema.field(n).type for n, c in table.columns.items() if isinstance(c, str)}
    wanted = {c: types[c] for n in names if isinstance(c := table.columns[n], str)}
    if excluded and table.gone is not None:
        wanted |= {c: field.type for c, field in zip(table.key, table.gone.schema, strict=True)}
    if not wanted:
        column = next(iter(types))
        wanted = {column: types[column]}
    reader = session.read.schema(_spark_schema(pa.schema(list(wanted.items()))))
    reader = reader.option("datetimeRebaseMode", "CORRECTED")
    reader = reader.option("parquet.page.verify-checksum.enabled", "true")
    frame = reader.parquet(*files)
    if excluded and table.gone is not None:
        frame = frame.where(_not_among(table.key, table.gone))
    return frame.selectExpr(*(_column(table, name) for name in names))


def _column(table: ProjectedTable, name: str) -> str:
    """A column, in Spark's SQL: a text is handed over in one go."""
    found = table.columns[name]
    if isinstance(found, str):
        return f"`{found}` AS {_quoted(name)}"
    one = pa.chunked_array([pa.array([found.as_py()], found.type)])
    value = _literals(one)[0] if found.is_valid else "NULL"
    return f"CAST({value} AS {type_name(found.type)}) AS {_quoted(name)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


# --- leaving out keys --------------------------------------------------------------------------


def _not_among(columns: Sequence[str], keys: pa.Table) -> str:
    """A condition that holds for every row whose key is none of these.

    Spark turns a list of constants into a set, which costs a scan less than a join does.
    """
    texts = [_literals(keys.column(at)) for at in range(keys.num_columns)]
    quoted = [f"`{column}`" for column in columns]
    first = f"{quoted[0]} IN ({','.join(dict.fromkeys(texts[0]))})"
    if len(columns) == 1:
        return f"NOT ({first})"
    tuples = ",".join(map("({})".format, map(",".join, zip(*texts, strict=True))))
    return f"NOT ({first} AND ({','.join(quoted)}) IN ({tuples}))"


def can_exclude(data_type: pa.DataType) -> bool:
    """Whether keys of a type can be told by constants, with exactly our equality."""
    return _writer(data_type) is not None


def _literals(column: pa.ChunkedArray) -> list[str]:
    """The values of a column, in Spark's SQL."""
    write = _writer(column.type)
    assert write is not None
    return [write(value) for value in _plain_values(column)]


def _plain_values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(kind):
        return list(column.cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def _writer(kind: pa.DataType) -> Callable[[Any], str] | None:
    """How values of a type are written; None if they are not."""
    if pa.types.is_int64(kind):
        return lambda value: f"{value}L" if value > -(2**63) else "(-9223372036854775807L - 1L)"
    if pa.types.is_int32(kind):
        return lambda value: str(value) if value > -(2**31) else "(-2147483647 - 1)"
    if pa.types.is_signed_integer(kind):
        name = "SMALLINT" if pa.types.is_int16(kind) else "TINYINT"
        return lambda value: f"CAST({value} AS {name})"
    if pa.types.is_string(kind):
        return _text_literal
    if pa.types.is_binary(kind):
        return lambda value: f"X'{value.hex()}'"
    if pa.types.is_date32(kind):
        return lambda value: f"date_from_unix_date({value})"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: f"timestamp_micros({value}L)"
    if pa.types.is_boolean(kind):
        return lambda value: "TRUE" if value else "FALSE"
    if pa.types.is_decimal128(kind):
        return lambda value: f"CAST('{value}' AS DECIMAL({kind.precision},{kind.scale}))"
    return None


def _text_literal(value: str) -> str:
    if _PLAIN_TEXT.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"
