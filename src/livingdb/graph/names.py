"""Names: what a branch, a tag or a table may be called.  The one place that decides it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from livingdb.errors import AlreadyExists, InvalidName
from livingdb.tables.letter_case import are_alike, find_alike
from livingdb.tables.visible_names import check_visible

__all__ = ["check_branch", "check_free", "check_index", "check_table", "check_tag", "is_hidden"]

LENGTH_LIMIT = 200
_FORBIDDEN = re.compile(r"[\s~^:@?*\[\]\\'\"`;]")
_RESERVED = ("livingdb", "id", "information_schema")
_RESERVED_TABLES = ("livingdb", "information_schema")


def is_hidden(name: str) -> bool:
    """Whether no user made it: a hidden branch between two schemas, a hidden table of a view."""
    return name.startswith("~")


def check_branch(name: object) -> str:
    """The name, if a branch may have it."""
    return _check_ref("branch", name)


def check_tag(name: object) -> str:
    """The name, if a tag may have it."""
    return _check_ref("tag", name)


def check_table(name: object) -> str:
    """The name, if a table may have it: any text without control characters or quotes."""
    text = _check_text("table", name)
    if is_hidden(text):
        raise InvalidName(f"table {text!r}: names that begin with '~' are those of hidden tables")
    if any(character in text for character in "`\"'\\/;"):
        raise InvalidName(f"table {text!r}: quotes, slashes and semicolons are not allowed")
    if find_alike(text, _RESERVED_TABLES):
        raise InvalidName(f"table {text!r}: the name is reserved for a schema")
    if text != text.strip():
        raise InvalidName(f"table {text!r}: no blanks at either end")
    return text


def check_free(name: str, taken: Iterable[tuple[str, str]]) -> None:
    """No branch or tag has the name; SQL does not tell it from one that differs in case only.

    `taken` are the kinds and the names of those there are.
    """
    for what, other in taken:
        if other == name:
            raise AlreadyExists(f"there is a {what} {name!r} already; choose another name")
        if are_alike(name, other):
            raise InvalidName(
                f"there is a {what} {other!r}, from which {name!r} differs in case only; choose "
                "another name"
            )


def check_index(name: object) -> str:
    """The name, if an index may have it: any that a table may have."""
    text = _check_text("index", name)
    if any(character in text for character in "`\"'\\/;") or text != text.strip():
        raise InvalidName(
            f"index {text!r}: quotes, slashes, semicolons and blanks at either end are not allowed"
        )
    return text


def _check_ref(what: str, name: object) -> str:
    text = _check_text(what, name)
    bad = _FORBIDDEN.search(text)
    if bad is not None:
        raise InvalidName(f"{what} {text!r}: {bad.group()!r} is not allowed in it")
    if text.startswith(("-", "/", ".")) or text.endswith(("/", ".")) or "//" in text:
        raise InvalidName(f"{what} {text!r}: no '-', '/' or '.' at its edges and no '//'")
    if ".." in text:
        raise InvalidName(f"{what} {text!r}: '..' is not allowed in it")
    if find_alike(text, _RESERVED):
        raise InvalidName(f"{what} {text!r}: the name is reserved")
    return text


def _check_text(what: str, name: object) -> str:
    if not isinstance(name, str):
        raise InvalidName(f"{_article(what)} {what} name is a text, not {type(name).__name__}")
    if not name or len(name) > LENGTH_LIMIT:
        raise InvalidName(f"{_article(what)} {what} name has 1 to {LENGTH_LIMIT} characters")
    if any(unicodedata.category(character) in ("Cs", "Co", "Cn") for character in name):
        raise InvalidName(f"{what} {name!r}: characters that nobody knows are not allowed")
    check_visible(what, name)
    return name


def _article(what: str) -> str:
    return "an" if what[0] in "aeiou" else "a"
