"""What keeps a snapshot: the one registry.

Whatever names a snapshot is here, as a *keeper*: a function that says which snapshots it keeps and
why.  Those in `KEEPERS` look at the catalog; those in `FOLLOWERS` are asked about every snapshot
that is kept, and may keep others for its sake.  So each kept snapshot has a chain of reasons, which
ends at something that a user made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from sqlalchemy import Table

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.graph.edge_ends import source_ids
from livingdb.graph.names import is_hidden
from livingdb.maintenance.retention.history import History
from livingdb.maintenance.retention.policy_lines import kept_by_policies

__all__ = ["FOLLOWERS", "KEEPERS", "Kept", "Reason", "find_kept"]

_CARRIED = ("derive", "propagate")
_ADDRESS = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a snapshot is kept: the kind of what keeps it, in words, and for the sake of which."""

    kind: str
    by: str
    through: int | None = None


Keeps = Iterator[tuple[int, Reason]]


@dataclass
class Kept:
    """The snapshots that are kept, by number, and the first reason that was found for each."""

    history: History
    reasons: dict[int, Reason] = field(default_factory=dict)

    def chain(self, sequence: int) -> list[tuple[int, Reason]]:
        """Why a snapshot is kept, and why that counts, to the end; nothing if it is not."""
        found: list[tuple[int, Reason]] = []
        at: int | None = sequence
        while at is not None and at in self.reasons:
            found.append((at, self.reasons[at]))
            at = found[-1][1].through
        return found

    @cached_property
    def beginnings(self) -> dict[int, int]:
        """What the first snapshots of branches in another schema were made from, by number."""
        branches = {branch.id: branch for branch in self.history.branches}
        found = {}
        for sync in self.history.syncs:
            target = branches.get(sync.target)
            if sync.kind != "schema_change" or target is None or target.origin_head is None:
                continue
            source = branches.get(sync.sources[0])
            before = self.history.rows[target.origin_head].first
            if source is not None and is_hidden(source.name):
                before = source.origin_head  # beside the target: both have one parent
            if before is not None:
                found[target.origin_head] = before
        return found

    @cached_property
    def pairs(self) -> dict[int, list[int]]:
        """The snapshots that syncs of two schemas carried each snapshot to."""
        found: dict[int, list[int]] = {}
        if any(sync.kind == "schema_change" for sync in self.history.syncs):
            for row in self.history.rows.values():
                if row.kind == "propagate" and row.sequence not in self.history.forgotten:
                    for source in _sources(self.history, row):
                        found.setdefault(source, []).append(row.sequence)
        return found


def find_kept(history: History) -> Kept:
    """Every snapshot that something keeps."""
    kept = Kept(history)
    waiting: list[int] = []

    def keep(found: Keeps) -> None:
        for sequence, reason in found:
            if sequence not in kept.reasons and sequence not in history.forgotten:
                kept.reasons[sequence] = reason
                waiting.append(sequence)

    for keeper in KEEPERS:
        keep(keeper(history))
    while waiting:
        sequence = waiting.pop()
        for follower in FOLLOWERS:
            keep(follower(kept, history.rows[sequence]))
    return kept


# --- what the catalog names -----------------------------------------------------------------


def _heads(history: History) -> Keeps:
    for branch in history.branches:
        yield branch.head, Reason("head", f"the head of branch {branch.name!r}")


def _tags(history: History) -> Keeps:
    for tag in history.tags:
        until = history.policy.tag_until(tag.name)
        if until is None or history.moment <= until:
            yield tag.snapshot, Reason("tag", f"tag {tag.name!r}")


def _leases(history: History) -> Keeps:
    for lease in history.leases:
        if lease.until >= history.moment:
            yield lease.snapshot, Reason("lease", f"{lease.holder}, until {_clock(lease.until)}")


def _recent(history: History) -> Keeps:
    """What transactions and readers may have begun upon a moment ago, here or elsewhere."""
    if not history.policy.grace_seconds:
        return
    since = history.moment - int(history.policy.grace_seconds * 1_000_000)
    for branch in history.branches:
        for stop in history.stops.get(branch.number, ()):
            if stop.until is not None and stop.until >= since:
                told = f"the head of {branch.name!r} until {_clock(stop.until)}"
                yield stop.snapshot, Reason("recent", told)
    for row in history.rows.values():
        if row.time >= since:
            yield row.sequence, Reason("recent", f"made at {_clock(row.time)}")


def _syncs(history: History) -> Keeps:
    """What syncs name, and the last snapshots that each of them made."""
    heads = {branch.id: branch.head for branch in history.branches}
    for sync in history.syncs:
        reason = Reason("sync", f"the sync {sync.name!r}")
        yield from _named_in(history, json.dumps([dict(sync.spec), dict(sync.guard)]), reason)
        for end in (*sync.sources, sync.target):
            line = history.first_parents(heads[end]) if end in heads else iter(())
            last = next((row for row in line if row.kind in _CARRIED), None)
            if last is not None:
                yield last.sequence, reason


def _watches(history: History) -> Keeps:
    for watch in history.graph.catalog.watches.all():
        text = json.dumps(watch.spec, default=str)
        yield from _named_in(history, text, Reason("watch", f"the watch {watch.name!r}"))


def _streams(history: History) -> Keeps:
    yield from _numbered(history, schema.stream, "stream", "the last batch of a stream")


def _steps(history: History) -> Keeps:
    yield from _numbered(history, schema.step, "step", "a commit that others have yet to follow")


def _policies(history: History) -> Keeps:
    for sequence, words in kept_by_policies(history):
        yield sequence, Reason("policy", words)


def _merge_bases(history: History) -> Keeps:
    """Where branches parted that may be merged: whatever is common to two heads, and newest so.

    Going back from the heads, a snapshot has the *mark* of what comes of it; where that is not one
    only, two heads part there.
    """
    marks: dict[int, int] = {branch.head: branch.head for branch in history.branches}
    heads = set(marks)
    for row in reversed(history.rows.values()):
        mark = marks.pop(row.sequence, None)
        if mark is None:
            continue
        if mark == _PARTED and row.sequence not in heads:
            told = "where branches that are there parted"
            yield row.sequence, Reason("merge base", told)
        if mark == _PARTED or row.sequence in heads:
            mark = row.sequence
        for parent in row.parents:
            if parent not in heads:
                known = marks.get(parent)
                marks[parent] = mark if known in (None, mark) else _PARTED


_PARTED = -1


# --- what a kept snapshot names -------------------------------------------------------------


def _sources_of(kept: Kept, row: SnapshotRow) -> Keeps:
    """What a sync made it from: also a change of the schema, and the first of the new schema."""
    reason = Reason("source", "a sync made another one from it", row.sequence)
    if row.kind in (*_CARRIED, "schema_change"):
        for source in _sources(kept.history, row):
            yield source, reason
    if row.sequence in kept.beginnings:
        yield kept.beginnings[row.sequence], reason


def _other_sides(kept: Kept, row: SnapshotRow) -> Keeps:
    for target in kept.pairs.get(row.sequence, ()):
        yield target, Reason("pair", "the other side of a synced pair", row.sequence)


KEEPERS: Sequence[Callable[[History], Keeps]] = (
    _heads,
    _tags,
    _leases,
    _policies,
    _syncs,
    _merge_bases,
    _streams,
    _steps,
    _watches,
    _recent,
)
FOLLOWERS: Sequence[Callable[[Kept, SnapshotRow], Keeps]] = (_sources_of, _other_sides)


def _sources(history: History, row: SnapshotRow) -> list[int]:
    """The snapshots that a sync made one from."""
    edge = history.graph.record(row.address).edge
    texts = source_ids(history.graph.catalog, edge).values()
    found = (history.by_address.get(Address(bytes.fromhex(text))) for text in texts)
    return [number for number in found if number is not None]


def _named_in(history: History, text: str, reason: Reason) -> Keeps:
    """The snapshots whose ids stand in a text."""
    for address in _ADDRESS.findall(text):
        number = history.by_address.get(Address(bytes.fromhex(address)))
        if number is not None:
            yield number, reason


def _numbered(history: History, table: Table, kind: str, told: str) -> Keeps:
    """The snapshots whose numbers a table has."""
    rows = SealedRows(table)
    place = rows.columns.index("snapshot")
    for row in rows.read_all(history.graph.catalog.queries.all(rows.every)):
        if row[place] in history.rows:
            yield row[place], Reason(kind, told)


def _clock(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
