"""What who acts here may do, told ahead: so that nobody is offered what would be refused.

Each deed is asked of the check that refuses it when it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from livingdb.access.acting import acting
from livingdb.access.roles import Role
from livingdb.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from livingdb.database.alert import Alert
    from livingdb.database.database import Database
    from livingdb.database.sync import Sync

__all__ = ["BranchDeed", "BranchDeeds", "SyncDeed", "may_settle", "sync_deeds"]

BranchDeed = Literal[
    "write",
    "merge",
    "merge_request",
    "change_schema",
    "reset",
    "rename",
    "drop",
    "retire",
    "set_rule",
]
"""What is done to a branch; `merge_request` is a merge that was asked for."""
SyncDeed = Literal["alter", "approve", "resume", "reattach", "detach", "refresh"]

_STEERING: tuple[SyncDeed, ...] = ("alter", "approve", "resume", "reattach", "detach")


class BranchDeeds:
    """What who acts here may do to branches of a database, by the rules that there are now."""

    def __init__(self, database: Database):
        from livingdb.commit.check_rights import Rights

        self._database = database
        self._rights = Rights(database._whole_graph)

    def role(self, branch: str) -> str | None:
        """The role on a branch; None for who was granted nothing but the derived object itself."""
        who = acting(self._database._whole_graph)
        found = Role.OWNER if who is None else who.user.role_on(branch)
        return None if found is None else found.word

    def of(self, branch: str) -> list[BranchDeed]:
        """What may be done to a branch; whether a sync writes it is another question."""
        database, rights = self._database, self._rights
        row = database._graph.branch(branch)

        def rename() -> None:
            database._require_may_drop(branch)

        def retire() -> None:
            database._require_in_step(Role.MAINTAINER, branch, "retire it")
            database._require_ruler(branch, "retire it")

        checks: dict[BranchDeed, Callable[[], None]] = {
            "write": lambda: rights.check_write(row, Role.WRITER),
            "merge": lambda: rights.check_write(row, Role.WRITER, is_merge=True),
            "merge_request": lambda: rights.check_write(
                row, Role.WRITER, is_merge=True, is_asked=True
            ),
            "change_schema": lambda: rights.check_write(row, Role.MAINTAINER),
            "reset": lambda: rights.check_write(row, Role.MAINTAINER),
            "rename": rename,
            "drop": rename,
            "retire": retire,
            "set_rule": lambda: database._require(Role.OWNER, branch, "set its rule"),
        }
        return [deed for deed, check in checks.items() if _passes(check)]


def sync_deeds(sync: Sync) -> list[SyncDeed]:
    """What who acts here may do about a sync, whatever its state is."""
    found = [deed for deed in _STEERING if _passes(partial(sync._maintainer, None, deed))]
    refresh = partial(sync.database._require, Role.WRITER, sync.target, "refresh it")
    if sync.kind == "derive" and _passes(refresh):
        found.append("refresh")
    return found


def may_settle(alert: Alert) -> bool:
    """Whether who acts here may say that somebody looks at an alert, or that it is settled."""
    return _passes(alert._check_settler)


def _passes(check: Callable[[], object]) -> bool:
    try:
        check()
    except (Forbidden, NotFound):
        return False
    return True
