"""Who is told of what is made of the versions in one store, and keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.tables.index import Tree, Version, VersionIndex
from livingdb.tables.recipe import Derived
from livingdb.tables.secondary_tree import BuiltIndex
from livingdb.trees.delta import Delta

__all__ = ["Listeners"]

KeepAnswer = Callable[[Version, Derived, Sequence[StoredChunk]], None]
KeepIndex = Callable[[BuiltIndex], None]
NoteChange = Callable[[Version, Delta], None]
NoteEvaluation = Callable[[Version, float], None]


@dataclass(frozen=True)
class Listeners:
    """Who is told of what is made.

    keep_answer      takes the tree of a version that was evaluated to be read
    keep_index       takes an index that was made to be read
    note_change      is told of changes that are made
    note_evaluation  is told of versions that are evaluated to be read, and how long that took
    """

    keep_answer: KeepAnswer
    keep_index: KeepIndex
    note_change: NoteChange = lambda version, changes: None
    note_evaluation: NoteEvaluation = lambda version, seconds: None

    @classmethod
    def storing(cls, store: ChunkStore, index: VersionIndex) -> Listeners:
        """Those who store what is made at once, and observe nothing."""

        def keep_answer(version: Version, recipe: Derived, chunks: Sequence[StoredChunk]) -> None:
            store.put(chunks)

        def keep_index(built: BuiltIndex) -> None:
            store.put(built.chunks)
            index.put(built.version)
            index.materialize(built.version.address, Tree(built.root))

        return cls(keep_answer, keep_index)
