"""Reads ALTER TABLE: each clause of Spark's, and the usual ones of PostgreSQL and MySQL.

    ALTER TABLE orders ADD COLUMN vat DOUBLE DEFAULT 0.0, DROP COLUMN note SYNC BOTH KEEP main_v1

Every word is read by a clause that knows it; what none knows is refused with the clause quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.alter_clauses import (
    AddColumn,
    AlterStatement,
    ChangeColumn,
    Clause,
    Default,
    DropColumn,
    DropConstraint,
    DropKey,
    MoveColumn,
    RenameColumn,
    RenameTable,
    ReplaceColumns,
    SetDefault,
    SetNotNull,
    SetType,
)
from livingdb.sql.alter_forms import REFUSED
from livingdb.sql.clause_reader import ClauseReader
from livingdb.sql.column_reader import (
    COLUMN_FORM,
    refuse_comment,
    take_column,
    take_constraint,
    take_place,
)
from livingdb.sql.sync_clause import take_sync
from livingdb.sql.type_reader import take_type

__all__ = ["parse_alter_table"]

_STARTS = ("ADD", "ALTER", "CHANGE", "DROP", "MODIFY", "RENAME", "REPLACE")
_FORM = (
    "write ALTER TABLE [IF EXISTS] name clause, … [SYNC BOTH | FORWARD | REVERSE [KEEP | TO name]]"
)
_ACTIONS = (
    "write [SET DATA] TYPE type, SET NOT NULL, DROP NOT NULL, SET DEFAULT value, DROP DEFAULT, "
    "FIRST or AFTER name"
)
_BEGINNINGS = "a clause begins with ADD, DROP, RENAME, ALTER, CHANGE, MODIFY or REPLACE COLUMNS"
_NEXT = "after a clause comes a comma and the next one, SYNC … KEEP name, or nothing"
_REFUSED = sorted(((key.split(), key) for key in REFUSED), key=lambda item: -len(item[0]))


def parse_alter_table(text: str, options: Mapping[str, Any] | None = None) -> AlterStatement:
    """What a statement says; `InvalidData` or `Unsupported` quotes what it may not.

    Expressions are kept as they are written.  `options` are those of a sync that are known.
    """
    reader = ClauseReader(text, "ALTER TABLE")
    if reader.has_statements:
        raise InvalidData("one statement at a time; the text has more than one")
    if not reader.take("ALTER", "TABLE"):
        raise Unsupported(f"{reader.rest[:40]} is not possible; {_FORM}")
    reader.begin_clause()
    if_exists = reader.take("IF", "EXISTS")
    reader.take("ONLY")  # no table inherits from another, so this is all there is
    table = reader.name("a table", _FORM)
    reader.title = f"ALTER TABLE {table} …"
    clauses: list[Clause] = []
    while True:
        reader.begin_clause()
        clauses += _take_clause(reader, is_first=not clauses)
        if not reader.take(","):
            break
    said = take_sync(reader)
    if not reader.is_done:
        raise reader.unknown(_NEXT)
    return AlterStatement(table, tuple(clauses), {**said, **(options or {})}, if_exists)


def _take_clause(reader: ClauseReader, is_first: bool) -> Iterator[Clause]:
    """What the next clause says: one thing, or several that a list names."""
    refused = _refused_beginning(reader)
    if refused is not None:
        raise reader.unsupported(f"{refused} is not possible", REFUSED[refused])
    if reader.take("ADD"):
        yield from _take_add(reader)
    elif reader.take("DROP"):
        yield from _take_drop(reader)
    elif reader.take("RENAME"):
        yield _take_rename(reader, is_first)
    elif reader.take("ALTER"):
        yield from _take_alter(reader)
    elif reader.take("CHANGE"):
        yield _take_change(reader)
    elif reader.take("MODIFY"):
        reader.take("COLUMN")
        if_exists = reader.take("IF", "EXISTS")
        column = take_column(reader)
        yield ChangeColumn(column.name, column, if_exists)
    elif reader.take("REPLACE", "COLUMNS"):
        yield ReplaceColumns(tuple(c.column for c in _take_column_list(reader, False)))
    else:
        raise reader.unknown(_BEGINNINGS)


def _refused_beginning(reader: ClauseReader, offset: int = 0) -> str | None:
    """Which of the beginnings that are refused comes next, if one does."""
    for words, name in _REFUSED:
        if all(reader.word_at(offset + at) == word for at, word in enumerate(words)):
            return name
    return None


def _goes_on(reader: ClauseReader) -> bool:
    """Whether a list goes on after a comma, which is passed, and no other clause begins there."""
    if reader.word_at(1) in _STARTS or _refused_beginning(reader, 1) is not None:
        return False
    return reader.take(",")


def _take_add(reader: ClauseReader) -> Iterator[Clause]:
    rule = take_constraint(reader)
    if rule is not None:
        yield rule
        return
    word = reader.take_one("COLUMN", "COLUMNS")
    if_missing = reader.take("IF", "NOT", "EXISTS")
    if reader.is_next("("):
        yield from _take_column_list(reader, if_missing)
        return
    yield AddColumn(take_column(reader), if_missing)
    while word is not None and _goes_on(reader):
        yield AddColumn(take_column(reader), if_missing)


def _take_column_list(reader: ClauseReader, if_missing: bool) -> list[AddColumn]:
    """Columns in parentheses."""
    form = f"a column is {COLUMN_FORM}"
    reader.expect("(", instead=form)
    found = [AddColumn(take_column(reader), if_missing)]
    while reader.take(","):
        found.append(AddColumn(take_column(reader), if_missing))
    reader.expect(")", instead=form)
    return found


def _take_drop(reader: ClauseReader) -> Iterator[Clause]:
    form = "write DROP [COLUMN] [IF EXISTS] name, DROP CONSTRAINT [IF EXISTS] name, …"
    if reader.take("PRIMARY", "KEY"):
        yield DropKey()
        return
    kind = "FOREIGN KEY" if reader.take("FOREIGN", "KEY") else None
    kind = kind or reader.take_one("CONSTRAINT", "CHECK", "INDEX", "KEY")
    if kind is not None:
        if_exists = reader.take("IF", "EXISTS")
        name = reader.name("a constraint", form)
        _take_restrict(reader)
        yield DropConstraint(name, if_exists, "INDEX" if kind == "KEY" else kind)
        return
    word = reader.take_one("COLUMN", "COLUMNS")
    if_exists = reader.take("IF", "EXISTS")
    if word is not None and reader.is_next("("):
        names = list(reader.names("a column", form))
    else:
        names = [reader.name("a column", form)]
        while word is not None and _has_name_next(reader) and reader.take(","):
            names.append(reader.name("a column", form))
    _take_restrict(reader)
    for name in names:
        yield DropColumn(name, if_exists)


def _has_name_next(reader: ClauseReader) -> bool:
    """Whether a comma and a name come next, and no clause, which has more than one word."""
    is_one = reader.ends_at(2) or reader.word_at(2) == ","
    before = ("CASCADE", "KEEP", "RESTRICT", "SYNC")
    return is_one or (reader.word_at(1) not in _STARTS and reader.word_at(2) in before)


def _take_restrict(reader: ClauseReader) -> None:
    """Pass RESTRICT, which is what there is."""
    if reader.take("CASCADE"):
        raise reader.unsupported(
            "CASCADE is not possible: what others need is not dropped with them unseen",
            "drop those first, in the same statement",
        )
    reader.take("RESTRICT")


def _take_rename(reader: ClauseReader, is_first: bool) -> Clause:
    form = "write RENAME COLUMN name TO name, or RENAME TO name"
    if reader.take_one("TO", "AS"):
        return RenameTable(reader.name("a table", form))
    is_column = reader.take("COLUMN")
    if_exists = is_column and reader.take("IF", "EXISTS")
    if not is_column and reader.word_at(1) != "TO":
        if not is_first:  # `, rename STRING` may be meant for a column of that name
            raise reader.invalid("it does not say what is renamed", form)
        return RenameTable(reader.name("a table", form))
    name = reader.name("a column", form)
    reader.expect("TO", instead=form)
    return RenameColumn(name, reader.name("a column", form), if_exists)


def _take_alter(reader: ClauseReader) -> Iterator[Clause]:
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    while True:
        name = reader.name("a column", _ACTIONS)
        found = _take_action(reader, name, if_exists)
        if found is None:
            raise reader.unknown(_ACTIONS)
        yield found
        if not _goes_on(reader):
            return


def _take_change(reader: ClauseReader) -> Clause:
    """What ALTER takes, as in Spark; or a new name and a type, as in Hive and MySQL."""
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name("a column", f"write CHANGE name {COLUMN_FORM}")
    action = _take_action(reader, name, if_exists)
    return action or ChangeColumn(name, take_column(reader), if_exists)


def _take_action(reader: ClauseReader, name: str, if_exists: bool) -> Clause | None:
    """What is done to a column, if it is one of the things that ALTER COLUMN does."""
    if reader.take("TYPE") or reader.take("SET", "DATA", "TYPE"):
        data_type, using = take_type(reader, name), None
        if reader.take("USING"):
            using = reader.expression("the expression", "write USING expression")
        return SetType(name, data_type, using, if_exists)
    for word in ("SET", "DROP"):
        if reader.take(word, "NOT", "NULL"):
            return SetNotNull(name, word == "SET", if_exists)
    if reader.take("SET", "DEFAULT"):
        return SetDefault(name, Default(reader.value("the default")), if_exists)
    if reader.take("DROP", "DEFAULT"):
        return SetDefault(name, Default(None), if_exists)
    place = take_place(reader)
    if place is not None:
        return MoveColumn(name, place, if_exists)
    refuse_comment(reader)
    return None
