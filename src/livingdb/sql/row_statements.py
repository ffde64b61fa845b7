"""The target table of a DML statement, the writer that applies its rows, and casts by Spark's store
assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.planner import Planner
from livingdb.sql.scope import Writer
from livingdb.sql.table_conditions import find_column
from livingdb.sql.table_names import SYSTEM, find_rows
from livingdb.tables.letter_case import alike_names, check_clear, column_names, find_alike
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["StatementWriter", "Target", "is_default", "known_column"]


class Target:
    """The table a statement changes."""

    def __init__(self, name: str, schema: TableSchema, table: exp.Table, planner: Planner):
        self.name = name
        self.schema = schema
        self.table = table
        self._planner = planner

    @property
    def alias(self) -> str:
        """What the statement calls it."""
        return self.table.alias or self.table.name

    @property
    def key(self) -> list[Column]:
        """Its key columns."""
        return list(self.schema.key_columns)

    def column(self, name: str) -> Column:
        """The column of that name, whatever its case; `NotFound` names those there are."""
        found = find_column(self.schema, name)
        return found if found is not None else self.schema.column(name)

    def column_node(self, column: Column) -> exp.Column:
        """The column of the table as an expression."""
        return exp.column(
            exp.to_identifier(column.name, quoted=True),
            table=exp.to_identifier(self.alias, quoted=True),
        )

    def can_change_key(self, names: Iterable[str]) -> bool:
        """Whether setting these columns can change a key."""
        return any(name in self.schema.key for name in names)

    def default(self, column: Column) -> exp.Expr:
        """The value of a column that is set to DEFAULT."""
        return exp.null() if column.default is None else self._planner.parameter(column.default)


class StatementWriter:
    """Writes what a statement computes and counts the rows."""

    def __init__(self, writer: Writer, planner: Planner):
        self.writer = writer
        self.planner = planner
        self.count = 0

    def target(self, tree: exp.Expr) -> Target:
        """The table to be changed; it is one of the branch that is written."""
        if not isinstance(tree, exp.Table):
            raise Unsupported(f"{tree.sql('spark')!r} is no table that can be changed")
        if tree.db.casefold() == SYSTEM:
            raise Unsupported("the tables of livingdb are read, not written")
        if tree.db or tree.args.get("version"):
            raise Unsupported(
                f"{tree.sql('spark')!r}: a statement changes tables of the branch it runs on, as "
                "they are now"
            )
        name, rows = find_rows(self.writer, tree.name)
        if not find_alike(name, self.writer.tables()):
            raise Unsupported(
                f"{name!r} is a derived object, and no table of this branch: one that can be "
                f"written is written on its own branch, db.branch({name!r})"
            )
        rows.schema.check_keyed(name)
        for column, _ in alike_names(column_names(rows.schema)):
            check_clear("column", column, column_names(rows.schema))
        return Target(name, rows.schema, tree, self.planner)

    def computed_rows(self, query: exp.Query, columns: Sequence[Column]) -> pa.Table:
        """The rows of a query as values of the table's columns, in that order."""
        return self.assigned_rows(self.planner.engine_sql(query), columns)

    def assigned_rows(self, text: str, columns: Sequence[Column]) -> pa.Table:
        """The rows of a planned query as values of the table's columns, in that order."""
        kinds = [kind for _, kind in self.planner.columns(text)]
        if len(kinds) != len(columns):
            names = ", ".join(column.name for column in columns)
            raise InvalidData(
                f"{len(kinds)} values for {len(columns)} columns; the columns are {names}"
            )
        cast = assignment_query(text, kinds, columns)
        rows = self.planner.session.query(cast, self.planner.values(text))
        return rows.rename_columns([column.name for column in columns])

    def insert(self, target: Target, rows: pa.Table) -> None:
        """Add rows."""
        if rows.num_rows:
            self.writer.insert(target.name, rows)
            self.count += rows.num_rows

    def update(self, target: Target, rows: pa.Table) -> None:
        """Set columns of rows named by their keys."""
        if rows.num_rows:
            self.writer.update(target.name, rows)
            self.count += rows.num_rows

    def delete(self, target: Target, keys: pa.Table) -> None:
        """Remove rows named by their keys."""
        if keys.num_rows:
            self.writer.delete(target.name, keys)
            self.count += keys.num_rows

    def update_columns(
        self, target: Target, rows: pa.Table, named: Collection[str]
    ) -> Callable[[], None]:
        """Set the columns `named` of rows: old keys, then the columns.

        Where the key is set, the columns are all of the table's, and a row whose key changes is
        removed now and put back under the new key by the function returned.
        """
        keys = rows.select(range(len(target.key)))
        if not target.can_change_key(named):
            self.update(target, rows)
            return lambda: None
        whole = rows.select(range(len(target.key), rows.num_columns))
        stays = _equal_rows(keys, whole.select(target.schema.key))
        values = [name for name in named if name not in target.schema.key]
        self.count += int(pc.sum(stays).as_py() or 0) if not values else 0
        if values:
            self.update(target, whole.select([*target.schema.key, *values]).filter(stays))
        moved = pc.invert(stays)
        if pc.any(moved).as_py():
            self.writer.delete(target.name, keys.filter(moved))
        return lambda: self.insert(target, whole.filter(moved))


def _equal_rows(first: pa.Table, second: pa.Table) -> pa.Array:
    """Which rows are equal in every column; none with a null."""
    same = pa.array(np.ones(first.num_rows, bool))
    for one, other in zip(first.columns, second.columns, strict=True):
        alike = pc.fill_null(pc.equal(one, other), False)
        same = pc.and_(same, alike.combine_chunks())
    return same


def is_default(value: exp.Expr) -> bool:
    """Whether a value is the word DEFAULT."""
    return isinstance(value, (exp.Column, exp.Var)) and value.name.upper() == "DEFAULT"


def known_column(target: Target, name: str) -> Column:
    """A column that a statement sets; `NotFound` in the statement's words."""
    try:
        return target.column(name)
    except NotFound as error:
        raise NotFound(f"table {target.name!r}: {error}") from None


_NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("FLOAT", "DOUBLE", "DECIMAL"),
)

_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")

_TEXT = ("VARCHAR", "CHAR")

_UNKNOWN = ('"NULL"', "NULL", "SQLNULL", "UNKNOWN")

_ENGINE_TYPES = {"binary": "BLOB", "string": "VARCHAR"}


def assignment_query(text: str, kinds: Sequence[str], columns: Sequence[Column]) -> str:
    """A query's text with its columns, in order, as values of those of the table."""
    inner = [f"c{at}" for at in range(len(columns))]
    casts = [
        f"{_cast(name, kind, column)} AS {name}"
        for name, kind, column in zip(inner, kinds, columns, strict=True)
    ]
    return f"SELECT {', '.join(casts)} FROM ({text}) AS given({', '.join(inner)})"


def _cast(name: str, kind: str, column: Column) -> str:
    target = column.type
    base = kind.split("(", 1)[0]
    tests = pa.types
    if kind in _UNKNOWN:
        return f"CAST({name} AS {_engine_type(target)})"
    if tests.is_nested(target):
        return name
    if tests.is_string(target):
        if base == "TIMESTAMP WITH TIME ZONE":
            return f"CAST(CAST({name} AS TIMESTAMP) AS VARCHAR)"
        return f"CAST({name} AS VARCHAR)" if base in (*_NUMBERS, *_TIMES, "BOOLEAN") else name
    is_number = tests.is_integer(target) or tests.is_floating(target) or tests.is_decimal(target)
    is_time = tests.is_date(target) or tests.is_timestamp(target)
    allowed = (
        (is_number and base in _NUMBERS)
        or (is_time and base in (*_TIMES, *_TEXT))
        or (tests.is_boolean(target) and base == "BOOLEAN")
        or (tests.is_binary(target) and base in ("BLOB", *_TEXT))
    )
    if not allowed:
        raise InvalidData(
            f"column {column.name!r} is {type_name(target)} and takes no {_type_label(kind)} "
            "values; cast them if that is what is meant"
        )
    if tests.is_binary(target) and base in _TEXT:
        return f"encode({name})"
    if tests.is_integer(target):
        return f"spark_to_{type_name(target)}({name})"
    return f"CAST({name} AS {_engine_type(target)})"


def _engine_type(target: pa.DataType) -> str:
    tests = pa.types
    if tests.is_timestamp(target):
        return "TIMESTAMP" if target.tz is None else "TIMESTAMPTZ"
    if tests.is_map(target):
        return f"MAP({_engine_type(target.key_type)}, {_engine_type(target.item_type)})"
    if tests.is_list(target):
        return f"{_engine_type(target.value_type)}[]"
    if tests.is_struct(target):
        inner = [f"{_quote_name(field.name)} {_engine_type(field.type)}" for field in target]
        return f"STRUCT({', '.join(inner)})"
    return _ENGINE_TYPES.get(type_name(target), type_name(target))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type_label(kind: str) -> str:
    return {"VARCHAR": "string", "BLOB": "binary", "INTEGER": "int"}.get(kind, kind.lower())
