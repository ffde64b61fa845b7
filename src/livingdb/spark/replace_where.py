"""The option `replaceWhere`: of a table, only the rows that satisfy a condition are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livingdb.errors import DuplicateKey, InvalidData
from livingdb.spark.where_option import bind_condition
from livingdb.sql.expressions import Expression
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta
from livingdb.trees.keys import member

__all__ = ["ReplaceWhere"]


@dataclass(frozen=True)
class ReplaceWhere:
    """A condition on the rows of a table that are replaced, and on those in their place."""

    text: str

    @classmethod
    def of(
        cls, options: Mapping[str, str], overwrite: bool, schema: TableSchema
    ) -> ReplaceWhere | None:
        """The option, known to be a condition on what is written; None if it is not given."""
        text = options.get("replaceWhere")
        if text is None:
            return None
        if not overwrite:
            raise InvalidData('replaceWhere goes with mode overwrite: .mode("overwrite")')
        condition = bind_condition(text, schema.arrow)
        for column in schema.columns:
            is_given = not column.is_fixed and column.generated is None
            if column.name in condition.columns and not is_given:
                raise InvalidData(
                    f"replaceWhere {text!r}: nobody writes the column {column.name!r}"
                )
        return cls(condition.text)

    def check(self, schema: TableSchema, changes: Delta) -> None:
        """`InvalidData` for a row to be written that does not satisfy the condition."""
        condition = Expression(self.text)
        columns = {name: changes.columns[schema.position(name)] for name in condition.columns}
        if not columns or not len(changes):
            return
        holds = condition.values(pa.table(columns), pa.bool_()).fill_null(False)
        wrong = np.flatnonzero(~holds.to_numpy(zero_copy_only=False))
        if len(wrong):
            row = int(wrong[0])
            raise InvalidData(
                f"the row with the key {_shown_key(schema, changes, row)} does not satisfy "
                f"replaceWhere {self.text!r}; {len(wrong)} such rows in this task"
            )

    def keys(self, rows: RowSet, changes: Delta) -> pa.Table:
        """The keys of the rows to be replaced; `DuplicateKey` for a row that others keep out."""
        from livingdb.sql.select_where import select_where

        schema = rows.schema
        found = select_where(rows, self.text, list(schema.key))
        replaced = changes.shape.keys([column.combine_chunks() for column in found.columns])
        outside = rows.contains(changes.keys) & ~member(changes.keys, replaced)
        if outside.any():
            key = _shown_key(schema, changes, int(outside.argmax()))
            raise DuplicateKey(
                f"the key {key} is that of a row that stays, as it does not satisfy "
                f"replaceWhere {self.text!r}"
            )
        return found


def _shown_key(schema: TableSchema, changes: Delta, row: int) -> str:
    columns = zip(schema.key, changes.columns, strict=False)
    shown = [f"{name}={column[row].as_py()!r}" for name, column in columns if column is not None]
    return ", ".join(shown)
