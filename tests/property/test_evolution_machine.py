"""Laws of the whole: whatever is done to branches of many schemas, those in step stay in step.

The machine holds one database and calls all that changes a schema or moves a head.  After each
call every sync is asked through its lens: all rows of one side, carried, change nothing on the
other.  What was refused moved nothing, and nobody can write where a one-way sync does.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.property.test_composed_lens_laws import EVERY, KEYS, POOLS, VALUES, Maker
from tests.property.trying import tries

import livingdb
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.sync_lens import lens_of
from livingdb.derivation.view import KIND
from livingdb.errors import Conflict, InvalidData, LivingDBError, Refused, Unsupported
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    Decompose,
    Normalize,
    RenameColumn,
    SchemaChange,
)
from livingdb.evolution.lenses.lens import RowImages
from livingdb.evolution.lenses.sides import VersionSide, delta_from_images
from livingdb.evolution.plan import plan_changes
from livingdb.graph.graph import tables_of
from livingdb.maintenance.check_syncs import check_syncs
from livingdb.tables.schema import Column, TableSchema

SEEDS = st.integers(0, 2**32)
MOST_BRANCHES = 7
REASONS = (InvalidData, Refused, Conflict, Unsupported)
"""What a call may be refused with; anything else is a failure."""


class EvolutionMachine(RuleBasedStateMachine):
    """A database whose branches have different schemas."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="livingdb-evolution-"))
        self.db = livingdb.create(self.folder / "shop.ldb", author="machine")
        self.count = 0
        self.been: dict[str, list[str]] = {}
        """Where branches have been, by name."""
        self.looked: dict[int, tuple[str, ...]] = {}
        """The heads of each sync when it was last looked at."""

    @initialize(seed=SEEDS)
    def start(self, seed: int) -> None:
        source = random.Random(seed)
        key = source.choice(KEYS)
        main = self.db.branch("main")
        for name in source.choice(("x", "xy")):
            main.create_table(name, {**key, **VALUES}, list(key))
        for _ in range(2):
            self._write(main, source)
        for number in range(source.randint(1, 2)):
            self.evolve(seed + number, "both")

    def teardown(self) -> None:
        try:
            self._reopen()
            self.looked.clear()
            self.in_step()
            assert self.db.check().problems == []
        finally:
            self.db.close()
            shutil.rmtree(self.folder)

    # --- helpers -----------------------------------------------------------------------------

    @property
    def graph(self) -> Any:
        return self.db._graph

    def chosen(self, source: random.Random) -> livingdb.Branch:
        return source.choice(self.db.branches())

    def named(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def heads(self) -> dict[str, str]:
        """Of all branches, hidden ones as well."""
        rows = self.graph.branches.all()
        return {row.name: self.graph.snapshots.at(row.head).address.hex() for row in rows}

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """What happens within is refused as a whole, or done."""
        before = self.heads(), len(self.db.syncs()), len(self.db.snapshots())
        try:
            yield
        except REASONS:
            assert (self.heads(), len(self.db.syncs()), len(self.db.snapshots())) == before

    def _write(self, branch: livingdb.Branch, source: random.Random) -> None:
        with branch.transaction() as tx:
            for name in source.sample(branch.tables(), min(2, len(branch.tables()))):
                rows, gone = drawn(branch, name, source)
                tx.delete(name, gone)
                tx.upsert(name, rows)

    def _reopen(self) -> None:
        path = self.db.name
        self.db.close()
        self.db = livingdb.open(path, author="machine")

    # --- what can be done --------------------------------------------------------------------

    @rule(seed=SEEDS)
    def write(self, seed: int) -> None:
        source = random.Random(seed)
        with self.attempt():
            self._write(self.chosen(source), source)

    @rule(seed=SEEDS)
    def write_more(self, seed: int) -> None:
        self.write(seed)

    @precondition(lambda self: len(self.db.branches()) < MOST_BRANCHES)
    @rule(seed=SEEDS, direction=st.sampled_from(("both", "both", "both", "forward", "reverse")))
    def evolve(self, seed: int, direction: str) -> None:
        """One change or several, beside the branch or on it."""
        source = random.Random(seed)
        branch = self.chosen(source)
        changes = changes_of_schema(self.db, branch, source, direction)
        place = "to" if direction == "forward" else source.choice(("to", "keep"))
        before = contents(branch)
        name = self.named()
        with self.attempt():
            branch.evolve(changes, sync=direction, **{place: name})
            old = branch if place == "to" else self.db.branch(name)
            assert contents(old) == before
            sync = self.db.sync(f"{branch.name}/{name}" if place == "to" else f"{name}/{branch}")
            assert (sync.direction, sync.state) == (direction, "active")

    @rule(seed=SEEDS, is_due=st.integers(0, 2))
    def evolve_alone(self, seed: int, is_due: int) -> None:
        """Without a sync, if the branch is in none."""
        if is_due != 0:
            return
        source = random.Random(seed)
        branch = self.chosen(source)
        with self.attempt():
            branch.evolve(changes_of_schema(self.db, branch, source, "none"))

    @precondition(lambda self: len(self.db.branches()) < MOST_BRANCHES)
    @rule(seed=SEEDS, has_moved=st.booleans())
    def merge_a_clone(self, seed: int, has_moved: bool) -> None:
        """What was written on a clone comes to the branch, and to all in step with it."""
        source = random.Random(seed)
        branch = self.chosen(source)
        clone = branch.clone(self.named())
        with self.attempt():
            self._write(clone, source)
        if has_moved:
            with self.attempt():
                self._write(branch, source)
        with self.attempt():
            self.db.merge(clone, into=branch, on_conflict=source.choice(("fail", "theirs")))
        self.db.drop_branch(clone.name)

    @rule(seed=SEEDS)
    def merge_any(self, seed: int) -> None:
        """Also such as have other schemas."""
        source = random.Random(seed)
        one, other = source.sample(self.db.branches() * 2, 2)
        if not have_same_keys(one, other):
            return
        with self.attempt():
            self.db.merge(one, into=other, on_conflict="ours", symmetric=False)

    @rule(seed=SEEDS)
    def revert(self, seed: int) -> None:
        source = random.Random(seed)
        branch = self.chosen(source)
        with self.attempt():
            branch.revert(source.choice(branch.log(4)))

    @precondition(lambda self: self.been)
    @rule(seed=SEEDS)
    def reset(self, seed: int) -> None:
        """To where the branch has been, with all that are in step with it."""
        source = random.Random(seed)
        branch = self.chosen(source)
        known = self.been.get(branch.name, [])
        wanted = source.choice(known[-4:-1] or [branch.head.id])
        with self.attempt():
            branch.reset(wanted)
            assert branch.head.id == wanted

    @precondition(lambda self: self.db.syncs())
    @rule(seed=SEEDS, is_due=st.integers(0, 2))
    def detach(self, seed: int, is_due: int) -> None:
        if is_due == 0:
            random.Random(seed).choice(self.db.syncs()).detach()

    @rule()
    def reopen(self) -> None:
        self._reopen()

    @rule(seed=SEEDS)
    def migrate(self, seed: int) -> None:
        branch = self.chosen(random.Random(seed))
        before = contents(branch)
        branch.migrate()
        assert contents(branch) == before

    @rule(seed=SEEDS)
    def write_back(self, seed: int) -> None:
        """What is there, written once more, changes nothing for anybody."""
        branch = self.chosen(random.Random(seed))
        before = {other.name: contents(other) for other in self.db.branches()}
        try:
            with branch.transaction() as tx:
                for name in branch.tables():
                    tx.upsert(name, writable(branch, name))
        except livingdb.ReadOnlyBranch:
            return
        assert {other.name: contents(other) for other in self.db.branches()} == before

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def in_step(self) -> None:
        """All rows of a side, carried by the lens of a sync, are on the other side already."""
        for sync in self.graph.catalog.syncs.all():
            if not sync.is_active:
                continue
            heads = tuple(self.heads_of(sync))
            if self.looked.get(sync.id) != heads:
                self._look(sync)
                self.looked[sync.id] = heads
        for branch in self.db.branches():
            known = self.been.setdefault(branch.name, [])
            if branch.head.id not in known[-1:]:
                known.append(branch.head.id)

    def heads_of(self, sync: SyncRow) -> Iterator[str]:
        for number in (sync.sources[0], sync.target):
            row = self.graph.branches.by_id(number)
            yield self.graph.snapshots.at(row.head).address.hex()

    def _look(self, sync: SyncRow) -> None:
        if sync.kind == KIND:  # a mask hides what it is made of, so its clone is derived
            assert check_syncs(self.graph).broken == []
            return
        graph, lens = self.graph, lens_of(self.graph, sync)
        rows = [graph.branches.by_id(number) for number in (sync.sources[0], sync.target)]
        old, new = (tables_of(graph, graph.snapshots.at(row.head)) for row in rows)
        sides = VersionSide(graph.versions, old), VersionSide(graph.versions, new)
        if sync.direction in ("forward", "both"):
            carried = lens.putr(everything(sides[0], lens.old), *sides)
            assert_nothing(sides[1], carried, f"{sync.name}, forward")
        if sync.direction in ("reverse", "both"):
            carried = lens.putl(everything(sides[1], lens.new), *sides[::-1])
            assert_nothing(sides[0], carried, f"{sync.name}, reverse")
        for name in set(old) & set(new) - set(lens.old) - set(lens.new):
            one, other = (repr(side.rows(name).to_arrow().to_pylist()) for side in sides)
            assert one.replace("-0.0", "0.0") == other.replace("-0.0", "0.0"), name

    @invariant()
    def one_way_targets_are_read_only(self) -> None:
        for sync in self.db.syncs():
            target = {"forward": sync.target, "reverse": sync.sources[0]}.get(sync.direction)
            if target is None or sync.state != "active":
                continue
            with pytest.raises(livingdb.ReadOnlyBranch):
                self.db.branch(target).create_table("never", {"id": "int"}, "id")


def everything(side: VersionSide, tables: Any) -> dict[str, RowImages]:
    """Every row of some tables, as it is."""
    found = {}
    for name, definition in tables.items():
        rows = pa.Table.from_batches(side.scan(name), definition.schema.arrow)
        found[name] = RowImages(rows, rows)
    return found


def assert_nothing(side: VersionSide, carried: Any, what: str) -> None:
    for name, delta in carried.items():
        changes = delta_from_images(side.rows(name), delta)
        shown = (
            f"{what}: {name}\n{side.rows(name).to_arrow().to_pylist()}\n{delta.after.to_pylist()}"
        )
        assert len(changes) == 0, shown


def have_same_keys(one: livingdb.Branch, other: livingdb.Branch) -> bool:
    """Whether tables of the same name have keys of the same types, so that they can be compared."""
    shared = set(one.tables()) & set(other.tables())
    schemas = [{name: b.table(name).rows.schema for name in shared} for b in (one, other)]
    types = [
        {name: [column.type for column in schema.key_columns] for name, schema in found.items()}
        for found in schemas
    ]
    return types[0] == types[1]


def contents(branch: livingdb.Branch) -> dict[str, str]:
    """All rows; by their text, since NaN is not itself, and without the sign of zeros."""
    tables = {name: branch.table(name).to_arrow().to_pylist() for name in branch.tables()}
    return {name: repr(rows).replace("-0.0", "0.0") for name, rows in tables.items()}


def changes_of_schema(
    db: livingdb.Database, branch: livingdb.Branch, source: random.Random, direction: str
) -> list[SchemaChange] | SchemaChange:
    """Changes that the tables allow, mostly such as are legal in the direction."""
    graph = db._graph
    versions = tables_of(graph, graph.snapshots.at(graph.branch(branch.name).head))
    tables = {name: graph.versions.definition(version) for name, version in versions.items()}
    changes: list[SchemaChange] = []
    wanted = source.choice((1, 1, 2, 3))
    while len(changes) < wanted:
        try:
            maker = Maker(source, tables, f"{len(changes)}{source.randrange(1000)}")
            change = source.choice(EVERY)(maker)
            plan = plan_changes(tables, [change])
        except LivingDBError:
            continue
        if plan.verdicts()[direction] is None or source.random() < 0.05:
            changes.append(change)
            tables = plan.tables
    return changes if wanted > 1 else changes[0]


def writable(branch: livingdb.Branch, name: str) -> pa.Table:
    """The rows of a table in the columns that a writer may name."""
    table = branch.table(name)
    fixed = {column.name for column in table.rows.schema.columns if column.is_fixed}
    data = table.to_arrow()
    return data.select([column for column in data.column_names if column not in fixed])


def drawn(
    branch: livingdb.Branch, name: str, source: random.Random
) -> tuple[pa.Table, list[tuple[Any, ...]]]:
    """Rows to put, some of them there already, and keys to delete."""
    schema = branch.table(name).rows.schema
    there = writable(branch, name)
    known = there.to_pylist()
    made: dict[str, dict[str, Any]] = {}
    gone: dict[tuple[Any, ...], None] = {}
    for _ in range(source.randint(1, 3)):
        old = source.choice(known) if known and source.random() < 0.6 else None
        if old is not None and source.random() < 0.25:
            gone[tuple(old[key] for key in schema.key)] = None
            continue
        row = {
            column.name: old[column.name]
            if old is not None and (column.name in schema.key or source.random() < 0.5)
            else value(branch, schema, column, source)
            for column in schema.columns
            if not column.is_fixed
        }
        made[repr([row[key] for key in schema.key])] = row
    return pa.Table.from_pylist(list(made.values()), there.schema), list(gone)


def value(
    branch: livingdb.Branch, schema: TableSchema, column: Column, source: random.Random
) -> Any:
    """A value for a column; of a foreign key, one that is there."""
    pool = list(POOLS[str(column.type)])
    target = dict(schema.foreign_keys).get(column.name)
    if target is not None:
        rows = branch.table(target)
        pool = rows.to_arrow().column(rows.rows.schema.key[0]).to_pylist() or pool
    return source.choice([*pool, None] if column.nullable else pool)


# --- what the machine has found -----------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "int", "a": "int", "b": "string"}, "id")
        main.insert("t", {"id": [1, 2], "a": [1, 2], "b": ["x", None]})
        yield database


TWO = [RenameColumn("t", "b", "c"), AddColumn("t", "z", "int", default=5)]


def check_reopened(db: livingdb.Database, expected: list[tuple[Any, ...]]) -> None:
    """What is between two changes of one snapshot is there for others, and stays."""
    db.compact()
    with livingdb.open(db.name) as again:
        rows = again.branch("main").table("t").to_arrow().to_pylist()
        assert [tuple(row.values()) for row in rows] == expected
        assert again.check().problems == []


def test_several_changes_are_there_when_opened_again(db: livingdb.Database) -> None:
    db.branch("main").evolve(TWO)
    check_reopened(db, [(1, 1, "x", 5), (2, 2, None, 5)])


def test_what_a_merge_brought_over_several_changes_is_there_when_opened_again(
    db: livingdb.Database,
) -> None:
    dev = db.branch("main").clone("dev")
    for change in TWO:
        db.branch("main").evolve(change)
    dev.insert("t", {"id": [3], "a": [3], "b": ["ø"]})
    db.merge("dev", into="main")
    check_reopened(db, [(1, 1, "x", 5), (2, 2, None, 5), (3, 3, "ø", 5)])


def test_trees_that_compacting_drops_are_not_named_by_later_commits(db: livingdb.Database) -> None:
    """Reading made a tree that no commit has named; then it went, and a commit names it."""
    main = db.branch("main")
    main.evolve(Decompose("t", {"p": ["a"], "q": ["b"]}))
    assert main.table("p").get(1) == {"id": 1, "a": 1}
    main.update("p", {"id": [1], "a": [7]})
    db.compact()
    main.revert(main.head)
    with livingdb.open(db.name) as again:
        assert again.check().problems == []
        assert again.branch("main").table("p").get(1) == {"id": 1, "a": 1}


def test_trees_of_changes_that_were_refused_are_not_written(db: livingdb.Database) -> None:
    """The second change reads what the first one made, and is refused for what it finds."""
    main = db.branch("main")
    changes = [Decompose("t", {"p": ["a"], "q": ["b"]}), AddConstraint("p", "small", check="a < 2")]
    with pytest.raises(livingdb.InvalidData):
        main.evolve(changes)
    main.insert("t", {"id": [3], "a": [3], "b": ["y"]})
    with livingdb.open(db.name) as again:
        assert again.check().problems == []


def test_a_symmetric_merge_carries_what_comes_to_its_source(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(TWO, to="new", sync="both")
    dev = main.clone("dev")
    dev.insert("t", {"id": [3], "a": [3], "b": ["ø"]})
    db.merge("main", into="dev", symmetric=True)
    assert len(main.table("t")) == len(db.branch("new").table("t")) == 3


def test_tables_with_other_keys_can_be_merged(db: livingdb.Database) -> None:
    """Where there is a foreign key, what a merge brings is compared with what was there."""
    main = db.branch("main")
    main.create_table("u", {"id": "int", "t": "int"}, "id", foreign_keys={"t": "t"})
    main.create_table("w", {"id": "int", "name": "string not null"}, "id")
    main.insert("w", {"id": [1], "name": ["ø"]})
    main.evolve(ChangeKey("w", ["name"]), to="new")
    main.insert("u", {"id": [1], "t": [1]})
    db.merge("new", into="main")
    assert main.table("w").get("ø") == {"id": 1, "name": "ø"}


def test_references_become_null_with_the_row_they_name(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(Normalize("t", ["b"], "c", on_delete="set null"), keep="old", sync="both")
    main.delete("c", main.table("c").to_arrow().column("id").to_pylist())
    assert [row["b"] for row in db.branch("old").table("t").to_arrow().to_pylist()] == [None, None]


def test_a_shared_row_is_changed_from_the_other_end_of_a_chain(db: livingdb.Database) -> None:
    """What follows from a change on its own side comes back along the chain."""
    main = db.branch("main")
    main.upsert("t", {"id": [2], "a": [2], "b": ["x"]})
    shared = Normalize("t", ["c"], "l", on_update="fanout")
    main.evolve([TWO[0], shared], keep="old", sync="both")
    old = db.branch("old")
    old.update("t", {"id": [1], "b": ["y"]})
    assert [row["b"] for row in old.table("t").to_arrow().to_pylist()] == ["y", "y"]


def test_a_merge_that_changes_a_schema_in_step(db: livingdb.Database) -> None:
    """Also where the lens settles what rows follow from others."""
    main = db.branch("main")
    main.clone("dev")
    main.evolve(Normalize("t", ["b"], "c", on_update="fanout"), to="new", sync="both")
    dev = db.branch("dev")
    dev.evolve(AddColumn("t", "more", "int", default=3))
    dev.update("t", {"id": [1], "a": [9]})
    db.merge("dev", into="main", on_conflict="ours")
    assert main.table("t").get(1)["a"] == db.branch("new").table("t").get(1)["a"] == 9
    assert main.table("t").get(1)["more"] == 3
    assert "more" not in db.branch("new").table("t").schema.names
    assert db.check(deep=True).ok


# --- running --------------------------------------------------------------------------------------


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        EvolutionMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking takes too long
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_branches_in_step_stay_in_step() -> None:
    run(tries(16), 14)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_branches_in_step_stay_in_step_for_long() -> None:
    run(tries(80), 30)
