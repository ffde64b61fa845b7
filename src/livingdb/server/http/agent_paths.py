"""Which requests are those of agents: they speak a protocol of their own, at paths of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from livingdb.errors import LivingDBError, NotFound
from livingdb.server.http.failures import Refusal, describe_error

if TYPE_CHECKING:
    from livingdb import Database
    from livingdb.server.mcp.over_http import HttpAgents
    from livingdb.server.settings import ServerSettings

__all__ = ["AGENTS", "AgentPaths"]

AGENTS = "/mcp"


class AgentPaths:
    """Lets agents be answered by the protocol, and everybody else by the application."""

    def __init__(self, app: ASGIApp, db: Database, settings: ServerSettings):
        self._app = app
        self._agents = _agents(db, settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has come in."""
        first, slash, session = scope.get("path", "").removeprefix("/").partition("/")
        if scope["type"] != "http" or f"/{first}" != AGENTS:
            await self._app(scope, receive, send)
            return
        scope["state"]["operation"] = "agent"  # it is no route of the application
        try:
            if self._agents is None:
                raise NotFound("the server has no library for agents: pip install 'livingdb[mcp]'")
            if not slash or not session:
                raise NotFound(
                    f"an agent comes to a session: {AGENTS}/NAME, of the branch agent/NAME"
                )
            if scope["method"] != "POST":  # nothing is told but in answer to a message
                raise _only_posts()
            await self._agents.answer(scope["state"]["caller"], session, scope, receive, send)
        except (LivingDBError, Refusal) as error:
            await describe_error(error)(scope, receive, send)


def _only_posts() -> Refusal:
    refused = Refusal(405, "method_not_allowed", "an agent sends messages, by POST")
    refused.headers = {"Allow": "POST"}
    return refused


def _agents(db: Database, settings: ServerSettings) -> HttpAgents | None:
    try:
        from livingdb.server.mcp.over_http import HttpAgents
    except ImportError:
        return None
    return HttpAgents(db, settings)
