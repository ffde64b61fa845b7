"""Erasing rows from history: versions are redacted, and everything is written without the rows.

One transaction of the catalog makes all redactions count, together with the packs that no longer
hold what was erased.  Until then nothing has happened; after it, files that count no more go as
soon as nobody reads them.
"""

from __future__ import annotations

import time as clock
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sqlalchemy import Connection

from livingdb.catalog.versions import TreeRow, VersionRow
from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.pack import Pack
from livingdb.chunks.repack_packs import PackSwap, repack_packs
from livingdb.errors import LivingDBError, Locked, RuleViolation
from livingdb.graph.graph import Graph, now
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.graph.storage.projection_files import ProjectionFiles
from livingdb.graph.storage.projections import files_of_heads
from livingdb.graph.storage.staging import Staging
from livingdb.maintenance.compact import add_runs, live_chunks
from livingdb.maintenance.erasure.erased_rows import ErasedRows
from livingdb.maintenance.erasure.recompute_views import ReadingView, RecomputedViews
from livingdb.maintenance.erasure.redact_texts import RedactedTexts, redact_texts
from livingdb.maintenance.erasure.redact_versions import RedactedVersions, redact_versions
from livingdb.maintenance.erasure.shared_tables import keep_shared_rows, shared_roots
from livingdb.maintenance.erasure.table_versions import all_versions, versions_by_table
from livingdb.maintenance.erasure.version_readers import VersionReaders
from livingdb.tables.index import Tree, Version

__all__ = ["Erased", "Erasure", "erase_history", "plan_history"]

_ATTEMPTS = 5


@dataclass(frozen=True)
class Erasure:
    """What is to be erased, who wants it and why; `details` is told of it for good."""

    table: str
    rows: Sequence[ErasedRows]
    texts: Sequence[str]
    author: str
    reason: str
    views: Sequence[ReadingView] = ()
    """Views whose rows do not tell of which rows they are, each after those that it reads."""
    engine: str | None = None
    trust: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    heads: Mapping[Address, str] = field(default_factory=dict)
    """Versions that are not to lose any rows, and where they are: at heads, which have theirs by
    right, now that the rows were deleted there."""


@dataclass(frozen=True)
class Erased:
    """What was done, or is to be: recipes redacted, trees made anew, and what is left to go."""

    number: int | None
    versions: int
    trees: int
    snapshots: int
    unknown: tuple[str, ...] = ()
    """Views of which versions stay, because nobody knows how they were made."""
    held: frozenset[Address] = frozenset()
    """The versions that may have other rows than they had."""
    lost: frozenset[Address] = frozenset()
    """Those of them that do, or are computed of such when they are read."""
    shared: tuple[str, ...] = ()
    """Tables with rows that were taken apart from those which went: they stay."""
    waiting: tuple[str, ...] = ()
    """Files that somebody still reads, and what else has to be cleared later."""


def plan_history(graph: Graph, erasure: Erasure) -> Erased:
    """What erasing would do; nothing is kept of it."""
    with graph.stage() as staging, _Plan(graph, erasure, staging) as plan:
        return plan.told(None)


def erase_history(graph: Graph, erasure: Erasure) -> Erased:
    """Take rows out of every version; `Locked` if others wrote all the time meanwhile."""
    for _ in range(_ATTEMPTS):
        done = _attempt(graph, erasure)
        if done is not None:
            return done
    raise Locked("others kept writing to the database while it was to be erased from; try again")


def _attempt(graph: Graph, erasure: Erasure) -> Erased | None:
    graph.upkeep.forget_answers()
    graph.store.refresh()
    drain_journal(graph.store)
    graph.branches.follow()
    with graph.stage() as staging, _Plan(graph, erasure, staging) as plan:
        number = None if plan.is_empty else _Rewriting(graph, plan, staging).run()
    if number is None:
        return plan.told(None, _clear(graph)) if plan.is_empty else None
    graph.store.read_redactions()
    graph.forget_rows()
    _drop_projections(graph)
    add_runs(graph)
    return plan.told(number, _clear(graph))


class _Plan:
    """Everything that is to become of the database; new chunks are staged, nothing is changed.

    As long as it is open, this process reads the database as it is going to be.
    """

    def __init__(self, graph: Graph, erasure: Erasure, staging: Staging):
        self.graph = graph
        self.erasure = erasure
        self.staging = staging
        self.pulse: tuple[object, ...] | None = graph.catalog.write_counters()
        """What the catalog was when the plan was made; None if it was not one state."""
        self.versions = all_versions(graph)
        self.found = RedactedVersions()
        self._by_table = _by_table(erasure.rows)
        self._known = versions_by_table(graph, self.versions, set(self._by_table))
        how = erasure.views, erasure.engine, erasure.trust
        self._views = RecomputedViews(graph, *how, staging.sink)
        self._readers = VersionReaders.of(graph, self.versions)
        self._exact: set[Address] = set()
        """Versions of which it is known whether they lose rows."""
        self._shared: set[str] = set()
        self._evict_answers()
        self.texts: RedactedTexts = redact_texts(graph, erasure.texts)

    def __enter__(self) -> Self:
        stored = self.graph.catalog.versions.materializations()
        roots = {each.version: Tree(each.root, each.layout) for each in stored}
        try:
            for table, rows in self._by_table.items():
                known, sink = self._known[table], self.staging.sink
                redact_versions(self.graph, known, rows, roots, sink, self.found)
            self._check_heads()
            lookups = shared_roots(self.graph, self.versions, self.found, self.staging.sink)
            self._exact = {a for a, v in self.versions.items() if v.origin in self.found.lines}
            self._exact |= lookups.keys()
            chosen = self._views.find(self._lost(self.found.held), self._lost, self.found.untold)
            self._stage()
            self._shared = keep_shared_rows(self.graph, lookups, self.found)
            self._stage()
            for _ in self._views.redact(chosen, self.versions, roots, self.found):
                self._stage()
            self._uncount_forgotten()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for address in self.found.roots:
            self.graph.index.forget_tree(address)
        self.graph.forget_rows()

    def _lost(self, held: Collection[Address]) -> set[Address]:
        """Versions that lose rows, and those that are computed of them when they are read."""
        return self._readers.answers_over(held, self._exact)

    def _uncount_forgotten(self) -> None:
        """Let the index not say how many rows a forgotten version had, if what is kept upon it has
        fewer now: how many of them it had nobody can tell."""
        facts = self.found.versions
        for version in list(facts.values()):
            below, before = version.base, self.versions[version.address]
            if below is None or not self.graph.index.is_hollow(below):
                continue
            if version.rows != before.rows:
                facts[below] = replace(self.graph.versions.require(below), rows=None)

    def _check_heads(self) -> None:
        """`RuleViolation` if rows would go from a head, where other rows make them."""
        kept = sorted({w for a, w in self.erasure.heads.items() if a in self.found.held})
        if kept:
            raise RuleViolation(
                "nothing is erased: the rows are deleted where they can be written, and still are "
                f"in {'; '.join(kept)}; there they follow from other rows, too: erase those first"
            )

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is there."""
        return self.found.is_empty and self.texts.is_empty

    @property
    def redacted(self) -> dict[Address, bytes]:
        """The records that are redacted, and what they are then."""
        chunks = [*self.found.recipes.values(), *self.texts.records.values()]
        return {chunk.address: chunk.data for chunk in chunks}

    def _evict_answers(self) -> None:
        """Forget cached answers that may hold the rows and can be made anew; nobody sees that."""
        catalog = self.graph.catalog
        followed = {version.address for some in self._known.values() for version in some}
        shown = {self.versions[a].origin for a in self._views.versions() if a in self.versions}
        shown -= self._readers.computed  # the trees of which are cached answers, too
        followed |= {a for a, version in self.versions.items() if version.origin in shown}
        reached = self._readers.made_of(followed)
        stale = sorted(reached - followed)
        hollow = catalog.forgotten.versions()
        # A run in the place of what was forgotten is no cached answer: see `RedactedVersions.runs`.
        runs = [
            run.version
            for run in catalog.versions.runs()
            if run.version in followed and self.versions[run.version].base not in hollow
        ]
        with catalog.write() as connection:
            is_same = catalog.write_counters(connection) == self.pulse
            catalog.versions.evict_all(connection, stale, runs)
            self.pulse = catalog.write_counters(connection) if is_same else None
        self.graph.forget_rows()

    def _stage(self) -> None:
        """Let everybody here read what records and trees are going to be."""
        self.graph.forget_rows()
        for chunk in (*self.found.recipes.values(), *self.texts.records.values()):
            self.staging.replace(chunk)
        for address, tree in self.found.roots.items():
            self.graph.index.materialize(address, tree)

    def write(self, connection: Connection) -> int:
        """Make it all count, in a transaction; the number of the erasure."""
        catalog, erasure = self.graph.catalog, self.erasure
        number = catalog.erasures.add(
            connection, erasure.table, now(), erasure.author, erasure.reason, erasure.details
        )
        made = {address: _digest_of(address, data) for address, data in self.redacted.items()}
        catalog.journal.remove(list(made), connection)
        catalog.erasures.redact(connection, number, made)
        self.staging.write(connection)
        facts = self.found.versions
        catalog.versions.replace(connection, [VersionRow(*_values(v)) for v in facts.values()])
        moved = [
            (
                VersionRow(*_values(facts.get(address, self.versions[address]))),
                TreeRow(address, tree.root, tree.layout),
            )
            for address, tree in self.found.roots.items()
        ]
        catalog.versions.evict_all(connection, [], sorted(self.found.runs))
        catalog.versions.materialize(connection, moved)
        self.texts.write(connection)
        return number

    def told(self, number: int | None, waiting: Iterable[str] = ()) -> Erased:
        """What was done, or would be."""
        found, records = self.found, self.texts.records
        return Erased(
            number,
            len(found.recipes),
            len(found.roots),
            len(records),
            tuple(sorted(self._views.unknown)),
            frozenset(self._readers.made_of(found.held)),
            frozenset(self._lost(found.held)),
            tuple(sorted(self._shared)),
            tuple(waiting),
        )


def _by_table(rows: Iterable[ErasedRows]) -> dict[str, list[ErasedRows]]:
    found: dict[str, list[ErasedRows]] = {}
    for each in rows:
        found.setdefault(each.table, []).append(each)
    return found


def _values(version: Version) -> tuple[Any, ...]:
    return tuple(getattr(version, name) for name in VersionRow._fields)


def _digest_of(address: Address, data: bytes) -> Address:
    digest = Chunk(address, data).redaction
    assert digest is not None
    return digest


class _Rewriting:
    """Writes packs without what was erased, and makes it all count, if nobody wrote meanwhile."""

    def __init__(self, graph: Graph, plan: _Plan, staging: Staging):
        self._graph = graph
        self._plan = plan
        self._staging = staging
        self._number: int | None = None
        self._new: tuple[str, ...] = ()

    def run(self) -> int | None:
        """The number of the erasure; None if others wrote, and nothing was changed."""
        graph, store = self._graph, self._graph.store
        found = self._plan.found
        live, older = live_chunks(graph, found.roots, found.runs)
        self._staging.retain(live)
        live -= set(self._plan.redacted)
        every = graph.catalog.packs.names()
        source = store.packs.with_packs(every)
        names = stale_packs(graph, every, live)
        self._staging.finish_packs()
        repack_packs(source, names, older=older, live=live, swap=self._swap)
        if self._number is None:
            store.drop_packs(self._new)
        return self._number

    def _swap(self, swap: PackSwap) -> None:
        graph, catalog = self._graph, self._graph.catalog
        self._new = swap.new
        levels = graph.store.levels(swap.new)
        with catalog.write() as connection:
            if catalog.write_counters(connection) != self._plan.pulse:
                return
            self._number = self._plan.write(connection)
            catalog.packs.retire(connection, swap.old, now())
            catalog.packs.add(connection, levels)
            catalog.raise_epoch(connection)
            self._staging.keep()
        self._staging.publish()


def stale_packs(graph: Graph, names: Iterable[str], live: Collection[Address]) -> list[str]:
    """The packs that hold a chunk which is not alive, or one that is stored against such a one."""
    return [name for name in names if _is_stale(graph, name, live)]


def _is_stale(graph: Graph, name: str, live: Collection[Address]) -> bool:
    pack = Pack(graph.place.files.view(f"packs/{name}"), name)
    addresses = list(pack.addresses())
    if any(address not in live for address in addresses):
        return True
    bodies = ((address, pack.get(address)) for address in addresses)
    references = (Chunk(address, body).reference for address, body in bodies)
    return any(reference is not None and reference not in live for reference in references)


def _drop_projections(graph: Graph) -> None:
    """Forget the files that no head is read from: they may hold what was erased."""
    files = ProjectionFiles(graph.place.files)
    held = files.held()
    if held:
        files.drop(sorted(held - set(files_of_heads(graph))))
    files.drop_leftovers(clock.time())


def _clear(graph: Graph) -> list[str]:
    """Remove what counts no more; what has to wait for others."""
    if not graph.store.redacted:
        return []
    lease = graph.place.lease
    with suppress(LivingDBError):
        graph.sweep()
        if lease is not None and lease.is_alone() and graph.store.is_idle:
            graph.store.drop_packs(graph.store.unnamed_packs())
            graph.place.files.sweep(0.0)
    waiting = [f"pack {name}, which nobody named" for name in graph.store.unnamed_packs()]
    waiting += [f"pack {name}" for name, _ in graph.catalog.packs.retired_packs()]
    if not graph.catalog.clear_erased():
        waiting.append("free pages and log of the catalog")
    turns = graph.place.turns
    if turns is not None and not turns.clear_offers():
        waiting.append("writes that processes hand to each other at this moment")
    return waiting
