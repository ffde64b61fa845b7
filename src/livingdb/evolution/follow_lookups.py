"""Lookups in other tables, in the expressions of a change, by the names of another schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from livingdb.evolution.schema_change import Schemas
from livingdb.sql.bindings import BoundColumn, BoundTable, quote
from livingdb.sql.stored_expressions import StoredText, follow_text
from livingdb.sql.table_lookups import follow_lookup, lookup_expression
from livingdb.tables.schema import TableSchema

__all__ = ["LookupNames"]


@dataclass(frozen=True)
class LookupNames:
    """What names in the lookups of expressions over rows of a table stand for, then and later.

    `here` is the schema of the rows, and `tables` what each table is called later.
    """

    table: str
    here: TableSchema
    before: Schemas
    after: Schemas
    tables: Mapping[str, str]

    def follow(self, text: str, ends: tuple[BoundTable, BoundTable]) -> str | None:
        """An expression with lookups, by the later names; None if it has none, or cannot follow."""
        schemas = {name: known.schema for name, known in self.before.items()}
        schemas[self.table] = self.here
        found = lookup_expression(text, self.table, self.here, schemas)
        if not found.lookups:
            return None
        columns = {name: self._columns(name) for name in schemas}
        inner = follow_lookup(text, self.table, schemas, self.tables, columns)
        more = tuple(BoundColumn(one.name, one.name) for one in found.lookups)
        first, last = (replace(end, columns=(*end.columns, *more)) for end in ends)
        outer = follow_text(found.text, None, first, last)
        if not isinstance(outer, StoredText):
            return None
        made = outer.text
        for lookup, written in zip(found.lookups, inner, strict=True):
            made = made.replace(quote(lookup.name), written, 1)
        return made

    def _columns(self, table: str) -> dict[str, str]:
        """What the columns of a table are called later."""
        old, new = self.before.get(table), self.after.get(self.tables.get(table, table))
        if old is None or new is None:
            return {}
        later = {column.id: column.name for column in new.schema.columns}
        return {c.name: later[c.id] for c in old.schema.columns if c.id in later}
