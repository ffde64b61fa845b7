"""Erasing rows: first at every head, as anybody deletes rows; then from all of history.

What follows from a row alone goes with it, wherever it was carried: to other branches, through
schema changes, to views and clones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.catalog import schema as tables
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.chunks.address import Address
from livingdb.commit.carrying.sync_order import rank_syncs
from livingdb.commit.proposal import Proposal
from livingdb.database.derive import derived_sync
from livingdb.database.erasable import check_erasable
from livingdb.derivation.view import KIND, View
from livingdb.errors import InvalidData, LivingDBError, ReadOnlyBranch, RuleViolation
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.table_ids import table_id
from livingdb.maintenance.check_syncs import check_syncs
from livingdb.maintenance.erasure.erase import Erased, Erasure, erase_history, plan_history
from livingdb.maintenance.erasure.erased_rows import ErasedRows
from livingdb.maintenance.erasure.recompute_views import (
    ReadingView,
    dropped_views,
    is_aggregate,
    is_row_by_row,
)
from livingdb.maintenance.erasure.report import ErasureReport, OutsideCopy
from livingdb.tables import ingest
from livingdb.tables.rows import RowSet
from livingdb.tracing.whereabouts.located_row import HistoryLines, LocatedRow
from livingdb.tracing.whereabouts.search import every_located_row

if TYPE_CHECKING:
    from livingdb.commit.writing.transaction import BranchTransaction
    from livingdb.database.database import Database

__all__ = ["erase"]

_AGGREGATES = ("keep", "recompute")
_REFERRED = "they refer to rows that others may refer to, too"
_APART = "rows of it that were taken apart from them stay"
_UNKNOWN = "versions of it cannot be computed anew"
_WRITTEN = ("branch", "clone", "masked clone")
"""Where somebody may delete rows; a clone that was detached is a branch like any other."""
_DERIVED = ("view", "clone", "masked clone", "model", "function")


def erase(
    database: Database,
    table: str,
    keys: object,
    reason: str,
    aggregates: str,
    texts: Sequence[str],
    branch: str,
    dry_run: bool,
) -> ErasureReport:
    """Take rows out of every version, branch, view and file; what was done, or would be."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidData("reason: say why the rows are erased; it is written down")
    if aggregates not in _AGGREGATES:
        raise InvalidData(f"aggregates {aggregates!r}: choose 'keep' or 'recompute'")
    if isinstance(texts, str):
        raise InvalidData(f"texts={texts!r}: a list of words, as [{texts!r}]")
    found = _Erasing(database, table, keys, reason, aggregates, tuple(texts), branch)
    return found.run(dry_run)


class _Erasing:
    def __init__(
        self,
        database: Database,
        table: str,
        keys: object,
        reason: str,
        aggregates: str,
        texts: tuple[str, ...],
        branch: str,
    ):
        self._database = database
        self._table = table
        self._reason = reason
        self._keeps_aggregates = aggregates == "keep"
        self._texts = texts
        self._branch = branch
        self._graph.check_writable()
        self._keys = self._given_keys(keys)

    @property
    def _graph(self) -> Graph:
        return self._database._graph

    def _given_keys(self, keys: object) -> list[tuple[object, ...]]:
        """The keys of rows as tuples, in the types of the table."""
        graph = self._graph
        head = graph.snapshots.at(graph.branch(self._branch).head)
        version = HistoryLines(graph).version(head, self._table)
        if version is None:
            graph.version(head, self._table)  # which says that there is no such table
            raise AssertionError
        schema = graph.versions.definition(version).schema
        schema.require_key()
        given = ingest.deletes(schema, graph.versions.forest(version).shape, keys)
        columns = [column.to_pylist() for column in given.columns[: len(schema.key)] if column]
        return list(zip(*columns, strict=True))

    def run(self, dry_run: bool) -> ErasureReport:
        found = self._locate()
        own = [item for item in found if _is_own(item)]
        branch = self._graph.branch(self._branch)
        check_erasable(self._graph, branch, self._table, self._keys, own)
        rows = _erased_rows(self._graph, found)
        if dry_run:
            told = plan_history(self._graph, self._erasure(rows, found))
            return self._report(found, told, True)
        self._delete_at_heads(found)
        self._bring_up_to_date(found)
        erasure = replace(self._erasure(rows, found), heads=self._heads_in_step())
        told = erase_history(self._graph, erasure)
        self._make_anew(told)
        report = self._report(found, told, False)
        return replace(report, kept=(*report.kept, *self._mend_syncs()))

    def _locate(self) -> list[LocatedRow]:
        graph = self._graph
        return [
            item
            for key in self._keys
            for item in every_located_row(graph, self._table, key, self._branch)
        ]

    def _erasure(self, rows: list[ErasedRows], found: Sequence[LocatedRow]) -> Erasure:
        database = self._database
        return Erasure(
            self._table,
            rows,
            self._texts,
            database.author,
            self._reason,
            self._reading_views(found),
            database.engine,
            database.trust,
            {"places": _places(found), "kept": self._kept(found)},
        )

    def _reading_views(self, found: Iterable[LocatedRow]) -> list[ReadingView]:
        """The views that may have been made of the rows, each after those that it reads."""
        views: dict[str, ReadingView] = {}
        for item in found:
            if item.kind == "view" and item.name not in views:
                view = View.from_json(derived_sync(self._graph, item.name).spec)
                if view.what == "sql":
                    is_own = item.how == "row" and not view.hot and is_row_by_row(view)
                    views[item.name] = ReadingView(view, is_own or self._is_kept(view))
        for view in self._views_in_order():
            views.setdefault(view.name, ReadingView(view, self._is_kept(view)))
        named = {sync.target for sync in self._database.syncs()}
        for view in dropped_views(self._graph, named):
            views.setdefault(view.name, ReadingView(view, self._is_kept(view)))
        return list(views.values())

    def _views_in_order(self) -> list[View]:
        """All views of SQL, each after those that it reads: of a clone of one, too."""
        syncs = self._graph.catalog.syncs.all()
        ranks = rank_syncs(syncs)
        rows = sorted((row for row in syncs if row.kind == KIND), key=lambda row: ranks[row.id])
        return [view for row in rows if (view := View.from_json(row.spec)).what == "sql"]

    def _is_kept(self, view: View) -> bool:
        """Whether what a view shows stays: it tells of many rows, or cannot be computed anew.

        Of one that is stored in part the rest is computed when it is read, without what is erased;
        so the part has to be computed anew as well.
        """
        keeps = self._keeps_aggregates and is_aggregate(view) and not view.hot
        return view.restless or keeps

    def _kept(self, found: Sequence[LocatedRow]) -> list[str]:
        """What was made of the rows and stays as it is."""
        words = {"group": "they are part of groups", "read": "it was made of them"}
        words["row"] = _REFERRED
        anew = {each.view.name for each in self._reading_views(found) if not each.stages_only}
        kept = [item for item in found if not _is_own(item) and item.name not in anew]
        return sorted({f"{_place(item)}: {words[item.how]}" for item in kept})

    # --- heads -------------------------------------------------------------------------------

    def _delete_at_heads(self, found: Iterable[LocatedRow]) -> None:
        """Delete the rows wherever they are and can be written; syncs carry that on.

        Whatever refuses it on one branch does so before anything is deleted on another.
        """
        there: dict[str, dict[str, list[dict[str, object]]]] = {}
        for item in found:
            if item.kind in _WRITTEN and _is_own(item) and item.key is not None:
                keys = there.setdefault(item.name, {}).setdefault(item.known.table, [])
                if item.key not in keys:
                    keys.append(dict(item.key))
        for is_rehearsal in (True, False):
            for name, rows in there.items():
                with suppress(ReadOnlyBranch):  # its rows go where those do that it follows
                    self._delete(name, rows, is_rehearsal)

    def _delete(
        self, name: str, rows: Mapping[str, list[dict[str, object]]], is_rehearsal: bool
    ) -> None:
        """Delete rows of the tables of a branch, or find out whether that can be done."""
        graph = self._graph
        row = graph.branches.find(name)
        if row is None or is_hidden(name):
            return
        head = graph.snapshots.at(row.head)
        transaction = self._database.branch(name).transaction(f"erase: {self._reason}")
        for table, keys in rows.items():
            version = graph.find_version(head, table)
            if version is not None:
                given = _present_keys(graph.versions.rows(version), keys)
                if len(given):
                    transaction.delete(table, given)
        if transaction.work.is_empty:
            transaction.rollback()
        elif is_rehearsal:
            self._rehearse(transaction.work)
            transaction.rollback()
        else:
            transaction.commit()

    def _rehearse(self, work: BranchTransaction) -> None:
        """Whatever would refuse a transaction does so; nothing is stored."""
        with self._graph.stage() as staging:
            made = work.make_tables(work.base, staging)
            intent = Intent((work.base,), (work.branch,), "transaction", "delete", "", "", made)
            proposal = Proposal([intent], deltas=work.deltas(), is_checked=True)
            with suppress(HeadMoved):  # it is committed on what is there then
                self._database._pipeline.follow(proposal, staging)

    def _bring_up_to_date(self, found: Iterable[LocatedRow]) -> None:
        """Let derived objects see that the rows are gone: afterwards nothing tells them."""
        database = self._database
        for name in dict.fromkeys(item.name for item in found if item.kind in _DERIVED):
            sync = next((s for s in database.syncs() if s.target == name), None)
            if sync is None or sync.state == "detached" or sync.kind != "derive":
                continue
            lag = sync.lag
            if lag is None or not lag.snapshots:
                continue
            if sync.state != "active":
                raise RuleViolation(
                    f"{name!r} has not seen yet that the rows are deleted, and is {sync.state}: "
                    f"{sync.reason}; let it go on (db.sync({name!r}).resume()), detach it or drop "
                    "it, and erase again"
                )
            database.refresh(derived_sync(self._graph, name).spec["name"])

    def _behind(self) -> set[str]:
        """The branches that may hold rows which were deleted where they come from."""
        behind = set()
        for sync in self._database.syncs():
            written = sync.target if sync.direction == "forward" else "".join(sync.sources)
            if sync.direction != "both" and (sync.state != "active" or sync.lag != 0):
                behind.add(written)
        return behind

    def _heads_in_step(self) -> dict[Address, str]:
        """The tables at the heads of branches that can be written, or that follow others at once.

        A hidden one is among them if it is in step both ways: other rows may make a row there.
        """
        graph, behind, found = self._graph, self._behind(), {}
        syncs = [sync for sync in graph.catalog.syncs.all() if sync.is_active]
        both = {
            end
            for sync in syncs
            if sync.direction == "both"
            for end in (*sync.sources, sync.target)
        }
        for branch in graph.branches.followed():
            is_in_step = not is_hidden(branch.name) or branch.id in both
            if is_in_step and branch.name not in behind:
                for name, address in graph.tables(graph.snapshots.at(branch.head)).items():
                    found[address] = f"branch {branch.name}, table {name}"
        return found

    def _make_anew(self, told: Erased) -> None:
        """Make derived objects anew that read a head which lost rows without anybody's delete."""
        graph, behind = self._graph, self._behind()
        for row in graph.catalog.syncs.all():
            if row.kind != KIND or not row.is_active:
                continue
            view = View.from_json(row.spec)
            is_left = view.what != "sql" or self._is_kept(view)  # which nobody has computed anew
            heads = graph.branches_by_ids(view.branches).values()
            read = [head for head in heads if head.name in behind or is_left]
            if any(self._has_lost(told, head, head.name in behind) for head in read):
                self._database.refresh(row.spec["name"], full=True)

    def _has_lost(self, told: Erased, branch: BranchRow, is_behind: bool) -> bool:
        """Whether a table at the head of a branch has other rows than it had."""
        tables = self._graph.tables(self._graph.snapshots.at(branch.head))
        return not (told.held if is_behind else told.lost).isdisjoint(tables.values())

    def _mend_syncs(self) -> list[str]:
        """Make anew whatever is not what its sync promises now; what there is to say of it.

        Little should be: rows went from where they were found, and what follows from them with
        them.  Whoever asks for an erasure is not to rely on that.  Of two branches in step the old
        one is believed, of which the other one is made.
        """
        database, found = self._database, []
        targets = {f"{'+'.join(sync.sources)}/{sync.target}": sync for sync in database.syncs()}
        broken = check_syncs(self._graph, database.engine, database.trust).broken
        for name in dict.fromkeys(problem.sync for problem in broken):
            sync = targets.get(name)
            told = f"{name}: it did not follow, and is not in step; `check --deep` says how"
            if sync is not None and sync.direction in ("forward", "both"):
                with suppress(LivingDBError):
                    database.refresh(sync.target, full=True)
                    told = f"{name}: it did not follow, and was made anew"
            found.append(f"{told}; earlier versions of it may still tell of the rows")
        return found

    # --- the report --------------------------------------------------------------------------

    def _report(self, found: Sequence[LocatedRow], told: Erased, dry_run: bool) -> ErasureReport:
        return ErasureReport(
            self._table,
            len(self._keys),
            dry_run,
            told.number,
            told.versions,
            told.trees,
            told.snapshots,
            tuple(_places(found)),
            (
                *self._kept(found),
                *(f"table {name}: {_APART}" for name in told.shared),
                *(f"view {name}: {_UNKNOWN}" for name in told.unknown),
            ),
            tuple(_copies(self._graph, found)),
            told.waiting,
        )


def _present_keys(rows: RowSet, keys: list[dict[str, object]]) -> pa.Table:
    """Those of some keys that rows have."""
    changes = ingest.deletes(rows.schema, rows.forest.shape, keys)
    names = list(rows.schema.key)
    held = [column for column in changes.columns[: len(names)] if column is not None]
    return pa.table(held, names).filter(pa.array(rows.contains(changes.keys)))


def _erased_rows(graph: Graph, found: Sequence[LocatedRow]) -> list[ErasedRows]:
    """The rows by the tables that they are in and the columns that tell them."""
    lines = HistoryLines(graph)
    masked = [item.head for item in found if _has_masked_key(lines, item)]
    parts: dict[tuple[str, tuple[str, ...], str], list[tuple[LocatedRow, pa.Table]]] = {}
    for item in found:
        schema = lines.schema(item.head, item.known.table)
        if not _is_own(item) or item.key is None or schema is None:
            continue
        fields = pa.schema([column.field for column in schema.key_columns])
        row = pa.Table.from_pylist([dict(item.key)], schema=fields)
        identity = _identity(graph, lines, item)
        ids = tuple(column.id for column in schema.key_columns)
        kind = item.kind if item.kind == "view" or _has_masked_key(lines, item) else ""
        parts.setdefault((identity, ids, kind), []).append((item, row))
    return [
        ErasedRows(
            identity,
            items[0][0].known.table,
            ids,
            _distinct([row for _, row in items]),
            kind == "view",
            tuple(item.head for item, _ in items) if kind else (),
            () if kind else tuple(masked),
        )
        for (identity, ids, kind), items in parts.items()
    ]


def _has_masked_key(lines: HistoryLines, item: LocatedRow) -> bool:
    """Whether the key of a row is another one elsewhere."""
    schema = lines.schema(item.head, item.known.table)
    return schema is not None and not item.known.masked.isdisjoint(schema.key)


def _distinct(rows: Sequence[pa.Table]) -> pa.Table:
    """Rows of one table, which may have been called otherwise and had other types, each once."""
    first = rows[0].schema
    same = [row for row in rows if row.schema.types == first.types]
    joined = pa.concat_tables([row.rename_columns(first.names) for row in same])
    return joined.group_by(first.names).aggregate([])


def _identity(graph: Graph, lines: HistoryLines, item: LocatedRow) -> str:
    found = lines.definition(item.head, item.known.table)
    assert found is not None
    return found.id if found.id is not None else table_id(graph, item.head, item.known.table)


def _is_own(item: LocatedRow) -> bool:
    """Whether a row follows from the one that was looked for alone."""
    return item.how == "row" and not item.known.is_shared


def _place(item: LocatedRow) -> str:
    named = f"{item.kind} {item.name}".strip()
    return named if item.name == item.known.table else f"{named}, table {item.known.table}"


def _places(found: Iterable[LocatedRow]) -> list[str]:
    """Where the rows are rows of their own, without saying which."""
    return sorted({_place(item) for item in found if _is_own(item) and item.kind != "schema"})


def _copies(graph: Graph, found: Sequence[LocatedRow]) -> list[OutsideCopy]:
    """Backups and exports that were made since the rows came."""
    first = min((p.first.sequence for item in found for p in item.periods), default=None)
    if first is None:
        return []
    copies = SealedRows(tables.outside_copy)
    remedies = {"backup": "make a new backup and delete this one"}
    return [
        OutsideCopy(kind, place, remedies.get(kind, "delete it, or export it again"))
        for _, kind, place, newest, *_ in copies.read_all(graph.catalog.queries.all(copies.every))
        if newest >= first
    ]
