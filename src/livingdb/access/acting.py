"""Who is asking: the user as whom this thread acts, if it is not the owner of the files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property

from livingdb.access.roles import EVERYTHING, Role
from livingdb.access.seen_graph import NamingGraph, SeenGraph
from livingdb.access.sight import Sight
from livingdb.access.user import User
from livingdb.catalog.syncs import SyncRow
from livingdb.errors import Forbidden, LivingDBError, RuleViolation, TransactionConflict
from livingdb.graph.graph import Graph

__all__ = ["Acting", "acting", "as_nobody", "forbidden_error", "hiding_unseen", "is_checked"]


@dataclass(frozen=True)
class Acting:
    """A user who acts on one database, and what that user sees of it."""

    sight: Sight

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

    def require(self, role: Role, branch: str, what: str) -> None:
        """`Forbidden` unless the user has a role on a branch; `NotFound` if it does not see it."""
        self.seen(self.sight.graph).branch(branch)
        self.require_name(role, branch, what)

    def require_name(self, role: Role, name: str, what: str) -> None:
        """The same of a name that need not be there."""
        if not self.user.may(role, name):
            raise forbidden_error(self.user, what, role, name)

    def require_everywhere(self, role: Role, what: str) -> None:
        """`Forbidden` unless the user has a role on the database itself."""
        if not self.user.may_everywhere(role):
            raise forbidden_error(self.user, what, role, EVERYTHING)


def forbidden_error(user: User, what: str, role: Role, branch: str) -> LivingDBError:
    """The error that names the right which it takes."""
    where = "the database ('*')" if branch == EVERYTHING else repr(branch)
    return Forbidden(f"{user.name} may not {what}: that takes the role {role.word} on {where}")


_ACTING: ContextVar[Acting | None] = ContextVar("livingdb_acting", default=None)


def acting(graph: Graph) -> Acting | None:
    """Who acts here on a graph; None: the owner of the files, of whom nothing is checked."""
    found = _ACTING.get()
    if found is None or found.sight.graph.place is graph.place:
        return found
    return None


@contextmanager
def is_checked(given: Acting | None) -> Iterator[None]:
    """Let everything that is done inside be checked for somebody; for nobody, if None."""
    before = _ACTING.set(given)
    try:
        yield
    finally:
        _ACTING.reset(before)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Do inside what follows from what was allowed: for that nobody's rights count."""
    with is_checked(None):
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
