"""Check: every chunk, every reference and every index, looked at once.

Bad data is reported, never raised: a report without problems means that every snapshot can be
read and is what its id says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, func, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows, sealed_tables
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.sql.sqlite import file_problems
from livingdb.catalog.versions import RunRow, VersionRow
from livingdb.chunks.address import Address, short
from livingdb.chunks.chunk import RECORD, Chunk
from livingdb.chunks.pack import Pack
from livingdb.chunks.types import parse_descriptor
from livingdb.errors import Corruption, LivingDBError, MaskKeyMissing, Unsupported, Untrusted
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import SnapshotRecord
from livingdb.graph.unique_constraints import check_unique_rows
from livingdb.guard.sync_failure import TRANSIENT_ERRORS
from livingdb.maintenance.projections import projection_problems
from livingdb.maintenance.reach import Trees, recipe_chunks, recipe_inputs
from livingdb.maintenance.repair_rows import Mended, all_rows_on
from livingdb.tables.index import Version
from livingdb.tables.recipe import Change, Definition, Rows, load_recipe

if TYPE_CHECKING:
    from livingdb.maintenance.check_syncs import NotChecked

__all__ = ["NOT_HERE", "Check", "Problem", "Report", "check", "read_columns"]

NOT_HERE = (*TRANSIENT_ERRORS, MaskKeyMissing, Unsupported, Untrusted)
"""Errors that say nothing about what is stored: another process may be able to compute it."""


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be."""

    where: str
    what: str

    @property
    def is_mendable(self) -> bool:
        """Whether all that it takes is to compute something anew."""
        return False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class Report:
    """What a check found."""

    problems: list[Problem] = field(default_factory=list)
    snapshots: int = 0
    versions: int = 0
    materializations: int = 0
    chunks: int = 0
    packs: int = 0
    syncs: int | None = None
    """How many syncs were computed anew; None if that was not asked for."""
    not_checked: list[NotChecked] = field(default_factory=list)
    """The syncs among those asked for that were not looked at, and why."""
    mended: list[Mended] = field(default_factory=list)
    """What was damaged, and is not any more: it was taken from a second copy."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    @property
    def is_damaged(self) -> bool:
        """Whether a problem is one of what is stored, and not of what a sync should have made."""
        return any(not problem.is_mendable for problem in self.problems)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        counts = (
            f"{self.snapshots} snapshots, {self.versions} versions, {self.chunks} chunks, "
            f"{self.packs} packs"
        )
        if self.syncs is not None:
            counts += f", {self.syncs} syncs computed anew"
        rest = "".join(f"\n  not checked: {one}" for one in self.not_checked)
        rest += "".join(f"\n  mended: {one}" for one in self.mended)
        if self.ok:
            return f"no problems in {counts}{rest}"
        shown = "\n".join(f"  {problem}" for problem in self.problems[:20])
        return f"{len(self.problems)} problems in {counts}:\n{shown}{rest}"


def check(
    graph: Graph,
    deep: bool = False,
    engine: str | None = None,
    trust: Sequence[str] = (),
    progress: Callable[[int, int, str], object] | None = None,
    repair_from: Graph | None = None,
) -> Report:
    """Look at everything; `deep`: also at every row that may break a rule of its table, and
    compute anew what indexes have and active syncs promise.

    `repair_from` is a second copy of the database: what it has of what is damaged is mended first.
    All of the catalog is looked at as it is at one moment, whoever writes meanwhile.
    """
    mended: list[Mended] = []
    if repair_from is not None:
        from livingdb.maintenance.repair import repair

        mended = repair(graph, repair_from)
    with graph.in_one_transaction() as moment:
        work = Check(moment)
        report = work.run()
    report.mended = mended
    if deep:
        from livingdb.maintenance.check_constraints import check_constraints
        from livingdb.maintenance.check_syncs import check_syncs

        with work.collect_problems("indexes"):
            work.check_indexes(graph)
        with work.collect_problems("constraints"):
            check_constraints(graph, work.collect_problems)
        with work.collect_problems("syncs"):
            found = check_syncs(graph, engine, trust, progress)
            report.problems += found.broken
            report.syncs, report.not_checked = found.checked, found.not_checked
    return report


def read_columns(chunk: Chunk) -> None:
    """Read all of a chunk; `Corruption` if it is not what its address says."""
    if chunk.kind == RECORD:
        chunk.payload()
        return
    for position, descriptor in enumerate(chunk.descriptors):
        chunk.canonical(position, parse_descriptor(descriptor))


class Check:
    """One look at everything; `damaged` are chunks that cannot be read, `damaged_packs` packs."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.store = graph.store
        self.report = Report()
        self.verified: set[Address] = set()
        self.damaged: set[Address] = set()
        self.damaged_packs: list[str] = []
        self.trees = Trees(self.store)
        self.versions: dict[Address, VersionRow] = {}
        self.hollow: set[Address] = set()
        self.forgotten: set[int] = set()
        self.touches: dict[int, dict[str, Address | None]] = {}

    def run(self) -> Report:
        """Look, and tell."""
        self.store.take_missed()
        parts = (
            self._check_file,
            self._check_rows,
            self.store.refresh,
            self._check_packs,
            self._check_journal,
            self._check_versions,
            self._check_materializations,
            self._check_runs,
            self._check_snapshots,
            self._check_names,
            self._check_redactions,
            self._check_uniques,
            self._check_projections,
            self._check_audit,
        )
        for part in parts:
            with self.collect_problems("catalog"):
                part()
        self.report.chunks = len(self.verified)
        self.damaged |= self.store.take_missed() - self.verified
        return self.report

    @contextmanager
    def collect_problems(self, where: str) -> Iterator[None]:
        """Whatever goes wrong inside is a problem at that place."""
        try:
            yield
        except LivingDBError as error:
            self._report(where, str(error))
        except (AssertionError, KeyError, TypeError, ValueError, IndexError) as error:
            self._report(where, f"{type(error).__name__}: {error}")

    def _report(self, where: str, what: str) -> None:
        self.report.problems.append(Problem(where, what))

    # --- rows of the catalog -----------------------------------------------------------------

    def _check_file(self) -> None:
        """Rows are found by indexes, which have no digests of ours."""
        with self.graph.catalog.queries.connection() as connection:
            for what in file_problems(connection):
                self._report("catalog.db", what)

    def _check_rows(self) -> None:
        """Every row is as it was written."""
        for rows in sealed_tables(schema.metadata.sorted_tables):
            with self.collect_problems("catalog"):
                for row in self._all_rows(rows):
                    if not rows.is_sound(row):
                        self._report(rows.place(row[:-1]), "it is not as it was written")

    def _rows(self, table: Table) -> list[Sequence[Any]]:
        """The rows of a table that are as they were written; `_check_rows` tells of the others."""
        rows = SealedRows(table)
        return [row[:-1] for row in self._all_rows(rows) if rows.is_sound(row)]

    def _all_rows(self, rows: SealedRows) -> list[Sequence[Any]]:
        with self.graph.catalog.queries.connection() as connection:
            return all_rows_on(connection, rows)

    # --- chunks ------------------------------------------------------------------------------

    def _check_packs(self) -> None:
        for name in self.graph.catalog.packs.names():
            self.report.packs += 1
            where = f"pack {name}"
            before = len(self.report.problems)
            with self.collect_problems(where):
                pack = Pack(self.graph.place.files.view(f"packs/{name}"), name)
                for what in pack.verify():
                    self._report(where, what)
                for address in pack.addresses():
                    self._check_chunk(address, where)
            if len(self.report.problems) > before:
                self.damaged_packs.append(name)

    def _check_journal(self) -> None:
        for chunk in self.store.journal.chunks():
            with self.collect_problems(f"journal, chunk {short(chunk.address)}"):
                self.damaged.add(chunk.address)
                read_columns(Chunk(chunk.address, chunk.data, self.store.get))
                self.verified.add(chunk.address)
                self.damaged.discard(chunk.address)

    def _check_chunk(self, address: Address, where: str) -> None:
        """Read every column of a chunk, once."""
        if address in self.verified:
            return
        with self.collect_problems(f"{where}, chunk {short(address)}"):
            self.damaged.add(address)
            read_columns(Chunk(address, self.store.get(address), self.store.get))
            self.verified.add(address)
            self.damaged.discard(address)

    # --- versions and trees ------------------------------------------------------------------

    def _check_versions(self) -> None:
        rows = [VersionRow(*values) for values in self._rows(schema.version)]
        self.versions = {row.address: row for row in rows}
        self.hollow = {Address(values[0]) for values in self._rows(schema.forgotten_version)}
        for row in rows:
            self.report.versions += 1
            where = f"version {short(row.address)}"
            with self.collect_problems(where):
                if row.address in self.hollow:
                    self._check_hollow(row, where)
                    continue
                self._check_chunk(row.address, where)
                self._check_version(row, where)
        for address in self.hollow - set(self.versions):
            self._report(f"version {short(address)}", "it is forgotten, and not in the index")

    def _check_hollow(self, row: VersionRow, where: str) -> None:
        """A version whose changes went: what others come from it by is there."""
        Definition.load(self.store, row.definition)
        if row.base is None:
            load_recipe(self.store, row.address)
            return
        base = self.versions.get(row.base)
        if base is None:
            self._report(where, f"its base {short(row.base)} is not in the index")
        elif (row.origin, row.depth) != (base.origin, base.depth + 1):
            self._report(where, "the index has it in the wrong place")

    def _check_version(self, row: VersionRow, where: str) -> None:
        recipe = load_recipe(self.store, row.address)
        Definition.load(self.store, row.definition)
        is_anchored = isinstance(recipe, Change) and recipe.base in self.hollow
        for address in () if is_anchored else recipe_chunks(recipe):
            self._check_chunk(address, where)
        if isinstance(recipe, Rows):
            if (row.base, row.origin, row.depth, row.changed) != (None, row.address, 0, 0):
                self._report(where, "the index calls it a change, but it is rows")
            if row.keyframe != row.address:
                self._report(where, "its keyframe in the index is another version")
            if row.definition != recipe.definition or row.rows not in (None, recipe.count):
                self._report(where, "the index does not say what the recipe says")
            self._check_tree(row.definition, recipe.root, where)
        elif isinstance(recipe, Change):
            self._check_change(row, recipe, where)
        for address in recipe_inputs(recipe):
            if address not in self.versions:
                self._report(where, f"it is made of {short(address)}, which is not in the index")

    def _check_change(self, row: VersionRow, recipe: Change, where: str) -> None:
        base = self.versions.get(recipe.base)
        if base is None:
            self._report(where, f"its base {short(recipe.base)} is not in the index")
            return
        expected = (base.origin, recipe.base, base.depth + 1, base.changed + recipe.rows)
        if (row.origin, row.base, row.depth, row.changed) != expected:
            self._report(where, "the index does not say what the recipe says")
        skip = self.versions.get(row.skip) if row.skip is not None else None
        if skip is None or skip != self._ancestor(base, row.depth & (row.depth - 1)):
            self._report(where, "its skip in the index leads to the wrong version")
        keyframe = self.versions.get(row.keyframe)
        if keyframe is None or keyframe != self._ancestor(base, keyframe.depth):
            self._report(where, "its keyframe in the index is no ancestor")
        if recipe.counts is not None and None not in (row.rows, base.rows):
            grown = recipe.counts.inserted - recipe.counts.deleted
            if row.rows != (base.rows or 0) + grown:
                self._report(where, "the index has a wrong count of its rows")

    def _ancestor(self, row: VersionRow, depth: int) -> VersionRow:
        """The ancestor of that depth, by bases and by skips that were looked at before."""
        while row.depth > depth:
            floor = row.depth & (row.depth - 1)
            step = row.skip if floor >= depth else row.base
            below = self.versions[step]  # type: ignore[index]
            if below.depth >= row.depth:
                raise Corruption("the index leads in circles")
            row = below
        return row

    def _check_materializations(self) -> None:
        for version, root, *place, layout in self._rows(schema.materialization):
            self.report.materializations += 1
            where = f"tree of version {short(version)}"
            row = self.versions.get(version)
            if row is None:
                self._report(where, "there is no such version")
            elif tuple(place) != (row.origin, row.depth):
                self._report(where, "the catalog has it in the wrong place")
            elif layout is None:
                self._check_tree(row.definition, root, where)
            else:
                self._check_layout(row.definition, layout, where)
                self._check_tree(layout, root, where)

    def _check_layout(self, definition: Address, layout: Address, where: str) -> None:
        """A tree that lies in another layout is one of the same table, with the same columns."""
        with self.collect_problems(where):
            self._check_chunk(layout, where)
            own, other = (Definition.load(self.store, each) for each in (definition, layout))
            if (own.schema, own.id) != (other.schema, other.id):
                self._report(where, "it lies in the layout of another table")

    def _check_runs(self) -> None:
        """Every run is what the changes that it covers come to."""
        for values in self._rows(schema.delta_run):
            run = RunRow(*values)
            where = f"run to version {short(run.version)}"
            with self.collect_problems(where):
                self._check_chunk(run.change, where)
                for address in recipe_chunks(load_recipe(self.store, run.change)):
                    self._check_chunk(address, where)
                self._check_run(run, where)

    def _check_run(self, run: RunRow, where: str) -> None:
        row = self.versions.get(run.version)
        if row is None or not 0 <= run.depth < row.depth:
            self._report(where, "there is no such version")
            return
        if self._ancestor(row, run.depth).address != run.since:
            self._report(where, "it begins at a version that is no ancestor")
            return
        versions, line = self.graph.versions, []
        while row.address != run.since:
            if row.base in self.hollow:
                return  # it is all that is left of the changes
            line.append(Version(*row))
            row = self.versions[row.base]  # type: ignore[index]
        merged = versions.merged_line(line[::-1])
        if versions.runs.merged_change(Version(*row), merged, lambda _: None).address != run.change:
            self._report(where, "it is not what the changes that it covers come to")

    def _check_tree(self, definition: Address, root: Address, where: str) -> None:
        with self.collect_problems(where):
            for address in self.trees.walk(definition, root):
                self._check_chunk(address, where)

    def _check_redactions(self) -> None:
        """What was erased is nowhere: under its name lies what took its place."""
        rows = self.graph.catalog.erasures.redactions()
        there = self.store.contains([row.old for row in rows])
        for row, is_there in zip(rows, there.tolist(), strict=True):
            where = f"redaction {short(row.old)}"
            with self.collect_problems(where):
                held = self.store.get(row.old) if is_there else None
                if held is not None and Chunk(row.old, held).redaction != row.new:
                    self._report(where, "it holds something else than what was left by an erasure")

    def _check_projections(self) -> None:
        for name, what in projection_problems(self.graph):
            self._report(f"projection {name}", what)

    # --- snapshots and names -----------------------------------------------------------------

    def _check_snapshots(self) -> None:
        self.forgotten = {values[0] for values in self._rows(schema.forgotten_snapshot)}
        for name, sequence, version in self._rows(schema.touch):
            self.touches.setdefault(sequence, {})[name] = version
        for row in self.graph.newest_snapshots():
            self.report.snapshots += 1
            where = f"snapshot {short(row.address)}"
            with self.collect_problems(where):
                self._check_chunk(row.address, where)
                self._check_snapshot(row, where)
        for sequence in self.touches:
            self._report("snapshots", f"the index has tables of snapshot {sequence}, which is not")

    def _check_snapshot(self, row: SnapshotRow, where: str) -> None:
        record = SnapshotRecord.load(self.store, row.address)
        parents = self.graph.snapshots.get_many(row.parents)
        if tuple(parents[number].address for number in row.parents) != record.parents:
            self._report(where, "the index names other parents than the snapshot")
        if any(number >= row.sequence for number in row.parents):
            self._report(where, "it comes before one of its parents")
        edge = record.edge
        if (row.time, row.kind, row.author, row.message) != (
            edge.time,
            edge.kind,
            edge.author,
            edge.message,
        ):
            self._report(where, "the index does not say what the snapshot says")
        is_forgotten = row.sequence in self.forgotten
        for name, version in record.tables.items():
            if version not in self.versions and not is_forgotten:
                self._report(where, f"the version of table {name!r} is not in the index")
            if version in self.hollow and not is_forgotten:
                self._report(where, f"the rows of table {name!r} were forgotten, and it was not")
        first = parents[row.first] if row.first is not None else None
        depth = 0 if first is None else first.depth + 1
        skip = None if first is None else self.graph.snapshots.ancestor(first, depth & (depth - 1))
        if (row.depth, row.skip) != (depth, None if skip is None else skip.sequence):
            self._report(where, "its depth or skip in the index is wrong")
        self._check_changed_tables(row, record, first, where)

    def _check_changed_tables(
        self, row: SnapshotRow, record: SnapshotRecord, first: SnapshotRow | None, where: str
    ) -> None:
        """The index says which tables the snapshot changed, and to which versions."""
        before = {} if first is None else SnapshotRecord.load(self.store, first.address).tables
        after = record.tables
        names = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        found = self.touches.pop(row.sequence, None)
        if found is None and row.sequence in self.forgotten:
            return  # as of a branch that was dropped
        found = found or {}
        if not names <= set(found) or any(after.get(n) != version for n, version in found.items()):
            self._report(where, "the index names other tables than those it changed")

    def _check_uniques(self) -> None:
        """No head has a unique value twice, and the indexes by which that is seen to are right."""
        versions, seen = self.graph.versions, set[Address]()
        for branch in self.graph.branches.all():
            head = self.graph.snapshots.at(branch.head)
            for name, address in self.graph.tables(head).items():
                where = f"branch {branch.name}, table {name}"
                with self.collect_problems(where), suppress(*NOT_HERE):
                    version = versions.require(address)
                    if address in seen or not versions.definition(version).schema.uniques:
                        continue
                    seen.add(address)
                    for constraint, group in versions.definition(version).schema.uniques:
                        check_unique_rows(name, versions.rows(version), constraint, group)
                    for group in versions.uniques.wrong_indexes(version):
                        self._report(where, f"the index of ({', '.join(group)}) is a wrong one")

    def _check_audit(self) -> None:
        """Every entry of the audit covers the one before it, and none is missing."""
        for problem in self.graph.catalog.audit.problems():
            self._report("audit", problem)

    def check_indexes(self, graph: Graph) -> None:
        """The indexes by which heads are read are those of their rows."""
        seen = set[Address]()
        for branch in graph.branches.all():
            for name, version in tables_of(graph, graph.snapshots.at(branch.head)).items():
                where = f"branch {branch.name}, table {name}"
                with self.collect_problems(where):
                    if version.address not in seen and graph.versions.indexes.groups(version):
                        for group in graph.versions.indexes.wrong_indexes(version):
                            self._report(where, f"the index on ({', '.join(group)}) is a wrong one")
                    seen.add(version.address)

    def _check_names(self) -> None:
        branches = self.graph.branches
        log = schema.branch_log.c
        ends = select(log.branch, func.max(log.position)).group_by(log.branch)
        logged = {row[0]: row[1] for row in self.graph.catalog.queries.all(ends)}
        for number in sorted(set(logged) - {branch.number for branch in branches.all()}):
            self._report("branches", f"there is the log of a branch (number {number}) that is not")
        for branch in branches.all():
            with self.collect_problems(f"branch {branch.name}"):
                moves = self.graph.movements.of(branch)
                self.graph.snapshots.get_many({move.snapshot for move in moves})
                last = moves[0] if moves else None
                end = None if last is None else (last.position, last.snapshot)
                if (
                    end != (branch.position, branch.head)
                    or logged[branch.number] != branch.position
                ):
                    self._report(f"branch {branch.name}", "its log does not lead to its head")
        for tag in self.graph.catalog.tags.all():
            with self.collect_problems(f"tag {tag.name}"):
                self.graph.snapshots.at(tag.snapshot)
