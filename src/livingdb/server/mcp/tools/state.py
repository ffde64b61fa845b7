"""Tools that tell how things stand: the session, the database, its alerts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from livingdb.database.status import Status
from livingdb.errors import Forbidden
from livingdb.server.mcp.call import Answer
from livingdb.server.mcp.session import AgentSession

__all__ = ["StateTools"]

_SHOWN = 50


class StateTools:
    """How the session and the database stand."""

    def __init__(self, session: AgentSession):
        self._session = session

    def status(self) -> Answer:
        """Who you are, what is yours, what you may ask for; what of the database is late or failed.

        A view that is behind has not seen the newest rows of what it is made from.
        """
        session = self._session
        try:
            found = session.database.status()
        except Forbidden:  # who sees a part only is told of that part by other tools
            found = Status()
        own = session.find_branch()
        target = None if own is None else session.target(own, None)
        return {
            "you": session.author,
            "your_branch": None if own is None else own.name,
            "made_from": None if own is None else session.source(own),
            "merges_into": target,
            "default_branch": session.home,
            "limits": asdict(session.limits),
            "failed": _lines(found.failed),
            "behind": _lines(found.behind),
        }

    def alerts(
        self,
        state: Annotated[
            str | None, Field(description="open, acknowledged or resolved. Left out: open.")
        ] = "open",
    ) -> Answer:
        """Alerts: what somebody should look at, such as a sync that is held, newest first.

        People acknowledge and resolve them; tell people what you found out.
        """
        names = ("id", "time", "severity", "event", "sync", "message", "state")
        found = self._session.database.alerts(state)
        more = len(found) - _SHOWN
        return {
            "alerts": [{name: getattr(one, name) for name in names} for one in found[:_SHOWN]],
            "note": f"and {more:,} older ones" if more > 0 else "",
        }


def _lines(items: Iterable[object]) -> list[str]:
    return [str(item) for item in items][:_SHOWN]
