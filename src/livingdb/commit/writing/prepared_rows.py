"""Rows that are brought into a table's shape before their writer's turn comes.

While others write, the rows can be typed, sorted and encoded by the schema that the table had when
this process last wrote to it.  If it has another one by then, they are brought into that.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.commit.writing.fill_generated import has_generated
from livingdb.errors import LivingDBError
from livingdb.tables import ingest
from livingdb.tables.tabular import Tabular
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta

__all__ = ["PreparedRows", "RowPreparation"]

_TABLES = 1_024


@dataclass(frozen=True)
class PreparedRows(Tabular):
    """Rows, and the changes that putting them is in a table of that definition."""

    definition: Address | None = None
    changes: Delta | None = None

    def changes_in(self, definition: Address) -> Delta | None:
        """The changes, if the table has the definition that they were made for."""
        return self.changes if definition == self.definition else None


class RowPreparation:
    """Knows by which definitions tables were written last."""

    def __init__(self, versions: Versions):
        self._versions = versions
        self._definitions: dict[tuple[str, str], Address] = {}

    def note(self, branch: str, table: str, definition: Address) -> None:
        """Rows of a table were brought into the shape that it has on a branch."""
        if len(self._definitions) > _TABLES:
            self._definitions.clear()
        self._definitions[branch, table] = definition

    def prepare(self, branch: str, table: str, given: Tabular) -> Tabular:
        """Rows to be put, prepared if it is known how; what is wrong with them is said later."""
        definition = self._definitions.get((branch, table))
        if definition is None:
            return given
        with suppress(LivingDBError):
            placements = self._versions.placements
            schema = placements.definition_at(definition).schema
            if set(schema.key) <= set(given.columns) and not has_generated(schema):
                shape = placements.forest_at(definition).shape
                changes = ingest.upserts(schema, shape, given)
                self._versions.encode_ahead(schema, changes)
                return PreparedRows(given.rows, given.columns, given.absent, definition, changes)
        return given
