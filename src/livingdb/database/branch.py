"""A branch: a name whose head takes writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from livingdb.access.roles import Role
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.branch_movement import BranchMovement
from livingdb.database.pictures import notebook_html
from livingdb.database.snapshot import Snapshot, check_limit
from livingdb.database.table import Table
from livingdb.errors import IllegalSync, InvalidData, ReadOnlyBranch
from livingdb.tables.layout import Layout
from livingdb.tables.schema import GeneratedLike, SchemaLike, UniqueLike
from livingdb.tables.tabular import Tabular, as_tabular

if TYPE_CHECKING:
    from livingdb.commit.pipeline import Pipeline
    from livingdb.commit.writing.transaction import BranchTransaction
    from livingdb.database.database import Database
    from livingdb.database.export_tables import Export
    from livingdb.database.transaction import Transaction
    from livingdb.files.turns import Turn
    from livingdb.graph.graph import Graph
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.sql.result import Result

__all__ = ["Branch"]


class Branch:
    """A branch by its name: what it shows is where the branch is when it is asked.

    Threads may share it: of two that write the same rows, one is a `TransactionConflict`.
    Equal to its name, so that `"dev" in db.branches()` says what it seems to.
    """

    def __init__(self, database: Database, name: str):
        self.database = database
        self.name = name

    @property
    def _graph(self) -> Graph:
        return self.database._graph

    @property
    def _pipeline(self) -> Pipeline:
        return self.database._pipeline

    def _head(self) -> SnapshotRow:
        graph = self._graph
        return graph.snapshots.at(graph.branch(self.name).head)

    def _begin(self, isolation: str, at: object = None) -> BranchTransaction:
        from livingdb.commit.writing.transaction import BranchTransaction, moved_error

        pipeline = self._pipeline
        branch = pipeline.graph.branch(self.name)
        seen = None if at is None else self.database._resolve(at).snapshot
        try:
            begun = BranchTransaction(pipeline, branch, isolation, is_pinned=seen is not None)
        except ReadOnlyBranch:
            self._check_writer()
            raise
        if seen is not None and seen.sequence != begun.base.sequence:
            raise moved_error(branch.name, seen, begun.base)
        return begun

    def _check_writer(self) -> None:
        """`NotFound` if who acts here does not see it, `Forbidden` if it may not write."""
        self.database._require_in_step(Role.WRITER, self.name, f"write to {self.name!r}")

    def _check_maintainer(self, what: str) -> None:
        """The same of what only its maintainers do."""
        self.database._require_in_step(Role.MAINTAINER, self.name, f"{what} {self.name!r}")

    def _turn(self, rows: int) -> AbstractContextManager[Turn]:
        """Wait for the turn of who writes so many rows."""
        self._check_writer()
        return self._pipeline.turns.before_reading(self.name, rows)

    def _write(
        self, operation: str, table: str, rows: Tabular, message: str, author: str | None
    ) -> Snapshot:
        """Commit rows, in their own snapshot."""
        from livingdb.commit.writing.small_write import SmallWrite
        from livingdb.database.transaction import check_message

        self._check_writer()
        said = author or self.database.author, check_message(message)
        write = SmallWrite(self.name, operation, table, rows, *said)
        return Snapshot(self.database, self.database._group_commits.commit(write))

    def _prepared_rows(self, table: str, data: object) -> Tabular:
        """Rows to be put into a table, as far as they can be prepared before it is our turn."""
        from livingdb.commit.writing.writer_turns import LARGEST_TURN_ROWS

        self._check_writer()
        given = as_tabular(data)
        if given.rows > LARGEST_TURN_ROWS:
            return given
        return self._pipeline.preparation.prepare(self.name, table, given)

    # --- reading -----------------------------------------------------------------------------

    @property
    def head(self) -> Snapshot:
        """The snapshot the branch stands on."""
        return Snapshot(self.database, self._head(), branch=self.name)

    def tables(self) -> list[str]:
        """The names of its tables."""
        return self.head.tables()

    def table(self, name: str) -> Table:
        """One of its tables, as it is now."""
        return self.head.table(name)

    def log(self, limit: int | None = None, table: str | None = None) -> list[Snapshot]:
        """The head and its ancestors, newest first; of a `table`, those that changed it."""
        return self.head.log(limit, table)

    def movements(
        self, limit: int | None = None, before: int | None = None
    ) -> list[BranchMovement]:
        """The branch's own log, newest first: where it was, since when, by whom and why.

        With a `limit`, so many movements; of those `before` the one of a position, if that is
        given.  `branch@time` follows the log.
        """
        graph, most = self._graph, check_limit(limit)
        branch, end = graph.branch(self.name), check_limit(before, "before")
        upto = branch.position if end is None else min(end - 1, branch.position)
        moves = graph.movements.of(branch, upto=upto)[:most]
        found = graph.snapshots.get_many({move.snapshot for move in moves})
        return [BranchMovement.of(self.database, m, found[m.snapshot]) for m in moves]

    def export(
        self,
        folder: str | os.PathLike[str],
        tables: Sequence[str] | None = None,
        format: str = "parquet",
        *,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> Export:
        """Write its tables as they are now into a folder; see `Snapshot.export`."""
        return self.head.export(folder, tables, format, progress=progress)

    def sql(
        self,
        text: str,
        parameters: Parameters = None,
        *,
        message: str = "",
        author: str | None = None,
        engine: str | None = None,
        most: int | None = None,
    ) -> Result:
        """A query, or INSERT, UPDATE, DELETE, MERGE as one transaction.

        `engine` is "embedded", "spark" or "auto"; by default queries that every engine answers
        alike run in this process, and others on Spark.  `most` is how many rows of a query are
        wanted: no more is computed than these need.
        """
        from livingdb.database.sql_scope import BranchScope

        scope = BranchScope(self, message or str(text).strip()[:200], author)
        return self.database._execute(scope, text, parameters, engine, most)

    def plan(
        self, text: str, parameters: Parameters = None, *, engine: str | None = None
    ) -> QueryPlan | None:
        """A query over its rows as they are now, to be computed later; None if it is no query."""
        from livingdb.database.sql_scope import BranchScope

        return self.database._plan(BranchScope(self, "", None), text, parameters, engine)

    # --- writing -----------------------------------------------------------------------------

    def transaction(
        self,
        message: str = "",
        author: str | None = None,
        isolation: str = "snapshot",
        *,
        at: object = None,
    ) -> Transaction:
        """Several changes that become one snapshot.

        `at` is where the branch has to be, from the beginning to the commit: `TransactionConflict`
        if somebody moved it, whatever they changed.
        """
        from livingdb.database.transaction import Transaction

        return Transaction(self, message, author or self.database.author, isolation, at=at)

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        key: str | Sequence[str],
        *,
        defaults: Mapping[str, object] | None = None,
        foreign_keys: Mapping[str, str] | None = None,
        unique: UniqueLike | None = None,
        generated: GeneratedLike | None = None,
        layout: Layout | None = None,
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """A new, empty table.

        `unique` are columns, or groups of columns, that no two rows have the same values in; by
        names of the constraints, if they are to have their own.  `generated` is a column that
        draws its values where rows name none; or columns, with "by default" or "always".
        """
        self._check_maintainer("make a table on")
        with self.transaction(message or f"create table {name}", author) as tx:
            tx.create_table(
                name,
                schema,
                key,
                defaults=defaults,
                foreign_keys=foreign_keys,
                unique=unique,
                generated=generated,
                layout=layout,
            )
        return _committed_snapshot(tx)

    def insert(
        self, table: str, data: object, *, message: str = "", author: str | None = None
    ) -> Snapshot:
        """Put rows whose keys are not there yet; `DuplicateKey` if one is."""
        return self._write("insert", table, self._prepared_rows(table, data), message, author)

    def upsert(
        self, table: str, data: object, *, message: str = "", author: str | None = None
    ) -> Snapshot:
        """Put rows, in place of those with the same keys."""
        return self._write("upsert", table, self._prepared_rows(table, data), message, author)

    def update(
        self, table: str, data: object, *, message: str = "", author: str | None = None
    ) -> Snapshot:
        """Set some columns of rows that are there; `MissingKey` if one is not."""
        return self._write("update", table, as_tabular(data), message, author)

    def delete(
        self,
        table: str,
        keys: object,
        *,
        strict: bool = False,
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """Delete rows by key; absent keys are ignored unless `strict`."""
        rows = len(keys) if isinstance(keys, Sized) else 0
        with self._turn(rows), self.transaction(message, author) as tx:
            tx.delete(table, keys, strict=strict)
        return _committed_snapshot(tx)

    # --- the schema --------------------------------------------------------------------------

    def evolve(
        self,
        changes: object,
        *,
        keep: str | None = None,
        to: str | None = None,
        sync: str = "none",
        when: str = "immediate",
        conditions: object = None,
        alerts: object = None,
        on_break: str | None = None,
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """Change the schema; no rows are written.

        `keep` names a branch that stays on the old schema, and this one gets the new one; or
        `to` names a branch for the new schema, and this one stays.  `sync` says how the two are
        kept in step: "none", "forward" (old to new), "reverse" or "both"; `when`, for a one-way
        sync with `to`, how often.  `conditions` guard the sync, and `alerts` are where it tells of
        what they stop.  `on_break` says what becomes of views that cannot follow, for all of them:
        "detach", or "move" to the branch that is kept, if a sync carries there what they read.
        """
        from livingdb.database import evolve as schema

        who = author or self.database.author
        schema.check_on_break(on_break)
        if to is None:
            self._check_maintainer("change the schema of")
        if when != "immediate":
            if to is None or keep is not None or sync != "forward":
                raise IllegalSync(
                    f"when={when!r} is for sync='forward', with to=: other syncs are immediate"
                )
            self.clone(
                to,
                transform=changes,
                sync=sync,
                when=when,
                conditions=conditions,
                alerts=alerts,
                message=message,
                author=who,
            )
            return Branch(self.database, to).head
        row = schema.evolve(
            self._pipeline, self.name, changes, keep, to, sync, who, message, conditions, alerts,
            on_break=on_break,
        )  # fmt: skip
        return Snapshot(self.database, row)

    def explain_evolution(self, changes: object) -> Any:
        """Which directions are legal for a change, why others are not, and whether it scans."""
        from livingdb.database import evolve as schema

        return schema.explain(self._graph, self.name, changes)

    def migrate(self, progress: Any = False) -> list[str]:
        """Materialize what changes of schemas and layouts left to be done; the tables' names."""
        from livingdb.database import evolve as schema

        self._check_maintainer("migrate")
        with self.database._noting("migrate", self.name):
            done: list[str] = schema.migrate(self._graph, self.name, progress)
        return done

    def relayout(self, table: str, layout: Layout) -> Layout:
        """Another layout for a table, on all branches; the one that it had.

        Nothing is rewritten at once, and nothing that a reader sees changes.  Trees that are made
        from now on lie in it; `migrate` lays out what is there.
        """
        from livingdb.maintenance.layouts import set_layout

        self.database._require_everywhere(Role.MAINTAINER, "lay out tables anew")
        with self.database._noting("lay out", table):
            return set_layout(self._graph, self.name, table, layout)

    def create_index(
        self, table: str, columns: str | Sequence[str], *, name: str | None = None
    ) -> str:
        """Have rows of a table found by other columns than its key, on all branches; its name.

        Nothing that a reader sees changes, and no snapshot is made.  It follows its columns when
        they are renamed, and is not there where one of them is not.
        """
        from livingdb.maintenance.indexes import create_index

        self.database._require_everywhere(Role.MAINTAINER, "make an index, which all branches have")
        with self.database._noting("make index", table):
            return create_index(self._graph, self.name, table, columns, name)

    def drop_index(self, name: str, table: str | None = None) -> None:
        """Have an index no more; a table is named where indexes of several are called so."""
        from livingdb.maintenance.indexes import drop_index

        self.database._require_everywhere(Role.MAINTAINER, "drop an index, which all branches have")
        with self.database._noting("drop index", name):
            drop_index(self._graph, self.name, name, table)

    # --- the graph ---------------------------------------------------------------------------

    def clone(
        self,
        name: str,
        *,
        derived: bool | str = False,
        transform: object = None,
        sync: str = "none",
        when: str = "immediate",
        materialize: str = "full",
        conditions: object = None,
        alerts: object = None,
        replace: bool = False,
        message: str = "",
        author: str | None = None,
    ) -> Branch:
        """A new branch that stands where this one does; its log says who made it and why.

        `derived=True` derives on it, too, what is derived on this one, under names that end in
        `_` and its own (a text: in that): all of it, or the clone is not made.  `transform` are
        schema changes through which the new branch sees this one; with `sync="forward"` it stays
        in step, also without any of these, at the time `when` says, as far as `conditions` let
        changes pass; `alerts` are where it tells of what they stop.  With masks it has rows of its
        own and shares no history with this one: `materialize="lazy"` masks and stores them when
        they are first read, and `replace=True` gives it other masks, or other keys, as a snapshot
        more.
        """
        who = author or self.database.author
        if transform is None and sync != "none" and not derived:
            from livingdb.evolution.changes.no_change import NoChange

            transform, message = [NoChange()], message or f"clone {self.name} as {name}"
        if transform is not None:
            from livingdb.database import derive as objects

            request = objects.DeriveRequest(
                name,
                when=when,
                materialize=materialize,
                sync=sync,
                conditions=conditions,
                alerts=alerts,
                replace=replace,
                message=message,
                author=who,
            )
            try:
                objects.clone_transformed(self, transform, request)
            except RecursionError:
                raise InvalidData("an expression of transform= is nested too deeply") from None
            return Branch(self.database, name)
        if replace or materialize != "full":
            raise InvalidData("replace= and materialize= are for clones with masks: transform=")
        if sync != "none" or (conditions, alerts, when) != (None, None, "immediate"):
            raise InvalidData(
                "when=, conditions= and alerts= are those of a sync: say sync='forward'; "
                "derived=True makes no sync of the clone itself"
            )
        if derived:
            return self.head.clone(name, derived=derived, message=message, author=who)
        return self.database._clone(self._head(), name, self.name, who, message)

    # --- derived objects ---------------------------------------------------------------------

    def derive(
        self,
        name: str,
        sql: str | None = None,
        *,
        spark: str | None = None,
        model: str | None = None,
        params: Mapping[str, Any] | None = None,
        tables: Sequence[str] | None = None,
        when: str | None = None,
        refresh: str = "auto",
        materialize: str = "full",
        key: str | Sequence[str] | None = None,
        engine: str | None = None,
        sync: str = "forward",
        conditions: object = None,
        alerts: object = None,
        replace: bool = False,
        on_break: str = "detach",
        message: str = "",
        author: str | None = None,
    ) -> Branch:
        """A derived object: a branch of that name with a table of that name, kept in step.

        sql          a view: the answer of a query over tables of this branch, or of others
        spark        'package.module:function' that makes a data frame of a dict of data frames
        model        'package.module:function' that makes bytes or files of a dict of tables
        when         'immediate', 'deferred' (the default), 'on demand', 'every 10 minutes', a line
                     of cron, 'lag 10 minutes' or 'downstream'
        refresh      'auto', 'incremental' or 'full'
        materialize  'full', 'none' (computed when read), 'lazy' (stored when first read), or
                     "where day >= '2026-01-01'" (only such rows are stored)
        sync         'forward', 'both' (a view that can be written) or 'none' (made once)
        conditions   what has to hold of a change before it is carried: see livingdb.condition
        alerts       where it tells of what conditions stop: see livingdb.alert
        replace      take the place of the derived object of that name, if there is one
        on_break     what a schema change does that it cannot follow: 'detach' it, or 'move' it to
                     the branch that keeps the old schema, if a sync carries there what it reads
        """
        from livingdb.database import derive as objects

        request = objects.DeriveRequest(
            name,
            sql,
            spark,
            model,
            params,
            tables,
            when,
            refresh,
            materialize,
            key,
            engine,
            sync,
            conditions,
            alerts,
            replace,
            message,
            author or self.database.author,
            on_break,
        )
        try:
            objects.derive(self, request)
        except RecursionError:
            raise InvalidData("the query is nested too deeply") from None
        return Branch(self.database, name)

    def reset(self, ref: object) -> Snapshot:
        """Move the branch to any snapshot; what it leaves stays reachable by id and time."""
        from livingdb.commit import branch_operations as operations

        self._check_maintainer("reset")
        target = self.database._resolve(ref).snapshot
        operations.reset(self._pipeline, self.name, target)
        return Snapshot(self.database, target)

    def revert(
        self,
        ref: object,
        *,
        on_conflict: Any = "fail",
        granularity: str = "row",
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """A new snapshot that undoes what one snapshot changed (a merge: all it brought in).

        `on_conflict` and `granularity` are those of `Database.merge`, for rows that were changed
        since: ours is what the branch has, theirs what there was before.
        """
        from livingdb.commit.merging import replay
        from livingdb.commit.merging.merge import MergeOptions

        self._check_writer()
        options = MergeOptions(on_conflict, granularity)
        target = self.database._resolve(ref).snapshot
        who = author or self.database.author
        made = replay.revert(self._pipeline, self.name, target, who, message, options)
        return Snapshot(self.database, made)

    def cherry_pick(
        self,
        ref: object,
        *,
        on_conflict: Any = "fail",
        granularity: str = "row",
        message: str = "",
        author: str | None = None,
    ) -> Snapshot:
        """A new snapshot with what one snapshot changed, wherever it is.

        `on_conflict` and `granularity` are those of `Database.merge`: theirs is what is picked.
        """
        from livingdb.commit.merging import replay
        from livingdb.commit.merging.merge import MergeOptions

        self._check_writer()
        options = MergeOptions(on_conflict, granularity)
        target = self.database._resolve(ref).snapshot
        who = author or self.database.author
        made = replay.cherry_pick(self._pipeline, self.name, target, who, message, options)
        return Snapshot(self.database, made)

    # --- as a name ---------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Branch):
            return other.name == self.name and other.database is self.database
        return isinstance(other, str) and other == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __lt__(self, other: Branch | str) -> bool:
        return self.name < (other if isinstance(other, str) else other.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Branch {self.name} of {self.database._shown_name}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)


def _committed_snapshot(tx: Transaction) -> Snapshot:
    assert tx.snapshot is not None
    return tx.snapshot
