"""Agents over HTTP: the protocol's streamable transport at `/mcp/SESSION`, behind the same door.

A session is named by its address, and not by a header: then it is the same one after a client was
started anew, whichever version of the protocol that speaks and whichever server answers.  Nothing
is kept between requests but what was made to answer them; so every request comes in by its own
token, and a token that is revoked ends the session with the next call.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from livingdb.errors import InvalidData
from livingdb.server.mcp.limits import Limits
from livingdb.server.mcp.server import agent_server
from livingdb.server.mcp.session import AgentSession

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from livingdb.database.database import Database
    from livingdb.server.http.doorkeeper import Caller
    from livingdb.server.settings import ServerSettings

__all__ = ["HttpAgents"]

_KEPT = 64
"""Sessions whose tools stay made; those of others are made again when they come back."""


@dataclass(frozen=True)
class _Asked:
    """Whose session a request is about; of a database without users it is nobody's."""

    person: str | None
    agent: str
    session: str


class HttpAgents:
    """Answers agents of one database, each in the name of who its token stands for."""

    def __init__(self, database: Database, settings: ServerSettings):
        limits, usual = settings.limits, Limits()
        self._database = database
        self._limits = Limits(
            rows=min(usual.rows, limits.page_rows),
            seconds=min(usual.seconds, limits.seconds),
            calls=min(usual.calls, limits.concurrent),
        )
        self._body_bytes = limits.body_bytes
        self._made: OrderedDict[_Asked, Server[Any]] = OrderedDict()
        self._lock = Lock()

    async def answer(
        self, caller: Caller, session: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of an agent; a `LivingDBError` if it names no session that can be."""
        person = caller.user.name if caller.user.id else None
        asked = _Asked(person, _agent(scope), session)
        server = await run_sync(self._server, asked)
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=self._body_bytes
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    def _server(self, asked: _Asked) -> Server[Any]:
        with self._lock:
            found = self._made.get(asked)
            if found is not None:
                self._made.move_to_end(asked)
                return found
        session = AgentSession(
            self._database, asked.agent, asked.session, person=asked.person, limits=self._limits
        )
        made: Server[Any] = agent_server(session)._lowlevel_server
        with self._lock:
            # Calls of one session share its turns: who was faster has made it for all.
            kept = self._made.setdefault(asked, made)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
            return kept


def _agent(scope: Scope) -> str:
    """What the agent is called; `InvalidData` for a query that says anything else."""
    given = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    for name, _ in given:
        if name != "agent":
            raise InvalidData(f"there is no such parameter {name!r}; there is: agent")
    if len(given) > 1:
        raise InvalidData("agent: it is said twice")
    return given[-1][1] if given else "agent"
