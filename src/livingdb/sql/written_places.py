"""Where the tables of a query stand in its text, so that Spark can be sent the text itself.

A whole relation (`dev.orders VERSION AS OF 'main~3'`) gives way to the one that Spark reads, with
`AS orders` where no alias stands; a column that names the branch, too, gives way at its own place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from livingdb.engines.spark_words import Word, spark_words
from livingdb.engines.written_query import Place, WrittenQuery
from livingdb.errors import Unsupported
from livingdb.sql.bindings import quote
from livingdb.sql.parameters import Parameters, parameter_values
from livingdb.sql.parse import tokenize
from livingdb.sql.table_names import written_name

__all__ = ["Renamed", "written_query"]

Renamed = tuple[exp.Column, str]
"""A column that names its table with a branch, and what the table is called instead."""
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER)
_EITHER = (TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING)
_WHOLE = ("comment", "string", "raw", "quoted")
_OPENING, _CLOSING = TokenType.L_PAREN, TokenType.R_PAREN


def written_query(
    text: str,
    tables: Iterable[tuple[exp.Table, str]],
    columns: Iterable[Renamed],
    given: Parameters,
) -> WrittenQuery:
    """The text of a query, whose tables are sources of those names."""
    reader = _Reader(text)
    places = [place for table, name in tables for place in reader.places(table, name)]
    places += [reader.column_place(column, name) for column, name in columns]
    return WrittenQuery(reader.text, tuple(places), reader.values(given, places))


class _Reader:
    """Finds nodes of a tree in the text that it was read from."""

    def __init__(self, text: str):
        self._tokens = tokenize(text)
        _check_same_words(text, self._tokens)
        while self._tokens and self._tokens[-1].token_type == TokenType.SEMICOLON:
            text = text[: self._tokens.pop().start]
        self.text = text

    def places(self, table: exp.Table, source: str) -> list[Place]:
        """What gives way to a source."""
        start, end = self._table_span(table)
        alias = table.args.get("alias")
        if alias is not None and alias.this is not None and "start" in alias.this.meta:
            return [Place(start, end, source)]
        called = f" AS {quote(table.alias or written_name(table))}"
        after = self._end_of_sample(end) if table.args.get("sample") is not None else end
        if after == end:
            return [Place(start, end, source, called)]
        return [Place(start, end, source), Place(after, after, None, called)]

    def column_place(self, column: exp.Column, name: str) -> Place:
        """The names of the branch and the table before that of a column."""
        before = column.parts[:2]
        return Place(_start(before[0]), _end(before[1]), None, quote(name))

    def values(
        self, given: Parameters, places: Sequence[Place]
    ) -> dict[str, object] | list[object]:
        """The values of the parameters that are left in the text."""
        values = parameter_values(given)
        if given is None or isinstance(given, Mapping):
            return values
        marks = [t.start for t in self._tokens if t.token_type == TokenType.PLACEHOLDER]
        gone = {at for at in marks if any(place.start <= at < place.end for place in places)}
        return [value for at, value in zip(marks, values.values(), strict=True) if at not in gone]

    def _table_span(self, table: exp.Table) -> tuple[int, int]:
        if isinstance(table.this, exp.Func):
            start = _start(table.args["db"])
            end = self._end_of_parentheses(self._index_after(start) + 2)
        else:
            start, end = _start(table.parts[0]), _end(table.parts[-1])
        if table.args.get("version") is not None:
            end = self._end_of_version(end)
        return start, end

    def _index_after(self, place: int) -> int:
        """The number of the first token that begins after a place."""
        return bisect_right(self._tokens, place, key=lambda token: token.start)

    def _end_of_parentheses(self, at: int) -> int:
        depth = 0
        for token in self._tokens[at:]:
            depth += (token.token_type == _OPENING) - (token.token_type == _CLOSING)
            if depth == 0:
                return token.end + 1
        raise Unsupported("where a function in FROM ends cannot be told")

    def _end_of_version(self, place: int) -> int:
        """Where `VERSION AS OF …` ends: after the value that follows these words."""
        tokens, at = self._tokens, self._index_after(place)
        while at < len(tokens) and not tokens[at].text.upper().endswith("OF"):
            at += 1
        at += 1
        if at < len(tokens) and tokens[at].token_type == _OPENING:
            return self._end_of_parentheses(at)
        if at + 1 < len(tokens) and tokens[at + 1].token_type == _OPENING:
            return self._end_of_parentheses(at + 1)
        is_typed = at + 1 < len(tokens) and tokens[at + 1].token_type == TokenType.STRING
        is_named = at < len(tokens) and tokens[at].token_type == TokenType.COLON
        at += int(is_named or (is_typed and tokens[at].token_type != TokenType.STRING))
        if at >= len(tokens):
            raise Unsupported("where VERSION AS OF or TIMESTAMP AS OF ends cannot be told")
        return tokens[at].end + 1

    def _end_of_sample(self, place: int) -> int:
        at = self._index_after(place)
        end = self._end_of_parentheses(at + 1)
        at = self._index_after(end - 1)
        if at < len(self._tokens) and self._tokens[at].text.upper() == "REPEATABLE":
            end = self._end_of_parentheses(at + 1)
        return end


def _check_same_words(text: str, tokens: Sequence[Token]) -> None:
    """`Unsupported` if Spark takes for code what was read as a string or a comment, or otherwise.

    Then what was looked at would not be what runs.
    """
    starts = [token.start for token in tokens]
    for word in spark_words(text):
        at = bisect_right(starts, word.start) - 1
        token = tokens[at] if at >= 0 and word.start <= tokens[at].end else None
        is_one = at + 1 == len(tokens) or starts[at + 1] >= word.end
        if not _is_same(word, token) or (word.kind in _WHOLE and not is_one):
            shown = text[word.start : word.start + 40]
            raise Unsupported(f"how {shown!r} is to be read is not clear; write it more plainly")


def _is_same(word: Word, token: Token | None) -> bool:
    if word.kind == "comment":
        return token is None
    if token is None or token.token_type in _EITHER:
        return True
    return (word.kind in _WHOLE) == (token.token_type in _STRINGS)


def _start(node: exp.Expr) -> int:
    return _place(node)[0]


def _end(node: exp.Expr) -> int:
    return _place(node)[1]


def _place(node: exp.Expr) -> tuple[int, int]:
    if "start" not in node.meta:
        raise Unsupported(f"where {node.name!r} stands in the query cannot be told")
    return int(node.meta["start"]), int(node.meta["end"]) + 1
