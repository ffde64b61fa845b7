"""The tables of a query: where they stand in its text, which columns of them it uses, what is held.

Where a name cannot be bound to one span, the names of the tables around it are held: they go on
being what they were when the query was written (see `TableBinding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.bind_names import NameBinder
from livingdb.sql.bindings import (
    Binding,
    BoundQuery,
    BoundTable,
    ColumnBinding,
    StarBinding,
    TableBinding,
    UsingBinding,
    in_order,
)
from livingdb.sql.name_scopes import Outputs
from livingdb.sql.parse import tokenize
from livingdb.sql.table_names import table_nodes

__all__ = ["FindTable", "TableBinder", "alias_columns"]

FindTable = Callable[[exp.Table], BoundTable]
"""The table that a name in FROM stands for; it raises `NotFound` if there is none."""


class TableBinder(NameBinder):
    """Knows the tables of a query by their places, and holds what cannot be bound."""

    def __init__(self, text: str, find: FindTable):
        super().__init__(text)
        self._find = find
        self.tables: dict[str, BoundTable] = {}
        self._occurrences: list[TableBinding] = []
        self._held: set[int] = set()

    def _add_table(
        self, node: exp.Table, table: BoundTable, name: str, ctes: Mapping[str, Outputs]
    ) -> int:
        known = self.tables.setdefault(table.id, table)
        if known != table:
            raise InvalidData(f"the table {table.name!r} has two definitions in one query")
        parts = [*node.parts]
        start, end = self._span(parts[0])[0], self._span(parts[-1])[1]
        if node.args.get("version") is not None:
            end = self._end_of_version(node, end)
        is_aliased = bool(node.alias)
        if node.args.get("sample") is not None and not is_aliased:
            raise Unsupported(f"{node.name!r}: in a stored query a sample takes an alias")
        if is_aliased and alias_columns(node):
            self._held.add(len(self._occurrences))
        written = ".".join(part.name for part in parts)
        is_path = node.args.get("version") is not None
        is_path = is_path or written.casefold() != table.name.casefold()
        binding = TableBinding(
            start, end, table.id, name, is_aliased, is_path, shadows=tuple(sorted(ctes))
        )
        self._occurrences.append(binding)
        return len(self._occurrences) - 1

    def _end_of_version(self, node: exp.Table, end: int) -> int:
        """Where `VERSION AS OF …` ends: after the literal that follows these words."""
        words = [token for token in tokenize(self.text) if token.start >= end]
        is_literal = isinstance(node.args["version"].expression, exp.Literal)
        for at, token in enumerate(words if is_literal else ()):
            if token.text.upper() == "OF" and at + 1 < len(words):
                return int(words[at + 1].end) + 1
        raise Unsupported(f"{node.name!r}: the end of VERSION AS OF cannot be told; quote the ref")

    def _hold_within(self, tree: exp.Expr, ctes: Mapping[str, Outputs]) -> None:
        """Keep all names of the tables in a part of FROM that is not looked into."""
        self._seen |= {id(column) for column in tree.find_all(exp.Column)}
        for node in sorted(table_nodes(tree), key=lambda table: self._span(table.parts[0])):
            if isinstance(node.this, exp.Identifier):
                self._seen.add(id(node))
                self._held.add(self._add_table(node, self._find(node), node.alias_or_name, ctes))

    def hold_rest(self, tree: exp.Expr) -> None:
        """Keep all names, if something in the query was not seen."""
        hints = {id(node) for hint in tree.find_all(exp.Hint) for node in hint.walk()}
        for table in tree.find_all(exp.Table):
            if id(table) in self._seen | hints or not isinstance(table.this, exp.Identifier):
                continue
            raise Unsupported(f"{table.name!r} stands where a stored query reads no table")
        columns = {id(node) for node in tree.find_all(exp.Column)} - hints
        stars = {id(n) for n in tree.find_all(exp.Column) if isinstance(n.this, exp.Star)}
        if columns - stars - self._seen:
            self._held |= set(range(len(self._occurrences)))

    def build(self, tree: exp.Expr) -> tuple[BoundQuery, Mapping[int, int]]:
        """The bound query, and the numbers of tables in the order of the text by those given."""
        order = sorted(range(len(self._occurrences)), key=lambda n: self._occurrences[n].start)
        numbers = {old: new for new, old in enumerate(order)}
        moved = [_renumbered(item, numbers) for item in self.bindings]
        for old, item in enumerate(self._occurrences):
            is_held = old in self._held
            uses = self._held_uses(tree, item) if is_held else _uses(moved, numbers[old])
            moved.append(replace(item, is_held=is_held, uses=tuple(sorted(uses))))
        return BoundQuery(self.text, tuple(self.tables.values()), in_order(moved)), numbers

    def _held_uses(self, tree: exp.Expr, item: TableBinding) -> set[str]:
        """The columns a query may need of a table whose names are held: all that it mentions."""
        stars = (n for n in tree.find_all(exp.Star) if not isinstance(n.parent, exp.Count))
        is_all = any(True for _ in stars) or any(j.method for j in tree.find_all(exp.Join))
        named = {node.name.casefold() for node in tree.find_all(exp.Identifier)}
        columns = self.tables[item.table].columns
        return {c.id for c in columns if is_all or c.name.casefold() in named}


def _renumbered(item: Binding, numbers: Mapping[int, int]) -> Binding:
    if isinstance(item, ColumnBinding):
        return replace(item, of=numbers[item.of])
    if isinstance(item, UsingBinding):
        return replace(item, sides=tuple((numbers[of], column) for of, column in item.sides))
    if isinstance(item, StarBinding):
        parts = [p if p.of is None else replace(p, of=numbers[p.of]) for p in item.parts]
        return replace(item, parts=tuple(parts))
    return item


def _uses(bindings: Sequence[Binding], number: int) -> set[str]:
    found: set[str] = set()
    for item in bindings:
        if isinstance(item, ColumnBinding) and item.of == number:
            found.add(item.column)
        elif isinstance(item, UsingBinding):
            found |= {column for of, column in item.sides if of == number}
        elif isinstance(item, StarBinding):
            found |= {column for p in item.parts if p.of == number for column in p.columns}
    return found


def alias_columns(node: exp.Expr) -> list[str]:
    """The names that an alias gives to columns."""
    alias = node.args.get("alias")
    return [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
