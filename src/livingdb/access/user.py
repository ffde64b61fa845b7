"""A user: a name, and what was granted to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from livingdb.access.roles import EVERYTHING, Role, matches
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import BranchId
from livingdb.catalog.people import PersonRow

__all__ = ["Grant", "User", "agent_name", "is_of", "local_owner", "read_user"]


@dataclass(frozen=True, order=True)
class Grant:
    """A role on the branches whose names match a pattern."""

    role: str
    branches: str


@dataclass(frozen=True)
class User:
    """Somebody who may do what `grants` say, and read the derived `objects` that were granted.

    An object is a branch, by its id, with the id of the user who granted it; "" is who holds the
    files.

    `id` stays when everything else changes.  One without is nobody whom the database knows, but
    whom this process vouches for.
    """

    name: str
    grants: tuple[Grant, ...] = ()
    id: str = ""
    objects: frozenset[tuple[BranchId, str]] = frozenset()

    @property
    def key(self) -> str:
        """What tells the user from everybody else, also from who had the name before."""
        return self.id or f"={self.name}"

    def role_on(self, branch: str) -> Role | None:
        """The highest role on a branch, by the branch's name; None if there is none."""
        found = (role for role, pattern in self._roles if matches(pattern, branch))
        return max(found, default=None)

    def may(self, role: Role, branch: str) -> bool:
        """Whether the user has a role on a branch, or a higher one."""
        return any(mine >= role and matches(pattern, branch) for mine, pattern in self._roles)

    def may_everywhere(self, role: Role) -> bool:
        """Whether the user has a role, or a higher one, on the database itself."""
        return any(mine >= role and pattern == EVERYTHING for mine, pattern in self._roles)

    @cached_property
    def _roles(self) -> tuple[tuple[Role, str], ...]:
        return tuple((Role.named(grant.role), grant.branches) for grant in self.grants)

    def __str__(self) -> str:
        return self.name


def agent_name(agent: str, person: str) -> str:
    """Who has made what an agent does with the rights of a person."""
    return f"{agent} (for {person})"


def is_of(author: str, person: str) -> bool:
    """Whether somebody has made something, or an agent with their rights."""
    return author == person or author.endswith(agent_name("", person))


def local_owner(name: str) -> User:
    """Who holds the files themselves, for a process that asks as them: an owner of everything."""
    return User(name, (Grant(Role.OWNER.word, EVERYTHING),))


def read_user(catalog: Catalog, person: PersonRow) -> User:
    """A user with what is granted to it now."""
    grants = (Grant(row.role, row.pattern) for row in catalog.people.grants(person.id))
    objects = ((row.branch, row.giver) for row in catalog.people.object_grants(person.id))
    return User(person.name, tuple(_by_rank(grants)), person.id, frozenset(objects))


def _by_rank(grants: Iterable[Grant]) -> list[Grant]:
    return sorted(grants, key=lambda grant: (-Role.named(grant.role), grant.branches))
