"""A database: where branches, tags and snapshots are found, compared and merged."""

from __future__ import annotations

import time as clock
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from livingdb.access.acting import acting, unchecked
from livingdb.access.roles import Role
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.sql.read_queries import closed_error
from livingdb.database.access import Access
from livingdb.database.alerting import Alerting
from livingdb.database.branch import Branch
from livingdb.database.comparing import Comparing
from livingdb.database.evaluators import Evaluators
from livingdb.database.labels import add_label, drop_label, labels
from livingdb.database.pictures import graph_picture, notebook_html
from livingdb.database.run import Run
from livingdb.database.snapshot import Snapshot, check_limit
from livingdb.database.spark_work import SparkWork
from livingdb.database.sync import Sync, drop_branch, every_sync, find_sync
from livingdb.database.tracing import Tracing
from livingdb.database.tuning import Tuning
from livingdb.derivation.trusted_functions import check_patterns
from livingdb.errors import Forbidden, InvalidData, NotFound, RuleViolation
from livingdb.graph.collaborators import Collaborators
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import check_free, check_tag, is_hidden
from livingdb.graph.refs import ResolvedRef
from livingdb.graph.retention import Retention

if TYPE_CHECKING:
    from livingdb.alerts.dispatcher import Dispatcher
    from livingdb.commit.evolving.retire import RetiredVersion
    from livingdb.commit.pipeline import Pipeline
    from livingdb.commit.writing.group_commit import GroupCommits
    from livingdb.database.status import Status
    from livingdb.maintenance.backup.back_up import Backup
    from livingdb.maintenance.backup.keep_points import Keep
    from livingdb.maintenance.erasure.report import ErasureReport
    from livingdb.maintenance.upkeep.job import Work
    from livingdb.maintenance.upkeep.runner import UpkeepReport
    from livingdb.render.picture import SnapshotGraph
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.sql.result import Result
    from livingdb.sql.scope import Scope

__all__ = ["Database"]


class Database(Access, Alerting, Comparing, Tracing, Tuning):
    """An open database; also a context manager that closes it.

    Threads may share it, and the branches, snapshots and tables that it gives: each call is as if
    it came from a process of its own.
    """

    def __init__(
        self,
        open_graph: Callable[[Collaborators], Graph],
        author: str,
        trust: Sequence[str] = (),
        engine: str | None = None,
    ):
        self._own_author = author
        self.trust = check_patterns(trust)
        self.engine = engine
        evaluators = Evaluators(self.trust)
        graph = open_graph(Collaborators(SparkWork(engine), evaluators, self._send_alerts))
        self._open_graph: Graph | None = graph
        self._open_dispatcher: Dispatcher | None = None
        self._open_pipeline: Pipeline | None = None
        self._open_commits: GroupCommits | None = None
        self._lock = RLock()
        self._sights = OrderedDict()
        self._users_at = "", {}

    def _send_alerts(self) -> None:
        with self._lock:
            if self._open_graph is not None:
                self._dispatcher.wake()

    @property
    def _dispatcher(self) -> Dispatcher:
        with self._lock:
            if self._open_dispatcher is None:
                from livingdb.alerts.dispatcher import Dispatcher

                self._open_dispatcher = Dispatcher(self._whole_graph, self.trust)
            return self._open_dispatcher

    @property
    def _whole_graph(self) -> Graph:
        if self._open_graph is None:
            raise closed_error()
        return self._open_graph

    def _with_graph(self, graph: Graph) -> Database:
        """The same database, for readers, over the graph as it was at one moment."""
        found = copy(self)
        found._open_graph = graph
        return found

    @property
    def _pipeline(self) -> Pipeline:
        graph = self._whole_graph
        with self._lock:
            if self._open_pipeline is None:
                from livingdb.commit.pipeline import Pipeline

                self._open_pipeline = Pipeline(graph, self.trust)
            return self._open_pipeline.for_who_acts()

    @property
    def _group_commits(self) -> GroupCommits:
        """Where threads leave small writes that are stored together."""
        with unchecked():
            pipeline = self._pipeline
        with self._lock:
            if self._open_commits is None:
                from livingdb.commit.writing.group_commit import GroupCommits

                self._open_commits = GroupCommits(pipeline)
            return self._open_commits

    @property
    def name(self) -> str:
        """Where it is, without secrets."""
        return self._graph.place.name

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written to it from here; None if it can."""
        refusal = self._graph.place.refusal
        return None if refusal is None else refusal.reason

    @property
    def id(self) -> str:
        """What tells it from all others: 32 hex digits that stay, and that copies of it share."""
        return self._graph.catalog.database_id

    def close(self) -> None:
        """Let go of it; nothing is lost.

        What other threads have begun ends, or is refused as whatever they ask from then on.
        """
        with self._lock:
            graph, self._open_graph = self._open_graph, None
            dispatcher = self._open_dispatcher
        if dispatcher is not None:
            dispatcher.close()
        if graph is not None:
            graph.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self._shown_name}>"

    @property
    def _shown_name(self) -> str:
        return "(closed)" if self._open_graph is None else self.name

    def _repr_html_(self) -> str:
        return notebook_html(self)

    # --- names -------------------------------------------------------------------------------

    def branch(self, name: str) -> Branch:
        """A branch by its name; `NotFound` if there is none."""
        return Branch(self, self._graph.branch(str(name)).name)

    def branches(self, limit: int | None = None, after: str = "") -> list[Branch]:
        """Every branch, by name; with a `limit`, so many of those that come `after` a name."""
        most = check_limit(limit)
        names = (row.name for row in self._graph.branches.pages(str(after), most))
        shown = (Branch(self, name) for name in names if not is_hidden(name))
        return list(islice(shown, most))

    def tags(self) -> dict[str, Snapshot]:
        """Every tag and its snapshot."""
        rows = self._graph.catalog.tags.all()
        found = self._graph.snapshots.get_many({row.snapshot for row in rows})
        return {row.name: Snapshot(self, found[row.snapshot]) for row in rows}

    def snapshots(self) -> list[Snapshot]:
        """Every snapshot, newest first."""
        return [Snapshot(self, row) for row in self._graph.newest_snapshots()]

    def at(self, ref: object, schema: object = None) -> Snapshot:
        """The snapshot a ref names; with `schema`, its rows in the schema of another ref."""
        resolved = self._resolve(ref)
        row = resolved.snapshot
        if schema is None:
            return Snapshot(self, row, branch=resolved.named)
        from livingdb.evolution import lift as evolution

        lifted = evolution.tables_in_schema_of(self._graph, row, self._resolve(schema).snapshot)
        return Snapshot(self, row, lifted, resolved.named)

    def _resolve(self, ref: object) -> ResolvedRef:
        if isinstance(ref, Snapshot):
            return ResolvedRef(self._seen_row(ref._row), named=ref._branch)
        return self._graph.resolve(ref.name if isinstance(ref, Branch) else ref)  # type: ignore[arg-type]

    def tag(self, name: str, ref: object) -> Snapshot:
        """Give a snapshot a name that stays."""
        check_tag(name)
        row = self._resolve(ref).snapshot
        self._require_name(Role.WRITER, name, f"make the tag {name!r}")
        with self._graph.catalog.write() as connection:
            check_free(name, self._graph.catalog.alike_names.find(connection, name))
            self._graph.catalog.tags.add(connection, name, row.sequence, now())
            self._note_in(connection, "make tag", name)
        return Snapshot(self, row)

    def drop_tag(self, name: str) -> None:
        """Forget a tag."""
        if self._graph.catalog.tags.find(name) is None:
            raise NotFound(f"there is no tag {name!r}")
        self._require_name(Role.MAINTAINER, name, f"drop the tag {name!r}")
        with self._graph.catalog.write() as connection:
            if not self._graph.catalog.tags.drop(connection, name):
                raise NotFound(f"there is no tag {name!r}")
            self._note_in(connection, "drop tag", name)

    def drop_branch(self, name: str, detach: bool = False, force: bool = False) -> None:
        """Forget a branch; its snapshots stay reachable by id.

        One in an active sync needs `detach`, and the default branch needs `force`.
        """
        row = self._graph.branch(str(name))
        self._require_may_drop(row.name)
        graph = self._pipeline.graph
        if graph.branches.count() == 1:
            raise InvalidData(f"{name!r} is the only branch; a database has at least one")
        noted = self._note("drop branch", row.name)
        drop_branch(graph, graph.branch(row.name), detach, force, noted)

    def retire(self, version: str, policy: str = "reject") -> RetiredVersion:
        """End a schema version: its neighbours in the chain stay in step with each other.

        Its snapshots stay reachable by id.  Values that only it holds are refused, with their
        columns; policy="truncate" lets them go.
        """
        from livingdb.commit.evolving.retire import retire

        self._require_in_step(Role.MAINTAINER, str(version), f"retire {str(version)!r}")
        self._require_ruler(str(version), f"retire {str(version)!r}")
        row = self._graph.branch(str(version))
        every, seen = self._whole_graph.sync_chains(), self._graph.sync_chains()
        if len(every.of_branch(row.id)) > len(seen.of_branch(row.id)):
            raise Forbidden(
                f"{self.author} may not retire {row.name!r}: that takes who may read all that "
                "follows it or that it follows"
            )
        with self._noting("retire", row.name), unchecked():
            return retire(self._pipeline, str(version), policy)

    def rename_branch(self, name: str, to: str) -> Branch:
        """Give a branch another name; what follows it, reads it or was made from it goes on.

        `AlreadyExists` or `InvalidName` if a branch or tag has the name, be it but for the case.
        A `Branch` of the old name is `NotFound` from then on, and the error says the new name; an
        open transaction goes on.
        """
        from livingdb.database.rename_branch import rename_branch

        self._require(Role.MAINTAINER, str(name), f"rename {str(name)!r}")
        self._require_name(Role.MAINTAINER, str(to), f"rename {str(name)!r} to {str(to)!r}")
        self._require_ruler(str(name), f"rename {str(name)!r}")
        noted = self._note("rename branch", f"{name} to {to}")
        rename_branch(self._whole_graph, str(name), str(to), noted)
        return Branch(self, str(to))

    @property
    def default_branch(self) -> Branch:
        """The branch that is meant where none is named: "main", unless another one was chosen."""
        row = self._graph.default_branch()
        if row is None:
            if acting(self._whole_graph) is not None:
                raise NotFound("you see no default branch: name the branch that is meant")
            raise NotFound(
                "the default branch was dropped: db.set_default_branch(name) chooses another one"
            )
        return Branch(self, row.name)

    def set_default_branch(self, name: str) -> None:
        """Choose the branch that is meant where none is named; it keeps being so if renamed."""
        row = self._graph.branch(str(name))
        if is_hidden(row.name):
            raise NotFound(f"there is no branch {name!r}")
        self._require_everywhere(Role.MAINTAINER, "choose the default branch")
        with self._graph.catalog.write() as connection:
            self._graph.catalog.set_default_branch(connection, row.id)
            self._note_in(connection, "set default branch", row.name)

    def _clone(self, row: SnapshotRow, name: str, origin: str, author: str, message: str) -> Branch:
        from livingdb.commit import branch_operations as operations

        operations.clone(self._pipeline, name, row, origin, author, message)
        return Branch(self, name)

    def _execute(
        self,
        scope: Scope,
        text: str,
        parameters: Parameters,
        engine: str | None = None,
        most: int | None = None,
    ) -> Result:
        from livingdb.sql.statement import execute, statement_kind

        began = clock.perf_counter()
        usual = self.engine if engine is None else engine
        found = execute(scope, text, parameters, usual, check_limit(most, "most"))
        self._graph.observer.note_statement(statement_kind(text), clock.perf_counter() - began)
        return found

    def _plan(
        self, scope: Scope, text: str, parameters: Parameters, engine: str | None = None
    ) -> QueryPlan | None:
        from livingdb.sql.statement import plan_query

        return plan_query(scope, text, parameters, self.engine if engine is None else engine)

    # --- syncs -------------------------------------------------------------------------------

    def syncs(self) -> list[Sync]:
        """Every sync, by name."""
        return every_sync(self)

    def sync(self, name: str) -> Sync:
        """A sync by its name, or by that of a branch that is in no other."""
        return find_sync(self, str(name))

    # --- derived objects ---------------------------------------------------------------------

    def refresh(self, name: str, full: bool = False) -> Run:
        """Bring a derived object up to date; what was done.

        `full`: all of it is made anew, whatever changed.  So is then a branch that a schema
        change made, or keeps: its rows become what the other side of its sync says.
        """
        from livingdb.commit.deriving.refresh import refresh
        from livingdb.database import derive as objects
        from livingdb.database.sync import schema_sync_of

        schema_sync = schema_sync_of(self, str(name)) if full else None
        if schema_sync is not None:
            return Run(self, schema_sync.realign(str(name)))
        sync = objects.derived_sync(self._graph, str(name))
        if not sync.is_active:
            how = "reattach()" if sync.state == "detached" else "resume() or .approve(by=…)"
            raise RuleViolation(
                f"the sync {sync.name!r} is {sync.state}: {sync.reason}; "
                f"db.sync({str(name)!r}).{how} lets it go on"
            )
        target = self._graph.branches_by_ids([sync.target])[sync.target].name
        self._require(Role.WRITER, target, f"refresh {target!r}")
        with self._noting("refresh", target), unchecked():
            done = refresh(self._pipeline, sync, self.author, self.engine, full)
        return Run(self, done)

    def propagate(self, progress: Any = None) -> list[Run]:
        """Bring everything up to date that is due; what was done."""
        from livingdb.commit.deriving import runner

        self._require_everywhere(Role.MAINTAINER, "run all that is due")
        with self._noting("propagate"), unchecked():
            done = runner.propagate(self._pipeline, self.author, self.engine, progress=progress)
            self._end_round()
        return [Run(self, outcome) for outcome in done]

    def derived_at(self, name: str, source: object) -> Snapshot:
        """The version of a derived object made from a snapshot; made now if there is none."""
        from livingdb.database import derive as objects

        row = self._resolve(source).snapshot
        objects.derived_sync(self._graph, str(name))
        with unchecked():
            made = objects.derived_at(self._pipeline, str(name), row, self.engine)
        return Snapshot(self, self._show(made))

    # --- labels ------------------------------------------------------------------------------

    def label(self, column: str, label: str) -> None:
        """Say what a column is, on every branch: db.label("users.email", "pii")."""
        self._require_everywhere(Role.MAINTAINER, "label columns")
        add_label(self._graph, column, label, self._note("label", f"{column} {label}"))

    def unlabel(self, column: str, label: str | None = None) -> None:
        """Take a label from a column, or all it has."""
        self._require_everywhere(Role.MAINTAINER, "label columns")
        noted = self._note("unlabel", column if label is None else f"{column} {label}")
        drop_label(self._graph, column, label, noted)

    def labels(self) -> dict[str, list[str]]:
        """The columns that have labels, as 'table.column', and which."""
        found = labels(self._graph)
        return {name: found[name] for name in found if self._sees_column(name)}

    def _sees_column(self, name: str) -> bool:
        """Whether who asks sees a table that has a column, 'table.column', on some branch."""
        graph, table = self._graph, name.rpartition(".")[0]
        if graph is self._whole_graph:
            return True
        heads = graph.snapshots.get_many({row.head for row in graph.branches.all()})
        return any(table in graph.tables(head) for head in heads.values())

    # --- pictures ----------------------------------------------------------------------------

    def graph(
        self,
        branches: Iterable[object] | None = None,
        limit: int | None = None,
        since: datetime | str | None = None,
    ) -> SnapshotGraph:
        """The snapshot graph as a picture: text, Mermaid, SVG or a page, by its `to_…` methods.

        Of some branches only, of the newest `limit` snapshots, or of those made since a time.
        """
        return graph_picture(self, branches, limit, since)

    # --- retention ---------------------------------------------------------------------------

    @property
    def retention(self) -> Retention:
        """What is kept, and for how long, when garbage is collected: everything, unless it was set.

        It is kept in the database, and counts for whoever collects.
        """
        self._require_everywhere(Role.READER, "read what is kept of all branches")
        return Retention.from_text(self._graph.catalog.retention())

    @retention.setter
    def retention(self, policy: Retention | None) -> None:
        self._require_everywhere(Role.MAINTAINER, "say what is kept")
        text = None if policy is None else _checked(policy).to_text()
        self._graph.check_writable()
        with self._graph.catalog.write() as connection:
            self._graph.catalog.set_retention(connection, text)
            self._note_in(connection, "set retention")

    def collect_garbage(
        self, keep: Retention | None = None, dry_run: bool = False, progress: Any = None
    ) -> Any:
        """Forget what is not kept, by `keep` or else `db.retention`, and give its space back.

        A report of the snapshots and bytes that go; `.why(snapshot)` is the chain of reasons that
        keeps another one.  `dry_run`: nothing goes.  The record of a snapshot that went stays (its
        id, parents and edge); its rows are `Forgotten`.
        """
        from livingdb.maintenance.retention.collect import collect_garbage

        self._require_everywhere(Role.MAINTAINER, "collect garbage")
        policy = self.retention if keep is None else _checked(keep)
        with self._noting("preview collection" if dry_run else "collect"):
            return collect_garbage(self._graph, policy, dry_run, progress=progress)

    # --- upkeep ------------------------------------------------------------------------------

    def check(
        self,
        deep: bool = False,
        progress: Any = None,
        repair_from: str | Path | Database | None = None,
    ) -> Any:
        """Look at every chunk, reference and index; a report with `.problems`.

        `deep`: also look at every row that may break a rule of its table, and compute anew what
        every active sync promises, and compare it with what its target has; `.not_checked` names
        those for which that cannot be done.  `repair_from` is a
        second copy of the database: what it has of what is damaged here is mended, as `.mended`
        says; `.problems` are what is left.
        """
        from livingdb.maintenance.check import check

        self._require_everywhere(Role.MAINTAINER, "check the database")
        if isinstance(repair_from, (str, Path)):
            from livingdb.database.open_database import open_database

            with open_database(repair_from, engine=self.engine) as copy:
                return self.check(deep, progress, copy)
        if not (repair_from is None or isinstance(repair_from, Database)):
            raise InvalidData(
                f"repair_from is a database or where one is, not {type(repair_from).__name__}"
            )
        copied = None if repair_from is None else repair_from._graph
        with self._noting("check" if copied is None else "repair"):
            return check(self._graph, deep, self.engine, self.trust, progress, copied)

    def upkeep(
        self,
        seconds: float = 60.0,
        propagate: bool = True,
        bytes_per_second: float | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> UpkeepReport:
        """Do what keeps the database fast and sound, until it is done or the time is over.

        Jobs are taken by what they bring for a second: due propagation, folds, draining,
        migration, projections, compaction, health.  But for propagation, which can be left out,
        none changes what anybody reads.  Several processes may do so at a time.
        `bytes_per_second` limits what is read from disks and written to them; `progress` is told
        the name of a job, and how far it is.
        """
        from livingdb.database.status import check_limits
        from livingdb.maintenance.upkeep.jobs import JOBS, PROPAGATE
        from livingdb.maintenance.upkeep.runner import run_jobs

        self._require_everywhere(Role.MAINTAINER, "look after the database")
        self._graph.check_writable()
        check_limits(seconds, bytes_per_second)
        jobs = [job for job in JOBS if propagate or job is not PROPAGATE]
        work = self._upkeep_work()
        with self._noting("upkeep"), unchecked():
            return run_jobs(work, jobs, seconds, bytes_per_second, progress)

    def _upkeep_work(self) -> Work:
        from livingdb.maintenance.upkeep.job import Work

        with unchecked():
            return Work(self._pipeline, self._dispatcher, self.author, self.engine)

    def status(self) -> Status:
        """What is behind, due and failed, and what would be done next; whatever is broken."""
        from livingdb.database.status import find_status

        self._require_everywhere(Role.READER, "look at the state of the database")
        return find_status(self)

    def erase(
        self,
        table: str,
        keys: object,
        reason: str,
        aggregates: str = "keep",
        texts: Sequence[str] = (),
        branch: object = None,
        dry_run: bool = False,
    ) -> ErasureReport:
        """Take rows out of a table for good: they leave every version, branch, view and file.

        They are deleted at every head first, as anybody deletes rows; then from all of history.
        Snapshots keep their ids.  What follows from the rows alone goes with them; what they are
        only part of stays (`aggregates="keep"`) and is named in the report, with models, backups
        and exports that saw them.  `texts` are words that leave messages, statements and alerts.
        `dry_run`: only the report is made.
        """
        from livingdb.database.erase import erase

        self._require_everywhere(Role.OWNER, "erase rows")
        of = self.default_branch.name if branch is None else str(branch)
        with self._noting("preview erasure" if dry_run else "erase", f"{of}.{table}"), unchecked():
            return erase(self, table, keys, reason, aggregates, texts, of, dry_run)

    def storage(self) -> Any:
        """How many bytes and chunks there are, and how much is shared."""
        from livingdb.maintenance.storage import measure_storage

        self._require_everywhere(Role.READER, "measure the database")
        return measure_storage(self._graph)

    def compact(self, progress: Any = None) -> Any:
        """Drain the journal, thin old trees, and write packs anew, tighter."""
        from livingdb.maintenance.compact import compact

        self._require_everywhere(Role.MAINTAINER, "compact the database")
        with self._noting("compact"):
            return compact(self._graph, progress)

    def backup(
        self,
        url: str | Path,
        *,
        keep: Keep | None = None,
        verify: bool = False,
        progress: Any = None,
    ) -> Backup:
        """Back it up to a folder or a URL, as it is at one moment, while others go on writing.

        Only what is not there yet is copied, and a call that was killed is gone on with by the next
        one.  `keep` is how many backups stay there, a `timedelta` of how old they get, or a
        `livingdb.Retention`; by default all do.  With `verify` every file is read again, and what
        is damaged is copied anew.  `progress` is called with the bytes that are copied and those
        there are to copy.  `livingdb.restore` is the way back.
        """
        from livingdb.files.url import open_files, url_text
        from livingdb.maintenance.backup.back_up import back_up

        self._require_everywhere(Role.OWNER, "back the database up")
        with self._noting_files("back up"):
            return back_up(
                self._graph, open_files(url_text("a backup", url)), keep, verify, progress
            )


def _checked(policy: Retention) -> Retention:
    if not isinstance(policy, Retention):
        raise InvalidData(f"what is kept is a livingdb.Retention, not {type(policy).__name__}")
    return policy
