"""Types of columns: how SQL writes those of SQLAlchemy, and which of them a column of a table is.

There are no types for times of day, and none for text of a fixed length.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlalchemy import types
from sqlalchemy.exc import CompileError
from sqlalchemy.sql.compiler import GenericTypeCompiler

from livingdb.sqlalchemy_dialect.nested_type import Nested
from livingdb.tables.type_names import type_name

__all__ = ["LivingDBTypeCompiler", "sqlalchemy_type"]

_LARGEST_DECIMAL = "DECIMAL(38, 18)"
"""For numbers of which nobody says how many digits they have."""
_FLOAT_DIGITS = 24
"""As many binary digits as FLOAT has; DOUBLE has 53."""


class LivingDBTypeCompiler(GenericTypeCompiler):
    """Types as Spark's SQL writes them."""

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:  # noqa: N802 (names of SQLAlchemy)
        return "INT"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        is_short = type_.precision is not None and type_.precision <= _FLOAT_DIGITS
        return "FLOAT" if is_short else "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "FLOAT"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "DOUBLE"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        if type_.precision is None:
            return _LARGEST_DECIMAL
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC  # noqa: N815

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        if getattr(type_, "collation", None):
            raise CompileError(
                f"COLLATE {type_.collation}: texts are compared letter by letter; leave it out"
            )
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    visit_CHAR = visit_NCHAR = visit_NVARCHAR = visit_VARCHAR  # noqa: N815
    visit_TEXT = visit_CLOB = visit_NCLOB = visit_VARCHAR  # noqa: N815

    def visit_BINARY(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "BINARY"

    visit_VARBINARY = visit_BLOB = visit_BINARY  # noqa: N815

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_TIMESTAMP = visit_DATETIME  # noqa: N815

    def visit_TIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        raise CompileError("tables hold no times of day: take String, or DateTime with a day")

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR(32)"

    def visit_UUID(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        raise CompileError("tables hold no UUIDs of their own: take Uuid, which is kept as text")

    def visit_JSON(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        return "STRING"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:  # noqa: N802
        item = self.process(type_.item_type, **kw)
        for _ in range(type_.dimensions or 1):
            item = f"ARRAY<{item}>"
        return item


_PLAIN: dict[str, types.TypeEngine[Any]] = {
    "boolean": types.BOOLEAN(),
    "tinyint": types.SMALLINT(),
    "smallint": types.SMALLINT(),
    "int": types.INTEGER(),
    "bigint": types.BIGINT(),
    "float": types.REAL(),
    "double": types.DOUBLE(),
    "string": types.TEXT(),
    "binary": types.LargeBinary(),
    "date": types.DATE(),
    "timestamp": types.TIMESTAMP(timezone=True),
    "timestamp_ntz": types.TIMESTAMP(timezone=False),
}


def sqlalchemy_type(type_: pa.DataType, limit: int | None = None) -> types.TypeEngine[Any]:
    """The type of a column in SQLAlchemy; `limit` is the most characters that its texts have."""
    if limit is not None:
        return types.VARCHAR(limit)
    if pa.types.is_decimal(type_):
        return types.NUMERIC(type_.precision, type_.scale)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        dimensions, item = 1, type_.value_type
        while pa.types.is_list(item):
            dimensions, item = dimensions + 1, item.value_type
        return types.ARRAY(sqlalchemy_type(item), dimensions=dimensions)
    name = type_name(type_)
    return _PLAIN.get(name) or Nested(name)
