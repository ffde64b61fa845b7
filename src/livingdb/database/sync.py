"""A sync as users see it."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.access.acting import speaker, unchecked
from livingdb.access.roles import Role
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.runs import RunRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.database.pictures import notebook_html
from livingdb.derivation.hidden_tables import condition_column, quarantine_table
from livingdb.derivation.lag import Lag
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.graph.sync_chains import SyncChain

if TYPE_CHECKING:
    from livingdb.alerts.sinks import Sink
    from livingdb.commit.deriving.refresh import Outcome
    from livingdb.database.database import Database
    from livingdb.graph.draft import Action

__all__ = [
    "Sync",
    "drop_branch",
    "every_sync",
    "find_sync",
    "schema_sync_of",
    "updatable_sync",
]

_LETTING_IN = ("resume", "approve", "reattach", "realign")
"""What lets a sync write what came up while it did not run."""


def every_sync(database: Database) -> list[Sync]:
    """Every sync, by name."""
    known = database._graph.sync_chains()
    return [Sync(database, chain, known.names) for chain in known.by_title]


def find_sync(database: Database, text: str) -> Sync:
    """A sync by its name, or by that of a branch that is in no other."""
    known = database._graph.sync_chains()
    found = known.find(text)
    if len(found) != 1:
        there = ", ".join(map(known.title, known.by_title)) or "none"
        what = "more than one sync" if found else "no sync"
        raise NotFound(f"there is {what} {text!r}; there are: {there}")
    return Sync(database, found[0], known.names)


class Sync:
    """A standing relation between branches."""

    def __init__(self, database: Database, chain: SyncChain, names: Mapping[BranchId, str]):
        self.database = database
        self._chain = chain
        self._names = names

    @property
    def kind(self) -> str:
        """What made it: \"schema_change\" or \"derive\"."""
        return self._chain[0].kind

    @property
    def makes(self) -> str:
        """What it makes: "view", "function", "model", "clone", or "version" of a schema."""
        if not self._is_derived:
            is_plain = all(one.get("change") == "NoChange" for one in self._changes)
            return "clone" if is_plain else "version"
        what = str(self._chain[0].spec["what"])
        return {"sql": "view", "spark": "function"}.get(what, what)

    @property
    def definition(self) -> str:
        """What makes it: a query, a named function, or schema changes, a line each.

        It is empty for who may not read all its sources.
        """
        if "?" in self.sources:
            return ""
        view = View.from_json(self._chain[0].spec) if self._is_derived else None
        if view is not None and (view.text or view.function):
            return view.text or view.function
        told = [one for one in self._changes if one.get("change") != "NoChange"]
        parts = ("change", "table", "name", "new_name")
        return "\n".join(" ".join(str(one[p]) for p in parts if one.get(p)) for one in told)

    @property
    def _changes(self) -> list[Mapping[str, Any]]:
        """The schema changes between its branches, as they are written down."""
        if self._is_derived:
            return list(View.from_json(self._chain[0].spec).changes)
        return [row.spec.get("change") or {} for row in self._chain]

    @property
    def name(self) -> str:
        """What it is called: by its branches."""
        return f"{'+'.join(self.sources)}/{self.target}"

    @property
    def sources(self) -> list[str]:
        """The branches it comes from; of a schema change, that of the old schema."""
        return [self._names.get(number, "?") for number in self._chain[0].sources]

    @property
    def target(self) -> str:
        """The branch it leads to; of a schema change, that of the new schema."""
        return self._names.get(self._chain[-1].target, "?")

    @property
    def direction(self) -> str:
        """Where changes go: "forward", "reverse" or "both"."""
        return self._chain[0].direction

    @property
    def when(self) -> str:
        """When changes go."""
        return self._chain[0].frequency

    @property
    def state(self) -> str:
        """Whether it carries changes: "active", "held", "detached" or "error"."""
        return next((row.state for row in self._chain if not row.is_active), ACTIVE)

    @property
    def reason(self) -> str:
        """Why it is not active."""
        return next((row.reason for row in self._chain if row.reason), "")

    @property
    def lag(self) -> Lag | None:
        """How many snapshots of its sources the target has not seen, and for how long.

        It answers whatever became of the sources: None where there is nothing to count from, since
        what it reads was dropped; `reason` says so.
        """
        from livingdb.guard.sync_lag import sync_lag

        return sync_lag(self.database._graph, self._chain, trust=self.database.trust)

    @property
    def _oldest(self) -> SyncRow:
        """The part of it that has been there from the start."""
        return min(self._chain, key=lambda row: row.number)

    @property
    def _is_derived(self) -> bool:
        return self.kind == KIND

    @property
    def runs(self) -> list[dict[str, object]]:
        """What it has done, newest first: when, for how long, how, and what became of it."""
        return [
            {
                "time": to_datetime(row.time),
                "seconds": row.duration / 1e6,
                "outcome": row.outcome,
                **row.details,
            }
            for row in self._run_rows()
        ]

    def _run_rows(self) -> list[RunRow]:
        return self.database._graph.catalog.runs.of(self._oldest.id)

    @property
    def conditions(self) -> list[Any]:
        """What has to hold of a change before it is carried.

        One that nothing here knows says its text, and that is all that can be asked of it.
        """
        from livingdb.guard import judge as guard

        return list(guard.conditions_of(self._chain[-1]))

    @property
    def condition_texts(self) -> list[dict[str, str]]:
        """The `text` and the `action` of each condition, as they are written down.

        They can be read, too, where nothing here knows the condition.
        """
        written = self._chain[-1].guard.get("conditions") or ()
        return [
            {
                "text": str(one.get("text") or one.get("name", "")),
                "action": str(one.get("action", "detach")),
            }
            for one in written
        ]

    @property
    def alerts(self) -> list[Sink]:
        """Where its alerts go; `InvalidData` if a sink is of a kind that is not known here."""
        from livingdb.alerts.sinks import from_json

        return [from_json(one) for one in self._chain[-1].guard.get("alerts") or ()]

    @property
    def on_break(self) -> str | None:
        """What becomes of a view that cannot follow a schema change; None of other syncs."""
        if not self._is_derived or self._chain[0].spec["what"] == "clone":
            return None
        return View.from_json(self._chain[0].spec).on_break

    @property
    def trail(self) -> list[dict[str, Any]]:
        """The states it has been in, newest first: since when, by whom and why."""
        return [
            {
                "time": to_datetime(step.time),
                "state": step.state,
                "by": step.author,
                "reason": step.reason,
                **step.details,
            }
            for step in self.database._graph.catalog.trail.of(self._oldest.id)
        ]

    def quarantined(self, table: str | None = None) -> pa.Table:
        """The rows of a table of the target that are set aside, with the conditions they break."""
        graph = self.database._graph
        head = graph.snapshots.at(graph.branch(self.target).head)
        tables = graph.tables(head)
        shown = [name for name in tables if not is_hidden(name)]
        if table is None and len(shown) == 1:
            table = shown[0]
        if table not in tables:
            raise NotFound(f"say which table: {self.target!r} has {', '.join(sorted(shown))}")
        version = graph.find_version(head, quarantine_table(str(table)))
        if version is None:
            known = graph.versions.definition(graph.version(head, str(table))).schema.arrow
            empty: pa.Table = known.append(
                pa.field(condition_column(known.names), pa.string())
            ).empty_table()
            return empty
        return graph.versions.rows(version).to_arrow()

    def detach(self, reason: str = "", by: str | None = None) -> None:
        """Let both branches go their own ways; what is read-only can be written from now on."""
        from livingdb.commit.stopping import resume as going_on

        database, who = self.database, self._maintainer(by, "detach")
        with database._noting("detach sync", self.name), unchecked():
            going_on.detach(database._graph, self._chain, who, reason)
        self._reload()

    def resume(self, by: str | None = None) -> None:
        """Let a sync that is held or in error go on; `RuleViolation` if conditions stop it.

        What came up meanwhile reaches the target.
        """
        from livingdb.commit.stopping import resume as going_on

        database = self.database
        who = self._maintainer(by, "resume")
        self._take_over()
        try:
            with database._noting("resume sync", self.name), unchecked():
                going_on.resume(database._pipeline, self._chain, who, database.engine)
        finally:
            self._reload()

    def approve(self, by: str | None = None, note: str = "") -> bool:
        """Let what a held sync waits with pass, in somebody's name; whether it is active now."""
        from livingdb.commit.stopping import resume as going_on

        database = self.database
        who = self._maintainer(by, "approve")
        self._take_over()
        with database._noting("approve sync", self.name), unchecked():
            done: bool = going_on.approve(
                database._pipeline, self._chain, who, note, database.engine
            )
        self._reload()
        return done

    def reattach(self, on_conflict: Any = "fail", by: str | None = None) -> None:
        """Let a sync that stopped go on from now on, whatever its conditions say of the meantime.

        It is a three-way merge from where both branches were last in step: `MergeConflict` shows
        rows that cannot be merged, unless `on_conflict` says who wins, in the words of
        `Database.merge`: "ours" is what the source says, "theirs" what was written to the target
        (of a two-way sync; a one-way sync writes what its source says).  Where the sides changed
        their schemas meanwhile it goes on as if it had been active; what contradicts is a conflict
        of the kind "schema", which no policy decides.
        """
        from livingdb.commit.stopping import resume as going_on

        database = self.database
        who = self._maintainer(by, "reattach")
        self._take_over()
        with database._noting("reattach sync", self.name), unchecked():
            going_on.reattach(database._pipeline, self._chain, who, on_conflict, database.engine)
        self._reload()

    def alter(
        self,
        *,
        when: str | None = None,
        conditions: object = None,
        alerts: object = None,
        on_break: str | None = None,
        by: str | None = None,
    ) -> None:
        """Change when it runs, its conditions or where its alerts go; the rest stays.

        An empty list takes all conditions or alerts away.  What changed is in its trail.  One
        that becomes immediate is brought up to date with it.  `on_break` is what becomes of a view
        that cannot follow a schema change, as in `Branch.derive`.
        """
        from livingdb.commit.stopping.alter_sync import SyncChanges, alter
        from livingdb.database.evolve import check_on_break
        from livingdb.guard.judge import guard_of

        check_on_break(on_break)
        guard = guard_of(conditions, alerts)
        changes = SyncChanges(
            when,
            None if conditions is None else guard.get("conditions", []),
            None if alerts is None else guard.get("alerts", []),
            on_break,
        )
        database = self.database
        who = self._maintainer(by, "alter")
        with database._noting("alter sync", self.name), unchecked():
            alter(database._pipeline, self._chain, changes, who, database.engine)
        self._reload()

    def realign(self, name: str) -> Outcome:
        """Make the rows of one of its branches what the other says; what was done."""
        from livingdb.commit.deriving.refresh import Outcome
        from livingdb.commit.stopping.realign_sync import realign

        began = perf_counter()
        database = self.database
        who = self._maintainer(None, "realign")
        with database._noting("realign sync", self.name), unchecked():
            made, rows = realign(database._pipeline, self._chain, who, name == self.target)
        self._reload()
        return Outcome(name, made, "lens", "ASKED_FOR", rows, "embedded", perf_counter() - began)

    def _maintainer(self, by: str | None, what: str) -> str:
        """Who does something with it: a maintainer of all that it writes."""
        ends = [self.target] if self.direction == "forward" else self.sources
        if self.direction == "both":
            ends = [*self.sources, self.target]
        for end in ends:
            self.database._require(Role.MAINTAINER, end, f"{what} the sync {self.name!r}")
            if what in _LETTING_IN and self.direction != "forward":
                said = f"{what} the sync {self.name!r}, which writes what takes merges only"
                self.database._require_beyond_merges(end, said)
        return self.database._author_of(by)

    def _take_over(self) -> None:
        """Let it be that of who acts here, if its owner lost a right that it runs with."""
        from livingdb.commit.carrying.sync_owners import take_over

        graph = self.database._whole_graph
        take_over(graph, self._chain, speaker(graph))
        self._reload()

    def _reload(self) -> None:
        known = self.database._graph.sync_chains()
        mine = {row.id for row in self._chain}
        self._names = known.names
        self._chain = next(c for c in known.every if mine & {row.id for row in c})

    def explain(self) -> str:
        """What it does, in a sentence."""
        arrow = {"forward": "→", "reverse": "←", "both": "↔"}[self.direction]
        ends = f"{', '.join(self.sources)} {arrow} {self.target}"
        why = f" ({self.reason})" if self.reason else ""
        guard = "".join(
            f"\n  guarded by {one['text']}, else {one['action']}" for one in self.condition_texts
        )
        return f"{ends}: {self.kind}, {self.when}, {self.state}{why}{self._plan()}{guard}"

    def _plan(self) -> str:
        """How a view is maintained, line by line."""
        if not self._is_derived or self._chain[0].spec["what"] != "sql":
            return ""
        view = View.from_json(self._chain[0].spec)
        try:
            from livingdb.commit.deriving import derive as deriving

            plan = deriving.plan_of(self.database._graph, view)
        except LivingDBError as error:
            return f"\n  cannot be planned: {error}"
        lines = [
            f"  {construct}: {strategy}{f' ({reason})' if reason else ''}"
            for construct, strategy, reason in plan.notes
        ]
        if view.materialize != "full":
            lines.append(f"  stored: {view.materialize}")
        return "\n" + "\n".join(lines) if lines else ""

    def __repr__(self) -> str:
        return f"<Sync {self.explain().splitlines()[0]}>"

    def _repr_html_(self) -> str:
        return notebook_html(self)


def drop_branch(graph: Graph, branch: BranchRow, detach: bool, force: bool, noted: Action) -> None:
    """Forget a branch; one in an active sync only with `detach`, and the sync with it."""
    from livingdb.commit.drop_branch import drop_branches, plan_drop

    drop_branches(graph, [plan_drop(graph, branch, detach, force=force)], now(), noted)


def schema_sync_of(database: Database, name: str) -> Sync | None:
    """The active schema sync whose rows a branch has: first the one that leads to it."""
    syncs = [s for s in every_sync(database) if not s._is_derived and s.state == ACTIVE]
    ahead = [s for s in syncs if s.target == name and s.direction != "reverse"]
    back = [s for s in syncs if name in s.sources and s.direction != "forward"]
    return next(iter([*ahead, *back]), None)


def updatable_sync(graph: Graph, name: str) -> SyncRow | None:
    """The first part of the sync of the view of this name that can be written.

    Such a view is all that its branch holds.
    """
    branch = graph.branches.find(name)
    if branch is None or set(graph.tables(graph.snapshots.at(branch.head))) != {name}:
        return None
    for chain in graph.sync_chains().of_branch(branch.id):
        is_written = chain[0].kind != KIND and chain[0].direction == "both"
        if is_written and chain[-1].target == branch.id:
            return chain[0]
    return None
