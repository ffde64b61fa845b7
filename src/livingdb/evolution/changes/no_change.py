"""NoChange: the schema stays as it is; what sees a branch through it is a replica."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from livingdb.evolution.changes.tables import TableLens
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.schema_change import SchemaChange, Schemas

__all__ = ["NoChange"]


@dataclass(frozen=True)
class NoChange(SchemaChange):
    """Every table is the same on both sides.

    of         the change that it stands for, as JSON: what that does has been done on the old
               side, too
    is_asked   whether that side only has the names, order or defaults that the change asks for,
               and has not made it: the change cannot go on without what it speaks of
    """

    later_fields: ClassVar[Mapping[str, Any]] = MappingProxyType({"is_asked": False})
    of: str = ""
    is_asked: bool = False

    def restored(self) -> SchemaChange | None:
        """The change that it stands for."""
        return SchemaChange.from_json(json.loads(self.of)) if self.of else None

    def plan(self, tables: Schemas) -> Lens:
        return TableLens({}, {}, {})
