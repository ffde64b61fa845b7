"""Finds what made a snapshot: goes along edges of provenance, and no further than is needed.

Transactions that only follow one another are counted, not gone through one by one; however long
a history is, at most so many snapshots are looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.derivation.view import View
from livingdb.errors import LivingDBError
from livingdb.evolution.masked_history import MessageFilter
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.ancestry import first_parents
from livingdb.graph.edge_ends import AT, source_names
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.tables.recipe import Change, Rows
from livingdb.tracing.blame.cause import Causes, is_carried
from livingdb.tracing.provenance.provenance import Node, Provenance

__all__ = ["provenance"]

_MOST_NODES = 500
_DEEPEST = 100
_FAR = 1_000
"""So far back something other than a transaction is looked for."""


def provenance(graph: Graph, row: SnapshotRow, branch: BranchRow | None) -> Provenance:
    """The tree of what made a snapshot; `branch`, if it was asked for as the head of one."""
    return Provenance(_Search(graph, row, branch).tree(row))


@dataclass
class _Draft:
    """A node whose children are not known yet."""

    node: Node
    row: SnapshotRow
    depth: int
    children: list[_Draft] = field(default_factory=list)


class _Search:
    def __init__(self, graph: Graph, asked: SnapshotRow, branch: BranchRow | None):
        self._graph = graph
        self._message_filter = MessageFilter(graph, asked)
        self._causes = Causes(graph)
        self._heads: dict[int, list[str]] = {}
        self._tags: dict[int, list[str]] = {}
        self._clone = branch if branch is not None and branch.origin_head is not None else None
        for row in graph.branches.all():
            if not is_hidden(row.name):
                self._heads.setdefault(row.head, []).append(row.head_name)
        for tag in graph.catalog.tags.all():
            self._tags.setdefault(tag.snapshot, []).append(tag.name)

    def tree(self, row: SnapshotRow) -> Node:
        """The tree above which a snapshot is."""
        root = self._draft(row, "", 0)
        made, seen = [root], {row.sequence}
        waiting = deque([root])
        while waiting:
            draft = waiting.popleft()
            children = self._children(draft)
            if children and (len(made) >= _MOST_NODES or draft.depth >= _DEEPEST):
                draft.node = replace(draft.node, is_cut=True)
                continue
            for child in children:
                draft.children.append(child)
                made.append(child)
                if child.node.kind == "clone":
                    waiting.append(child)
                elif child.row.sequence in seen:
                    child.node = replace(child.node, is_repeated=True)
                else:
                    seen.add(child.row.sequence)
                    waiting.append(child)
        for draft in reversed(made):
            children_made = tuple(child.node for child in draft.children)
            draft.node = replace(draft.node, children=children_made)
        return root.node

    # --- what a snapshot was made from -------------------------------------------------------

    def _children(self, draft: _Draft) -> list[_Draft]:
        row, depth = draft.row, draft.depth + 1
        if draft.node.kind == "clone":
            return [self._draft(row, "", depth, is_clone=False)]
        if row.kind == "transaction":
            return self._before(draft, depth)
        edge = self._graph.record(row.address).edge
        if row.kind not in ("propagate", "derive"):
            roles = ["into" if row.others else "before", *("merged" for _ in row.others)]
            parents = [self._graph.snapshots.at(number) for number in row.parents]
            return [self._draft(p, role, depth) for p, role in zip(parents, roles, strict=False)]
        found = []
        for name, text in source_names(self._graph.catalog, edge).items():
            source = self._graph.snapshots.find(Address(bytes.fromhex(text)))
            if source is not None:
                found.append(self._draft(source, f"from {name}", depth))
        if is_carried(edge):
            return [*found, *self._before(draft, depth)]
        # The versions before it are not what it was made from.
        draft.node = replace(draft.node, before=row.depth, earlier="version")
        return found

    def _before(self, draft: _Draft, depth: int) -> list[_Draft]:
        """The nearest snapshot before edits that is none, or that the branch came from."""
        row, are_edits = draft.row, True
        for at, older in enumerate(first_parents(self._graph.snapshots, row)):
            is_origin = self._clone is not None and older.sequence == self._clone.origin_head
            if at and (is_origin or not self._is_edit(older)):
                word = "transaction" if are_edits else "snapshot"
                draft.node = replace(draft.node, before=at - 1, earlier=word)
                return [self._draft(older, "before", depth)]
            are_edits = are_edits and (not at or older.kind == "transaction")
            if at >= _FAR:
                are_edits = False
                break
        word = "transaction" if are_edits else "snapshot"
        draft.node = replace(draft.node, before=row.depth, earlier=word)
        return []

    def _is_edit(self, row: SnapshotRow) -> bool:
        """Whether a snapshot is somebody's edit, of its own branch or of one in step with it."""
        if row.kind != "propagate":
            return row.kind == "transaction"
        return is_carried(self._graph.record(row.address).edge)

    # --- nodes -------------------------------------------------------------------------------

    def _draft(
        self, row: SnapshotRow, role: str, depth: int, is_clone: bool | None = None
    ) -> _Draft:
        clone = self._clone
        if is_clone is None and clone is not None and row.sequence == clone.origin_head:
            self._clone = None
            (began,) = self._graph.movements.of(clone, upto=0)
            text = f"{clone.name} came from {clone.origin}"
            node = Node(
                row.address.hex(),
                "clone",
                "clone",
                began.author or row.author,
                to_datetime(clone.time),
                f"{text}: {began.message}" if began.message else text,
                role,
            )
            return _Draft(node, row, depth)
        return _Draft(self._node(row, role), row, depth)

    def _node(self, row: SnapshotRow, role: str) -> Node:
        edge = self._graph.record(row.address).edge
        details = edge.details
        view = self._view(edge)
        rows = details.get("rows")
        return Node(
            row.address.hex(),
            row.kind,
            edge.operation,
            row.author,
            to_datetime(row.time),
            self._message_filter.message(row),
            role,
            tuple(self._heads.get(row.sequence, ())),
            tuple(self._tags.get(row.sequence, ())),
            self._tables(row),
            tuple(SchemaChange.from_json(data).title for data in details.get("changes", ())),
            self._causes.sync_name(edge),
            str(details.get("direction", "")),
            str(details.get("query") or ("" if view is None else view.text)),
            str(details.get("function") or ("" if view is None else view.function)),
            str(details.get("strategy", "")),
            str(details.get("reason", "")),
            str(details.get("engine", "")),
            rows if isinstance(rows, int) else None,
            dict(details.get("metrics", {})),
            _conditions(details.get("conditions")),
        )

    def _view(self, edge: Edge) -> View | None:
        return self._causes.view_of(edge) if AT in edge.details else None

    def _tables(self, row: SnapshotRow) -> dict[str, Mapping[str, int]]:
        """The tables that a snapshot changed, and how many of their rows, if that is written."""
        now = self._graph.tables(row)
        was: Mapping[str, Address] = {}
        if row.first is not None:
            was = self._graph.tables(self._graph.snapshots.at(row.first))
        return {
            name: self._counts(was.get(name), now.get(name))
            for name in sorted({*was, *now})
            if was.get(name) != now.get(name) and not is_hidden(name)
        }

    def _counts(self, before: Address | None, after: Address | None) -> Mapping[str, int]:
        if after is None:
            return {}
        try:
            recipe = self._graph.versions.recipe(self._graph.versions.require(after))
        except LivingDBError:
            return {}
        if isinstance(recipe, Rows):
            return {"rows": recipe.count}
        if not isinstance(recipe, Change) or recipe.base != before:
            return {}
        if recipe.counts is None:
            return {"written": recipe.rows}
        counts = recipe.counts
        found = {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
        return {what: count for what, count in found.items() if count}


def _conditions(given: object) -> dict[str, Any]:
    """The conditions that were judged, by their text."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, (list, tuple)):
        return {str(item.get("text", at)): item for at, item in enumerate(given)}
    return {}
