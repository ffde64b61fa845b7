"""One session of an agent: who it is, what it reads, and the one branch that it writes."""

from __future__ import annotations

import re
import secrets
from threading import Lock
from typing import TYPE_CHECKING

from livingdb.access.roles import EVERYTHING, Role
from livingdb.access.user import Grant, User, agent_name
from livingdb.catalog.ids import BranchId
from livingdb.errors import Forbidden, InvalidName, NotFound, RuleViolation
from livingdb.server.mcp.limits import Limits

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database

__all__ = ["PREFIX", "AgentSession"]

PREFIX = "agent/"
"""How the names of agents' branches begin; a rule of retention can be for all of them."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class AgentSession:
    """What the calls of one client have in common.

    The branch is made when it is first written, or when the agent says what it begins with.  A
    session that is named goes on where it was, if the same agent began it.  `person` is the user
    with whose rights it reads, and makes its branch; without one it reads everything.
    """

    def __init__(
        self,
        database: Database,
        agent: str = "agent",
        session: str | None = None,
        *,
        person: str | None = None,
        home: str | None = None,
        limits: Limits | None = None,
    ):
        self.database = database
        self.agent = _check("agent", agent)
        self.name = secrets.token_hex(4) if session is None else _check("session", session)
        self.person = None if person is None else database.people.find(person).name
        self.limits = limits or Limits()
        self._home = None if home is None else database.branch(home).name
        self._own: BranchId | None = None
        """The branch of which it is known that the agent made it."""
        self._lock = Lock()

    @property
    def home(self) -> str:
        """The branch that is meant where the agent names none and has none of its own."""
        return self.database.default_branch.name if self._home is None else self._home

    @property
    def branch_name(self) -> str:
        """What the agent's branch is called, once it is there."""
        return PREFIX + self.name

    @property
    def author(self) -> str:
        """Who has made what the agent commits."""
        return self.agent if self.person is None else agent_name(self.agent, self.person)

    def identity(self) -> User:
        """As whom the agent acts now: it reads what its person may read, and writes its branch.

        It may do no more with that than the person may: without a person, all but drop it.
        """
        own, reader = self.branch_name, Role.READER.word
        if self.person is None:
            everything = Grant(reader, EVERYTHING)
            return User(self.author, (everything, Grant(Role.MAINTAINER.word, own)))
        person = self.database.people.find(self.person)
        grants = [Grant(reader, one.branches) for one in person.grants]
        role = person.role_on(own)
        if role is not None:
            grants.append(Grant(min(role, Role.MAINTAINER).word, own))
        return User(self.author, tuple(grants), objects=person.objects)

    def find_branch(self) -> Branch | None:
        """The agent's branch; None if it was not made yet.

        `Forbidden` if somebody else made one of that name.
        """
        try:
            found = self.database.branch(self.branch_name)
        except NotFound:
            return None
        row = self.database._graph.branch(found.name)
        if row.id != self._own:
            maker = found.movements()[-1].author
            if maker != self.author:
                raise Forbidden(
                    f"the branch {found.name!r} was made by {maker!r}, not by {self.author!r}: "
                    "begin another session"
                )
            self._own = row.id
        return found

    def own_branch(self) -> Branch:
        """The agent's branch; `RuleViolation` if it was not made yet."""
        found = self.find_branch()
        if found is None:
            raise RuleViolation(
                "this session has no branch yet: start_work makes it, and so does the first change"
            )
        return found

    def begin(self, source: str | None = None, task: str = "") -> tuple[Branch, bool]:
        """The agent's branch, made now if there is none; and whether it was.

        `RuleViolation` if it is there and another source is asked for.
        """
        with self._lock:
            found = self.find_branch()
            if found is not None:
                if source is not None and source != self.source(found):
                    raise RuleViolation(
                        f"this session works on {found.name!r} already, which was made from "
                        f"{self.source(found)!r}: go on with it, or begin another session"
                    )
                return found, False
            origin = source or self.home
            start = self.database.at(origin)
            name = self.branch_name
            if origin in self.database.branches():
                made = self.database.branch(origin).clone(name, message=task, author=self.author)
            else:
                made = start.clone(name, message=task, author=self.author)
            return made, True

    def source(self, branch: Branch) -> str:
        """What the agent's branch was made from: a branch, or the id of a snapshot."""
        return self.database._graph.branch(branch.name).origin or self.home

    def target(self, branch: Branch, into: str | None) -> str:
        """The branch that the agent's is compared with, and is to be merged into."""
        if into is not None:
            return self.database.branch(into).name
        source = self.source(branch)
        return source if source in self.database.branches() else self.home

    def ref(self, given: str | None) -> str:
        """Where to look: as was said, or else the agent's branch, or the home branch."""
        if given:
            return given
        return self.home if self.find_branch() is None else self.branch_name


def _check(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{what} {name!r}: 1 to 64 letters, digits, dots, dashes and underlines, the first of "
            "them a letter or a digit"
        )
    return name
