"""Who is asking: the user as whom this thread acts, if it is not the owner of the files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property

from livingdb.access.roles import EVERYTHING, Role
from livingdb.access.seen_graph import NamingGraph, SeenGraph
from livingdb.access.sight import Sight
from livingdb.access.user import User
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.syncs import SyncRow
from livingdb.errors import Forbidden, LivingDBError, RuleViolation, TransactionConflict
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.sync_groups import reached_syncs

__all__ = [
    "Acting",
    "acting",
    "forbidden_error",
    "hiding_unseen",
    "in_step_with",
    "is_checked",
    "speaker",
    "unchecked",
]


@dataclass(frozen=True)
class Acting:
    """A user who acts on one database, and what that user sees of it.

    `is_trusted`: what is done now follows from what was allowed, and nobody's rights count for it.
    """

    sight: Sight
    is_trusted: bool = False

    @property
    def user(self) -> User:
        """Who it is."""
        return self.sight.user

    @cached_property
    def _seen(self) -> SeenGraph:
        return SeenGraph(self.sight.graph, self.sight)

    def seen(self, graph: Graph) -> Graph:
        """The part of a graph that the user sees."""
        if self.sight.is_whole or isinstance(graph, SeenGraph):
            return graph
        return self._seen if graph is self.sight.graph else SeenGraph(graph, self.sight)

    def naming(self, graph: Graph) -> Graph:
        """The graph, for operations to which the user names what it sees."""
        if self.sight.is_whole:
            return graph
        return NamingGraph(graph, self._seen)

    def require(self, role: Role, branch: str, what: str) -> BranchRow:
        """`Forbidden` unless the user has a role on a branch; `NotFound` if it does not see it."""
        found = self.seen(self.sight.graph).branch(branch)
        self.require_name(role, branch, what)
        return found

    def require_in_step(self, role: Role, branch: str, what: str) -> None:
        """The same on all that a change of the branch reaches along two-way syncs."""
        found = self.require(role, branch, what)
        for row in in_step_with(self.sight.graph, found):
            self.check_role(self.user, role, row, what)

    def check_role(self, user: User, role: Role, branch: BranchRow, what: str) -> None:
        """`Forbidden` unless somebody who acts here has a role on a branch that is in step.

        It is not named to who does not see it.
        """
        if user.may(role, branch.name):
            return
        if self.sight.sees(branch):
            raise forbidden_error(user, what, role, branch.name)
        raise Forbidden(
            f"{user.name} may not {what}: that takes the role {role.word} on a branch that is in "
            "step with it, too"
        )

    def require_name(self, role: Role, name: str, what: str) -> None:
        """The same of a name that need not be there."""
        if not self.user.may(role, name):
            raise forbidden_error(self.user, what, role, name)

    def require_everywhere(self, role: Role, what: str) -> None:
        """`Forbidden` unless the user has a role on the database itself."""
        if not self.user.may_everywhere(role):
            raise forbidden_error(self.user, what, role, EVERYTHING)


def in_step_with(graph: Graph, branch: BranchRow) -> list[BranchRow]:
    """The branches that two-way syncs let follow a branch, those that no user made apart."""
    far = [end for _, _, end in reached_syncs(graph.syncs(branch.epoch), branch.id)]
    rows = graph.branches.by_ids(far).values() if far else ()
    return [row for row in rows if not is_hidden(row.name)]


def forbidden_error(user: User, what: str, role: Role, branch: str) -> LivingDBError:
    """The error that names the right which it takes."""
    where = "the database ('*')" if branch == EVERYTHING else repr(branch)
    return Forbidden(f"{user.name} may not {what}: that takes the role {role.word} on {where}")


_ACTING: ContextVar[Acting | None] = ContextVar("livingdb_acting", default=None)


def acting(graph: Graph) -> Acting | None:
    """Whose rights count here on a graph; None: nobody's, as for the owner of the files."""
    found = _ACTING.get()
    if found is None or found.is_trusted or found.sight.graph.place is not graph.place:
        return None
    return found


def speaker(graph: Graph) -> User | None:
    """In whose name something is done here on a graph; None: in that of who opened it."""
    found = _ACTING.get()
    return None if found is None or found.sight.graph.place is not graph.place else found.user


@contextmanager
def is_checked(given: Acting | None) -> Iterator[None]:
    """Let everything that is done inside be checked for somebody; for nobody, if None."""
    before = _ACTING.set(given)
    try:
        yield
    finally:
        _ACTING.reset(before)


@contextmanager
def unchecked() -> Iterator[None]:
    """Do inside what follows from what was allowed: for that nobody's rights count."""
    found = _ACTING.get()
    with is_checked(None if found is None else replace(found, is_trusted=True)):
        yield


@contextmanager
def hiding_unseen(graph: Graph, sync: SyncRow) -> Iterator[None]:
    """Do inside what a sync does: what is wrong with it is told to who sees its branches."""
    who = acting(graph)
    if who is None or who.sight.sees_ends(sync):
        yield
        return
    try:
        yield
    except TransactionConflict:
        raise TransactionConflict(
            "others keep moving what follows this branch; try again"
        ) from None
    except LivingDBError:
        raise RuleViolation(
            "rule 7: something that follows this branch does not take the change; who maintains it "
            "can tell why"
        ) from None
