"""What goes wrong in PostgreSQL, in LivingDB's words."""

from __future__ import annotations

from livingdb.errors import Forbidden, LivingDBError, Locked, StorageFailure

__all__ = ["LostRace", "postgres_failure"]

_ABORTED_STATES = ("40001", "40P01")
_LOCK_STATES = ("55P03",)
_READ_ONLY, _NO_PRIVILEGE = "25006", "42501"
_FULL_STATES = ("53100", "53200")


class LostRace(Locked):
    """PostgreSQL took a transaction back because of another one: nothing of it was done."""


def postgres_failure(error: BaseException | None) -> LivingDBError | None:
    """LivingDB's error for one of the driver; None if it has no word for it."""
    state = getattr(error, "sqlstate", None)
    if state in _ABORTED_STATES:
        return LostRace("PostgreSQL: another transaction is in the way; try again")
    if state in _LOCK_STATES:
        return Locked("PostgreSQL: another transaction is in the way; try again")
    if state == _READ_ONLY:
        return Forbidden("the database is open for reading only: so PostgreSQL says")
    if state == _NO_PRIVILEGE:
        return Forbidden(f"PostgreSQL: this user may not do it: {error}")
    if state in _FULL_STATES or type(error).__name__ == "OperationalError":
        return StorageFailure("PostgreSQL cannot be reached or cannot store more")
    return None
