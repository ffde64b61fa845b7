"""The target table of a DML statement, the writer that applies its rows, and casts by Spark's store
assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from livingdb.engines.portable.literal_arguments import is_time_literal
from livingdb.engines.request import Request, Source
from livingdb.engines.spark_types import INTEGERS, kind_of
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.parameters import constant
from livingdb.sql.planner import Planner
from livingdb.sql.scope import Writer
from livingdb.sql.table_conditions import find_column
from livingdb.sql.table_names import SYSTEM, find_rows
from livingdb.tables.letter_case import alike_names, check_clear, column_names, find_alike
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["StatementWriter", "Target", "check_parts", "known_column"]


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

    def value(self, column: Column, given: exp.Expr) -> exp.Expr:
        """What a column is set to: its default for DEFAULT, a moment for a text that is one."""
        if _is_default(given):
            return exp.null() if column.default is None else self._planner.parameter(column.default)
        text = constant(given, self._planner.parameters)
        if not pa.types.is_timestamp(column.type) or not isinstance(text, str):
            return given
        written = exp.Literal.string(text)
        cast = exp.Cast(this=written, to=exp.DataType.build(type_name(column.type), "spark"))
        return cast if is_time_literal(written, column.type) else given


class StatementWriter:
    """Writes what a statement computes and counts the rows."""

    def __init__(self, writer: Writer, planner: Planner):
        self.writer = writer
        self.planner = planner
        self.count = 0
        self.returned: pa.Table = pa.table({})
        """The rows that the statement answers with."""

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
        return self.assigned_rows(self.planner.run(query), columns)

    def assigned_rows(self, rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
        """Rows as values of the table's columns, in that order, as Spark assigns them."""
        if rows.num_columns != len(columns):
            names = ", ".join(column.name for column in columns)
            raise InvalidData(
                f"{rows.num_columns} values for {len(columns)} columns; the columns are {names}"
            )
        arrays = [
            pa.nulls(rows.num_rows, column.type) if pa.types.is_null(array.type) else array
            for array, column in zip(rows.columns, columns, strict=True)
        ]
        given = pa.Table.from_arrays(arrays, names=[f"c{at}" for at in range(len(columns))])
        casts = [
            assignment(exp.column(field.name), field.type, column)
            for field, column in zip(given.schema, columns, strict=True)
        ]
        if any(isinstance(item, exp.Cast) for item in casts):
            query = exp.select(*casts).from_("given")
            request = Request(query, {"given": Source(given)})
            given = self.planner.answer(request, query)
        return given.rename_columns([column.name for column in columns])

    def insert(self, target: Target, rows: pa.Table) -> None:
        """Add rows."""
        if rows.num_rows:
            self.writer.insert(target.name, rows)
            self.count += rows.num_rows

    def insert_returning(self, target: Target, rows: pa.Table, items: Sequence[exp.Expr]) -> None:
        """Add rows, and answer with expressions over each of them as it is then."""
        query = exp.select(*items).from_(target.table.copy())
        answer = partial(self.planner.run_over, query)
        if rows.num_rows:
            self.returned = self.writer.insert_returning(target.name, rows, answer)
        else:
            self.returned = answer(target.schema.arrow.empty_table())
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


def _is_default(value: exp.Expr) -> bool:
    """Whether a value is the word DEFAULT."""
    return isinstance(value, (exp.Column, exp.Var)) and value.name.upper() == "DEFAULT"


def check_parts(tree: exp.Expr, taken: Collection[str], otherwise: str) -> None:
    """`Unsupported`, in the words of `otherwise`, for a statement with a part that is not `taken`.

    The parser reads what other databases write, too: none of that is passed over.
    """
    if any(given and part not in taken for part, given in tree.args.items()):
        raise Unsupported(otherwise)


def known_column(target: Target, name: str) -> Column:
    """A column that a statement sets; `NotFound` in the statement's words."""
    try:
        return target.column(name)
    except NotFound as error:
        raise NotFound(f"table {target.name!r}: {error}") from None


_NUMBERS = (*INTEGERS, "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_NESTED = ("array", "struct", "map")


def assignment(value: exp.Expr, source: pa.DataType, column: Column) -> exp.Expr:
    """A value of a type as one of the column's: a cast, if it is not one already.

    Text is taken into columns of days and moments, beside what Spark assigns.
    """
    target = column.type
    if source == target:
        return value
    one, other = kind_of(source), kind_of(target)
    if other in _NESTED and one in _NESTED:
        return value
    allowed = (
        (other in _NUMBERS and one in _NUMBERS)
        or (other == "string" and one in (*_NUMBERS, *_TIMES, "boolean"))
        or (other in _TIMES and one in (*_TIMES, "string"))
        or (other == "binary" and one == "string")
    )
    if not allowed:
        raise InvalidData(
            f"column {column.name!r} is {type_name(target)} and takes no {type_name(source)} "
            "values; cast them if that is what is meant"
        )
    return exp.Cast(this=value, to=exp.DataType.build(type_name(target), "spark"))
