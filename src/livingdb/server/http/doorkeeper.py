"""Who comes in: the people of a database by their tokens, or its owner by the token of this run."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from livingdb.engines.embedded.memory_parts import MemoryParts
from livingdb.errors import Forbidden

if TYPE_CHECKING:
    from livingdb import Database
    from livingdb.access.user import User

__all__ = ["Caller", "Doorkeeper", "new_run_token"]


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    user: User

    @property
    def key(self) -> str:
        """What tells who asks from everybody else, also from who had the name before."""
        return self.user.key


def new_run_token() -> str:
    """A secret that lets the owner in while one server runs."""
    return f"ldb_run_{secrets.token_urlsafe(32)}"


class Doorkeeper:
    """Knows people by their secrets.

    `run_token` counts as long as the database has no users; from the first one on, only their
    tokens do.
    """

    def __init__(self, db: Database, run_token: str | None = None):
        self._db = db
        self._run_token = run_token
        self._memory = MemoryParts()

    @property
    def has_users(self) -> bool:
        """Whether the database knows anybody by name."""
        return self._db.people.are_any

    def authenticate(self, secret: str) -> Caller:
        """Whose secret it is; `Forbidden` if it is nobody's."""
        ours = self._run_token
        if ours is not None and hmac.compare_digest(secret.encode(), ours.encode()):
            if self.has_users:
                raise Forbidden("the database has users now: come with the token of one of them")
            owner = self._db.people.owner_of_files()
            return Caller(owner.name, owner)
        user = self._db.people.authenticate(secret)
        return Caller(user.name, user)

    @contextmanager
    def acting_as(self, caller: Caller) -> Iterator[User]:
        """What is done inside is checked for who asks, done in their name and in their memory."""
        with self._memory.of(caller.key), self._db.acting_as(caller.user) as user:
            yield user
