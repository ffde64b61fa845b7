"""Databases with views of many shapes, and what may happen to the tables that they read."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.property.view_shapes import SCHEMAS_OF_SHAPES, SHAPES
from tests.unit.commit.derived.oracle import assert_same_rows, recomputed

import livingdb
from livingdb.derivation.view import View
from livingdb.engines.portable.portability import check_portability
from livingdb.evolution import AddColumn, RenameColumn
from livingdb.sql.parse import parse_statement

__all__ = [
    "QUERIES",
    "TABLES",
    "Row",
    "Step",
    "ViewWorld",
    "contents",
    "some_edit",
    "some_rows",
    "steps",
]

Row = dict[str, Any]

TABLES: Mapping[str, pa.Schema] = {
    **SCHEMAS_OF_SHAPES,
    "c": pa.schema(
        [
            pa.field("n", pa.int32(), nullable=False),
            pa.field("day", pa.date32(), nullable=False),
            pa.field("g", pa.string(), nullable=False),
            ("x", pa.int32()),
        ]
    ),
}
KEYS = {"t": ["id"], "u": ["u", "v"], "s": ["k"], "c": ["day", "g", "n"]}

# `b` is a view without a key over `c`: what reads it is a view on a view.
BAG = "SELECT g, x FROM c"

_MORE = """
    SELECT * FROM t
    SELECT * FROM u WHERE w IS NULL OR w > 0
    SELECT g, day, n, x FROM c WHERE day > DATE'2024-01-01'
    SELECT day, g, count(*) AS k, sum(x) AS s, max(x) AS m FROM c GROUP BY day, g
    SELECT c.day, c.g, c.n, t.id FROM c JOIN t ON c.day = t.day AND c.g = t.g
    SELECT c.g, c.n, c.day, q.s FROM c LEFT JOIN (SELECT day, sum(d) AS s FROM t GROUP BY day) AS q ON q.day = c.day
    SELECT id, e FROM t LATERAL VIEW explode(array(x, 7)) z AS e
    SELECT e, count(*) AS n FROM t LATERAL VIEW explode(array(g, 'b')) z AS e GROUP BY e
    SELECT add_months(day, 1) AS m, datediff(day, DATE'2024-01-01') AS n, id FROM t WHERE day IS NOT NULL
    SELECT month(day) AS m, max(day) AS last, min(day) AS first, count(day) AS n FROM t GROUP BY month(day)
    SELECT concat(g, '-', name) AS p, t.d + u.w AS s FROM t JOIN u ON t.u = u.u AND t.x = u.v
    SELECT g, var_samp(f) AS v, stddev_pop(d) AS s FROM t GROUP BY g
    SELECT id, d * 3 AS e, d / 4 AS q, round(d, 1) AS r FROM t WHERE d <> 0
    SELECT id, g FROM t WHERE g IN ('a', 'ø', '') OR g IS NULL
    SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.day = b.day AND a.g <=> b.g
    SELECT u.u, u.v, count(t.id) AS n, sum(t.d) AS s FROM u LEFT JOIN t ON t.u = u.u GROUP BY u.u, u.v
"""  # noqa: E501

QUERIES: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(text for text, _ in SHAPES),
            *(line.strip() for line in _MORE.splitlines() if line),
        ]
    )
)
"""Queries over the four tables and the bag."""

# --- rows ------------------------------------------------------------------------------------


def _values(column: pa.Field) -> list[Any]:
    """What a column may hold: little, so that rows meet."""
    kind = column.type
    if pa.types.is_integer(kind):
        made: list[Any] = list(range(12 if column.name == "id" else 5))
    elif pa.types.is_decimal(kind):
        made = [decimal.Decimal(value) / 100 for value in (-300, -125, -1, 0, 33, 150, 299)]
    elif pa.types.is_floating(kind):
        made = [0.1, 0.2, 0.3, -0.0, 2.5, 1e10, -1e10]
    elif pa.types.is_date(kind):
        made = [datetime.date(2023, 12, 30) + datetime.timedelta(days) for days in range(6)]
    else:
        made = ["a", "b", "c", "", "ø", "a\x00"]
    return [*made, None, None] if column.nullable else made


def rows_of(name: str, most: int) -> st.SearchStrategy[list[Row]]:
    """Rows of a table, each key once."""
    row = st.fixed_dictionaries({c.name: st.sampled_from(_values(c)) for c in TABLES[name]})
    return st.lists(row, max_size=most, unique_by=lambda row: key_of(name, row))


def some_rows(chance: random.Random, name: str, count: int) -> list[Row]:
    """Rows of a table by chance, each key once."""
    rows = [{c.name: chance.choice(_values(c)) for c in TABLES[name]} for _ in range(count)]
    return list({key_of(name, row): row for row in rows}.values())


def key_of(name: str, row: Row) -> tuple[Any, ...]:
    """The key of a row."""
    return tuple(row[column] for column in KEYS[name])


def contents() -> st.SearchStrategy[dict[str, list[Row]]]:
    """What the tables hold at first."""
    return st.fixed_dictionaries({name: rows_of(name, 8) for name in TABLES})


# --- what happens ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """Rows to put, and keys to delete, by table."""

    puts: dict[str, list[Row]]
    deletes: dict[str, list[Row]]


@dataclass(frozen=True)
class Step:
    """Something that happens to the branch: `kind` says which of the others matter."""

    kind: str
    edit: Edit
    other: Edit
    which: int


_SQL = (
    "UPDATE t SET {t[x]} = {t[x]} + 1 WHERE {t[g]} = 'a'",
    "UPDATE t SET {t[g]} = NULL, {t[d]} = -{t[d]} WHERE {t[x]} > 2",
    "DELETE FROM t WHERE {t[x]} IS NULL OR {t[u]} = 2",
    "DELETE FROM u",
    "UPDATE u SET {u[w]} = 1.5, {u[name]} = 'b' WHERE v = 1",
    "INSERT INTO s (k, {s[parent]}) SELECT id + 100, {t[x]} FROM t "
    "WHERE id + 100 NOT IN (SELECT k FROM s)",
    "MERGE INTO s USING (SELECT u, max(v) AS v FROM u GROUP BY u) AS n ON s.k = n.u "
    "WHEN MATCHED AND n.v > 2 THEN DELETE WHEN MATCHED THEN UPDATE SET {s[parent]} = n.v "
    "WHEN NOT MATCHED THEN INSERT (k, {s[parent]}) VALUES (n.u, n.v)",
)
_RENAMES = [
    *(("t", "g"), ("t", "x"), ("t", "d"), ("t", "u"), ("t", "day")),
    *(("u", "w"), ("u", "name"), ("s", "parent"), ("c", "x")),
]
_KINDS = ["write"] * 5 + ["sql", "sql", "merge", "add", "rename", "reset", "refresh"]


def edits() -> st.SearchStrategy[Edit]:
    """Changes of some rows of some tables."""
    few = {name: rows_of(name, 3) for name in TABLES}
    return st.builds(Edit, st.fixed_dictionaries(few), st.fixed_dictionaries(few))


def some_edit(chance: random.Random) -> Edit:
    """Changes of some rows of all tables by chance."""
    puts, deletes = ({name: some_rows(chance, name, 3) for name in TABLES} for _ in range(2))
    return Edit(puts, deletes)


def steps() -> st.SearchStrategy[Step]:
    """Anything that may happen."""
    return st.builds(Step, st.sampled_from(_KINDS), edits(), edits(), st.integers(0, 20))


@dataclass
class ViewWorld:
    """A database with views, and what its tables' columns are called now."""

    db: livingdb.Database
    names: dict[str, dict[str, str]] = field(
        default_factory=lambda: {n: {c: c for c in s.names} for n, s in TABLES.items()}
    )
    queries: dict[str, str] = field(default_factory=dict)
    added: int = 0
    renamed: int = 0
    old: livingdb.Snapshot | None = None
    """Where the branch may be reset to: since then its schema is what it is."""

    @property
    def main(self) -> livingdb.Branch:
        """The branch that everything happens to."""
        return self.db.branch("main")

    def fill(self, rows: Mapping[str, list[Row]]) -> None:
        """Make the tables and the bag."""
        for name, schema in TABLES.items():
            self.main.create_table(name, schema, key=KEYS[name])
        with self.main.transaction() as tx:
            for name, some in rows.items():
                tx.insert(name, pa.Table.from_pylist(some, schema=TABLES[name]))
        self.main.derive("b", BAG, when="immediate")
        self.queries["b"] = BAG

    def derive(self, name: str, query: str, immediate: bool, other: str = "embedded") -> None:
        """A view; one that engines may answer differently is deferred, and run by the other."""
        schemas = {**TABLES, "b": self.db.branch("b").table("b").schema}
        if isinstance(check_portability(parse_statement(query), schemas), str):
            self.main.derive(name, query, when="deferred", engine=other)
        else:
            self.main.derive(name, query, when="immediate" if immediate else "deferred")
        self.queries[name] = query

    def step(self, step: Step) -> None:
        """Make something happen; the immediate views are right afterwards."""
        before = self.main.head
        if step.kind == "write":
            self._write(self.main, step.edit)
        elif step.kind == "sql":
            self.main.sql(_SQL[step.which % len(_SQL)].format(**self.names))
        elif step.kind == "merge":
            self._merge(step)
        elif step.kind == "add":
            self.added += 1
            self.main.evolve(AddColumn("t", f"more_{self.added}", "int", default=1))
        elif step.kind == "rename":
            table, column = _RENAMES[step.which % len(_RENAMES)]
            self._rename(table, column)
        elif step.kind == "reset" and self.old is not None:
            self.main.reset(self.old)
        elif step.kind == "refresh":
            self.db.propagate()
        self.old = None if step.kind in ("add", "rename") else before
        self.check("immediate")

    def _rename(self, table: str, column: str) -> None:
        now = self.names[table][column]
        self.renamed += 1
        self.names[table][column] = f"{column}{self.renamed}"
        self.main.evolve(RenameColumn(table, now, self.names[table][column]))

    def _merge(self, step: Step) -> None:
        dev = self.main.clone("dev")
        self._write(dev, step.edit)
        if step.which % 2:
            self._write(self.main, step.other)
        self.db.merge("dev", into="main", on_conflict="theirs")
        self.db.drop_branch("dev")

    def _write(self, branch: livingdb.Branch, edit: Edit) -> None:
        with branch.transaction() as tx:
            for name, some in edit.deletes.items():
                if some:
                    tx.delete(name, [key_of(name, row) for row in some])
            for name, some in edit.puts.items():
                titles = self.names[name]
                if some:
                    tx.upsert(name, [{titles[c]: v for c, v in row.items()} for row in some])

    def check(self, when: str | None = None) -> None:
        """Views hold what their queries give over the snapshots that they name."""
        graph = self.db._graph
        for sync in graph.catalog.syncs.all():
            view = View.from_json(sync.spec)
            text = self.queries[view.name]
            assert sync.is_active, (text, sync.reason)
            if view.engine == "spark" or (when is not None and sync.frequency != when):
                continue
            head = self.db.branch(view.name).head
            held = head.table(view.name).to_arrow()
            wanted = recomputed(self.db, view, head._row)
            assert held.schema.types == wanted.schema.types, text
            assert_same_rows(held, wanted, text)

    def refresh(self) -> None:
        """Bring everything up to date; all views are right afterwards."""
        failed = {run.name: run.error for run in self.db.propagate() if run.error is not None}
        assert not failed
        assert [sync.target for sync in self.db.syncs() if sync.lag] == []
        self.check()
