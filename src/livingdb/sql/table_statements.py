"""Reads CREATE TABLE and DROP TABLE: what they say about a schema, in plain values.

ALTER TABLE has a reader of its own, `alter_table`; columns and constraints are read in the same
way in both, so that no word is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.alter_clauses import (
    AddCheck,
    AddForeignKey,
    AddKey,
    AddUnique,
    AlterStatement,
    ColumnSpec,
    Rule,
)
from livingdb.sql.alter_table import parse_alter_table
from livingdb.sql.clause_reader import ClauseReader
from livingdb.sql.column_reader import COLUMN_FORM, take_column, take_constraint
from livingdb.sql.sync_clause import take_sync
from livingdb.sql.token_reader import TokenReader

__all__ = ["NOTHING_TEMPORARY", "SchemaStatement", "parse_schema_statement", "without_sync"]

NOTHING_TEMPORARY = (
    "nothing here is temporary; WITH names a query for one statement, and a clone of the branch "
    "holds tables and views that are dropped with it"
)

_FORM = "write CREATE TABLE [IF NOT EXISTS] name (column, …, PRIMARY KEY (name, …))"
_ITEM = f"in the parentheses are columns, each as {COLUMN_FORM} or PRIMARY KEY, and constraints"
_DROP_FORM = "write DROP TABLE [IF EXISTS] name"
_NO_INDEX = "write CREATE INDEX [name] ON table (column, …), or DROP INDEX name"
_NO_TABLES = ("DATABASE", "FUNCTION", "INDEX", "PROCEDURE", "SCHEMA", "SEQUENCE", "TRIGGER", "VIEW")


@dataclass(frozen=True)
class SchemaStatement:
    """CREATE or DROP TABLE: the names of changes, each with its arguments, and the sync.

    `rules` are constraints of the table that are added once it is there.  `if_exists` and
    `if_missing` say that there may be nothing to do.
    """

    table: str
    changes: tuple[tuple[str, dict[str, Any]], ...]
    options: dict[str, Any] = field(default_factory=dict)
    if_exists: bool = False
    if_missing: bool = False
    rules: tuple[AddCheck | AddForeignKey, ...] = ()


def without_sync(text: str) -> tuple[str, dict[str, Any]]:
    """A statement CREATE or DROP without its SYNC clause, and what that says."""
    reader = TokenReader(text)
    if reader.take_one("CREATE", "DROP") is not None and reader.seek_last("SYNC"):
        rest, options = reader.text_before, take_sync(reader)
        if options and reader.is_done:
            return rest, options
    return text, {}


def parse_schema_statement(
    text: str, options: Mapping[str, Any] | None = None
) -> SchemaStatement | AlterStatement:
    """What a statement says; `Unsupported` for what it may say elsewhere only.

    Expressions in it are kept as they are written in the text.  `options` are those of a sync
    that are known.
    """
    reader = ClauseReader(text, "")
    if reader.has_statements:
        raise InvalidData("one statement at a time; the text has more than one")
    if reader.is_next("ALTER"):
        return parse_alter_table(text, options)
    if reader.take("DROP"):
        return _drop(reader, options or {})
    reader.expect("CREATE", instead=_FORM)
    return _create(reader, options or {})


def _expect_table(reader: ClauseReader, verb: str, form: str) -> None:
    """Pass TABLE; `Unsupported` for what else may be created or dropped elsewhere."""
    words: list[str] = []
    while not reader.take("TABLE"):
        word = reader.take_identifier()
        words.append("" if word is None else word.upper())
        if word is None or words[-1] in _NO_TABLES:
            break
    else:
        words += ["TABLE"] if words else []
    if words:
        instead = _NO_INDEX if "INDEX" in words else form
        if words[0] in ("TEMP", "TEMPORARY", "GLOBAL", "LOCAL"):
            instead = NOTHING_TEMPORARY
        raise Unsupported(f"{verb} {' '.join(words).strip()} is not possible: {instead}")


def _drop(reader: ClauseReader, options: Mapping[str, Any]) -> SchemaStatement:
    _expect_table(reader, "DROP", _DROP_FORM)
    reader.title = "DROP TABLE"
    reader.begin_clause()
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name("a table", _DROP_FORM)
    if reader.is_next(","):
        raise reader.invalid("it drops one table at a time", _DROP_FORM)
    reader.take("RESTRICT")
    given = _end(reader, options, _DROP_FORM)
    return SchemaStatement(name, (("DropTable", {"table": name}),), given, if_exists=if_exists)


def _end(reader: ClauseReader, options: Mapping[str, Any], form: str) -> dict[str, Any]:
    """What is said of the sync at the end, where nothing else may stand."""
    said = take_sync(reader)
    if not reader.is_done:
        raise reader.unsupported(f"{reader.rest[:60]!r} is not possible", form)
    return {**said, **options}


def _create(reader: ClauseReader, options: Mapping[str, Any]) -> SchemaStatement:
    _expect_table(reader, "CREATE", _FORM)
    reader.title = "CREATE TABLE"
    reader.begin_clause()
    if_missing = reader.take("IF", "NOT", "EXISTS")
    name = reader.name("a table", _FORM)
    reader.title = f"CREATE TABLE {name} …"
    reader.begin_clause()
    columns, rules = _take_items(reader)
    if reader.is_next("AS"):
        raise reader.unsupported(
            "columns are those of the query",
            f"write CREATE TABLE {name} (PRIMARY KEY (…)) AS …, or fill it by INSERT INTO",
        )
    given = _end(reader, options, "nothing stands after the columns but SYNC … KEEP name")
    rules = [*(rule for column in columns for rule in column.rules), *rules]
    made = _creation(name, columns, rules)
    later = [rule for rule in rules if isinstance(rule, (AddCheck, AddForeignKey))]
    return SchemaStatement(
        name, (("CreateTable", made),), given, if_missing=if_missing, rules=tuple(later)
    )


def _take_items(reader: ClauseReader) -> tuple[list[ColumnSpec], list[Rule]]:
    """The columns and the constraints that stand in the parentheses."""
    columns: list[ColumnSpec] = []
    rules: list[Rule] = []
    reader.expect("(", instead=_FORM)
    while True:
        reader.begin_clause()
        rule = take_constraint(reader)
        if rule is not None:
            rules.append(rule)
        else:
            columns.append(take_column(reader))
            if columns[-1].place is not None:
                raise reader.invalid("FIRST and AFTER are for ALTER TABLE", "leave them out")
        if not reader.take(","):
            break
    reader.expect(")", instead=_ITEM)
    names = [column.name for column in columns]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidData(f"the column {twice[0]!r} is in the schema twice")
    return columns, rules


def _creation(name: str, columns: Sequence[ColumnSpec], rules: Iterable[Rule]) -> dict[str, Any]:
    """What `CreateTable` takes."""
    keys = [rule.columns for rule in rules if isinstance(rule, AddKey)]
    if not keys:
        raise InvalidData(f"table {name!r} needs a PRIMARY KEY")
    if len(keys) > 1:
        raise InvalidData(f"table {name!r} has one PRIMARY KEY: name all its columns in it")
    schema = {c.name: c.type + (" not null" if c.nullable is False else "") for c in columns}
    given: dict[str, Any] = {"table": name, "schema": schema, "key": keys[0]}
    said: dict[str, dict[str, Any]] = {
        "defaults": {c.name: c.default.value for c in columns if c.default is not None},
        "computed": {c.name: c.computed for c in columns if c.computed is not None},
        "generated": {c.name: c.generated for c in columns if c.generated is not None},
    }
    uniques = [rule for rule in rules if isinstance(rule, AddUnique)]
    if uniques:
        given["unique"] = _unique_groups(uniques)
    return given | {name: values for name, values in said.items() if values}


def _unique_groups(
    uniques: Sequence[AddUnique],
) -> dict[str, tuple[str, ...]] | list[tuple[str, ...]]:
    """Unique constraints as `CreateTable` takes them: by name, if one has a name."""
    if all(unique.name is None for unique in uniques):
        return [unique.columns for unique in uniques]
    taken = {unique.name for unique in uniques}
    free = (f"unique_{n}" for n in range(1, 2 * len(uniques) + 1) if f"unique_{n}" not in taken)
    return {unique.name or next(free): unique.columns for unique in uniques}
