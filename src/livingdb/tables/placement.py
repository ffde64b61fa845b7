"""Placement: in which layout the trees of a table are made now.

A definition says the layout that its table was made with.  A table may have been given another one
since: that is a setting of the database and no part of a table's history, so a tree says for itself
in which layout it lies (see `index.Tree`).
"""

from __future__ import annotations

from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.tables.index import Tree
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.trees.builder import Sink
from livingdb.trees.forest import Forest

__all__ = ["Placement"]


@dataclass(frozen=True)
class Placement:
    """Where trees of versions of a definition go.

    `definition` is theirs with the layout in force, and `other` its record, if trees lie otherwise
    in it than in their own.  `is_given`: the table was given a layout since it was made.
    """

    definition: Definition
    forest: Forest
    other: StoredChunk | None = None
    is_given: bool = False

    @property
    def layout(self) -> Layout:
        """The layout in force."""
        return self.definition.layout

    def tree(self, root: Address, sink: Sink) -> Tree:
        """A tree that was made here; what says so goes to the sink."""
        if self.other is None:
            return Tree(root)
        sink(self.other)
        return Tree(root, self.other.address)
