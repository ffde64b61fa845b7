"""People: who there is, what each was granted, and their tokens, of which only hashes are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, exists, select
from sqlalchemy.exc import IntegrityError

from livingdb.catalog import schema
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.errors import AlreadyExists

__all__ = ["GrantRow", "ObjectGrantRow", "PeopleRows", "PersonRow", "TokenRow"]

_person, _grant, _object = schema.person, schema.person_grant, schema.object_grant
_token = schema.token
_people, _grants, _objects, _tokens = map(SealedRows, (_person, _grant, _object, _token))
_ANYBODY = PreparedStatement(select(exists().where(_person.c.id != "")))


class PersonRow(NamedTuple):
    """Somebody, by an id that stays and a name."""

    id: str
    name: str
    time: int


class GrantRow(NamedTuple):
    """A role that somebody has on the branches whose names match a pattern."""

    person: str
    role: str
    pattern: str
    time: int
    author: str


class ObjectGrantRow(NamedTuple):
    """A derived object that somebody may read without its sources; `giver` is who gave that."""

    person: str
    branch: BranchId
    time: int
    author: str
    giver: str


class TokenRow(NamedTuple):
    """A token: the hash of its secret, until when it counts, and the day it was last used on.

    `revoked` is when it was revoked, 0 if it was not; `used` is a time at the start of a day.
    """

    id: str
    person: str
    hash: bytes
    note: str
    made: int
    until: int
    revoked: int
    used: int


class PeopleRows:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    # --- people ------------------------------------------------------------------------------

    def are_any(self) -> bool:
        """Whether there is anybody."""
        return bool(self._queries.run_prepared(_ANYBODY, {})[0][0])

    def all(self) -> list[PersonRow]:
        """Everybody, by name."""
        rows = self._queries.all(_people.every.order_by(_person.c.name))
        return [PersonRow(*row) for row in _people.read_all(rows)]

    def named(self, name: str) -> PersonRow | None:
        """Who has that name."""
        found = _people.find(self._queries, name=name)
        return None if found is None else PersonRow(*found)

    def by_id(self, person: str) -> PersonRow | None:
        """Who has that id."""
        found = _people.find(self._queries, id=person)
        return None if found is None else PersonRow(*found)

    def add(self, connection: Connection, name: str, time: int) -> str:
        """Somebody new; the id.  `AlreadyExists` if the name is taken."""
        person = new_id()
        try:
            _people.insert(connection, [{"id": person, "name": name, "time": time}])
        except IntegrityError:
            raise AlreadyExists(f"there is a user {name!r} already") from None
        return person

    def remove(self, connection: Connection, person: str) -> None:
        """Forget somebody, with all that was granted to them and their tokens."""
        _people.delete(connection, _person.c.id == person)
        _grants.delete(connection, _grant.c.person == person)
        _objects.delete(connection, _object.c.person == person)
        _tokens.delete(connection, _token.c.person == person)

    # --- grants ------------------------------------------------------------------------------

    def grants(self, person: str | None = None) -> list[GrantRow]:
        """What was granted to somebody, or to anybody.

        All rows are compared with their digests: one that is not seen would be a right lost.
        """
        statement = _grants.every.order_by(_grant.c.person, _grant.c.pattern, _grant.c.role)
        rows = [GrantRow(*row) for row in _grants.read_all(self._queries.all(statement))]
        return [row for row in rows if person is None or row.person == person]

    def add_grants(self, connection: Connection, rows: Sequence[GrantRow]) -> None:
        """Grant roles; nothing changes where they are granted already."""
        _grants.insert_missing(connection, [row._asdict() for row in rows])

    def drop_grants(
        self, connection: Connection, person: str, role: str | None, pattern: str | None
    ) -> int:
        """Withdraw a role on a pattern; of None, any.  How many there were."""
        where = [_grant.c.person == person]
        if role is not None:
            where.append(_grant.c.role == role)
        if pattern is not None:
            where.append(_grant.c.pattern == pattern)
        return _grants.delete(connection, *where)

    def object_grants(self, person: str | None = None) -> list[ObjectGrantRow]:
        """The derived objects that were granted to somebody, or to anybody."""
        statement = _objects.every.order_by(_object.c.person, _object.c.branch)
        rows = [ObjectGrantRow(*row) for row in _objects.read_all(self._queries.all(statement))]
        return [row for row in rows if person is None or row.person == person]

    def add_object_grant(self, connection: Connection, row: ObjectGrantRow) -> None:
        """Grant a derived object, in the place of such a grant by another."""
        _objects.put(connection, [row._asdict()])

    def drop_object_grant(self, connection: Connection, person: str, branch: BranchId) -> int:
        """Withdraw a derived object; how many grants there were."""
        return _objects.delete(connection, _object.c.person == person, _object.c.branch == branch)

    # --- tokens ------------------------------------------------------------------------------

    def tokens(self, person: str) -> list[TokenRow]:
        """The tokens of somebody, the newest first.

        All rows are compared with their digests: one that is not seen could not be revoked.
        """
        statement = _tokens.every.order_by(_token.c.made.desc(), _token.c.id)
        rows = [TokenRow(*row) for row in _tokens.read_all(self._queries.all(statement))]
        return [row for row in rows if row.person == person]

    def token(self, token: str) -> TokenRow | None:
        """The token of that id."""
        found = _tokens.look_up(self._queries, id=token)
        return None if found is None else TokenRow(*found)

    def add_token(self, connection: Connection, row: TokenRow) -> None:
        """A new token."""
        _tokens.insert(connection, [row._asdict()])

    def set_token(self, connection: Connection, token: str, values: Mapping[str, Any]) -> bool:
        """Change what is said of a token; False if there is none."""
        return bool(_tokens.update(connection, [_token.c.id == token], values))
