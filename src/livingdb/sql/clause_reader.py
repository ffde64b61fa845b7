"""Reads the parts that clauses of statements are made of; errors quote the clause they stand in."""

from __future__ import annotations

from sqlglot import exp

from livingdb.errors import InvalidData, LivingDBError, Unsupported
from livingdb.sql.parameters import constant
from livingdb.sql.parse import parse_expression
from livingdb.sql.token_reader import TokenReader

__all__ = ["ClauseReader"]

_SHOWN = 60
_ENDS_OF_VALUES = frozenset(
    (
        *("AFTER", "AS", "AUTO_INCREMENT", "CHECK", "COLLATE", "COMMENT", "CONSTRAINT", "DEFAULT"),
        *("FIRST", "GENERATED", "KEEP", "KEY", "NOT", "NULL", "ON", "PRIMARY", "REFERENCES"),
        *("SYNC", "UNIQUE"),
    )
)
"""The words that a default without parentheses ends before."""
_ENDS_OF_STATEMENTS = frozenset(("KEEP", "SYNC"))
"""The words that an expression without parentheses ends before."""


class ClauseReader(TokenReader):
    """A statement that consists of clauses, each of which begins with `begin_clause`."""

    def __init__(self, text: str, title: str):
        super().__init__(text)
        self.title = title
        """What the statement is called in errors."""
        self._start = 0

    def begin_clause(self) -> None:
        """What comes next is a clause of its own."""
        self._start = self._at

    @property
    def clause(self) -> str:
        """The clause as it is written, shortened."""
        tokens = self._tokens[self._start :]
        written = self.text[tokens[0].start :] if tokens else ""
        return written if len(written) <= _SHOWN else written[: _SHOWN - 1] + "…"

    def invalid(self, problem: str, instead: str) -> InvalidData:
        """An error for what is not understood, and what to write instead."""
        return InvalidData(self._message(problem, instead))

    def unsupported(self, problem: str, instead: str) -> Unsupported:
        """An error for what is not possible here, and what to write instead."""
        return Unsupported(self._message(problem, instead))

    def _message(self, problem: str, instead: str) -> str:
        return f"{self.title} {self.clause}: {problem}; {instead}".replace(" :", ":")

    def unknown(self, instead: str) -> InvalidData:
        """An error for what comes next, which nothing was made of."""
        if self.is_done:
            return self.invalid("it ends too early", instead)
        return self.invalid(f"{self.rest[:_SHOWN]!r} is not understood", instead)

    def expect(self, *words: str, instead: str) -> None:
        """Pass these words; `InvalidData` if others come."""
        if not self.take(*words):
            raise self.unknown(f"{' '.join(words)} is missing: {instead}")

    def name(self, what: str, instead: str) -> str:
        """A name of one thing; `InvalidData` if none comes, `Unsupported` for one with a dot."""
        found = self.take_identifier()
        if found is None:
            raise self.unknown(f"the name of {what} is missing: {instead}")
        if self.is_next("."):
            part = "fields of a struct are not changed one by one: give the column another type"
            if "table" in what:
                part = "a schema is changed on the branch the statement runs on: name the table"
            raise self.unsupported(f"{found}.… names a part of something", part)
        return found

    def names(self, what: str, instead: str) -> tuple[str, ...]:
        """Names in parentheses."""
        self.expect("(", instead=instead)
        found = [self.name(what, instead)]
        while self.take(","):
            found.append(self.name(what, instead))
        self.expect(")", instead=instead)
        return tuple(found)

    def condition(self, what: str, instead: str) -> str:
        """An expression in parentheses, as it is written."""
        found = self.take_parenthesized()
        if found is None:
            raise self.unknown(instead)
        self._tree(found, what, instead)
        return found

    def expression(self, what: str, instead: str) -> str:
        """An expression up to a comma or the end of the clauses, as it is written."""
        found = self.take_until(_ENDS_OF_STATEMENTS)
        self._tree(found, what, instead)
        return found

    def value(self, what: str) -> object:
        """A constant; None is NULL."""
        instead = "a default is a value: a number, 'a text', TRUE, DATE '2026-01-31' or NULL"
        found = self.take_until(_ENDS_OF_VALUES)
        tree = self._tree(found, what, instead).unnest()
        value = constant(tree, {})
        if value is None and not isinstance(tree, exp.Null):
            raise self.unsupported(f"{found!r} is no value", instead)
        return value

    def _tree(self, text: str, what: str, instead: str) -> exp.Expr:
        if not text:
            raise self.unknown(f"{what} is missing: {instead}")
        try:
            return parse_expression(text)
        except LivingDBError as error:
            raise self.invalid(f"{text!r} cannot be read: {error}", instead) from None
