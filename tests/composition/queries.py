"""Queries as pairs: the text in SQL, and a function of plain rows that gives the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.composition.model import Column, State, Table, moved_id

__all__ = ["SHAPES", "BoundQuery", "Query", "Shape", "TooLarge"]

Rows = list[dict[str, Any]]


class TooLarge(ValueError):
    """A number that its column cannot hold."""


@dataclass(frozen=True)
class Shape:
    """A kind of query: its text with places for tables (`{t}`, `{u}`) and columns, what it gives.

    `roles` are columns: `key` of the table's key, `number`, `text` or `any`; those in `others`
    are of the second table.
    """

    name: str
    text: str
    output: tuple[tuple[str, str], ...]
    """The names of its columns, and their types: one, or the role it has the type of."""
    answer: Callable[[Rows, Rows, Mapping[str, str]], Rows]
    roles: Mapping[str, str]
    others: Mapping[str, str]


def _place(value: Any) -> tuple[bool, Any]:
    """Where a value is in an order: nulls come first."""
    return value is not None, 0 if value is None else value


def _filtered(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    return [
        {"fk": row[c["k"]], "fn": row[c["n"]]}
        for row in rows
        if row[c["n"]] is not None and row[c["n"]] > 2
    ]


def _grouped(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(row[c["g"]], []).append(row[c["n"]])
    made = []
    for group, values in groups.items():
        given = [value for value in values if value is not None]
        if abs(sum(given)) >= 1 << 63:
            raise TooLarge("a sum")
        made.append({"gg": group, "gc": len(values), "gt": sum(given) if given else None})
    return made


def _extremes(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(row[c["g"]], []).append(row[c["n"]])
    made = []
    for group, values in groups.items():
        given = [value for value in values if value is not None]
        least, most = (min(given), max(given)) if given else (None, None)
        made.append({"eg": group, "el": least, "em": most})
    return made


def _joined(rows: Rows, others: Rows, c: Mapping[str, str]) -> Rows:
    return [
        {"jk": row[c["k"]], "jj": other[c["j"]], "jn": row[c["n"]]}
        for row in rows
        for other in others
        if row[c["n"]] is not None and row[c["n"]] == other[c["j"]]
    ]


def _left_joined(rows: Rows, others: Rows, c: Mapping[str, str]) -> Rows:
    made = []
    for row in rows:
        found = [o for o in others if row[c["n"]] is not None and o[c["j"]] == row[c["n"]]]
        made += [{"lk": row[c["k"]], "lj": o[c["j"]], "lx": o[c["x"]]} for o in found]
        if not found:
            made.append({"lk": row[c["k"]], "lj": None, "lx": None})
    return made


def _topped(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    ordered = sorted(
        rows,
        key=lambda row: (row[c["n"]] is None, -(row[c["n"]] or 0), _place(row[c["k"]])),
    )
    return [{"tk": row[c["k"]], "tn": row[c["n"]]} for row in ordered[:2]]


def _windowed(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    made = []
    for row in rows:
        before = [
            other
            for other in rows
            if other[c["g"]] == row[c["g"]] and _place(other[c["k"]]) <= _place(row[c["k"]])
        ]
        made.append({"wk": row[c["k"]], "wg": row[c["g"]], "wp": len(before)})
    return made


def _distinct(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    return [{"dd": value} for value in {row[c["g"]] for row in rows}]


def _counted(rows: Rows, _: Rows, c: Mapping[str, str]) -> Rows:
    return [{"cc": len(rows)}]


def _united(rows: Rows, others: Rows, c: Mapping[str, str]) -> Rows:
    return [{"un": row[c["n"]]} for row in rows] + [{"un": row[c["m"]]} for row in others]


EVERY = (
    Shape(
        "filter",
        "SELECT {k} AS fk, {n} AS fn FROM {t} WHERE {n} > 2",
        (("fk", "k"), ("fn", "n")), _filtered, {"k": "key", "n": "number"}, {},
    ),
    Shape(
        "group",
        "SELECT {g} AS gg, count(*) AS gc, sum({n}) AS gt FROM {t} GROUP BY {g}",
        (("gg", "g"), ("gc", "bigint"), ("gt", "bigint")), _grouped,
        {"g": "any", "n": "number"}, {},
    ),
    Shape(
        "extremes",
        "SELECT {g} AS eg, min({n}) AS el, max({n}) AS em FROM {t} GROUP BY {g}",
        (("eg", "g"), ("el", "n"), ("em", "n")), _extremes,
        {"g": "any", "n": "number"}, {},
    ),
    Shape(
        "join",
        "SELECT a.{k} AS jk, b.{j} AS jj, a.{n} AS jn FROM {t} a JOIN {u} b ON a.{n} = b.{j}",
        (("jk", "k"), ("jj", "j"), ("jn", "n")), _joined,
        {"k": "key", "n": "number"}, {"j": "key"},
    ),
    Shape(
        "left join",
        "SELECT a.{k} AS lk, b.{j} AS lj, b.{x} AS lx FROM {t} a LEFT JOIN {u} b ON a.{n} = b.{j}",
        (("lk", "k"), ("lj", "j"), ("lx", "x")), _left_joined,
        {"k": "key", "n": "number"}, {"j": "key", "x": "any"},
    ),
    Shape(
        "top",
        "SELECT {k} AS tk, {n} AS tn FROM {t} ORDER BY {n} DESC NULLS LAST, {k} LIMIT 2",
        (("tk", "k"), ("tn", "n")), _topped, {"k": "key", "n": "number"}, {},
    ),
    Shape(
        "window",
        "SELECT {k} AS wk, {g} AS wg, row_number() OVER (PARTITION BY {g} ORDER BY {k}) AS wp "
        "FROM {t}",
        (("wk", "k"), ("wg", "g"), ("wp", "int")), _windowed, {"k": "key", "g": "any"}, {},
    ),
    Shape(
        "distinct", "SELECT DISTINCT {g} AS dd FROM {t}",
        (("dd", "g"),), _distinct, {"g": "any"}, {},
    ),
    Shape("count", "SELECT count(*) AS cc FROM {t}", (("cc", "bigint"),), _counted, {}, {}),
    Shape(
        "union",
        "SELECT {n} AS un FROM {t} UNION ALL SELECT {m} AS un FROM {u}",
        (("un", "n"),), _united, {"n": "number"}, {"m": "number"},
    ),
)  # fmt: skip

SHAPES = {shape.name: shape for shape in EVERY}
KEYS = {
    "filter": ("fk",), "group": ("gg",), "extremes": ("eg",), "top": ("tk",), "window": ("wk",),
    "distinct": ("dd",),
}  # fmt: skip
"""The keys of the views that have one column."""


def suits(column: Column, table: Table, role: str) -> bool:
    """Whether a column can stand in a place of a query."""
    if role == "key":
        return table.key == (column.id,) and column.type in ("int", "bigint")
    if role == "number":
        return column.type in ("int", "bigint")
    return True


@dataclass(frozen=True)
class Query:
    """A query of a shape, over tables of one branch by their names."""

    shape: str
    tables: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    """The column for each role, by name."""

    def sql(self) -> str:
        names = dict(zip("tu", self.tables, strict=False))
        return SHAPES[self.shape].text.format(
            **{place: f"`{name}`" for place, name in names.items()},
            **{role: f"`{name}`" for role, name in self.columns},
        )

    def hides(self, state: State) -> bool:
        """Whether a column of the tables is called as one of the answer, which SQL reads twice."""
        made = {name for name, _ in SHAPES[self.shape].output}
        return any(made & set(state[table].names) for table in self.tables)

    def bind(self, state: State, branch: str) -> BoundQuery:
        """The query by ids; `KeyError` if something is not there."""
        shape = SHAPES[self.shape]
        tables = tuple(state[name].id for name in self.tables)
        ids = {}
        for role, name in self.columns:
            at = 1 if role in shape.others else 0
            table = state[self.tables[at]]
            column = table.named(name)
            if not suits(column, table, {**shape.roles, **shape.others}[role]):
                raise KeyError(name)
            ids[role] = column
        return BoundQuery(
            self.shape,
            branch,
            tables,
            tuple((role, c.id, c.type, c.mask) for role, c in ids.items()),
        )


@dataclass(frozen=True)
class BoundQuery:
    """A query that follows the tables and columns it reads, whatever they are called."""

    shape: str
    branch: str
    tables: tuple[str, ...]
    columns: tuple[tuple[str, str, str, str], ...]
    """The column for each role, by id, with the type that it has and the mask."""

    def answer(self, state: State, uid: str) -> Table:
        """The view over a state; `KeyError` if something it reads is not what it was."""
        shape = SHAPES[self.shape]
        by_id = {table.id: table for table in state.values()}
        tables = [by_id[wanted] for wanted in self.tables]
        names = {}
        for role, wanted, *kind in self.columns:
            column = tables[1 if role in shape.others else 0].column(wanted)
            if [column.type, column.mask] != kind:
                raise KeyError(wanted)
            names[role] = column.name
        rows = [table.dicts() for table in tables]
        made = shape.answer(rows[0], rows[-1], names)
        return Table(uid, self.output(uid), self.key(uid)).with_rows(made)

    def key(self, uid: str) -> tuple[str, ...]:
        """The column that identifies rows, where it is one that others can use."""
        return tuple(f"{uid}.{name}" for name in KEYS.get(self.shape, ()))

    def output(self, uid: str) -> tuple[Column, ...]:
        types = {role: kind for role, _, kind, _ in self.columns}
        return tuple(
            Column(f"{uid}.{name}", name, types.get(kind, kind))
            for name, kind in SHAPES[self.shape].output
        )

    def named(self, state: State) -> Query:
        """The query in the names of today."""
        shape = SHAPES[self.shape]
        by_id = {table.id: name for name, table in state.items()}
        names = tuple(by_id[wanted] for wanted in self.tables)
        columns = []
        for role, wanted, *_ in self.columns:
            table = state[names[1 if role in shape.others else 0]]
            columns.append((role, table.column(wanted).name))
        return Query(self.shape, names, tuple(columns))

    def masked_as(self, state: State) -> BoundQuery:
        """The query of columns that are masked as they are in a state."""
        masks = {c.id: c.mask for table in state.values() for c in table.columns}
        columns = [(*column[:3], masks.get(column[1], column[3])) for column in self.columns]
        return replace(self, columns=tuple(columns))

    def moved(self, source: str, to: str, is_derived: bool) -> BoundQuery:
        """The query over a copy of the branch; the table of a derived one has ids of its own."""

        def now(wanted: str) -> str:
            return moved_id(wanted, source, to) if is_derived else wanted

        return BoundQuery(
            self.shape,
            to,
            tuple(now(wanted) for wanted in self.tables),
            tuple((role, now(wanted), *kind) for role, wanted, *kind in self.columns),
        )

    def reads(self) -> set[str]:
        """The ids of the columns it reads."""
        return {wanted for _, wanted, *_ in self.columns}


def possible(state: State, names: Sequence[str], pick: Callable[[Sequence[Any]], Any]) -> Query:
    """A query over some tables of a state; `IndexError` if there is nothing to ask."""
    shape = pick(EVERY)
    tables = [pick(names)]
    if shape.others or "{u}" in shape.text:
        tables.append(pick(names))
    columns = []
    for roles, name in ((shape.roles, tables[0]), (shape.others, tables[-1])):
        table = state[name]
        for role, kind in roles.items():
            found = [column.name for column in table.columns if suits(column, table, kind)]
            columns.append((role, pick(found)))
    return Query(shape.name, tuple(tables), tuple(columns))
