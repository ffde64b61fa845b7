"""What a database offers for people: who they are, acting as one of them, rules of branches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, cast

from sqlalchemy import Connection

from livingdb.access.acting import Acting, acting, in_step_with, is_checked, speaker
from livingdb.access.audit import BEGUN, DONE, FAILED, REFUSED, entry
from livingdb.access.roles import Role
from livingdb.access.sight import Sight
from livingdb.access.user import User, read_user
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.merge_requests import MERGE_ONLY
from livingdb.catalog.pending_note import PendingNote, pending_note
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import Forbidden, LivingDBError, NotFound
from livingdb.graph.graph import Graph

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.database.people import People
    from livingdb.graph.draft import Action

__all__ = ["Access"]

_KEPT_SIGHTS = 64
_LONGEST_NOTED = 500


class Access(ABC):
    """The part of a database that knows who is asking."""

    _own_author: str
    _sights: OrderedDict[User, Sight]
    _users_at: tuple[str, dict[str | bytes, User]]
    _lock: RLock

    @property
    @abstractmethod
    def _whole_graph(self) -> Graph:
        """The graph of the open database, whoever asks."""

    @property
    def _graph(self) -> Graph:
        """The graph as far as who asks sees it."""
        return self._seen_part(self._whole_graph)

    def _seen_part(self, graph: Graph) -> Graph:
        """What who asks sees of the graph, now or at another moment."""
        who = acting(graph)
        return graph if who is None else who.seen(graph)

    def _seen_row(self, row: SnapshotRow) -> SnapshotRow:
        """A snapshot, as far as who asks is told of it."""
        if acting(self._whole_graph) is None:
            return row
        return self._graph.snapshots.at(row.sequence)

    def _show(self, row: SnapshotRow) -> SnapshotRow:
        """A snapshot that was made for who asks, be it on no branch."""
        who = acting(self._whole_graph)
        return row if who is None else who.sight.note(row)

    @property
    def people(self) -> People:
        """Who may use the database through a server, and for what."""
        from livingdb.database.people import People

        return People(cast("Database", self))

    @property
    def author(self) -> str:
        """Who writes, unless a call says otherwise: who acts here, or else who opened it."""
        who = speaker(self._whole_graph)
        return self._own_author if who is None else who.name

    @contextmanager
    def acting_as(self, user: User | str) -> Iterator[User]:
        """Let all that is done inside, in this thread, be what a user may do and see.

        What the user does not see is `NotFound`; what it may not do is `Forbidden`, which names
        the right.  What it commits is its own.  Rights are those of the moment it begins, and a
        commit looks at them once more.  A thread that is started inside has to be given a copy of
        the context.
        """
        now = self._user_now(user)
        with is_checked(Acting(self._sight_of(now))):
            try:
                yield now
            except Exception as error:
                # Of what PEP 249 calls by another name the cause is ours.
                for one in (error, error.__cause__):
                    if isinstance(one, Forbidden):
                        self._note_refused(str(one))
                        break
                raise

    @contextmanager
    def _noting(self, action: str, subject: object = "") -> Iterator[None]:
        """Do inside what is no proposal: what it stores has a note of who did it.

        What stores nothing is noted once it is done.
        """
        graph = self._whole_graph
        who = acting(graph)
        if who is None or graph.is_read_only:
            yield
            return
        name, catalog = who.user.name, graph.catalog
        note = PendingNote(
            catalog.audit, catalog.queries, lambda: entry(name, action, str(subject), DONE)
        )
        with pending_note(note):
            yield
        if not note.is_kept():
            self.people.record(action, str(subject))

    @contextmanager
    def _noting_files(self, action: str, subject: object = "") -> Iterator[None]:
        """Do inside what writes files: it is noted as begun before, and how it ended after it.

        Nothing is written that cannot be noted, and what was killed in between has begun.
        """
        if acting(self._whole_graph) is None or self._whole_graph.is_read_only:
            yield
            return
        record = partial(self.people.record, action, str(subject))
        record(BEGUN)
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, LivingDBError) else type(error).__name__
            with suppress(LivingDBError):
                record(FAILED, {"error": code})
            raise
        record(DONE)

    def _note_in(self, connection: Connection, action: str, subject: object = "") -> None:
        """The same, in the transaction that does it."""
        who = acting(self._whole_graph)
        if who is not None:
            noted = entry(who.user.name, action, str(subject), DONE)
            self._whole_graph.catalog.audit.add(connection, [noted])

    def _note(self, action: str, subject: object = "") -> Action:
        """What a transaction does to write down, with what it does, that a user did that."""
        return lambda connection: self._note_in(connection, action, subject)

    def _require_may_drop(self, branch: str) -> None:
        """`Forbidden` unless who acts here may drop a branch."""
        self._require(Role.MAINTAINER, branch, f"drop {branch!r}")
        self._require_ruler(branch, f"drop {branch!r}")

    def _note_refused(self, words: str) -> None:
        """Write down that who acts here was refused something, if that is possible."""
        with suppress(LivingDBError):
            self.people.record("refuse", "", REFUSED, {"error": words[:_LONGEST_NOTED]})

    def _user_now(self, user: User | str) -> User:
        """A user as it is now; one that only this process vouches for is as it is given."""
        if isinstance(user, User) and not user.id:
            return user
        catalog = self._whole_graph.catalog
        known = self._known_users(catalog.epoch())
        asked = user if isinstance(user, str) else user.id
        if asked not in known:
            people = catalog.people
            person = people.named(user) if isinstance(user, str) else people.by_id(user.id)
            if person is None:
                raise Forbidden(f"{user} is no user of this database")
            known[asked] = read_user(catalog, person)
        return known[asked]

    def _known_users(self, epoch: str) -> dict[str | bytes, User]:
        """Users by what they were asked for by, as of an epoch: whatever changes them raises it."""
        if self._users_at[0] != epoch:
            self._users_at = epoch, {}
        return self._users_at[1]

    def _sight_of(self, user: User) -> Sight:
        """What a user sees; what was found out before is remembered."""
        graph = self._whole_graph
        with self._lock:
            found = self._sights.pop(user, None)
            if found is None or found.graph is not graph:
                found = Sight(graph, user)
            self._sights[user] = found
            while len(self._sights) > _KEPT_SIGHTS:
                self._sights.popitem(last=False)
        return found

    def protect(self, branch: object, merge_only: bool = True) -> None:
        """Let a branch take merges only, by its maintainers, or writes as any other again.

        It holds for whoever acts as a user, and for all that two-way syncs join with it.
        """
        from livingdb.database.merge_request import set_merge_only

        set_merge_only(cast("Database", self), branch, merge_only)

    # --- checks ------------------------------------------------------------------------------

    def _require(self, role: Role, branch: str, what: str) -> None:
        """`Forbidden` unless who acts here has a role on a branch that it sees."""
        who = acting(self._whole_graph)
        if who is not None:
            who.require(role, branch, what)

    def _require_seen(self, branch: BranchRow) -> None:
        """`NotFound` if who acts here does not see a branch that it saw before."""
        who = acting(self._whole_graph)
        if who is None or who.sight.is_whole:
            return
        if not self._graph.branches.by_ids([branch.id]):
            raise NotFound(f"there is no branch {branch.name!r}")

    def _require_ruler(self, branch: str, what: str) -> None:
        """`Forbidden` unless who acts here may set the rule of a branch, if that has one.

        Whoever takes its name from it, or ends it, takes the rule from the name.
        """
        who = acting(self._whole_graph)
        if who is None:
            return
        row = who.require(Role.READER, branch, what)
        if self._whole_graph.catalog.merge_requests.rule(row.id):
            who.require_name(Role.OWNER, row.name, f"{what}, which has a rule")

    def _require_in_step(self, role: Role, branch: str, what: str) -> None:
        """The same on all that a change of the branch reaches along two-way syncs."""
        who = acting(self._whole_graph)
        if who is not None:
            who.require_in_step(role, branch, what)

    def _require_beyond_merges(self, branch: str, what: str) -> None:
        """`Forbidden` unless who acts here sets the rules of all that takes merges only there.

        There is the branch, and all that a change of it reaches along two-way syncs.
        """
        graph, who = self._whole_graph, acting(self._whole_graph)
        if who is None:
            return
        row, rules = graph.branch(branch), graph.catalog.merge_requests.rules()
        for one in (row, *in_step_with(graph, row)):
            if rules.get(one.id, {}).get(MERGE_ONLY):
                who.check_role(who.user, Role.OWNER, one, what)

    def _require_name(self, role: Role, name: str, what: str) -> None:
        """The same of a name that need not be there."""
        who = acting(self._whole_graph)
        if who is not None:
            who.require_name(role, name, what)

    def _require_everywhere(self, role: Role, what: str) -> None:
        """`Forbidden` unless who acts here has a role on the database itself."""
        who = acting(self._whole_graph)
        if who is not None:
            who.require_everywhere(role, what)

    def _author_of(self, given: str | None) -> str:
        """Who says or does something: who is named, if that is who acts here."""
        who = acting(self._whole_graph)
        if who is not None and given and given != who.user.name:
            raise Forbidden(f"{who.user.name} may not speak as {given!r}: the author is who acts")
        return given or self.author
