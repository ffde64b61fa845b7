"""Which snapshots lie behind a mask, and what is masked on the way from one to another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.errors import InvalidData, LivingDBError
from livingdb.evolution.changes.mask_column import MaskColumn, MaskedKeysMeet
from livingdb.evolution.lift import Lifter
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import fork_of, made_of, visible_schemas
from livingdb.graph.ancestry import is_ancestor
from livingdb.graph.graph import Graph

__all__ = [
    "UNFIT",
    "MessageFilter",
    "has_mask",
    "is_behind_mask",
    "masked_columns",
    "masks_made",
    "naming_no_values",
    "remasked_columns",
]


UNFIT = (
    "a row does not fit the changes that mask it; which one is not told behind a mask: "
    "explain_evolution of the changes tells it on the branch that is followed"
)


def has_mask(spec: object) -> bool:
    """Whether a mask is among the schema changes that a sync or an edge has on record."""
    if isinstance(spec, Mapping):
        return spec.get("change") == MaskColumn.__name__ or any(map(has_mask, spec.values()))
    return isinstance(spec, list | tuple) and any(map(has_mask, spec))


def is_behind_mask(graph: Graph, rows: Iterable[SnapshotRow]) -> bool:
    """Whether the history of one of some snapshots begins with a mask, or with what is behind one.

    Nothing that the mask hides is to be told through those.  A branch that is masked in place is
    not behind it: what it held before is its own history.  What was made of a snapshot that is
    gone may have been.
    """
    return _beginnings_told(graph, rows) is not None


@contextmanager
def naming_no_values(is_masked: bool) -> Iterator[None]:
    """Let an error about rows that are on their way to a mask name none of their values.

    It becomes the reason of a sync and an alert, which are told behind the mask.
    """
    try:
        yield
    except InvalidData as error:
        if is_masked and not isinstance(error, MaskedKeysMeet):
            raise InvalidData(UNFIT) from None
        raise


class MessageFilter:
    """What is told of snapshots through one of them: before a mask, not what was said of them.

    A message may be the text of a statement, with values that the mask hides.
    """

    def __init__(self, graph: Graph, at: SnapshotRow):
        self._graph = graph
        self._told = _beginnings_told(graph, [at])

    @property
    def hides_nothing(self) -> bool:
        """Whether no mask is on the way to it."""
        return self._told is None

    def shows(self, row: SnapshotRow) -> bool:
        """Whether it is told what was said of a snapshot."""
        if self._told is None:
            return True
        return self._graph.snapshots.ancestor(row, 0).sequence in self._told

    def message(self, row: SnapshotRow) -> str:
        """What was said of a snapshot, if it is told."""
        return row.message if self.shows(row) else ""

    def rows(self, rows: Iterable[SnapshotRow]) -> list[SnapshotRow]:
        """Snapshots with what is told of them."""
        if self._told is None:
            return list(rows)
        return [row._replace(message=self.message(row)) for row in rows]


def _beginnings_told(graph: Graph, rows: Iterable[SnapshotRow]) -> set[int] | None:
    """Where the histories begin that lead to some snapshots with no mask in between.

    None if there is no mask on the way to them.
    """
    is_masked = False
    seen: set[int] = set()
    waiting = list(rows)
    while waiting:
        first = graph.snapshots.ancestor(waiting.pop(), 0)
        if first.sequence in seen:
            continue
        seen.add(first.sequence)
        edge = graph.record(first.address).edge
        if has_mask(edge.details):
            is_masked = True
            continue
        sources = [graph.snapshots.find(Address(bytes.fromhex(at))) for at in edge.sources.values()]
        is_masked |= None in sources
        waiting += [source for source in sources if source is not None]
    return seen if is_masked else None


def masks_made(changes: Iterable[MadeChange]) -> set[tuple[str, str]]:
    """The masks among schema changes, and the columns that they are of: both by ids."""
    return {
        (one.identity, one.before[one.change.table].schema.column(one.change.name).id)
        for one in changes
        if isinstance(one.change, MaskColumn)
    }


def masked_columns(
    graph: Graph, lifter: Lifter, since: SnapshotRow, head: SnapshotRow
) -> set[tuple[str, str]]:
    """The masks on the way to a later snapshot, and the columns that they are of: both by ids.

    No key is asked for.  What a merge took back is none of them.
    """
    found: set[tuple[str, str]] = set()
    for step in lifter.schema_changes_between(since, head):
        edge = graph.record(step.address).edge
        found = {(mask, column) for mask, column in found if mask not in edge.taken_back}
        changes = [SchemaChange.from_json(item) for item in edge.details.get("changes", ())]
        masks = [change.identity for change in changes if isinstance(change, MaskColumn)]
        if not masks:
            continue
        assert step.first is not None
        before = visible_schemas(graph, graph.snapshots.at(step.first))
        try:
            found |= masks_made(made_of(changes, before))
        except LivingDBError:  # they were made on what a merge had left of that
            found |= {(mask, column) for mask in masks for column in _column_ids(graph, step)}
    return found


def remasked_columns(
    graph: Graph,
    lifter: Lifter,
    one: SnapshotRow,
    other: SnapshotRow,
    brought: Collection[tuple[str, str]] = (),
) -> frozenset[str]:
    """The columns, by their ids, that only one of two snapshots has masked, or another way.

    `brought` are masks that the first one is to have, too.  Where the two share no history, one is
    behind a mask, and nobody can tell which masks that are, it may be every column.
    """
    fork = fork_of(graph, one, other)
    if fork is not None:
        here, there = (masked_columns(graph, lifter, fork, row) for row in (one, other))
        return frozenset(column for _, column in here.union(brought) ^ there)
    ours, theirs = (_masks_through_clones(graph, lifter, row) for row in (one, other))
    if ours is not None and theirs is not None and ours.root == theirs.root:
        return frozenset(column for _, column in ours.masks.union(brought) ^ theirs.masks)
    is_masked = is_behind_mask(graph, (one, other))
    return frozenset(_column_ids(graph, other) if is_masked else ())


class _MaskedLine(NamedTuple):
    """The masks on the way to a snapshot, and the number of the one that it begins with."""

    masks: set[tuple[str, str]]
    root: int


def _masks_through_clones(graph: Graph, lifter: Lifter, row: SnapshotRow) -> _MaskedLine | None:
    """The masks on the whole way to a snapshot, also before clones; None if that is not known."""
    masks: set[tuple[str, str]] = set()
    while True:
        first = graph.snapshots.ancestor(row, 0)
        masks |= masked_columns(graph, lifter, first, row)
        edge = graph.record(first.address).edge
        if not edge.sources:
            return _MaskedLine(masks, first.sequence)
        if len(edge.sources) != 1:
            return None
        (told,) = edge.sources.values()
        source = graph.snapshots.find(Address(bytes.fromhex(told)))
        if source is None:
            return None
        for made in _defined(graph, first, row):
            found = _masks_of_definition(graph, made, source)
            if found is None:
                return None
            masks |= found
        row = source


def _defined(graph: Graph, first: SnapshotRow, row: SnapshotRow) -> Iterator[SnapshotRow]:
    """The snapshots of a derived object that say how it is made; it may have been defined anew."""
    yield first
    for made in graph.snapshots.of_kind("derive", first.sequence + 1, row.sequence):
        if is_ancestor(graph.snapshots, made, row):
            yield made


def _masks_of_definition(
    graph: Graph, made: SnapshotRow, source: SnapshotRow
) -> set[tuple[str, str]] | None:
    """The masks of a clone, by the definition that a snapshot has; None if it is no clone."""
    details = graph.record(made.address).edge.details
    told = details.get("definition", details)
    if told.get("what", "clone") != "clone":
        return None
    changes = [SchemaChange.from_json(item) for item in told.get("changes", ())]
    if not any(isinstance(change, MaskColumn) for change in changes):
        return None if has_mask(details) else set()
    try:
        return masks_made(made_of(changes, visible_schemas(graph, source)))
    except LivingDBError:  # what it follows had another schema then
        return None


def _column_ids(graph: Graph, row: SnapshotRow) -> Iterator[str]:
    for known in visible_schemas(graph, row).values():
        yield from (column.id for column in known.schema.columns)
