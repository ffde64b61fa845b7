"""Expressions that look something up in another table by its key: `(SELECT … FROM … WHERE …)`.

Such a subquery takes one column of one table, whose key is equal to columns of the row.  It is
taken out of the expression, which then reads a column of its own in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.bindings import quote
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "LOOKUP",
    "LookupExpression",
    "TableLookup",
    "follow_lookup",
    "given_columns",
    "lookup_expression",
]

LOOKUP = "~lookup"
"""What the names of columns begin with that stand for lookups."""

_CLAUSES = {"expressions", "from_", "where"}


@dataclass(frozen=True)
class TableLookup:
    """A column of another table, found by that table's key.

    `given` are the columns of the row that hold the key, in its order; `name` is the column that
    stands for what is found.
    """

    name: str
    table: str
    column: Column
    given: tuple[str, ...]


@dataclass(frozen=True)
class LookupExpression:
    """An expression over a row and what is looked up for it; `spans` are where that is written."""

    text: str
    lookups: tuple[TableLookup, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class _Name:
    """A name in a text that may be another one later: where it is, and what it stands for."""

    start: int
    end: int
    table: str
    column: str | None = None


def lookup_expression(
    text: str, table: str, schema: TableSchema, tables: Mapping[str, TableSchema]
) -> LookupExpression:
    """An expression over rows of a table, with its lookups taken out of it.

    `Unsupported` names any other subquery, `NotFound` a table or column that there is not.
    """
    spans = _subquery_spans(text)
    lookups, made, at = [], "", 0
    for number, (start, end) in enumerate(spans):
        inner = text[start + 1 : end - 1]
        lookup, _ = _read(inner, f"{LOOKUP}{number}", table, schema, tables)
        lookups.append(lookup)
        made += text[at:start] + quote(lookup.name)
        at = end
    return LookupExpression(made + text[at:], tuple(lookups), tuple(spans))


def follow_lookup(
    text: str,
    table: str,
    tables: Mapping[str, TableSchema],
    names: Mapping[str, str],
    columns: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """The lookups of an expression, by other names of tables and of their columns."""
    found = []
    for start, end in _subquery_spans(text):
        inner = text[start + 1 : end - 1]
        _, spoken = _read(inner, LOOKUP, table, tables[table], tables)
        for name in sorted(spoken, key=lambda one: -one.start):
            later = names.get(name.table, name.table)
            was = name.table if name.column is None else name.column
            if name.column is not None:
                later = columns.get(name.table, {}).get(name.column, name.column)
            if later != was:
                inner = inner[: name.start] + quote(later) + inner[name.end :]
        found.append(f"({inner})")
    return found


def _subquery_spans(text: str) -> list[tuple[int, int]]:
    """Where subqueries stand, with their parentheses; `Unsupported` for one that is no value."""
    from sqlglot.tokenizer_core import TokenType

    from livingdb.sql.parse import tokenize

    tokens = tokenize(text)
    if all(token.token_type != TokenType.SELECT for token in tokens):
        return []
    found: list[tuple[int, int]] = []
    depth = 0
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.SELECT:
            before = tokens[at - 1].token_type if at else None
            leading = tokens[at - 2].token_type if at > 1 else None
            if depth or before != TokenType.L_PAREN:
                raise Unsupported(f"{text!r}: a lookup is one subquery in parentheses, none in it")
            if leading in (TokenType.IN, TokenType.EXISTS, TokenType.ANY, TokenType.ALL):
                raise Unsupported(f"{text!r}: {tokens[at - 2].text} takes no subquery here")
            depth, begins = 1, tokens[at - 1].start
        elif depth and token.token_type == TokenType.L_PAREN:
            depth += 1
        elif depth and token.token_type == TokenType.R_PAREN:
            depth -= 1
            if not depth:
                found.append((begins, token.end + 1))
    return found


def _read(
    text: str, name: str, table: str, schema: TableSchema, tables: Mapping[str, TableSchema]
) -> tuple[TableLookup, list[_Name]]:
    """A lookup, and the names in its text."""
    from sqlglot import exp

    from livingdb.sql.parse import parse_statement

    tree = parse_statement(text)
    given = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or given != _CLAUSES or len(tree.expressions) != 1:
        raise _refusal(text)
    source = tree.args["from_"].this
    if not isinstance(source, exp.Table) or len(source.parts) != 1 or source.args.get("joins"):
        raise _refusal(text)
    if source.name not in tables:
        known = ", ".join(sorted(tables))
        raise NotFound(f"{text!r}: there is no table {source.name!r}; there are: {known}")
    if source.name == table and not source.alias:
        raise Unsupported(f"{text!r}: a table that looks up itself has to be given another name")
    scope = _Scope(text, source.alias_or_name, source.name, table, schema, tables[source.name])
    is_inner, column = scope.resolve(tree.expressions[0])
    if not is_inner:
        raise _refusal(text)
    where = tree.args["where"].this
    links = dict(map(scope.link, where.flatten() if isinstance(where, exp.And) else [where]))
    key = tables[source.name].key_columns
    if {one.name for one in key} != links.keys():
        named = ", ".join(one.name for one in key)
        raise Unsupported(
            f"{text!r}: a lookup is by the key of {source.name!r}, which is {named}: each of its "
            "columns is to be equal to one of the row"
        )
    for one in key:
        _check_types(text, one, schema.column(links[one.name]))
    spoken = [*scope.names, _Name(*_span(source.this), source.name)]
    lookup = TableLookup(name, source.name, column, tuple(links[one.name] for one in key))
    return lookup, spoken


class _Scope:
    """The names of a lookup: those of the other table, and those of the row."""

    def __init__(
        self,
        text: str,
        alias: str,
        other: str,
        table: str,
        schema: TableSchema,
        other_schema: TableSchema,
    ):
        self._text, self._alias, self._other, self._table = text, alias, other, table
        self._schema, self._other_schema = schema, other_schema
        self.names: list[_Name] = []

    def resolve(self, node: exp.Expr) -> tuple[bool, Column]:
        """A column, and whether it is one of the other table."""
        from sqlglot import exp

        if not isinstance(node, exp.Column) or len(node.parts) > 2:
            raise _refusal(self._text)
        of = node.table
        known = self._other_schema.whole.names
        is_inner = of == self._alias or (not of and node.name in known)
        if of and of not in (self._alias, self._table):
            raise NotFound(f"{self._text!r}: there is no table {of!r} in it")
        where, name = (self._other_schema, self._other) if is_inner else (self._schema, self._table)
        column = where.column(node.name)
        self.names.append(_Name(*_span(node.this), name, column.name))
        if of and of == name:
            self.names.append(_Name(*_span(node.args["table"]), name))
        return is_inner, column

    def link(self, node: exp.Expr) -> tuple[str, str]:
        """A column of the other table's key, and the column of the row that it is equal to."""
        from sqlglot import exp

        if not isinstance(node, exp.EQ):
            raise _refusal(self._text)
        sides = [self.resolve(side) for side in (node.this, node.expression)]
        if sorted(is_inner for is_inner, _ in sides) != [False, True]:
            raise _refusal(self._text)
        (theirs,) = (column.name for is_inner, column in sides if is_inner)
        (mine,) = (column.name for is_inner, column in sides if not is_inner)
        return theirs, mine


def _span(node: exp.Expr) -> tuple[int, int]:
    return int(node.meta["start"]), int(node.meta["end"]) + 1


def _check_types(text: str, key: Column, given: Column) -> None:
    if key.type != given.type:
        raise InvalidData(
            f"{text!r}: {key.name!r} is {type_name(key.type)} and {given.name!r} is "
            f"{type_name(given.type)}: make them one type first, with RetypeColumn"
        )


def _refusal(text: str) -> Unsupported:
    return Unsupported(
        f"{text!r}: a lookup is written SELECT column FROM table WHERE table.key = column of the "
        "row, and nothing else is read by a subquery here"
    )


def given_columns(lookups: Sequence[TableLookup]) -> frozenset[str]:
    """The columns of the row that decide what lookups find."""
    return frozenset(name for lookup in lookups for name in lookup.given)
