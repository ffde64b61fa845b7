"""Branches and tags whose names differ in case only: found without reading all names each time.

Branches are numbered as they are made, so that only new ones are read.  A branch that was renamed
keeps its number, and raises the epoch: then all names are read anew.  Commits of this process,
which rename none, may raise it, too.
"""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

from sqlalchemy import (
    Connection,
    LargeBinary,
    bindparam,
    cast,
    func,
    not_,
    or_,
    select,
)

from livingdb.catalog import schema
from livingdb.catalog.branches import EPOCH
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["AlikeNames"]

_branch, _tag = schema.branch, schema.tag
_SINCE = PreparedStatement(
    select(_branch.c.number, _branch.c.name)
    .where(_branch.c.number > bindparam("number"))
    .order_by(_branch.c.number)
)
_EPOCH_NOW = PreparedStatement(select(schema.meta.c.value).where(schema.meta.c.name == EPOCH))
_CALLED = PreparedStatement(select(_branch.c.name).where(_branch.c.name == bindparam("called")))
# A name that is one of three in lower case, or for which SQL may know no lower case.
_is_plain = func.length(cast(_tag.c.name, LargeBinary)) == func.length(_tag.c.name)
_FOLDED = ("folded", "lower", "raised")
_is_like = func.lower(_tag.c.name).in_([bindparam(name) for name in _FOLDED])
_TAGS = PreparedStatement(select(_tag.c.name).where(or_(_is_like, not_(_is_plain))))


class AlikeNames:
    """The names that some name may be taken for; what is committed is remembered."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._lock = Lock()
        self._epoch: str | None = None
        self._last_number = 0
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    def find(self, connection: Connection, name: str) -> list[tuple[str, str]]:
        """Branches and tags, each with its kind, that may be called so but for the case of letters.

        All that are so called are among them; which others are, is for the caller to see.
        """
        folded, epoch = _foldings(name), _epoch_now(connection)
        with self._lock:
            if epoch != self._epoch:
                self._epoch, self._last_number = epoch, 0
                self._names.clear()
            for number, known in self._queries.run_prepared(_SINCE, {"number": self._last_number}):
                self._last_number = number
                for one in _foldings(known):
                    self._names[one].add(known)
            found = set[str]().union(*(self._names.get(one, ()) for one in folded))
            since = self._last_number
        there = [one for one in sorted(found) if _CALLED.fetch(connection, {"called": one})]
        there += [made for _, made in _SINCE.fetch(connection, {"number": since})]
        tags = _TAGS.fetch(connection, dict(zip(_FOLDED, folded, strict=True)))
        return [*(("branch", one) for one in there), *(("tag", one) for (one,) in tags)]

    def note_epoch(self, epoch: str) -> None:
        """A commit of this process raised the epoch to this, and renamed no branch."""
        with self._lock:
            if self._epoch and int(epoch) == int(self._epoch) + 1:
                self._epoch = epoch


def _epoch_now(connection: Connection) -> str:
    return "".join(str(value) for (value,) in _EPOCH_NOW.fetch(connection, {}))


def _foldings(name: str) -> tuple[str, str, str]:
    return name.casefold(), name.lower(), name.upper().lower()
