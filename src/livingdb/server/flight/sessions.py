"""Sessions: what a client has chosen for the calls that follow, by a cookie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from livingdb.database.run_statement import own_name
from livingdb.errors import LivingDBError, NotFound, RuleViolation
from livingdb.server.flight.entrance import COOKIE, NO_SESSION, Visit
from livingdb.server.flight.handles import Handles
from livingdb.server.flight.workspace import Place

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["Sessions"]

_INVALID_NAME, _INVALID_VALUE = 1, 2
_ISOLATIONS = ("snapshot", "serializable")
_MOST = 1000


@dataclass
class _Session:
    """The place that a client has chosen."""

    place: Place


class Sessions:
    """The sessions of all clients."""

    def __init__(self, database: Database, seconds: float):
        self._database = database
        self._handles = Handles[_Session]("session", _MOST, seconds)

    def place(self, visit: Visit) -> Place:
        """What a call is about: what its session has chosen, or its header says."""
        session = self._find(visit)
        chosen = Place() if session is None else session.place
        return chosen if chosen.ref is not None else replace(chosen, ref=visit.branch)

    def options(self, visit: Visit) -> dict[str, str]:
        """What is chosen."""
        place = self.place(visit)
        ref = place.ref or self._database.default_branch.name
        return {"catalog": ref, "schema": "", "isolation": place.isolation}

    def set_options(
        self, visit: Visit, context: Any, options: Mapping[str, object]
    ) -> dict[str, int]:
        """Choose; for each option that cannot be chosen, why not."""
        session = self._find(visit)
        place = Place() if session is None else session.place
        wrong: dict[str, int] = {}
        for name, value in options.items():
            read = _OPTIONS.get(name)
            if read is None:
                wrong[name] = _INVALID_NAME
                continue
            try:
                place = read(self._database, place, value)
            except (LivingDBError, ValueError):
                wrong[name] = _INVALID_VALUE
        self._keep(visit, context, session, place)
        return wrong

    def use_branch(self, visit: Visit, context: Any, name: str) -> None:
        """Choose a branch for the calls that follow."""
        found = own_name("branch", name, map(str, self._database.branches()))
        if found is None:
            raise NotFound(f"there is no branch {name!r}; CREATE BRANCH makes one")
        session = self._find(visit)
        place = Place() if session is None else session.place
        self._keep(visit, context, session, replace(place, ref=found))

    def close(self, visit: Visit) -> None:
        """End a session, if there is one."""
        if visit.cookie not in (None, NO_SESSION):
            self._handles.take(visit.user, str(visit.cookie).encode())

    def _find(self, visit: Visit) -> _Session | None:
        """The session of a call; None if it has none, `NotFound` if that has ended."""
        if visit.cookie in (None, NO_SESSION):
            return None
        return self._handles.get(visit.user, str(visit.cookie).encode())

    def _keep(self, visit: Visit, context: Any, session: _Session | None, place: Place) -> None:
        """Remember what was chosen; a client that would not come back to it is told so."""
        if session is not None:
            session.place = place
            return
        if visit.cookie is None:
            raise RuleViolation(
                "what is chosen for a session is known by a cookie, and the client sends none: "
                "switch cookies on and try again (ADBC: adbc.flight.sql.rpc.with_cookie_middleware"
                "=true), or name the branch in the header x-livingdb-branch"
            )
        handle = self._handles.add(visit.user, _Session(place))
        context.add_header("set-cookie", f"{COOKIE}={handle.decode()}; HttpOnly")


def _catalog(database: Database, place: Place, value: object) -> Place:
    if value is None or value == "":
        return replace(place, ref=None)
    if not isinstance(value, str):
        raise ValueError("a catalog is a text")
    database.at(value)
    return replace(place, ref=value)


def _schema(database: Database, place: Place, value: object) -> Place:
    if value not in (None, ""):
        raise ValueError("there is one schema, without a name")
    return place


def _isolation(database: Database, place: Place, value: object) -> Place:
    if value is None:
        return replace(place, isolation=_ISOLATIONS[0])
    if value not in _ISOLATIONS:
        raise ValueError("an isolation is 'snapshot' or 'serializable'")
    return replace(place, isolation=str(value))


_OPTIONS: dict[str, Callable[[Database, Place, object], Place]] = {
    "catalog": _catalog,
    "schema": _schema,
    "isolation": _isolation,
}
