"""What commits and reads leave to be done: trees to write down, long tails and a long journal."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import RLock
from typing import TYPE_CHECKING

from livingdb.catalog.branches import EPOCH
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.errors import LivingDBError
from livingdb.graph.storage.drain_journal import JOURNAL_LIMIT_BYTES, drain_journal
from livingdb.graph.storage.staging import Staging
from livingdb.tables.fold import fold, folded_root, is_fold_due
from livingdb.tables.index import Tree, Version
from livingdb.tables.recipe import Derived
from livingdb.tables.secondary_tree import BuiltIndex

if TYPE_CHECKING:
    from livingdb.graph.draft import Action
    from livingdb.graph.graph import Graph

__all__ = ["Upkeep"]

FOLD_BYTES = 64 << 10  # of a tree, that the journal takes
_LONGEST_LINE = 100_000


def _let_go(_chunk: StoredChunk) -> None:
    """Where chunks go that nobody needs."""


class Upkeep:
    """Does it, for one database."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._lock = RLock()
        self._folding = RLock()
        self._journal_bytes = 0
        self._waiting: list[Version] = []
        self._answers: list[tuple[Version, Sequence[StoredChunk]]] = []
        self._indexes: list[BuiltIndex] = []
        self._unindexed: list[Version] = []

    def note(self, journal_bytes: int, versions: Sequence[Version] = ()) -> None:
        """So much went to the journal, and these versions may have long tails."""
        with self._lock:
            self._journal_bytes += journal_bytes
            self._waiting += versions

    def note_unindexed(self, versions: Sequence[Version]) -> None:
        """These versions may be the first of tables with unique constraints or indexes."""
        with self._lock:
            self._unindexed += versions

    def keep_index(self, built: BuiltIndex) -> None:
        """Have an index that was made to check a write; it is written down after a commit."""
        scratch = self._graph.scratch()
        for chunk in built.chunks:
            scratch.sink(chunk)
        self._graph.index.cache(built.version.address, Tree(built.root))
        with self._lock:
            self._indexes.append(built)

    def save_indexes(self) -> None:
        """Write down the indexes that were made, of versions that are there."""
        graph = self._graph
        with self._lock:
            waiting, self._indexes = self._indexes, []
        for built in waiting:
            is_open = graph.index.is_open(built.anchor.address)
            is_gone = not is_open and graph.index.get(built.anchor.address) is None
            # One that was made before chunks were dropped may be built upon them.
            is_gone = is_gone or not graph.index.is_cached(built.version.address)
            if is_gone or (not is_open and self._save_index(built)):
                graph.scratch().drop(built.chunks)
                graph.index.forget_tree(built.version.address)
                continue
            with self._lock:
                self._indexes.append(built)

    def _save_index(self, built: BuiltIndex) -> bool:
        """Write down an index; if that does not come about, it is still there to be read."""
        index, is_saved = self._graph.index, False
        try:
            with self._graph.stage(FOLD_BYTES) as staging:
                for chunk in built.chunks:
                    staging.sink(chunk)
                index.put(built.version)
                index.materialize(built.version.address, Tree(built.root))
                is_saved = self._save(built.version, staging, self._graph.catalog.meta(EPOCH))
        finally:
            if not is_saved:
                index.cache(built.version.address, Tree(built.root))
        return is_saved

    def keep_answer(self, version: Version, recipe: Derived, chunks: Sequence[StoredChunk]) -> None:
        """Have the tree of a version that is being read; a recipe may say that it is to stay.

        It stays here until the next commit, or the end: a reader may be in the middle of one.
        """
        scratch = self._graph.scratch()
        for chunk in chunks:
            scratch.sink(chunk)
        if recipe.data.get("keep", True):
            with self._lock:
                self._answers.append((version, chunks))

    def forget_answers(self) -> None:
        """Let go of what was made for readers: rows that are in it may be about to go."""
        with self._lock:
            answers, self._answers = self._answers, []
            indexes, self._indexes = self._indexes, []
        for _, chunks in answers:
            self._graph.scratch().drop(chunks)
        for built in indexes:
            self._graph.scratch().drop(built.chunks)
        self._graph.index.refresh()

    def save_answers(self) -> None:
        """Write down the trees that were made for readers, of versions that are there."""
        graph = self._graph
        with self._lock:
            waiting, self._answers = self._answers, []
        for version, chunks in waiting:
            if graph.index.is_open(version.address):
                with self._lock:
                    self._answers.append((version, chunks))
                continue
            if graph.index.get(version.address) is None:  # its transaction came to nothing
                graph.scratch().drop(chunks)
                continue
            if self._save_answer(version, chunks):
                graph.scratch().drop(chunks)

    def _save_answer(self, version: Version, chunks: Sequence[StoredChunk]) -> bool:
        """Write down the tree of an answer, and only with it that the version has one."""
        index = self._graph.index
        tree = index.tree(version.address) if index.is_cached(version.address) else None
        is_saved = False
        try:
            with self._graph.stage(FOLD_BYTES) as staging:
                for chunk in chunks:
                    staging.sink(chunk)
                if tree is not None:
                    index.materialize(version.address, tree)
                is_saved = self._save(version, staging, self._graph.catalog.meta(EPOCH))
        finally:
            if tree is not None and not is_saved:
                index.cache(version.address, tree)
        return is_saved

    def fold_and_drain(self, made: Sequence[Version]) -> None:
        """What a commit leaves to be done: folding long tails, draining a long journal."""
        graph = self._graph
        # The commit is made: what fails here does not undo it, and is tried after the next one.
        with suppress(LivingDBError):
            self.save_answers()
            with self._lock:
                waiting, self._waiting = self._waiting, []
                unindexed, self._unindexed = self._unindexed, []
            for version in (*made, *waiting):
                if is_fold_due(graph.versions, version):
                    with self._alone(f"fold {version.origin.hex()}") as is_alone:
                        if is_alone:
                            self.fold(version)
                elif graph.versions.runs.is_due(version):
                    self.save_run(version)
            for version in (*made, *waiting, *unindexed):
                graph.versions.uniques.ensure(version)
                graph.versions.indexes.ensure(version)
            self.save_indexes()
        if self._journal_bytes > JOURNAL_LIMIT_BYTES // 4:
            with suppress(LivingDBError), self._folding, self._alone("drain") as is_alone:
                if is_alone and graph.store.journal.size_bytes() > JOURNAL_LIMIT_BYTES:
                    drain_journal(graph.store)
                self._journal_bytes = 0

    def _alone(self, name: str) -> AbstractContextManager[bool]:
        """Whether no other process does that at the moment: it need not be done twice."""
        turns = self._graph.place.turns
        return nullcontext(True) if turns is None else turns.alone(name)

    def save_run(self, version: Version) -> bool:
        """Write down the run that a version is to have; whether it was worth it."""
        graph = self._graph
        epoch = graph.catalog.meta(EPOCH)
        graph.observe_epoch(epoch)
        with graph.stage(FOLD_BYTES) as staging:
            run = graph.versions.runs.make(version, staging.sink)
            if run is None:
                return False
            staging.finish_packs()
            with graph.catalog.write() as connection:
                if graph.catalog.meta(EPOCH, connection) != epoch:
                    return False
                staging.write(connection)
                graph.index.save_run(connection, run)
                staging.keep()
            staging.publish()
        graph.index.put_run(run)
        self.note(staging.journal_bytes)
        return True

    def save_missing_runs(self, version: Version) -> int:
        """Write down the runs that the line to a version lacks; how many that were."""
        versions, index = self._graph.versions, self._graph.index
        nearest = versions.nearest_stored(version) or versions.require(version.origin)
        line = index.line(version, nearest.depth, _LONGEST_LINE)
        missing = [p.version for p in line if p.run is None and versions.runs.is_due(p.version)]
        return sum([self.save_run(each) for each in reversed(missing)])

    def fold(self, version: Version, noted: Action | None = None) -> Address:
        """Materialize a version in the layout in force, durably; its root.

        One thread at a time: a tree is never built upon one that may come to nothing.  In a
        database that is only read it is not kept.  `noted` is what the transaction that keeps it
        does, too.
        """
        graph = self._graph
        if graph.place.refusal is not None:
            versions, forest = graph.versions, graph.versions.placements.of(version).forest
            known = folded_root(versions, version)
            return known or versions.rows(version).root_in(forest, _let_go)
        with self._folding:
            if graph.index.is_cached(version.origin):
                self.save_answers()
            epoch = graph.catalog.meta(EPOCH)
            graph.observe_epoch(epoch)
            known = folded_root(graph.versions, version)
            if known is not None:
                return known
            has_tree = graph.index.tree(version.address) is not None
            began = clock.perf_counter()
            try:
                with graph.stage(FOLD_BYTES) as staging:
                    root = self._fold_tree(version, staging)
                    self._save(version, staging, epoch, is_replaced=has_tree, noted=noted)
            finally:
                graph.index.forget_tree(version.address)
            graph.observer.note_work(version, "fold", clock.perf_counter() - began)
            with suppress(LivingDBError):  # the next commit makes those that fail
                graph.versions.uniques.ensure(version)
                graph.versions.indexes.ensure(version)
                self.save_indexes()
            return root

    def _save(
        self,
        version: Version,
        staging: Staging,
        epoch: str | None,
        is_replaced: bool = False,
        noted: Action | None = None,
    ) -> bool:
        """Write down the tree of a version; False if what it was built upon may be gone."""
        graph = self._graph
        staging.finish_packs()
        with graph.catalog.write() as connection:
            is_current = graph.catalog.meta(EPOCH, connection) == epoch
            if is_current:
                staging.write(connection)
                graph.index.save(connection, [version])
                if is_replaced:
                    graph.catalog.count_replaced_tree(connection)
                if noted is not None:
                    noted(connection)
                staging.keep()
        if is_current:
            staging.publish()
            graph.index.mark_saved([version])
            self.note(staging.journal_bytes)
        return is_current

    def _fold_tree(self, version: Version, staging: Staging) -> Address:
        """The root of the version's tree, made here or by who does large work."""
        graph, versions, large = self._graph, self._graph.versions, self._graph.large
        place = versions.placements.of(version)
        is_free = place.layout.splitter == "content" and folded_root(versions, version) is None
        if large is None or not is_free or not large.takes(lambda: versions.count(version)):
            return fold(versions, version, staging.sink)
        near = versions.nearest_stored(version)
        is_stored = near is not None and not graph.index.is_cached(near.address)
        if not is_stored and version.origin != version.address:
            self.fold(versions.require(version.origin))
        root = staging.join_parts(large.fold(graph, version), place.forest, ours=True)
        graph.index.materialize(version.address, place.tree(root, staging.sink))
        return root
