"""Agents of the tests: the protocol's own client, in this process or over a child's streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import livingdb
from livingdb.server.mcp.limits import Limits
from livingdb.server.mcp.server import agent_server
from livingdb.server.mcp.session import AgentSession

__all__ = ["Agent", "Refused", "child", "in_process", "play"]

SOURCE = Path(livingdb.__file__).parents[1]


class Refused(Exception):
    """What a tool said instead of an answer."""


@dataclass
class Agent:
    """A client that reads answers as JSON, and takes errors for what they are."""

    client: Client

    async def __call__(self, tool: str, /, **arguments: Any) -> Any:
        return json.loads(await self.text(tool, **arguments))

    async def text(self, tool: str, /, **arguments: Any) -> str:
        """The answer as it was sent."""
        done = await self.client.call_tool(tool, arguments)
        (part,) = done.content
        assert part.type == "text"
        if done.is_error:
            raise Refused(part.text)
        return part.text


@asynccontextmanager
async def in_process(
    db: livingdb.Database, session: str = "one", agent: str = "tidy", **limits: Any
) -> AsyncIterator[Agent]:
    """An agent of a database that is open here."""
    made = AgentSession(db, agent, session, limits=Limits(**limits))
    async with Client(agent_server(made)) as client:
        yield Agent(client)


@asynccontextmanager
async def child(
    shop: Path, *options: str, command: list[str] | None = None
) -> AsyncIterator[Agent]:
    """An agent whose client has started `livingdb mcp`, as clients do."""
    words = [*(command or []), sys.executable, "-m", "livingdb", "mcp", "--db", str(shop), *options]
    environment = {"PYTHONPATH": str(SOURCE), "CANARY": "canary-of-the-environment"}
    environment |= {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
    started = StdioServerParameters(command=words[0], args=words[1:], env=environment)
    async with Client(started) as client:
        yield Agent(client)


def play(story: Callable[[], Awaitable[None]]) -> None:
    """Let a story happen; errors inside are raised as they are."""

    async def tell() -> None:
        with anyio.fail_after(120):
            await story()

    try:
        anyio.run(tell)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
