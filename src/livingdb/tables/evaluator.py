"""What answers for recipes that are neither rows nor a change: schema changes and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from livingdb.chunks.address import Address
from livingdb.tables.recipe import Derived
from livingdb.tables.rows import RowSet
from livingdb.trees.builder import Sink
from livingdb.trees.forest import Forest

if TYPE_CHECKING:
    from livingdb.tables.secondary_tree import RowSource
    from livingdb.tables.versions import Versions

__all__ = ["Evaluator"]


class Evaluator(Protocol):
    """Answers for recipes of one kind that are neither rows nor a change."""

    def definition(self, recipe: Derived) -> Address:
        """The definition of the table the recipe yields."""
        ...

    def rows(self, recipe: Derived, versions: Versions) -> RowSet | None:
        """Its rows, found as they are read; None if that needs all of them at once."""
        ...

    def root(self, recipe: Derived, versions: Versions, forest: Forest, sink: Sink) -> Address:
        """The root of its rows in a forest, evaluated now."""
        ...

    def row_source(self, recipe: Derived, versions: Versions) -> RowSource | None:
        """The version whose rows it maps one by one; None if it makes them in another way."""
        ...

    def forget_rows(self) -> None:
        """Evaluate everything anew: rows of what was read before may have been erased."""
        ...
