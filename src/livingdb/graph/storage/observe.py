"""Observing how tables are read and written, so that somebody can say how they had better lie.

Counts are kept in memory and added to the catalog's now and then, after a commit or when the
database is closed; what was counted and not added yet is lost with the process, and nobody minds.
They name tables and columns by their identities and say how often, how far and about where, and
never what a row holds.  Cost and outcome of views and syncs are in the log of their runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING

from livingdb.catalog.observations import MOST_SUBJECTS, Counts
from livingdb.catalog.pending_note import keep_note
from livingdb.chunks.address import Address
from livingdb.errors import LivingDBError
from livingdb.tables.index import Version
from livingdb.tables.read_counts import SAMPLED_ROWS, ReadCounts
from livingdb.tables.rows import RowSet
from livingdb.trees.delta import Delta

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph

__all__ = ["AUTO", "MODES", "OBSERVE", "OFF", "STATEMENTS", "TUNING", "Observer"]

TUNING, OBSERVE, OFF, AUTO = "tuning", "observe", "off", "auto"
"""The fact that says whether the database observes, or tunes itself, and what it may be."""
MODES = (OBSERVE, OFF, AUTO)
STATEMENTS = "statements"
"""The subject of what is counted of no table."""

_DEFINITIONS = 4096
_COMMITS = 512
"""After so many commits what was counted is added."""
_WORTH = 1_000
"""What is less is not worth a transaction when a database is closed."""


class Observer:
    """Observes what one process does with one database."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._lock = RLock()
        self._tables: dict[str, ReadCounts] = {}
        self._counted: dict[Address, ReadCounts] = {}
        """The same by definitions, to be found at once; empty as long as nothing is counted."""
        self._statements: dict[str, dict[str, float]] = {}
        self._commits = 0
        self._mode: str | None = None

    # --- on and off --------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """Whether the database is observed, tunes itself, or neither."""
        known = self._mode
        if known is None:
            known = self._mode = self._graph.catalog.meta(TUNING) or OBSERVE
        return known

    @property
    def is_on(self) -> bool:
        """Whether anything is counted."""
        return self.mode != OFF

    def turn(self, mode: str) -> None:
        """Observe from now on, in all processes, or never; then what is known is forgotten."""
        self._graph.check_writable()
        catalog, is_off = self._graph.catalog, mode == OFF
        with catalog.write() as connection:
            keep_note(catalog.queries, connection)
            catalog.set_meta(connection, TUNING, mode)
            if is_off:
                catalog.observations.clear(connection)
            catalog.raise_epoch(connection)
        self._mode = mode
        if is_off:
            with self._lock:
                self._tables, self._counted, self._statements = {}, {}, {}

    def refresh(self) -> None:
        """Ask anew whether to observe."""
        self._mode, self._counted = None, {}

    # --- counting ----------------------------------------------------------------------------

    def rows(self, version: Version) -> RowSet:
        """The rows of a version, for a reader who is observed."""
        counts = self._counted.get(version.definition) or self._counts_of(version)
        rows = self._graph.versions.rows(version, counts)
        if counts is not None:
            counts.opened += 1
            if counts.opened % SAMPLED_ROWS == 1:
                counts.note_rows(version, rows)
        return rows

    def note_change(self, version: Version, changes: Delta) -> None:
        """A version was made by changes."""
        counts = self._counted.get(version.definition) or self._counts_of(version)
        if counts is not None:
            counts.note_change(self._graph.versions.definition(version).schema, changes)

    def note_commit(self, versions: Sequence[Version]) -> None:
        """Versions came to be in one commit."""
        if not self.is_on:
            return
        self._commits += 1
        if len(versions) > 1:
            definitions = (self._graph.versions.definition(version) for version in versions)
            tables = sorted({d.id for d in definitions if d.id is not None})
            for table in tables[:MOST_SUBJECTS]:
                counts = self._tables.get(table)
                if counts is not None:
                    counts.note_company([other for other in tables[:16] if other != table])

    def note_projection(self, version: Version, is_hit: bool) -> None:
        """Spark asked for files of a version."""
        counts = self._counts_of(version)
        if counts is not None:
            counts.note_projection(is_hit)

    def note_work(self, version: Version, kind: str, seconds: float) -> None:
        """A tree of a version was made: by a "fold", or to "evaluate" it for a reader."""
        counts = self._counts_of(version)
        if counts is not None:
            counts.note_work(kind, seconds)

    def note_evaluation(self, version: Version, seconds: float) -> None:
        """A version was evaluated to be read."""
        self.note_work(version, "evaluate", seconds)

    def note_statement(self, kind: str, seconds: float) -> None:
        """A statement took so long."""
        if self.is_on:
            with self._lock:
                for what, much in (("times", 1.0), ("milliseconds", 1000.0 * seconds)):
                    counts = self._statements.setdefault(what, {})
                    counts[kind] = counts.get(kind, 0.0) + much

    def _counts_of(self, version: Version) -> ReadCounts | None:
        """What is counted of a table; None if nothing is.

        Tables without an identity are not observed, nor are more than so many.
        """
        table = self._graph.versions.definition(version).id if self.is_on else None
        if table is None:
            return None
        with self._lock:
            found = self._tables.get(table)
            if found is None and len(self._tables) < MOST_SUBJECTS:
                found = self._tables[table] = ReadCounts()
            if found is not None and len(self._counted) < _DEFINITIONS:
                self._counted[version.definition] = found
        return found

    # --- keeping -----------------------------------------------------------------------------

    def known(self, now: int) -> dict[str, Counts]:
        """What was observed of tables, by their identities, and of statements; as of a time."""
        return self._graph.catalog.observations.all(now)

    def save_if_due(self, now: int) -> None:
        """Add what was counted, after many commits."""
        if self._commits >= _COMMITS:
            self.save(now)

    def save_if_worth(self, now: int) -> None:
        """Add what was counted, if it is much."""
        spent = sum(self._statements.get("milliseconds", {}).values())
        if spent + sum(counts.weight for counts in self._tables.values()) >= _WORTH:
            self.save(now)

    def save(self, now: int) -> None:
        """Add what was counted to what is known; what fails is lost, and nothing else."""
        with self._lock:
            self._commits = 0
            found = {table: counts.take() for table, counts in self._tables.items()}
            found[STATEMENTS], self._statements = self._statements, {}
        found = {subject: counts for subject, counts in found.items() if counts}
        catalog = self._graph.catalog
        if found and self.is_on and not self._graph.is_read_only:
            with suppress(LivingDBError), catalog.write() as connection:
                if catalog.meta(TUNING, connection) != OFF:
                    catalog.observations.add(connection, now, found)
