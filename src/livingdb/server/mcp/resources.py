"""Schemas as documents that clients can attach, and prompts that people can choose."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from pydantic import Field

from livingdb.server.http.json_values import plain_value
from livingdb.server.mcp.answers import cut_text
from livingdb.server.mcp.call import Answer, Calls
from livingdb.server.mcp.schemas import schema_document
from livingdb.server.mcp.session import AgentSession
from livingdb.server.mcp.texts import EXPLAIN_NUMBER, MAKE_CHANGE

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

__all__ = ["add_prompts", "add_resources"]

_JSON = "application/json"


def add_resources(server: MCPServer, session: AgentSession, calls: Calls) -> None:
    """Let clients read schemas: of the default branch, and of any ref."""

    def document(name: str, act: Callable[[], Answer]) -> str:
        try:
            found = calls.run(name, {}, act)
        except ToolError as error:
            raise ResourceError(str(error)) from None
        text = json.dumps(plain_value(found), ensure_ascii=False, indent=1)
        return cut_text(text, session.limits.characters, "describe_table tells of one table")

    @server.resource(
        "livingdb://schema",
        mime_type=_JSON,
        description="All tables and views of the default branch, with columns and constraints.",
    )
    def schema() -> str:
        return document("read schema", lambda: schema_document(session.database, session.home))

    @server.resource(
        "livingdb://schema/{ref}",
        mime_type=_JSON,
        description="All tables and views at a ref, with columns and constraints.",
    )
    def schema_at(ref: str) -> str:
        return document("read schema", lambda: schema_document(session.database, ref))


def add_prompts(server: MCPServer) -> None:
    """Let people choose what an agent begins with."""

    @server.prompt(description="Change data or a schema on a branch, and ask for a merge.")
    def make_a_change(
        task: Annotated[str, Field(description="What is to be changed, in your own words.")],
    ) -> str:
        return MAKE_CHANGE.format(task=task)

    @server.prompt(description="Where a number of a view comes from.")
    def explain_a_number(
        view: Annotated[str, Field(description="The name of the view.")],
        key: Annotated[str, Field(description="The key of the row.")],
    ) -> str:
        return EXPLAIN_NUMBER.format(view=view, key=key)
