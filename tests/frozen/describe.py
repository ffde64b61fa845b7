"""Everything a reader can see of a database, as plain values in a fixed order.

A description has *sections*, each a mapping from names to plain values.  A frozen database is
held against the sections that were there when it was frozen: a new kind of thing to see is a new
section, and an old section goes on saying what it said.  The section `texts` is words for people
and may be said anew; all others are data.  Nothing in it depends on the clock, on where the
database is, or on how it is stored.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from livingdb import Branch, Database, LivingDBError, Snapshot, Table
from livingdb.database.diff import Diff
from livingdb.graph.table_ids import table_id
from livingdb.tables.type_names import type_name

__all__ = ["TEXTS", "describe"]

TEXTS = "texts"
"""The section that is words for people."""

_SHOWN_ROWS = 60
_BACK = (1, 4, 7)

Plain = Any
"""What JSON can hold."""


def describe(db: Database, wanted: Collection[str] | None = None) -> dict[str, dict[str, Plain]]:
    """All of it, by section, or some sections."""
    return _Description(db).sections(wanted)


def _plain(value: object) -> Plain:
    """A value as JSON has it, so that different values stay different."""
    if isinstance(value, float):
        return value if math.isfinite(value) else f"float {value}"
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _special(value)


def _special(value: object) -> str:
    """A value that JSON does not have, as text."""
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    if isinstance(value, Decimal):
        return f"decimal {value}"
    if isinstance(value, (date, datetime)):
        return f"{type(value).__name__} {value.isoformat()}"
    raise TypeError(f"{value!r} has no plain form")


def _digest(value: object) -> str:
    text = json.dumps(value, default=_special, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _rows(rows: pa.Table) -> Plain:
    """Rows themselves if they are few, and otherwise how many and what they add up to."""
    if rows.num_rows <= _SHOWN_ROWS:
        return [_plain(list(row.values())) for row in rows.to_pylist()]
    columns = [rows.column(name).to_pylist() for name in rows.column_names]
    return {"count": rows.num_rows, "digest": _digest(columns)}


def _asked(question: Callable[[], Plain]) -> Plain:
    """An answer, or the code of the error that is the answer."""
    try:
        return question()
    except LivingDBError as error:
        return {"error": error.code}


@dataclass(frozen=True)
class _View:
    """A derived object by its name, what it is derived from, and whether its head is derived.

    It is not where somebody has written to it since it was detached.
    """

    name: str
    source: str
    is_own: bool


class _Description:
    def __init__(self, db: Database):
        self.db = db
        self.contents: dict[str, Plain] = {}
        """What tables hold, by a digest of it: tables that are alike are told once."""
        self._known: dict[str, str] = {}
        """The digest for each version of a table that was read."""

    def sections(self, wanted: Collection[str] | None) -> dict[str, dict[str, Plain]]:
        db = self.db
        branches = sorted(db.branches())
        makers: dict[str, Callable[[], dict[str, Plain]]] = {
            "branches": lambda: {branch.name: self._branch(branch) for branch in branches},
            "tags": lambda: {name: snapshot.id for name, snapshot in sorted(db.tags().items())},
            "snapshots": lambda: {s.id: self._snapshot(s) for s in reversed(db.snapshots())},
            "diffs": lambda: dict(self._diffs()),
            "blame": lambda: dict(self._blame(branches)),
            "history": lambda: dict(self._history(branches)),
            "syncs": lambda: {sync.name: self._sync(sync) for sync in db.syncs()},
            "derived": lambda: dict(self._derived()),
            "lineage": lambda: dict(self._lineage()),
            "provenance": lambda: {b.name: self._provenance(b) for b in branches},
            "alerts": lambda: {f"{alert.id:06}": self._alert(alert) for alert in db.alerts()},
            "watching": self._watching,
            "tables": lambda: dict(self._system_tables()),
            "ids": self._ids,
            "identities": lambda: {b.name: self._identities(b) for b in branches},
            "uniques": lambda: {b.name: self._uniques(b) for b in branches},
            "keeping": self._keeping,
            "people": self._people,
            TEXTS: lambda: dict(self._texts()),
        }
        made = {name: make() for name, make in makers.items() if wanted is None or name in wanted}
        return {"contents": self.contents, **made}

    def _keeping(self) -> dict[str, Plain]:
        """What is kept, erased, laid out otherwise and asked for."""
        catalog = self.db._graph.catalog
        requests = [
            [r.number, r.source, r.target, r.title, r.author, r.state, r.snapshot and r.snapshot.id]
            for r in self.db.merge_requests()
        ]
        return {
            "retention": _plain(self.db.retention.to_json()),
            "forgotten": {str(n): row.reason for n, row in catalog.forgotten.snapshots().items()},
            "layouts": dict(sorted(catalog.table_layouts.all().items())),
            "requests": _plain(requests),
            "notes": {
                str(r.number): [[n.kind, n.author, n.text] for n in r.notes]
                for r in self.db.merge_requests()
            },
            "erasures": [[e.table, e.author, e.reason] for e in catalog.erasures.all()],
            "redactions": len(catalog.erasures.redactions()),
        }

    def _people(self) -> dict[str, Plain]:
        """Who may do what, and what was done."""
        users = self.db.people.list()
        names = {row.id: row.name for row in self.db._graph.branches.all()}
        audit = self.db.people.audit().to_pylist()
        told = ("number", "person", "action", "subject", "outcome")
        return {
            "grants": {u.name: [[g.role, g.branches] for g in u.grants] for u in users},
            "objects": {
                u.name: sorted(names.get(branch, "?") for branch, _ in u.objects) for u in users
            },
            "tokens": {
                u.name: [[t.note, t.revoked is None] for t in self.db.people.tokens(u.name)]
                for u in users
            },
            "merge only": [b.name for b in self.db.branches() if self.db.merge_rule(b).merge_only],
            "audit": [[row[name] for name in told] for row in audit],
        }

    # --- names and snapshots -----------------------------------------------------------------

    def _ids(self) -> dict[str, Plain]:
        """What tells databases, branches and syncs from all others."""
        graph = self.db._graph
        return {
            "database": self.db.id,
            "default branch": _asked(lambda: self.db.default_branch.name),
            "branches": {row.name: row.id for row in graph.branches.all()},
            "syncs": {row.name: row.id for row in graph.catalog.syncs.all()},
        }

    def _identities(self, branch: Branch) -> Plain:
        """Which table and column each name of a branch stands for."""
        graph = self.db._graph
        row = graph.resolve(branch.name).snapshot
        told = {}
        for name in branch.tables():
            schema = graph.versions.definition(graph.version(row, name)).schema
            columns = {column.name: column.id for column in schema.columns}
            told[name] = {"table": table_id(graph, row, name), "columns": columns}
        return told

    def _uniques(self, branch: Branch) -> Plain:
        """Which columns of a branch are unique, and which draw their values."""
        told = {}
        for name in branch.tables():
            schema = branch.table(name).rows.schema
            told[name] = {
                "unique": {unique: list(group) for unique, group in schema.uniques},
                "generated": {c.name: c.generated for c in schema.columns if c.generated},
            }
        return {name: known for name, known in told.items() if any(known.values())}

    def _branch(self, branch: Branch) -> Plain:
        log = branch.log()
        times = [snapshot.time.isoformat() for snapshot in log[::10]]
        return {
            "head": branch.head.id,
            "log": [snapshot.id for snapshot in log],
            "back": [_asked(lambda n=n: self.db.at(f"{branch.name}~{n}").id) for n in _BACK],
            "then": [_asked(lambda t=t: self.db.at(f"{branch.name}@{t}").id) for t in times],
        }

    def _snapshot(self, snapshot: Snapshot) -> Plain:
        tables = _asked(
            lambda: {name: self._content(snapshot.table(name)) for name in snapshot.tables()}
        )
        told = {
            "sequence": snapshot.sequence,
            "parents": list(snapshot.parents),
            "edge": _plain(snapshot.edge.to_json()),
            "author": snapshot.author,
            "message": snapshot.message,
            "time": snapshot.time.isoformat(),
            "sources": _plain(snapshot.sources),
            "tables": tables,
        }
        if snapshot.metrics:
            told["metrics"] = _plain(snapshot.metrics)
            told["artifact"] = _asked(lambda: _plain(snapshot.artifact()))
        return told

    def _content(self, table: Table) -> str:
        """The digest of a table's schema and rows, which are told under it."""
        if table.version not in self._known:
            rows = _asked(lambda: _rows(table.to_arrow()))
            content = {"schema": self._schema(table), "rows": rows, "count": len(table)}
            digest = _digest(content)
            self.contents[digest] = content
            self._known[table.version] = digest
        return self._known[table.version]

    def _schema(self, table: Table) -> Plain:
        schema = table.rows.schema
        columns = {}
        for column in schema.columns:
            words = [type_name(column.type)]
            words += [] if column.nullable else ["not null"]
            words += ["read only"] if column.read_only else []
            words += ["hidden"] if column.hidden else []
            words += [] if column.computed is None else [f"computed {column.computed}"]
            words += [] if column.default is None else [f"default {_plain(column.default)!r}"]
            columns[column.name] = ", ".join(words)
        return {
            "columns": list(columns.items()),
            "arrow": [f"{field.name} {field.type} {field.nullable}" for field in table.schema],
            "key": list(table.key),
            "whole key": list(schema.key),
            "foreign keys": [list(link) for link in schema.foreign_keys],
            "checks": [list(check) for check in schema.checks],
        }

    def _diffs(self) -> Iterator[tuple[str, Plain]]:
        """What each snapshot changed, against its first parent."""
        for snapshot in reversed(self.db.snapshots()):
            if snapshot.parents:
                graph = self.db._graph
                sides = [
                    graph.resolve(f"id:{ref}").snapshot
                    for ref in (snapshot.parents[0], snapshot.id)
                ]
                if any(graph.forgotten.find(side) is not None for side in sides):
                    continue
                old, new = map(graph.tables, sides)
                yield (
                    snapshot.id,
                    {
                        name: _difference(self._table_diff(name, old, new))
                        for name in sorted({*old, *new})
                        if old.get(name) != new.get(name)
                    },
                )

    def _table_diff(self, name: str, old: Any, new: Any) -> Diff:
        """How a table of a name differs, whatever schema changes lead to it."""
        versions = self.db._graph.versions
        sides = [None if name not in side else versions.require(side[name]) for side in (old, new)]
        return Diff(self.db._graph, name, *sides)

    # --- where rows come from ----------------------------------------------------------------

    def _heads(self, branches: list[Branch]) -> Iterator[tuple[str, Branch, Table]]:
        """The small tables of all branches, each content once."""
        seen = set()
        for branch in branches:
            for name in branch.tables():
                table = branch.table(name)
                at = (name, self._content(table))
                if at not in seen and table.key and len(table) <= _SHOWN_ROWS:
                    seen.add(at)
                    yield f"{branch.name} {name}", branch, table

    def _blame(self, branches: list[Branch]) -> Iterator[tuple[str, Plain]]:
        for title, branch, table in self._heads(branches):
            yield title, _asked(lambda b=branch, t=table: _rows(self.db.blame(b, t.name)))
        for name in ("orders", "customers"):
            cells = _asked(lambda n=name: _rows(self.db.blame("main", n, columns=True)))
            yield f"main {name} by cell", cells

    def _history(self, branches: list[Branch]) -> Iterator[tuple[str, Plain]]:
        for title, branch, table in self._heads(branches):
            keys = table.to_arrow(list(table.key)).slice(0, 2).to_pylist()
            for key in (tuple(row.values()) for row in keys):
                told = _asked(lambda b=branch, t=table, k=key: self._past(b, t, k))
                yield f"{title} {_plain(key)}", told

    def _past(self, branch: Branch, table: Table, key: tuple[object, ...]) -> Plain:
        rows = self.db.history(branch, table.name, key)
        return {"columns": rows.column_names, "rows": _rows(rows)}

    def _lineage(self) -> Iterator[tuple[str, Plain]]:
        """The columns behind those of derived objects, and the rows behind their first row."""
        for view in self._views():
            name = view.name
            yield f"columns of {name}", _asked(lambda n=name: self._columns_behind(n))
            if view.is_own:
                yield f"rows of {name}", _asked(lambda n=name: self._rows_behind(n))
        row = self.db.branch("main").table("customers").to_arrow(["id"]).to_pylist()[1]["id"]
        found = self.db.forward_lineage("main", "customers", row)
        yield "forward of a customer", {name: _rows(rows) for name, rows in found.items()}

    def _columns_behind(self, name: str) -> Plain:
        found = self.db.column_lineage(name)
        return _plain({"columns": dict(found), "used": found.used, "masked": found.masked})

    def _rows_behind(self, name: str) -> Plain:
        table = self.db.branch(name).table(name)
        first = table.to_arrow().slice(0, 1).to_pylist()
        key = {column: first[0][column] for column in table.key} if first else None
        found = self.db.lineage(name, key=key or None)
        return {
            "snapshots": found.snapshots,
            "branches": found.branches,
            "whole": list(found.whole),
            "rows": {table: _rows(rows) for table, rows in found.items()},
        }

    def _provenance(self, branch: Branch) -> Plain:
        return _asked(lambda: _facts(_plain(self.db.provenance(branch).to_dict())))

    # --- syncs and what they tell ------------------------------------------------------------

    def _sync(self, sync: Any) -> Plain:
        return {
            "kind": sync.kind,
            "sources": sync.sources,
            "target": sync.target,
            "direction": sync.direction,
            "when": sync.when,
            "state": sync.state,
            "reason": sync.reason,
            "behind": None if sync.state == "detached" else _asked(lambda: int(sync.lag)),
            "conditions": [[one.text, one.action, one.severity] for one in sync.conditions],
            "trail": _plain(sync.trail),
            "runs": _plain(sync.runs),
            "quarantined": {
                name: _asked(lambda n=name: _rows(sync.quarantined(n)))
                for name in self.db.branch(sync.target).tables()
            },
        }

    def _views(self) -> Iterator[_View]:
        """The derived objects that are one table, by the first branch they read."""
        for sync in self.db.syncs():
            branch = self.db.branch(sync.target)
            if sync.kind == "derive" and branch.tables() == [branch.name]:
                source = sync.sources[0]
                yield _View(branch.name, source, source in branch.head.sources)

    def _derived(self) -> Iterator[tuple[str, Plain]]:
        """Derived objects by their names in SQL, where their sources were, and by source."""
        for view in self._views():
            back = [f"{view.source}~{n}" for n in _BACK] if view.source == "main" else []
            refs = [view.source, *back]
            yield f"{view.name} in SQL", {ref: self._selected(view, ref) for ref in refs}
            if view.is_own:
                log = self.db.branch(view.name).log(3)
                ids = [s.sources[view.source] for s in log if view.source in s.sources]
                yield f"{view.name} by source", {id: self._made_from(view, id) for id in ids}

    def _selected(self, view: _View, ref: str) -> Plain:
        text = f"SELECT * FROM {view.name} VERSION AS OF '{ref}'"
        return _asked(lambda: sorted(map(json.dumps, _rows(self._sql(view.source, text)))))

    def _made_from(self, view: _View, source: str) -> Plain:
        return _asked(lambda: self.db.derived_at(view.name, source=f"id:{source}").id)

    def _sql(self, branch: str, text: str) -> pa.Table:
        return self.db.branch(branch).sql(text).to_arrow()

    def _alert(self, alert: Any) -> Plain:
        return {
            "sync": alert.sync,
            "event": alert.event,
            "severity": alert.severity,
            "message": alert.message,
            "state": alert.state,
            "time": alert.time.isoformat(),
            "details": _plain(alert.details),
            "fingerprint": alert.fingerprint,
            "deliveries": _plain(alert.deliveries),
        }

    def _watching(self) -> dict[str, Plain]:
        watches = {
            watch.name: {
                "event": watch.event,
                "severity": watch.severity,
                "alerts": [sink.label for sink in watch.alerts],
                "state": _plain(watch.state),
            }
            for watch in self.db.watches()
        }
        sinks = [sink.label for sink in self.db.alert_sinks()]
        return {"watches": watches, "sinks": sinks, "labels": _plain(self.db.labels())}

    def _system_tables(self) -> Iterator[tuple[str, Plain]]:
        """The tables that a database has about itself."""
        for name in ("log", "branches", "edges"):
            rows = self._sql("main", f"SELECT * FROM livingdb.{name}").to_pylist()
            yield name, {"count": len(rows), "digest": _digest(sorted(map(_digest, rows)))}

    def _texts(self) -> Iterator[tuple[str, Plain]]:
        for sync in self.db.syncs():
            yield f"sync {sync.name}", sync.explain().splitlines()
        for watch in self.db.watches():
            yield f"watch {watch.name}", str(watch.what)
        for name in ("main", "totals", "masked_now"):
            yield f"provenance of {name}", str(self.db.provenance(name)).splitlines()
        yield (
            "graph",
            self.db.graph().to_text(width=100).splitlines()[1:],
        )  # the first says where it is


def _difference(diff: Any) -> Plain:
    """How many rows differ; of a table that came or went, only that."""
    if diff.before is None or diff.after is None:
        return "created" if diff.before is None else "dropped"
    return _asked(lambda: dict(diff.summary()))


def _facts(node: dict[str, Plain]) -> Plain:
    """A tree of provenance without the words for its schema changes, which the edges hold."""
    told = {name: value for name, value in node.items() if name != "changes"}
    return {**told, "children": [_facts(child) for child in node.get("children", [])]}
