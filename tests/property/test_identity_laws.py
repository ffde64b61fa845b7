"""Laws of identities: what is one table or column has one everywhere, and what is two never has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb.evolution import (
    AddColumn,
    Decompose,
    DropColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitColumn,
    SplitTable,
)
from livingdb.graph.table_ids import matching_columns, matching_tables, table_id

TABLES, COLUMNS, BRANCHES = ("t", "u", "v", "w"), ("a", "b", "c", "d", "e"), ("x", "y", "z")
START = {"id": "bigint", "a": "string", "b": "string"}

Tag = int
"""What a model calls one table or column for good."""


@dataclass(frozen=True)
class Table:
    """A table as the model has it: what it is, and what each of its names is."""

    tag: Tag
    columns: Mapping[str, Tag]


Tables = Mapping[str, Table]


@dataclass
class Model:
    """Branches and snapshots, and which table and column is which."""

    tags: count[int] = field(default_factory=count)
    heads: dict[str, Tables] = field(default_factory=dict)
    bases: dict[str, tuple[str, Tables, str]] = field(default_factory=dict)
    """Of a clone: where it came from, and its tables and snapshot then."""
    snapshots: dict[str, Tables] = field(default_factory=dict)

    def new_table(self, names: tuple[str, ...]) -> Table:
        return Table(next(self.tags), {name: next(self.tags) for name in names})


@dataclass(frozen=True)
class Step:
    """A step of a program: what to do, and numbers that choose with what."""

    kind: str
    first: int
    second: int
    third: int


KINDS = (
    *("create", "add", "rename", "retype", "drop", "split", "rename_table", "parts", "halves"),
    *("clone", "clone", "merge", "merge", "insert", "reopen", "twice"),
)
STEPS = st.lists(
    st.builds(Step, st.sampled_from(KINDS), *(st.integers(0, 29) for _ in range(3))),
    min_size=4,
    max_size=14,
)


class Lab:
    """Runs a program on a database and on a model of it."""

    def __init__(self, path: Path):
        self.path = path
        self.db = livingdb.create(path, author="ann", engine="embedded")
        self.model = Model(heads={"main": {}})
        self.keys = count(1)
        self._create("main", "t")

    def run(self, step: Step) -> None:
        known = sorted(self.model.heads)
        branch = known[step.first % len(known)]
        tables = self.model.heads[branch]
        if step.kind == "reopen":
            self.db.close()
            self.db = livingdb.open(self.path, author="ann", engine="embedded")
        elif step.kind == "clone":
            self._clone(branch, step)
        elif step.kind == "merge":
            self._merge(branch)
        elif step.kind == "create":
            free = [name for name in TABLES if name not in tables]
            if free:
                self._create(branch, free[step.second % len(free)])
        elif tables:
            self._change_table(branch, sorted(tables)[step.second % len(tables)], step)

    def _remember(self, branch: str, tables: Tables) -> None:
        self.model.heads[branch] = tables
        self.model.snapshots[str(self.db.branch(branch).head)] = tables

    def _create(self, branch: str, name: str) -> None:
        self.db.branch(branch).create_table(name, START, "id")
        made = {**self.model.heads[branch], name: self.model.new_table(tuple(START))}
        self._remember(branch, made)

    def _clone(self, branch: str, step: Step) -> None:
        free = [name for name in BRANCHES if name not in self.model.heads]
        if free:
            self.db.branch(branch).clone(free[0])
            tables = self.model.heads[branch]
            self.model.bases[free[0]] = branch, tables, str(self.db.branch(branch).head)
            self.model.heads[free[0]] = tables

    def _merge(self, branch: str) -> None:
        """Bring a clone home, if nothing or only rows changed there, or nothing here since."""
        if branch not in self.model.bases:
            return
        home, then, snapshot = self.model.bases.pop(branch)
        is_behind = str(self.db.branch(home).head) == snapshot
        mine = self.model.heads[branch]
        if not is_behind and mine != then:
            return
        if not is_behind and not set(then) <= set(self.model.heads[home]):
            return
        self.db.merge(branch, into=home)
        self._remember(home, mine if is_behind else self.model.heads[home])

    def _change_table(self, branch: str, name: str, step: Step) -> None:
        table = self.model.heads[branch][name]
        if step.kind == "insert":
            self.db.branch(branch).insert(name, {"id": [next(self.keys)]})
            self._remember(branch, self.model.heads[branch])
            return
        for change, made in self._changes(branch, name, table, step):
            kept = {n: t for n, t in self.model.heads[branch].items() if n != name}
            self.db.branch(branch).evolve(change)
            self._remember(branch, {**kept, **made})

    def _changes(
        self, branch: str, name: str, table: Table, step: Step
    ) -> list[tuple[SchemaChange, Tables]]:
        """What a step changes, and what becomes of the table; nothing if there is no way."""
        tags = self.model.tags
        free = [column for column in COLUMNS if column not in table.columns]
        values = sorted(set(table.columns) - {"id"})
        others = [other for other in TABLES if other not in self.model.heads[branch]]
        if step.kind == "rename_table" and others:
            to = others[step.third % len(others)]
            return [(RenameTable(name, to), {to: table})]
        if step.kind == "halves" and others:
            into = {name: "id % 2 = 0", others[0]: "id % 2 = 1"}
            made = {new: Table(next(tags), table.columns) for new in into}
            return [(SplitTable(name, into, strict=True), made)]
        if step.kind == "parts" and others and len(values) > 1:
            parts = {name: values[:1], others[0]: values[1:]}
            made = {
                new: Table(next(tags), {column: table.columns[column] for column in ("id", *some)})
                for new, some in parts.items()
            }
            return [(Decompose(name, parts), made)]
        if not free or not values:
            return []
        new, old = free[step.third % len(free)], values[step.third % len(values)]
        rest = {column: tag for column, tag in table.columns.items() if column != old}

        def become(columns: Mapping[str, Tag]) -> Tables:
            return {name: Table(table.tag, columns)}

        if step.kind == "add":
            added = become({**table.columns, new: next(tags)})
            return [(AddColumn(name, new, "string"), added)]
        if step.kind == "rename":
            renamed = become({**rest, new: table.columns[old]})
            return [(RenameColumn(name, old, new), renamed)]
        if step.kind == "retype":
            held = str(self.db.branch(branch).table(name).schema.field(old).type)
            to = "string" if held == "binary" else "binary"
            up = f"CAST({old} AS {to})"
            return [(RetypeColumn(name, old, to, up=up), become(table.columns))]
        if step.kind == "drop":
            return [(DropColumn(name, old), become(rest))]
        if step.kind == "twice":
            added = become({**table.columns, new: next(tags)})
            dropped = become(table.columns)
            again = become({**table.columns, new: next(tags)})
            add = AddColumn(name, new, "string")
            return [(add, added), (DropColumn(name, new), dropped), (add, again)]
        if step.kind == "split" and len(free) > 1:
            split = become({**rest, free[0]: next(tags), free[1]: next(tags)})
            up = {free[0]: f"CAST({old} AS string)", free[1]: f"CAST({old} AS string)"}
            return [(SplitColumn(name, old, free[:2], up=up), split)]
        return []

    # --- what is checked ---------------------------------------------------------------------

    def check(self) -> None:
        """Equal tags have equal identities, and different ones different, in every snapshot."""
        graph = self.db._graph
        found: dict[Tag, str] = {}
        wanted = {**self.model.snapshots, **self.model.heads}
        for ref, tables in wanted.items():
            row = graph.resolve(ref if ref in self.model.heads else f"id:{ref}").snapshot
            assert set(graph.tables(row)) == set(tables)
            for name, table in tables.items():
                definition = graph.versions.definition(graph.version(row, name))
                assert definition.id == table_id(graph, row, name)
                assert found.setdefault(table.tag, str(definition.id)) == definition.id
                schema = definition.schema
                assert {column.name for column in schema.columns} == set(table.columns)
                for column in schema.columns:
                    tag = table.columns[column.name]
                    assert found.setdefault(tag, column.id) == column.id
        assert len(set(found.values())) == len(found)

    def check_names(self) -> None:
        """The names of one branch in another are those of the model."""
        graph = self.db._graph
        for one, mine in self.model.heads.items():
            for other, theirs in self.model.heads.items():
                rows = [graph.resolve(name).snapshot for name in (one, other)]
                tables = matching_tables(graph, *rows)
                known = {table.tag: name for name, table in theirs.items()}
                assert tables == {n: known[t.tag] for n, t in mine.items() if t.tag in known}
                for name, there in tables.items():
                    schemas = [
                        graph.versions.definition(graph.version(*at)).schema
                        for at in zip(rows, (name, there), strict=True)
                    ]
                    tags = {tag: column for column, tag in theirs[there].columns.items()}
                    assert matching_columns(*schemas) == {
                        column: tags[tag]
                        for column, tag in mine[name].columns.items()
                        if tag in tags
                    }


@settings(max_examples=tries(60))
@given(program=STEPS)
def test_one_thing_one_identity(program: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        lab = Lab(Path(folder) / "db")
        try:
            for step in program:
                lab.run(step)
            lab.check()
            lab.check_names()
            lab.run(Step("reopen", 0, 0, 0))
            lab.check()
        finally:
            lab.db.close()
