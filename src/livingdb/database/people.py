"""The people of a database as users see them: who there is, what they may do, and their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from livingdb.access.acting import acting
from livingdb.access.audit import DONE, REFUSED, entry
from livingdb.access.roles import EVERYTHING, Role, check_pattern
from livingdb.access.sight import Sight
from livingdb.access.tokens import are_equal, make_token, token_id
from livingdb.access.user import Grant, User, local_owner, read_user
from livingdb.catalog.people import GrantRow, ObjectGrantRow, PersonRow, TokenRow
from livingdb.database.snapshot import check_limit
from livingdb.errors import Forbidden, InvalidData, InvalidName, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.graph.snapshot_columns import TIME, to_datetime
from livingdb.tables.visible_names import check_visible

if TYPE_CHECKING:
    import pyarrow as pa

    from livingdb.database.database import Database

__all__ = ["Grant", "ObjectGrant", "People", "Token", "User"]

_DAY = 86_400_000_000
_LONGEST_NAME, _LONGEST_NOTE, _MOST_DAYS = 100, 200, 3650


@dataclass(frozen=True)
class Token:
    """What is known of a token, but for its secret: `used` is the day it was last used on."""

    id: str
    note: str
    made: datetime
    until: datetime
    revoked: datetime | None
    used: datetime | None

    @property
    def is_valid(self) -> bool:
        """Whether it counts now."""
        return self.revoked is None and self.until > to_datetime(now())


@dataclass(frozen=True)
class ObjectGrant:
    """A derived object that a user may read without its sources, and by whom that was said.

    It does not count (`is_valid`) while who said it lacks the right to what it is made of.
    """

    object: str
    by: str
    time: datetime
    is_valid: bool


class People:
    """Who may use a database through a server, and for what.

    Who opens the files is the owner and needs no right; people count inside `Database.acting_as`.
    """

    def __init__(self, database: Database):
        self._database = database

    @property
    def _graph(self) -> Graph:
        return self._database._whole_graph

    def _by(self) -> str:
        return self._database.author

    @contextmanager
    def _writing(self, action: str, subject: str, **details: Any) -> Iterator[Connection]:
        """A change of what people may do, by an owner; whatever is on its way sees it."""
        graph = self._graph
        self._database._require_everywhere(Role.OWNER, action)
        graph.check_writable()
        with graph.catalog.write() as connection:
            yield connection
            noted = entry(self._by(), action, subject, DONE, details)
            graph.catalog.audit.add(connection, [noted])
            graph.catalog.raise_epoch(connection)

    def _may_look(self, name: str = "") -> None:
        who = acting(self._graph)
        if who is not None and who.user.name != name:
            who.require_everywhere(Role.OWNER, "look at users")

    def _find_to(self, action: str, name: object) -> PersonRow:
        """Somebody whom an owner does something to."""
        self._database._require_everywhere(Role.OWNER, action)
        return self._find(name)

    def _find(self, name: object) -> PersonRow:
        found = self._graph.catalog.people.named(str(name))
        if found is None:
            raise NotFound(f"there is no user {str(name)!r}")
        return found

    # --- who there is ------------------------------------------------------------------------

    def add(self, name: str, role: str | None = None, branches: str = EVERYTHING) -> User:
        """A new user, who may do what a role says with branches whose names match a pattern."""
        check_user_name(name)
        grants = [] if role is None else [_grant(role, branches)]
        with self._writing("add user", name, grants=[vars(one) for one in grants]) as connection:
            people = self._graph.catalog.people
            person = people.add(connection, name, now())
            people.add_grants(connection, self._rows(person, grants))
        return self.find(name)

    def find(self, name: str) -> User:
        """A user, with what is granted to them now; `NotFound` if there is none."""
        self._may_look(str(name))
        return read_user(self._graph.catalog, self._find(name))

    def list(self) -> list[User]:
        """Every user, by name."""
        self._may_look()
        catalog = self._graph.catalog
        return [read_user(catalog, person) for person in catalog.people.all()]

    def remove(self, name: str) -> None:
        """Forget a user, with all that was granted to them and their tokens.

        What they committed stays theirs; syncs that they made wait for somebody else.
        """
        person = self._find_to("remove users", name)
        with self._writing("remove user", person.name) as connection:
            self._graph.catalog.people.remove(connection, person.id)

    def owner_of_files(self, name: str | None = None) -> User:
        """Who holds the files themselves, for a process that lets others act as them."""
        return local_owner(self._by() if name is None else check_user_name(name))

    @property
    def are_any(self) -> bool:
        """Whether the database has users."""
        return self._graph.catalog.people.are_any()

    # --- what they may do --------------------------------------------------------------------

    def grant(self, name: str, role: str, branches: str = EVERYTHING) -> User:
        """Let a user do what a role says with branches whose names match a pattern."""
        person, given = self._find_to("grant roles", name), _grant(role, branches)
        with self._writing("grant", person.name, **vars(given)) as connection:
            self._graph.catalog.people.add_grants(connection, self._rows(person.id, [given]))
        return self.find(name)

    def withdraw(self, name: str, role: str | None = None, branches: str | None = None) -> User:
        """Take a role on a pattern from a user; any of them, if it is not said.

        It holds from then on, also for what is on its way.
        """
        person = self._find_to("withdraw roles", name)
        if role is not None:
            Role.named(role)
        said = {"role": role, "branches": branches}
        with self._writing("withdraw", person.name, **said) as connection:
            people = self._graph.catalog.people
            if not people.drop_grants(connection, person.id, role, branches):
                raise NotFound(f"{person.name} has no such role: see db.people.find(name).grants")
        return self.find(name)

    def grant_object(self, name: str, derived: object) -> User:
        """Let a user read a derived object without its sources.

        Who gives that has to be able to read them, and to maintain the object.
        """
        from livingdb.database.derive import derived_sync

        graph, who = self._database._graph, acting(self._graph)
        sync = derived_sync(graph, str(derived))
        branch = graph.branches_by_ids([sync.target])[sync.target]
        if who is not None:
            who.require(Role.MAINTAINER, branch.name, f"grant {branch.name!r}")
            for source in sync.sources:
                if source not in graph.branches.by_ids([source]):
                    raise Forbidden(
                        f"{who.user.name} may not grant {branch.name!r}: that takes who may read "
                        "all it is made of"
                    )
        person = self._find(name)
        row = ObjectGrantRow(
            person.id, branch.id, now(), self._by(), "" if who is None else who.user.id
        )
        whole = self._graph
        with whole.catalog.write() as connection:
            whole.catalog.people.add_object_grant(connection, row)
            noted = entry(self._by(), "grant object", branch.name, DONE, {"to": person.name})
            whole.catalog.audit.add(connection, [noted])
            whole.catalog.raise_epoch(connection)
        return read_user(whole.catalog, person)

    def objects(self, name: str) -> Sequence[ObjectGrant]:
        """The derived objects that were granted to a user, by name.

        The user is told of those that count.
        """
        self._may_look(str(name))
        who = acting(self._graph)
        is_told_all = who is None or who.user.may_everywhere(Role.OWNER)
        person, whole = self._find(name), self._graph
        sight = Sight(whole, read_user(whole.catalog, person))
        rows = {row.branch: row for row in whole.catalog.people.object_grants(person.id)}
        names = whole.branches.names_of(rows) if rows else {}
        found = [
            ObjectGrant(
                name, rows[id].author, to_datetime(rows[id].time), sight.holds_grant(id, name)
            )
            for id, name in names.items()
        ]
        told = [one for one in found if one.is_valid or is_told_all]
        return sorted(told, key=lambda one: one.object)

    def withdraw_object(self, name: str, derived: object) -> User:
        """Take a derived object from a user."""
        who = acting(self._graph)
        branch = self._database._graph.branch(str(derived))
        if who is not None:
            who.require(Role.MAINTAINER, branch.name, f"withdraw {branch.name!r}")
        person = self._find(name)
        whole = self._graph
        with whole.catalog.write() as connection:
            if not whole.catalog.people.drop_object_grant(connection, person.id, branch.id):
                raise NotFound(f"{branch.name!r} was not granted to {person.name}")
            noted = entry(self._by(), "withdraw object", branch.name, DONE, {"from": person.name})
            whole.catalog.audit.add(connection, [noted])
            whole.catalog.raise_epoch(connection)
        return read_user(whole.catalog, person)

    def _rows(self, person: str, grants: Sequence[Grant]) -> Sequence[GrantRow]:
        return [GrantRow(person, one.role, one.branches, now(), self._by()) for one in grants]

    # --- tokens ------------------------------------------------------------------------------

    def issue_token(self, name: str, days: float = 90, note: str = "") -> str:
        """A new token of a user: the secret, which is shown this once and kept nowhere."""
        person = self._find_to("issue tokens", name)
        if not isinstance(days, int | float) or not 0 < days <= _MOST_DAYS:
            raise InvalidData(f"days={days!r}: a token counts for up to {_MOST_DAYS} days")
        if not isinstance(note, str) or len(note) > _LONGEST_NOTE:
            raise InvalidData(f"a note is a text of up to {_LONGEST_NOTE} characters")
        made, moment = make_token(), now()
        row = TokenRow(made.id, person.id, made.hash, note, moment, moment + int(days * _DAY), 0, 0)
        with self._writing("issue token", person.name, token=made.id) as connection:
            self._graph.catalog.people.add_token(connection, row)
        return made.text

    def tokens(self, name: str) -> Sequence[Token]:
        """The tokens of a user, newest first; never their secrets."""
        self._may_look(str(name))
        return [_token(row) for row in self._graph.catalog.people.tokens(self._find(name).id)]

    def revoke(self, token: str) -> None:
        """Let a token count no more, by its id."""
        self._database._require_everywhere(Role.OWNER, "revoke tokens")
        found = self._graph.catalog.people.token(str(token))
        if found is None:
            raise NotFound(f"there is no token {str(token)!r}")
        with self._writing("revoke token", str(token)) as connection:
            self._graph.catalog.people.set_token(connection, found.id, {"revoked": now()})

    def authenticate(self, secret: str) -> User:
        """Who a token stands for; `Forbidden`, always in the same words, if it counts for nobody.

        What is wrong with it is in the audit trail, if it is one that was given out.
        """
        catalog, known = self._graph.catalog, token_id(secret)
        row = None if known is None else catalog.people.token(known)
        is_right = are_equal(str(secret), None if row is None else row.hash)
        if row is not None and is_right and not row.revoked and row.until > now():
            users = self._database._known_users(catalog.epoch())
            person = None if row.person in users else catalog.people.by_id(row.person)
            if person is not None:
                users[person.id] = read_user(catalog, person)
            if row.person in users:
                self._note_used(row)
                return users[row.person]
        elif row is not None:
            self._note_refused(row, is_right)
        raise Forbidden("the token is none of this database, or counts no more")

    def _note_refused(self, row: TokenRow, is_right: bool) -> None:
        why = "revoked" if row.revoked else "expired" if is_right else "wrong secret"
        person = self._graph.catalog.people.by_id(row.person)
        if not self._graph.is_read_only:
            name = "" if person is None else person.name
            self.record("authenticate", row.id, REFUSED, {"why": why}, person=name)

    def _note_used(self, row: TokenRow) -> None:
        day = now() // _DAY * _DAY
        if row.used < day and not self._graph.is_read_only:
            with self._graph.catalog.write() as connection:
                self._graph.catalog.people.set_token(connection, row.id, {"used": day})

    # --- the audit trail ---------------------------------------------------------------------

    def record(
        self,
        action: str,
        subject: str,
        outcome: str = DONE,
        details: Mapping[str, Any] | None = None,
        *,
        person: str | None = None,
    ) -> None:
        """Write down what somebody did, or was refused: who acts here, unless somebody is named."""
        noted = entry(self._by() if person is None else person, action, subject, outcome, details)
        with self._graph.catalog.write() as connection:
            self._graph.catalog.audit.add(connection, [noted])

    def audit(self, limit: int | None = None, before: int | None = None) -> pa.Table:
        """What people did, newest first; before the entry of a number, if one is given."""
        import json

        import pyarrow as pa

        self._database._require_everywhere(Role.OWNER, "read the audit trail")
        rows = self._graph.catalog.audit.newest(check_limit(limit), check_limit(before, "before"))
        texts = ("person", "action", "subject", "outcome")
        return pa.table(
            {
                "number": pa.array([row.number for row in rows], pa.int64()),
                "time": pa.array([row.time for row in rows], pa.int64()).cast(TIME),
                **{t: pa.array([getattr(row, t) for row in rows], pa.string()) for t in texts},
                "details": pa.array([json.dumps(dict(row.details)) for row in rows], pa.string()),
            }
        )


def check_user_name(name: object) -> str:
    """A name, if a user may have it."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or name != name.strip():
        raise InvalidName(f"user {name!r}: give a name of 1 to {_LONGEST_NAME} characters")
    check_visible("user", name)
    return name


def _grant(role: str, branches: str) -> Grant:
    return Grant(Role.named(role).word, check_pattern(branches))


def _token(row: TokenRow) -> Token:
    return Token(
        row.id,
        row.note,
        to_datetime(row.made),
        to_datetime(row.until),
        to_datetime(row.revoked) if row.revoked else None,
        to_datetime(row.used) if row.used else None,
    )
