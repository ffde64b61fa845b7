"""What a database offers to compare refs and to merge them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from livingdb.access.roles import Role
from livingdb.database.snapshot import Snapshot
from livingdb.errors import InvalidData, NotFound
from livingdb.graph.graph import Graph
from livingdb.graph.refs import ResolvedRef
from livingdb.graph.rules import Write, check_write

if TYPE_CHECKING:
    from livingdb.commit.merging.merge_request import MergeRule
    from livingdb.commit.pipeline import Pipeline
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.diff import Diff, SnapshotDiff, Summary
    from livingdb.database.merge_request import MergeRequest
    from livingdb.evolution.schema_change import SchemaChange

__all__ = ["Comparing", "MergePreview"]


@dataclass(frozen=True)
class MergePreview:
    """What a merge would do.

    `conflicts` has the rows in conflict per table, `changes` how many rows of each table would
    change, `schema` the schema changes that would come, and `schema_conflicts` why a table cannot
    be merged as a whole; `conflicts` has these, too, as rows of the kind "schema".  `refusal` says
    which check, length, NOT NULL or foreign key the merged rows would break, "" if they break none.
    """

    conflicts: Mapping[str, pa.Table]
    changes: Mapping[str, Summary]
    schema_conflicts: Mapping[str, str]
    fast_forward: bool
    schema: Sequence[SchemaChange] = ()
    refusal: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether the merge would go through."""
        return not (self.conflicts or self.schema_conflicts or self.refusal)


class Comparing(ABC):
    """The part of a database that compares and merges."""

    @property
    @abstractmethod
    def author(self) -> str:
        """Who writes, unless a call says otherwise."""

    @property
    @abstractmethod
    def _graph(self) -> Graph:
        """The graph of the open database."""

    @property
    @abstractmethod
    def _pipeline(self) -> Pipeline:
        """What takes changes through."""

    @abstractmethod
    def _require(self, role: Role, branch: str, what: str) -> None:
        """`Forbidden` unless who acts here has a role on a branch that it sees."""

    @abstractmethod
    def _resolve(self, ref: object) -> ResolvedRef:
        """The snapshot that a ref stands for."""

    @abstractmethod
    def branch(self, name: str) -> Branch:
        """A branch by its name."""

    def diff(
        self, before: object, after: object, tables: Iterable[str] | None = None
    ) -> SnapshotDiff:
        """What changed between two refs: the tables that differ, each with its `Diff`.

        `.schema` are the schema changes between the two.  Rows are keyed and named as in the
        second: those of the first are compared as they are after these changes.
        """
        from livingdb.database.diff import diff_snapshots

        sides = self._resolve(before).snapshot, self._resolve(after).snapshot
        wanted = None if tables is None else list(tables)
        try:
            return diff_snapshots(self._graph, self._pipeline.lifter, *sides, wanted)
        except NotFound as error:
            if wanted is None:
                raise
            raise NotFound(f"{error}: {before} and {after}") from None

    def merge_base(self, one: object, other: object) -> Snapshot | None:
        """The newest snapshot that two refs have in common; None if they share no history.

        `db.diff(db.merge_base("dev", "main"), "dev")` is what a branch changed since it parted.
        """
        from livingdb.graph.ancestry import common_ancestors

        rows = [self._resolve(ref).snapshot for ref in (one, other)]
        found = next(iter(common_ancestors(self._graph.snapshots, *rows)), None)
        return None if found is None else Snapshot(cast("Database", self), found)

    def apply(
        self,
        diff: Diff | Mapping[str, Diff],
        branch: object,
        *,
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """Make the changes of a diff on a branch, all or none.

        Schema changes come first, under their ids: one that the branch has is made already, and
        `MergeConflict` names one that contradicts what the branch is.
        """
        from livingdb.commit.merging.apply_difference import apply_difference
        from livingdb.database.apply_diff import apply_diffs
        from livingdb.database.diff import Diff, SnapshotDiff

        if isinstance(diff, SnapshotDiff) and diff.difference is not None:
            target = self.branch(str(branch))
            self._require(Role.WRITER, target.name, f"write to {target.name!r}")
            check_write(Write(self._resolve(target.name).branch, target.name))
            said = author or self.author, message or "apply a diff"
            row = apply_difference(self._pipeline, target.name, diff.difference, *said)
            return Snapshot(cast("Database", self), row)
        if not isinstance(diff, (Diff, Mapping)):
            raise InvalidData(f"a diff is what db.diff(…) gives, not {type(diff).__name__}")
        parts = {diff.table: diff} if isinstance(diff, Diff) else dict(diff)
        target = self.branch(str(branch))
        with target.transaction(message or "apply a diff", author) as tx:
            tx._check_rights()
            apply_diffs(self._pipeline, tx, parts)
        assert tx.snapshot is not None
        return tx.snapshot

    def merge(
        self,
        source: object,
        into: object,
        on_conflict: Any = "fail",
        granularity: str = "row",
        symmetric: bool = False,
        fast_forward: bool = True,
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """Put what a branch (or any ref) changed on another branch.

        `MergeConflict` carries the rows both changed, if no policy says who wins.
        """
        from livingdb.commit.merging import merge as merging

        options = merging.MergeOptions(on_conflict, granularity, symmetric, fast_forward)
        target = str(into)
        resolved = self._resolve(target)
        branch = check_write(Write(resolved.branch, target))
        self._require(Role.WRITER, branch.name, f"merge into {branch.name!r}")
        row = merging.merge(
            self._pipeline, _ref(source), target, options, author or self.author, message
        )
        return Snapshot(cast("Database", self), row)

    def preview_merge(
        self, source: object, into: object, on_conflict: Any = "fail", granularity: str = "row"
    ) -> MergePreview:
        """What a merge would do; nothing is written."""
        from livingdb.commit.merging import merge as merging
        from livingdb.database.diff import Summary
        from livingdb.graph.merge import conflict_table

        graph = self._graph
        options = merging.MergeOptions(on_conflict, granularity)
        looked = merging.preview(self._pipeline, _ref(source), _ref(into), options)
        conflicts = {
            name: conflict_table(graph.versions.definition(looked.tables[name]).schema, parts)
            for name, parts in looked.merged.conflicts.items()
        }
        conflicts.update(merging.conflict_tables(looked.schema_conflicts))
        changes = {name: Summary.of(found) for name, found in looked.changes.items()}
        clashes = dict(looked.merged.clashes)
        clashes.update((one.table, one.reason) for one in looked.schema_conflicts)
        made = tuple(looked.schema_changes)
        return MergePreview(conflicts, changes, clashes, looked.fast_forward, made, looked.refusal)

    # --- merge requests ----------------------------------------------------------------------

    def request_merge(
        self,
        source: object,
        into: object,
        title: str = "",
        description: str = "",
        author: str | None = None,
    ) -> MergeRequest:
        """Ask others to look at a branch before it is merged into another."""
        from livingdb.database.merge_request import request_merge

        return request_merge(cast("Database", self), source, into, title, description, author)

    def merge_requests(
        self, state: str | None = None, limit: int | None = None, before: int | None = None
    ) -> list[MergeRequest]:
        """Merge requests, newest first; `state`: open, merged or closed.

        With a `limit`, so many of them; of those `before` the request of a number, if one is given.
        """
        from livingdb.database.merge_request import every_merge_request

        return every_merge_request(cast("Database", self), state, limit, before)

    def merge_request(self, number: int) -> MergeRequest:
        """The merge request of that number."""
        from livingdb.database.merge_request import find_merge_request

        return find_merge_request(cast("Database", self), number)

    def merge_rule(self, branch: object) -> MergeRule:
        """What a branch asks of merge requests that lead to it."""
        from livingdb.database.merge_request import merge_rule

        return merge_rule(cast("Database", self), branch)

    def set_merge_rule(
        self,
        branch: object,
        approvals: int = 0,
        checks: Any = (),
        *,
        merge_only: bool | None = None,
    ) -> None:
        """Let a branch ask for so many approvals, of others than who asks, and for conditions.

        A condition whose action is "warn" is told of and stops nothing.  `merge_only`: as `protect`
        says, in the same transaction; None leaves that as it is.
        """
        from livingdb.database.merge_request import set_merge_rule

        set_merge_rule(cast("Database", self), branch, approvals, checks, merge_only)


def _ref(given: object) -> str:
    return f"id:{given.id}" if isinstance(given, Snapshot) else str(given)
