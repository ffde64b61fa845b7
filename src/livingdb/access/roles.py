"""Roles: what somebody may do with the branches whose names match a pattern.

reader      reads them
writer      also commits rows, merges into them, and makes branches of such names
maintainer  also changes schemas, makes and alters syncs, views and conditions, acknowledges
            alerts, resets, renames and drops them, merges into those that are merge-only
owner       also sets their rules, and renames, drops and retires those that have one;
            on "*", all that is about the database as a whole

A role on "*" is one on every branch and on the database itself.
"""

from __future__ import annotations

from enum import IntEnum
from fnmatch import fnmatchcase

from livingdb.errors import InvalidData

__all__ = ["EVERYTHING", "Role", "check_pattern", "matches"]

EVERYTHING = "*"
"""The pattern of every branch, and of the database itself."""

_LONGEST_PATTERN = 200


class Role(IntEnum):
    """The roles, each of which may do what those before it may."""

    READER = 1
    WRITER = 2
    MAINTAINER = 3
    OWNER = 4

    @classmethod
    def named(cls, name: object) -> Role:
        """The role of a name."""
        found = cls.__members__.get(name.upper()) if isinstance(name, str) else None
        if found is None or name != found.word:
            words = ", ".join(role.word for role in cls)
            raise InvalidData(f"role {name!r}: choose one of {words}")
        return found

    @property
    def word(self) -> str:
        """What it is called."""
        return self.name.lower()


def check_pattern(pattern: object) -> str:
    """A pattern of branch names, if it is one: as those of `Retention.branches`."""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= _LONGEST_PATTERN:
        raise InvalidData(
            f"branches {pattern!r}: give a pattern of branch names, such as 'dev/*', of 1 to "
            f"{_LONGEST_PATTERN} characters"
        )
    return pattern


def matches(pattern: str, name: str) -> bool:
    """Whether the name of a branch is one of a pattern's."""
    return fnmatchcase(name, pattern)
