"""What DuckDB says went wrong, in words of LivingDB's error tree."""

from __future__ import annotations

import re

from livingdb.engines.embedded.duckdb_dialect import NotEmbedded
from livingdb.engines.embedded.value_sizes import OVER_LIMIT
from livingdb.errors import InvalidData, LivingDBError, NotFound, StorageFailure, Unsupported

__all__ = ["TOO_MUCH", "NoSuchColumn", "original_error", "translate_error"]


class NoSuchColumn(NotFound):
    """There is no column of a name."""

    def __init__(self, column: str, message: str):
        super().__init__(message)
        self.column = column


class _WrongArguments(NotEmbedded, InvalidData):
    """A call that the embedded engine has no function for, with these types."""

    code = "invalid_data"


TOO_MUCH = (
    "the query needs more memory than there is, or than memory_limit allows, and more than it "
    "could put on disk"
)

_NO_COLUMN = re.compile(r'Referenced column "([^"]*)"')

_NO_COLUMN_OF = re.compile(
    r'(?:Table|Values list) "([^"]*)" does not have a column named "([^"]*)"'
)

_NO_ALIAS = re.compile(r'Referenced table "([^"]*)" not found')

_AMBIGUOUS = re.compile(r'Ambiguous reference to column name "([^"]*)"')

_NO_FUNCTION = re.compile(
    r"(?:Function|Macro)(?: with name)? \"?([\w.]+)\"? (?:does not exist|is not)"
)

_WRONG_ARGUMENTS = re.compile(r"No function matches the given name and argument types '([^']*)'")

_CANDIDATES = re.compile(r"Candidate bindings: (.*)")

_NOT_READ = re.compile(r'could not convert string "([^"]*)" to', re.IGNORECASE)

_KIND = re.compile(r"^[A-Z][A-Za-z ]* Error: ")

_OURS = re.compile(r"livingdb_\d+|\$p\d+")

_KNOWN: tuple[tuple[str, type[LivingDBError], str], ...] = (
    (
        "ivision by zero",
        InvalidData,
        "division by zero; use try_divide or nullif to get NULL instead",
    ),
    ("expression depth limit", InvalidData, "the statement is nested too deeply"),
    (
        "python value of type",
        InvalidData,
        "a parameter is of a type SQL does not have; give numbers, text, dates, lists or dicts",
    ),
    (
        "out of range for the destination type INT64",
        InvalidData,
        "a value is too large for bigint; cast to decimal(38,0) or double first",
    ),
    ("cannot encode str", InvalidData, "the text is not Unicode: it holds half a character"),
)


def original_error(error: Exception) -> Exception:
    """DuckDB's own error, of one that came through a stream: of that only the text is left."""
    import duckdb

    found = _KIND.match(str(error))
    if isinstance(error, duckdb.Error) or found is None:
        return error
    name = found[0].removesuffix(" Error: ").replace(" ", "").casefold() + "exception"
    kinds = {one.casefold(): kind for one, kind in vars(duckdb).items() if isinstance(kind, type)}
    kind = kinds.get(name, duckdb.Error)
    return kind(str(error)) if issubclass(kind, duckdb.Error) else error


def translate_error(error: Exception) -> LivingDBError | Exception:
    """The error to raise instead; an error that is not DuckDB's stays what it is."""
    import duckdb

    if not isinstance(error, duckdb.Error):
        return error
    text = _KIND.sub("", str(error)).strip()
    for hint, kind, words in _KNOWN:
        if hint in text:
            return kind(words)
    sentence = _sentence(text)
    if isinstance(error, (duckdb.BinderException, duckdb.CatalogException)):
        return _name_error(text) or InvalidData(sentence)
    if isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException)):
        return InvalidData(sentence)
    if isinstance(error, duckdb.PermissionException):
        return Unsupported("SQL reads the tables of the database and nothing else: no files")
    if isinstance(error, duckdb.OutOfMemoryException) or OVER_LIMIT in text:
        return Unsupported(TOO_MUCH)
    if isinstance(error, duckdb.IOException):
        return StorageFailure(
            f"the query could not put on disk what memory does not hold: {sentence}"
        )
    if isinstance(error, duckdb.NotImplementedException):
        return NotEmbedded(f"the embedded engine cannot do this: {sentence}")
    if isinstance(error, duckdb.ParserException):
        return NotEmbedded(f"the embedded engine does not know this syntax: {sentence}")
    if isinstance(error, (duckdb.InternalException, duckdb.FatalException)):
        return NotEmbedded("the embedded engine failed on this statement")
    return InvalidData(sentence)


def _name_error(text: str) -> LivingDBError | None:
    """The error for a name or a call that is wrong; None if the text is about something else."""
    if found := _NO_COLUMN_OF.search(text):
        message = f"{found[1]!r} has no column {found[2]!r}{_candidate_columns(text)}"
        return NoSuchColumn(found[2], message)
    if found := _NO_COLUMN.search(text):
        message = f"there is no column {found[1]!r}{_candidate_columns(text)}"
        return NoSuchColumn(found[1], message)
    if found := _NO_ALIAS.search(text):
        return NotFound(f"there is no table {found[1]!r} in the FROM clause")
    if found := _AMBIGUOUS.search(text):
        return InvalidData(f"the column {found[1]!r} is in several tables: say which one is meant")
    if found := _WRONG_ARGUMENTS.search(text):
        return _WrongArguments(f"a function or operator does not take these types: {found[1]}")
    if found := _NO_FUNCTION.search(text):
        return NotEmbedded(f"there is no function {found[1].lower()!r} in the embedded engine")
    return None


def _candidate_columns(text: str) -> str:
    """The columns it might have been."""
    found = _CANDIDATES.search(text)
    if found is None:
        return ""
    names = [name.split(".")[-1] for name in re.findall(r'"([^"]*)"', found[1])]
    shown = list(dict.fromkeys(name for name in names if not _OURS.search(name)))
    return f"; near it are {', '.join(shown)}" if shown else ""


def _sentence(text: str) -> str:
    """The first sentence of a message, without excerpts of the statement."""
    first = text.split("\n", 1)[0].split("Use TRY(", 1)[0]
    first = first.split(" when casting from source column", 1)[0]
    first = _NOT_READ.sub(r"could not cast \1 to", first)
    first = _OURS.sub("…", first).strip().rstrip("!.")
    is_word = first[1:2].islower()
    return (first[:1].lower() if is_word else first[:1]) + first[1:400]
