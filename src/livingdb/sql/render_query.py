"""The text of a stored query for the tables as they are called now.

Names that changed are spliced into their spans, and nothing else is touched.  What is spliced is
read again: if a name in it would stand for something else than it did, it is written with its
table's; and if that does not help, or the query depends on names in ways that are not bound to
spans, a table that changed is read through a subquery that gives it the columns it had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp

from livingdb.errors import LivingDBError
from livingdb.sql.bind_query import Resolution, bind_expression, resolve
from livingdb.sql.bindings import (
    BoundQuery,
    BoundTable,
    ColumnBinding,
    OutputBinding,
    StarBinding,
    TableBinding,
    UsingBinding,
    VariableBinding,
    quote,
)
from livingdb.sql.parse import parse_statement, tokenize
from livingdb.sql.table_names import table_nodes

__all__ = ["BrokenQuery", "render"]

_ROUNDS = 4
"""How often names that would stand for something else are written with their tables'."""


@dataclass(frozen=True)
class BrokenQuery:
    """Why a query cannot be read as it was defined, and the table and column that say so."""

    reason: str
    table: str
    column: str = ""

    def __str__(self) -> str:
        return self.reason


def render(
    bound: BoundQuery,
    tables: Iterable[BoundTable],
    unread: Collection[tuple[str, str]] = (),
    stars: bool = False,
) -> str | BrokenQuery:
    """The text of the query over tables as they are now: the very text, if no name matters.

    `unread` are columns, by the ids of table and column, that are gone or of another type where
    that does not matter: they are null.  `stars` are written out also where nothing changed, for
    those who read the text over tables that may have changed since.
    """
    known = {table.id: table for table in tables}
    given = tuple(known[table.id] for table in bound.tables if table.id in known)
    is_same = given == bound.tables and not any(item.is_path for item in bound.occurrences)
    if is_same and not stars:
        return bound.text
    return _cached_render(bound, given, frozenset(unread), stars)


@lru_cache(maxsize=4096)
def _cached_render(
    bound: BoundQuery,
    given: tuple[BoundTable, ...],
    unread: frozenset[tuple[str, str]],
    stars: bool,
) -> str | BrokenQuery:
    tables = {table.id: table for table in given}
    broken = _broken(bound, tables, unread)
    if broken is not None:
        return broken
    if bound.is_expression:
        return _render_expression(bound, tables[bound.tables[0].id])
    splicing = _Splicing(bound, tables, unread, stars)
    for item in bound.occurrences:
        name = tables[item.table].name
        if splicing.is_respelled(item) and name.casefold() in item.shadows:
            reason = f"the table is called {name!r} now, as a WITH clause of the query is"
            return BrokenQuery(reason, item.table)
    return _render_by_columns(splicing) or splicing.with_subqueries()


def _broken(
    bound: BoundQuery, tables: Mapping[str, BoundTable], unread: Collection[tuple[str, str]]
) -> BrokenQuery | None:
    """The first table or column that the query needs and that is not what it was."""
    for table, columns in bound.uses().items():
        old = bound.by_id[table]
        if table not in tables:
            return BrokenQuery(f"the table {old.name!r}, which it reads, is gone", table)
        for column in old.columns:
            if column.id not in columns or (table, column.id) in unread:
                continue
            new = tables[table].by_id.get(column.id)
            if new is None:
                reason = f"the column {column.name!r} of {old.name!r} is gone"
                return BrokenQuery(reason, table, column.id)
            if column.type and new.type and column.type != new.type:
                reason = f"the column {column.name!r} of {old.name!r} has another type"
                return BrokenQuery(reason, table, column.id)
    return None


# --- queries --------------------------------------------------------------------------------------


def _render_by_columns(splicing: _Splicing) -> str | None:
    """The query with other names where columns are named; None if that says something else."""
    if not splicing.is_bound_to_columns():
        return None
    bound = splicing.bound
    before = _resolve_again(bound.text, bound, bound.by_id)
    if before is None:
        return None
    qualified: set[int] = set()
    for _ in range(_ROUNDS):
        text = splicing.with_names(qualified)
        after = _resolve_again(text, bound, splicing.tables)
        if after is None or len(after.trace) != len(before.trace):
            return None
        wrong = {
            place
            for place, one, other in zip(before.places, before.trace, after.trace, strict=True)
            if one != other
        }
        if not wrong and after.outputs == before.outputs:
            return text
        if wrong <= qualified or -1 in wrong:
            return None
        qualified |= wrong
    return None


def _resolve_again(
    text: str, bound: BoundQuery, tables: Mapping[str, BoundTable]
) -> Resolution | None:
    """What the names of a text stand for, whose tables in FROM are those of the bound query."""
    try:
        tree = parse_statement(text)
        nodes = sorted(table_nodes(tree), key=lambda node: int(node.parts[0].meta["start"]))
        nodes = [node for node in nodes if isinstance(node.this, exp.Identifier)]
        if len(nodes) != len(bound.occurrences):
            return None
        pairs = zip(nodes, bound.occurrences, strict=True)
        found = {id(node): tables[item.table] for node, item in pairs}
        return resolve(text, tree, lambda node: found[id(node)])
    except (LivingDBError, KeyError):
        return None


@dataclass(frozen=True)
class _Splicing:
    """A query and the tables as they are now."""

    bound: BoundQuery
    tables: Mapping[str, BoundTable]
    unread: frozenset[tuple[str, str]]
    stars: bool

    def is_bound_to_columns(self) -> bool:
        """Whether other names can be written where the old ones stand."""
        for item in self.bound.occurrences:
            missing = any((item.table, column) in self.unread for column in item.uses)
            if missing or (item.is_held and self._is_other(item)):
                return False
        return not any(
            self._name(of, column) != self._old_name(of, column)
            for item in self.bound.bindings
            if isinstance(item, UsingBinding)
            for of, column in item.sides
        )

    def _is_other(self, item: TableBinding) -> bool:
        """Whether a table has other columns, or other names of them, than it had."""
        return self.tables[item.table].titles != self.bound.by_id[item.table].titles

    def is_respelled(self, item: TableBinding) -> bool:
        """Whether a table is called something else than is written."""
        old, new = self.bound.by_id[item.table], self.tables[item.table]
        return item.is_path or new.name != old.name

    def _name(self, of: int, column: str) -> str:
        return self.tables[self.bound.occurrences[of].table].by_id[column].name

    def _old_name(self, of: int, column: str) -> str:
        return self.bound.by_id[self.bound.occurrences[of].table].by_id[column].name

    def with_names(self, qualified: Collection[int]) -> str:
        """The text with the names of now; those that begin at `qualified` with their tables'."""
        texts: dict[int, str] = {}
        for at, item in enumerate(self.bound.bindings):
            made: str | None = None
            if isinstance(item, TableBinding):
                made = self._table(item)
            elif isinstance(item, ColumnBinding):
                made = self._column(item, item.start in qualified)
            elif isinstance(item, StarBinding):
                made = self._star(item)
            if made is not None:
                texts[at] = made
        return _splice(self.bound, texts)

    def _table(self, item: TableBinding) -> str | None:
        if not self.is_respelled(item):
            return None
        alias = "" if item.is_aliased else f" AS {quote(item.called)}"
        return quote(self.tables[item.table].name) + alias

    def _column(self, item: ColumnBinding, is_qualified: bool) -> str | None:
        table = self.bound.occurrences[item.of]
        name = self._name(item.of, item.column)
        is_respelled = item.is_path and self.is_respelled(table)
        if name == self._old_name(item.of, item.column) and not is_qualified and not is_respelled:
            return None
        made = quote(name)
        if item.is_path or (is_qualified and not item.is_qualified):
            made = f"{quote(table.called)}.{made}"
        return made if item.output in (None, name) else f"{made} AS {quote(str(item.output))}"

    def _star(self, item: StarBinding) -> str | None:
        tables = [self.bound.occurrences[part.of] for part in item.parts if part.of is not None]
        is_respelled = item.is_path and any(self.is_respelled(table) for table in tables)
        is_other = is_respelled or any(self._is_other(table) for table in tables)
        return self._columns_of(item) if is_other or self.stars else None

    def _columns_of(self, item: StarBinding, keeps_names: bool = False) -> str:
        """The columns a star stands for, one by one."""
        made = []
        for part in item.parts:
            for column in part.columns:
                name = old = column
                if part.of is not None:
                    name = old = self._old_name(part.of, column)
                    name = old if keeps_names else self._name(part.of, column)
                alias = "" if name == old else f" AS {quote(old)}"
                made.append(f"{quote(part.called)}.{quote(name)}{alias}")
        return ", ".join(made)

    def with_subqueries(self) -> str:
        """The text where tables that changed are read through subqueries."""
        texts: dict[int, str] = {}
        for at, item in enumerate(self.bound.bindings):
            made: str | None = None
            if isinstance(item, TableBinding):
                is_other = self._is_other(item) or any(
                    (item.table, column) in self.unread for column in item.uses
                )
                made = self._subquery(item) if is_other else self._table(item)
            elif isinstance(item, ColumnBinding) and item.is_path:
                table = self.bound.occurrences[item.of]
                name = quote(self._old_name(item.of, item.column))
                made = f"{quote(table.called)}.{name}"
            elif isinstance(item, StarBinding) and (item.is_path or self.stars):
                made = self._columns_of(item, keeps_names=True)
            if made is not None:
                texts[at] = made
        return _splice(self.bound, texts)

    def _subquery(self, item: TableBinding) -> str:
        old, new = self.bound.by_id[item.table], self.tables[item.table]
        columns = []
        for column in old.columns:
            now_is = new.by_id.get(column.id)
            if (item.table, column.id) in self.unread:
                columns.append(f"CAST(NULL AS {column.type}) AS {quote(column.name)}")
            elif now_is is not None:
                alias = "" if now_is.name == column.name else f" AS {quote(column.name)}"
                columns.append(quote(now_is.name) + alias)
        alias = "" if item.is_aliased else f" AS {quote(item.called)}"
        source = f"FROM {quote(new.name)}" if self.is_respelled(item) else self._from(item)
        return f"(SELECT {', '.join(columns) or '1'} {source}){alias}"

    def _from(self, item: TableBinding) -> str:
        return f"FROM {self.bound.text[item.start : item.end]}"


def _splice(bound: BoundQuery, texts: Mapping[int, str]) -> str:
    """The text with other words for some bindings; an item that changed keeps its name."""
    pieces: list[str] = []
    changed: list[int] = []
    at = 0
    for number, item in enumerate(bound.bindings):
        if isinstance(item, OutputBinding):
            is_changed = any(item.begin <= place < item.start for place in changed)
            made = f" AS {quote(item.name)}" if is_changed else None
        else:
            made = texts.get(number)
        if made is None:
            continue
        pieces += [bound.text[at : item.start], made]
        changed.append(item.start)
        at = item.end
    return "".join([*pieces, bound.text[at:]])


# --- expressions ----------------------------------------------------------------------------------


def _render_expression(bound: BoundQuery, table: BoundTable) -> str | BrokenQuery:
    """An expression with the names of now; a variable that has one of them gets another."""
    names: dict[int, str] = {}
    for at, item in enumerate(bound.bindings):
        if isinstance(item, ColumnBinding):
            name = table.by_id[item.column].name
            if name != bound.tables[0].by_id[item.column].name:
                alias = "" if item.output in (None, name) else f" AS {quote(str(item.output))}"
                names[at] = quote(name) + alias
    wanted = _meanings(bound)
    for texts in (names, {**names, **_fresh_variables(bound, table)}):
        text = _splice(bound, texts)
        try:
            found = bind_expression(text, replace(table, id=bound.tables[0].id))
        except LivingDBError:
            continue
        if _meanings(found) == wanted:
            return text
    return BrokenQuery(f"{bound.text!r} cannot be written with other names", table.id)


def _meanings(bound: BoundQuery) -> list[str | int]:
    return [
        item.column if isinstance(item, ColumnBinding) else item.group
        for item in bound.bindings
        if isinstance(item, (ColumnBinding, VariableBinding))
    ]


def _fresh_variables(bound: BoundQuery, table: BoundTable) -> dict[int, str]:
    """Names for the variables of an expression that nothing else there has."""
    taken = {token.text.casefold() for token in tokenize(bound.text)}
    taken |= {column.name.casefold() for column in table.columns}
    found: dict[int, str] = {}
    names: dict[int, str] = {}
    for at, item in enumerate(bound.bindings):
        if isinstance(item, VariableBinding):
            if item.group not in names:
                number = next(n for n in range(1, len(taken) + 2) if f"v{n}" not in taken)
                names[item.group] = f"v{number}"
                taken.add(f"v{number}")
            alias = "" if item.output is None else f" AS {quote(item.output)}"
            found[at] = names[item.group] + alias
    return found
