"""Reads CREATE INDEX and DROP INDEX.

CREATE INDEX [IF NOT EXISTS] [name] ON [TABLE] table (column, …)
DROP INDEX [IF EXISTS] name [ON [TABLE] table]
"""

from __future__ import annotations

from dataclasses import dataclass

from livingdb.errors import LivingDBError
from livingdb.sql.clause_reader import ClauseReader

__all__ = ["IndexStatement", "parse_index_statement"]

_CREATE_FORM = "write CREATE INDEX [IF NOT EXISTS] [name] ON table (column, …)"
_DROP_FORM = "write DROP INDEX [IF EXISTS] name [ON table]"
_REFUSED = {
    "USING": "there is one kind of index, which keeps values in their order",
    "CONCURRENTLY": "an index is made while others read and write: leave it out",
    "DESC": "an index is read from either end: leave it out",
    "NULLS": "rows are found by values that are not null: leave it out",
    "INCLUDE": "an index holds its columns and the key: the rest is read from the row",
    "WHERE": "an index is of all rows",
    "WITH": "indexes have no options",
    "OPTIONS": "indexes have no options",
    "TABLESPACE": "an index lies where its database is",
    "COMMENT": "indexes hold no comments",
    "COLLATE": "texts are compared letter by letter",
    "CASCADE": "nothing hangs on an index: leave it out",
}


@dataclass(frozen=True)
class IndexStatement:
    """An index that is to be, with its columns, or not to be.

    `is_lenient` says that there may be nothing to do.
    """

    name: str | None
    table: str | None
    columns: tuple[str, ...] = ()
    is_drop: bool = False
    is_lenient: bool = False


def parse_index_statement(text: str) -> IndexStatement | None:
    """What a statement says of an index; None if it is about something else.

    `Unsupported` names what may be said of indexes elsewhere only.
    """
    reader = ClauseReader(text, "")
    verb = reader.take_one("CREATE", "DROP")
    is_unique = verb == "CREATE" and reader.take("UNIQUE")
    if verb is None or not reader.take("INDEX"):
        return None
    if reader.has_statements:
        raise reader.invalid("one statement at a time", "the text has more than one")
    reader.title = f"{verb} INDEX"
    reader.begin_clause()
    if is_unique:
        instead = "ALTER TABLE … ADD UNIQUE (…) makes columns unique, and finds rows by them"
        raise reader.unsupported("an index says nothing of what is allowed", instead)
    return _drop(reader) if verb == "DROP" else _create(reader)


def _create(reader: ClauseReader) -> IndexStatement:
    _refuse(reader, _CREATE_FORM)
    is_lenient = reader.take("IF", "NOT", "EXISTS")
    name = None if reader.is_next("ON") else reader.name("the index", _CREATE_FORM)
    if name is None and is_lenient:
        raise reader.invalid("IF NOT EXISTS needs a name", _CREATE_FORM)
    reader.expect("ON", instead=_CREATE_FORM)
    reader.take("TABLE")
    table = reader.name("a table", _CREATE_FORM)
    _refuse(reader, _CREATE_FORM)
    reader.expect("(", instead=_CREATE_FORM)
    columns = [_column(reader)]
    while reader.take(","):
        columns.append(_column(reader))
    if not reader.take(")"):
        raise reader.unsupported("an index is on columns, not on expressions", _CREATE_FORM)
    _end(reader, _CREATE_FORM)
    return IndexStatement(name, table, tuple(columns), is_lenient=is_lenient)


def _column(reader: ClauseReader) -> str:
    name = reader.name("a column", _CREATE_FORM)
    reader.take("ASC")
    _refuse(reader, _CREATE_FORM)
    return name


def _drop(reader: ClauseReader) -> IndexStatement:
    _refuse(reader, _DROP_FORM)
    is_lenient = reader.take("IF", "EXISTS")
    name = reader.name("the index", _DROP_FORM)
    table = None
    if reader.take("ON"):
        reader.take("TABLE")
        table = reader.name("a table", _DROP_FORM)
    reader.take("RESTRICT")
    _end(reader, _DROP_FORM)
    return IndexStatement(name, table, is_drop=True, is_lenient=is_lenient)


def _end(reader: ClauseReader, form: str) -> None:
    _refuse(reader, form)
    if not reader.is_done:
        raise _unknown(reader, form)


def _refuse(reader: ClauseReader, form: str) -> None:
    """`Unsupported` for a word that says something elsewhere."""
    for word, why in _REFUSED.items():
        if reader.is_next(word):
            raise reader.unsupported(f"{word} is not possible: {why}", form)


def _unknown(reader: ClauseReader, form: str) -> LivingDBError:
    return reader.unsupported(f"{reader.rest[:60]!r} is not possible", form)
