"""Laws of layouts: whatever layouts tables get and whenever, readers see what they saw before.

Random histories on two handles of one database, each with caches of its own: writes, branches,
merges, schema changes and a view; between them tables get other layouts, and trees are folded,
laid out and dropped.  Every snapshot reads as it did when it was made, and the root of every head
is that of a tree which is built of its rows in its layout.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb import Branch, Layout, LivingDBError
from livingdb.chunks.memory import MemoryStore
from livingdb.evolution import AddColumn, ChangeKey, DropColumn, RenameColumn, SchemaChange
from livingdb.maintenance.layouts import lay_out, lay_out_due
from livingdb.trees.forest import Forest

COLUMNS = {"id": "int", "k": "int", "a": "string", "b": "int", "c": "double"}
VALUES = ("a", "b", "c", "d", "e")
STEPS = 14


class History:
    """A database, two handles on it, and what all snapshots showed when they were made."""

    def __init__(self, path: Path, chance: Random):
        self.chance = chance
        livingdb.create(path, engine="embedded").close()
        self.handles = [livingdb.open(path, author=name, engine="embedded") for name in "xy"]
        self.seen: dict[str, dict[str, pa.Table]] = {}
        self.names = (f"branch{number}" for number in count())
        main = self.handles[0].branch("main")
        main.create_table("t", COLUMNS, "id", layout=self.layout(("a", "b", "c")))
        main.insert("t", self.rows(main, 120))
        main.derive("v", "SELECT b, count(*) AS n, max(k) AS k FROM t GROUP BY b", when="immediate")
        self.note()

    def close(self) -> None:
        for db in self.handles:
            db.close()

    def layout(self, columns: tuple[str, ...]) -> Layout:
        chance, groups = self.chance, list[list[str]]()
        for name in columns:
            place = chance.randint(0, 2)
            if place and groups:
                groups[-1].append(name)
            elif place:
                groups.append([name])
        return Layout(
            target_rows=chance.choice((2, 8, 30, 4096)),
            groups=groups or None,
            fold=chance.choice(("auto", "always", "never", 0.3)),
        )

    def rows(self, branch: Branch, most: int) -> pa.Table:
        """Rows of the columns that the table has on a branch."""
        schema, chance = branch.table("t").schema, self.chance
        ids = sorted(chance.sample(range(200), chance.randint(1, most)))
        columns = []
        for field in schema:
            if field.name in ("id", "k"):
                values: list[object] = [*ids]
            elif pa.types.is_string(field.type):
                values = [chance.choice((None, "x", "yy")) for _ in ids]
            else:
                values = [chance.randint(0, 3) for _ in ids]
            columns.append(pa.array(values, field.type))
        return pa.table(columns, schema)

    def branch(self) -> Branch:
        """One that users write, by one of the handles."""
        branches = [b for b in self.chance.choice(self.handles).branches() if b.name != "v"]
        return self.chance.choice(sorted(branches, key=lambda branch: branch.name))

    # --- what may happen ---------------------------------------------------------------------

    def write(self) -> None:
        branch = self.branch()
        if self.chance.random() < 0.7:
            branch.upsert("t", self.rows(branch, 40))
        else:
            keys = branch.table("t").definition.schema.key
            branch.delete("t", self.rows(branch, 40).select(list(keys)))

    def clone(self) -> None:
        branch = self.branch()
        if len(branch.database.branches()) < 5:
            branch.clone(next(self.names))

    def merge(self) -> None:
        one, other = self.branch(), self.branch()
        if one.name != other.name:
            one.database.merge(other.name, into=one.name, on_conflict="theirs")

    def evolve(self) -> None:
        branch, chance = self.branch(), self.chance
        names = [n for n in branch.table("t").schema.names if n not in ("id", "k")]
        new = next(name for name in VALUES if name not in names) if len(names) < 5 else None
        changes: list[SchemaChange] = [ChangeKey("t", ["id", "k"]), ChangeKey("t", ["id"])]
        if names:
            changes.append(DropColumn("t", chance.choice(names)))
        if new is not None:
            changes += [AddColumn("t", new, "int", default=2)]
            changes += [RenameColumn("t", name, new) for name in names]
        keep = next(self.names) if chance.random() < 0.3 else None
        branch.evolve(chance.choice(changes), keep=keep, on_break="detach")

    def relayout(self) -> None:
        branch = self.branch()
        names = [n for n in branch.table("t").schema.names if n not in ("id", "k")]
        branch.relayout("t", self.layout(tuple(names)))
        if self.chance.random() < 0.3:
            view = self.chance.choice(self.handles).branch("v")
            view.relayout("v", self.layout(("n", "k")))

    def look_after(self) -> None:
        db = self.chance.choice(self.handles)
        what = self.chance.randint(0, 3)
        if what == 0:
            db.compact()
        elif what == 1:
            self.branch().migrate()
        elif what == 2:
            lay_out(db._graph, 1e9)
            assert lay_out_due(db._graph) == []
        else:
            snapshot = db.at(self.chance.choice(sorted(self.seen)))
            for name in snapshot.tables():
                snapshot.table(name).root()

    def step(self) -> None:
        kinds: dict[Callable[[], None], int] = {
            self.write: 5,
            self.relayout: 5,
            self.look_after: 3,
            self.merge: 2,
            self.evolve: 2,
            self.clone: 1,
        }
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        with suppress(livingdb.MergeConflict, livingdb.InvalidData, livingdb.Refused):
            kind()
        self.note()

    # --- the laws ----------------------------------------------------------------------------

    def note(self) -> None:
        """What snapshots show that are new."""
        for branch in self.handles[0].branches():
            head = branch.head
            if head.id not in self.seen:
                self.seen[head.id] = {n: head.table(n).to_arrow() for n in head.tables()}

    def check(self) -> None:
        for db in self.handles:
            for snapshot, tables in self.seen.items():
                for name, rows in tables.items():
                    assert db.at(snapshot).table(name).to_arrow().equals(rows)
            for branch in db.branches():
                for name in branch.tables():
                    table = branch.table(name)
                    assert table.root() == built_root(table)
            assert db.check(deep=True).problems == []


def built_root(table: livingdb.Table) -> str:
    """The root of a tree that is built of the rows."""
    schema = table.definition.schema
    forest = Forest(MemoryStore(), table.layout.grouping(schema))
    names = [column.name for column in schema.stored_columns]
    batches = (batch.columns for batch in table.rows.batches(names))
    return forest.build(batches, lambda chunk: None).hex()


@settings(max_examples=tries(40), deadline=None)
@given(st.integers(0, 2**32))
def test_readers_see_nothing_of_layouts(seed: int) -> None:
    with TemporaryDirectory(prefix="livingdb-layouts-") as folder:
        history = History(Path(folder) / "db", Random(seed))
        try:
            for _ in range(STEPS):
                history.step()
            history.check()
        except LivingDBError as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        finally:
            history.close()
