"""SeveralChanges: changes that rows cross together; what a sync of a list goes by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.composed_lens import compose, composes
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.tables.identity import new_id

__all__ = ["SeveralChanges", "as_one"]


@dataclass(frozen=True)
class SeveralChanges(SchemaChange):
    """Changes made one after the other, whose lenses compose.

    changes   the changes, as JSON
    """

    changes: str

    @property
    def parts(self) -> list[SchemaChange]:
        """The changes."""
        return [SchemaChange.from_json(data) for data in json.loads(self.changes)]

    @property
    def title(self) -> str:
        return "; ".join(part.title for part in self.parts)

    @property
    def about(self) -> str:
        return self.parts[0].about

    @property
    def text(self) -> str:
        return "; ".join(part.text for part in self.parts)

    def with_parts(self, parts: Sequence[SchemaChange]) -> SeveralChanges:
        """The same of other changes."""
        given = json.dumps([part.to_json() for part in parts])
        return SeveralChanges(given).with_id(self.id)

    def plan(self, tables: Schemas) -> Lens:
        now, lenses = dict(tables), list[Lens]()
        for part in self.parts:
            lens = part.plan(now)
            now = {name: known for name, known in now.items() if name not in lens.old}
            now.update(lens.new)
            lenses.append(lens)
        if not composes(lenses):
            raise InvalidData(f"these changes are not made in one step: {self.title}")
        return compose(lenses)


def as_one(changes: Sequence[SchemaChange]) -> SchemaChange:
    """One change that does what some do, whose lenses compose."""
    if len(changes) == 1:
        return changes[0]
    return SeveralChanges("").with_id(new_id()).with_parts(changes)
